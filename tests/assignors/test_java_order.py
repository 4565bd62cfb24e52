"""Our order of Java's hash containers is Java's: `java.util.HashMap`, `HashSet` and Kafka's `TimelineHashMap` run the same steps in the oracle."""

import os
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import java_order
from quorate.assignors.java_order import JavaHashMap, JavaHashSet, TimelineMap
from quorate.codecs import Uuid
from tests.conftest import CI
from tests.oracle.client import Oracle

START = 0 if CI else int.from_bytes(os.urandom(4), "big")
JDK = 17

Line = dict[str, Any]


# ---- hash codes


def signed(hashed: int) -> int:
    return (hashed + 2**31) % 2**32 - 2**31


def test_hash_codes_of_strings_are_javas() -> None:
    known = {"member-0": -649440835, "uniform": -286926412, "range": 108280125, "ü🚀": 2015199, "": 0}
    assert {text: signed(java_order.string_hash(text)) for text in known} == known
    assert [signed(hashed) for hashed in java_order.string_hashes([*known] * 2).tolist()] == [*known.values()] * 2


def test_hash_codes_of_ids_are_kafkas() -> None:
    ids = {"T1-A4s3VTwiI5CTbEp6POw": 418407434}
    halves = [Uuid.parse(one) for one in ids]
    most = np.array([int.from_bytes(one[:8], "big", signed=True) for one in halves])
    least = np.array([int.from_bytes(one[8:], "big", signed=True) for one in halves])
    assert [signed(hashed) for hashed in java_order.uuid_hashes(most, least).tolist()] == [*ids.values()]
    assert [signed(java_order.java_hash(one)) for one in halves] == [*ids.values()]


@given(st.lists(st.text(max_size=12), max_size=12))
def test_hashes_of_many_strings_are_those_of_each(texts: list[str]) -> None:
    assert java_order.string_hashes(texts).tolist() == [java_order.string_hash(text) for text in texts]


@given(st.text(max_size=6), st.lists(st.integers(0, 2**20), max_size=9))
def test_hashes_of_many_partitions_are_those_of_each(topic: str, partitions: list[int]) -> None:
    many = java_order.partition_hashes(java_order.string_hash(topic), np.array(partitions, np.int64))
    assert many.tolist() == [java_order.java_hash((topic, partition)) for partition in partitions]


def test_strings_sort_by_utf_16_units() -> None:
    texts = ["\U0001f680", "\uff5e", "z", "a"]
    assert sorted(texts, key=java_order.string_key) == ["a", "z", "\U0001f680", "\uff5e"]
    assert java_order.in_java_order(texts) == ["a", "z", "\U0001f680", "\uff5e"]
    assert java_order.in_java_order({"b": 1, "a": 2}) == ["a", "b"]


# ---- known orders


def test_members_in_a_hash_map() -> None:
    names = [f"member-{number}" for number in range(5)]
    order = java_order.hash_map_order(java_order.string_hashes(names), keys=names)
    assert [names[place] for place in order] == [f"member-{number}" for number in (1, 2, 0, 3, 4)]


def test_partitions_in_a_copied_set_are_ascending_and_in_a_grown_one_not() -> None:
    numbers = list(range(11, 23))
    grown: JavaHashSet[int] = JavaHashSet()
    for number in numbers:
        grown.add(number)
    assert list(grown) == [*range(16, 23), *range(11, 16)]
    assert list(JavaHashSet.of(numbers, jdk=17)) == numbers
    assert list(JavaHashSet.of(numbers, jdk=19)) == list(grown)  # JDK-8284780


def test_members_in_a_timeline_map() -> None:
    names = [f"member-{number}" for number in range(13)]
    order = java_order.timeline_order(java_order.string_hashes(names)).tolist()
    assert order == [3, 10, 8, 0, 5, 12, 2, 7, 4, 11, 9, 1, 6]


# ---- the same steps in Java

KEYS: dict[str, Callable[[Random], Any]] = {
    "string": lambda rng: rng.choice(
        (
            f"member-{rng.randrange(200)}",
            "".join(rng.choice(("Aa", "BB")) for _ in range(6)),  # one hash for all 64
            "x" + "".join(rng.choice(("Aa", "BB", "C#")) for _ in range(3)),
        )
    ),
    "int": lambda rng: rng.choice((rng.randrange(40), 64 * rng.randrange(40), 1024 * rng.randrange(40) + 5)),
    "uuid": lambda rng: str(
        Uuid(
            bytes(8) + rng.choice((0, 1, 7)).to_bytes(1, "big") + bytes(3) + (rng.randrange(60) << 6).to_bytes(4, "big")
        )
    ),
    "topicPartition": lambda rng: ["t", rng.choice((rng.randrange(40), 64 * rng.randrange(40)))],
}

MAP_STEPS = ("put", "putIfAbsent", "computeIfAbsent", "compute", "merge")


def line(seed: int) -> Line:
    """A line of op `javaOrder`: many keys of few buckets, so that trees grow, shrink and split."""
    rng = Random(seed)
    kind = rng.choice(tuple(KEYS))
    container = rng.choice(("HashMap", "HashMap", "HashSet", "TimelineHashMap"))
    # A small range of keys for each line: as many bucket-mates as possible.
    pool = [KEYS[kind](rng) for _ in range(rng.choice((5, 20, 60, 150)))]
    asked: Line = {"op": "javaOrder", "container": container, "keys": kind, "steps": []}
    if rng.random() < 0.3:
        asked["capacity"] = rng.choice((0, 1, 3, 64, 200)) if container != "TimelineHashMap" else 0
    if rng.random() < 0.3:
        asked["of"] = [rng.choice(pool) for _ in range(rng.randint(1, 80))]
        if container == "HashSet":
            asked.pop("capacity", None)
    adding = MAP_STEPS if container == "HashMap" else ("put",)
    mixed = rng.random() < 0.5
    how = rng.choice(adding)
    for _ in range(rng.randint(0, 150)):
        chance = rng.random()
        if chance < 0.85:
            asked["steps"].append({rng.choice(adding) if mixed else how: rng.choice(pool)})
        elif chance < 0.97:
            asked["steps"].append({"remove": rng.choice(pool)})
        elif container != "TimelineHashMap":
            if chance < 0.99:
                asked["steps"].append({"iteratorRemove": rng.sample(pool, rng.randint(1, len(pool)))})
            else:
                asked["steps"].append({"copy": True})
    return asked


def key(kind: str, told: Any) -> Any:
    return Uuid.parse(told) if kind == "uuid" else tuple(told) if kind == "topicPartition" else told


def ours(asked: Line) -> list[Any]:
    """Our order after the steps."""
    kind = asked["keys"]
    written = {}

    def read(told: Any) -> Any:
        made = key(kind, told)
        written.setdefault(made, told)
        return made

    of = [read(told) for told in asked.get("of", ())]
    steps = [(next(iter(step.items()))) for step in asked["steps"]]
    if asked["container"] == "TimelineHashMap":
        timeline: TimelineMap[Any, int] = TimelineMap()
        for name, told in [("put", one) for one in asked.get("of", ())] + steps:
            if name == "put":
                timeline[read(told)] = 1
            else:
                timeline.pop(read(told), None)
        return [written[one] for one, _ in timeline.ordered()]
    if asked["container"] == "HashSet":
        found: JavaHashSet[Any] = JavaHashSet.of(of, jdk=JDK) if "of" in asked else JavaHashSet(asked.get("capacity"))
        for name, told in steps:
            match name:
                case "put":
                    found.add(read(told))
                case "remove":
                    found.discard(read(told))
                case "iteratorRemove":
                    gone = {read(one) for one in told}
                    for one in [one for one in found if one in gone]:
                        found.discard(one, walking=True)
                case "copy":
                    found = JavaHashSet.of(list(found), jdk=JDK)
        return [written[one] for one in found]
    filled: JavaHashMap[Any, int] = JavaHashMap(asked.get("capacity"))
    for one in of:
        filled.put(one, 1)
    for name, told in steps:
        match name:
            case "put" | "putIfAbsent":
                filled.put(read(told), 1)
            case "computeIfAbsent" | "compute" | "merge":
                filled.compute_if_absent(read(told), int)
            case "remove":
                filled.remove(read(told))
            case "iteratorRemove":
                gone = {read(one) for one in told}
                for one in [one for one in filled if one in gone]:
                    filled.remove(one, walking=True)
            case "copy":
                size = len(filled)
                copy: JavaHashMap[Any, int] = JavaHashMap(java_order.copied_map_capacity(size, JDK) if size else None)
                for one in filled:
                    copy.put(one, 1)
                filled = copy
    return [written[one] for one in filled]


@pytest.mark.oracle
def test_any_steps_leave_javas_order(oracle: Oracle) -> None:
    lines = [line(seed) for seed in range(START, START + 1500)]
    answers = oracle.call_many(lines)
    assert answers[0]["java"] == JDK
    wrong = [START + place for place, one in enumerate(lines) if ours(one) != answers[place]["order"]]
    assert wrong == []
    trees = sum(_has_tree(one) for one in lines)
    assert trees > 100


def _has_tree(asked: Line) -> bool:
    if asked["container"] == "TimelineHashMap":
        return False
    keys = {key(asked["keys"], told) for step in asked["steps"] for name, told in step.items() if name in MAP_STEPS}
    hashes = java_order.spread(np.array([java_order.java_hash(one) for one in keys], np.uint32))
    return len(keys) > 8 and int(np.bincount(hashes & np.uint32(255)).max()) > 8


# ---- many keys at once are the same as one after the other

# Few buckets, so that some are crowded, or all kinds of hashes.
some_hashes = st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 40).map(lambda number: 64 * number), max_size=60)
capacities = st.sampled_from([1, 2, 16, 64, 256])


def as_array(hashes: list[int]) -> java_order.UInts:
    return np.array(hashes, np.uint32)


@given(st.lists(st.text(max_size=3), unique=True, max_size=40))
def test_keys_of_a_timeline_map(texts: list[str]) -> None:
    found: TimelineMap[str, int] = TimelineMap()
    for text in texts:
        found[text] = 1
    order = java_order.timeline_order(java_order.string_hashes(texts)).tolist()
    assert [texts[place] for place in order] == [text for text, _ in found.ordered()]


@given(
    st.lists(
        st.tuples(st.lists(st.text("abc", max_size=4), max_size=60), st.lists(st.text("abc", max_size=4), max_size=60))
    )
)
def test_keys_that_are_put_together_leave_the_order_of_keys_that_are_put_one_by_one(
    steps: list[tuple[list[str], list[str]]],
) -> None:
    together: TimelineMap[str, int] = TimelineMap()
    alone: TimelineMap[str, int] = TimelineMap()
    for number, (put, removed) in enumerate(steps):
        together.put_all(dict.fromkeys(put, number))
        for text in dict.fromkeys(put):
            alone[text] = number
        for text in removed:
            together.pop(text, None)
            alone.pop(text, None)
        assert (together.slots, list(together.ordered())) == (alone.slots, list(alone.ordered()))
    some = {text for put, _ in steps for text in put[::2]}
    assert together.in_order(some) == [text for text, _ in alone.ordered() if text in some]


@given(st.randoms(use_true_random=False), st.integers(0, 400), st.sampled_from([17, 21]))
def test_many_texts_in_a_copied_set_are_in_the_order_of_few(random: Random, count: int, jdk: int) -> None:
    texts = [random.choice(["t", "topic-", "Aa", "BB"]) + str(random.randrange(500)) for _ in range(count)]
    order = list(JavaHashSet.of(texts, jdk=jdk))
    assert java_order.copied_set(texts, jdk) == order
    some = set(random.sample(order, min(len(order), 5)))
    capacity = java_order.copied_set_capacity(len(texts), jdk)
    if capacity >= 64:
        assert java_order.placed(some, capacity) in (None, [text for text in order if text in some])


def test_texts_that_share_a_bucket_have_no_place_of_their_own() -> None:
    assert java_order.placed(["Aa", "BB"], 1024) is None
    assert java_order.placed(["x", "Aa"], 1024) == ["Aa", "x"]


@given(some_hashes, capacities)
def test_keys_that_are_put(hashes: list[int], capacity: int) -> None:
    found: JavaHashSet[int] = JavaHashSet(capacity, hash_of=hashes.__getitem__, order_of=lambda _: 0)
    for place in range(len(hashes)):
        found.add(place)
    assert java_order.hash_map_order(as_array(hashes), capacity).tolist() == list(found)


@given(some_hashes.filter(bool), capacities, st.booleans())
def test_keys_that_are_computed(hashes: list[int], capacity: int, last_is_new: bool) -> None:
    found: JavaHashMap[int, int] = JavaHashMap(capacity, hash_of=hashes.__getitem__, order_of=lambda _: 0)
    for place in range(len(hashes)):
        found.compute_if_absent(place, int)
    if not last_is_new:
        found.compute_if_absent(len(hashes) - 1, int)
    order = java_order.computed_map_order(as_array(hashes), last_is_new=last_is_new, capacity=capacity)
    assert order.tolist() == list(found)


@given(st.lists(some_hashes, max_size=6))
def test_keys_of_many_sets(sets: list[list[int]]) -> None:
    sizes = np.array([len(one) for one in sets], np.int64)
    flat = as_array([hashed for one in sets for hashed in one])
    maps = np.repeat(np.arange(len(sets)), sizes)
    sixteen = np.full(len(sets), 16)
    crowded = java_order.crowded_maps(java_order.spread(flat), sixteen, 9, sizes=sizes)
    order = java_order.set_order(maps, java_order.spread(flat), java_order.grown(sixteen, sizes)).tolist()
    starts = np.cumsum(sizes) - sizes
    for number, one in enumerate(sets):
        walked = java_order.hash_map_order(as_array(one), 16).tolist()
        here = [place - int(starts[number]) for place in order[starts[number] : starts[number] + sizes[number]]]
        assert crowded[number] or here == walked
        # Nothing is taken for crowded that has fewer than nine keys in any bucket that it ever had.
        spreaded = java_order.spread(as_array(one))
        if crowded[number]:
            assert np.bincount(spreaded & np.uint32(15)).max() >= 9


maps_of_sets = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 4, 16]),
        st.lists(
            st.tuples(
                st.integers(0, 2**32 - 1),
                st.booleans(),
                st.sampled_from([1, 16]),
                st.lists(st.integers(0, 70), min_size=1, max_size=7, unique=True),
            ),
            max_size=6,
        ),
    ),
    max_size=4,
)


@given(maps_of_sets)
def test_numbers_in_maps_of_sets(maps: list[tuple[int, list[tuple[int, bool, int, list[int]]]]]) -> None:
    """Keys that were put come first, then those that were computed, as targets are copied and then added to."""
    made = [(capacity, sorted(keys, key=lambda one: one[1])) for capacity, keys in maps]
    expected: list[int] = []
    of, key_maps, hashes, new, numbers, set_capacities = [], [], [], [], [], []
    map_capacities = []
    for number, (capacity, keys) in enumerate(made):
        first = len(hashes)
        walked: JavaHashMap[int, JavaHashSet[int]] = JavaHashMap(
            capacity, hash_of=lambda place: hashes[place], order_of=lambda _: 0
        )
        for place, (hashed, computed, buckets, values) in enumerate(keys, first):
            hashes.append(hashed)
            key_maps.append(number)
            new.append(computed)
            filled: JavaHashSet[int] = JavaHashSet(buckets)
            for value in values:
                filled.add(value)
            if computed:
                walked.compute_if_absent(place, lambda filled=filled: filled)  # type: ignore[misc]
            else:
                walked.put(place, filled)
            of += [place] * len(values)
            numbers += values
            set_capacities.append(filled.capacity)
        map_capacities.append(walked.capacity)
        expected += [value for _, values in walked.items() for value in values]
    order = java_order.nested_order(
        np.array(of, np.int64),
        np.array(key_maps, np.int64),
        java_order.spread(as_array(hashes)),
        np.array(map_capacities, np.int64),
        np.array(new, np.bool_),
        np.array(numbers, np.int64),
        np.array(set_capacities, np.int64),
    )
    assert [numbers[place] for place in order.tolist()] == expected


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=20))
def test_sizes_of_tables(sizes: list[int]) -> None:
    given_sizes = np.array(sizes, np.int64)
    assert java_order.table_sizes(given_sizes).tolist() == [java_order.table_size(size) for size in sizes]
    for jdk in (17, 21):
        copied = java_order.copied_set_capacities(given_sizes, jdk)
        assert copied.tolist() == [java_order.copied_set_capacity(size, jdk) for size in sizes]
    grown = java_order.grown(np.full(len(sizes), 16), given_sizes)
    assert grown.tolist() == [java_order.hash_map_capacity(size) for size in sizes]
