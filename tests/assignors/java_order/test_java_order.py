"""Our hash containers iterate in the same order as Java's, after the same steps in the oracle.

Java's containers are `java.util.HashMap`, `HashSet` and Kafka's `TimelineHashMap`.
"""

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

Request = dict[str, Any]


# ---- hash codes


def signed(hashed: int) -> int:
    return (hashed + 2**31) % 2**32 - 2**31


def test_string_hashes_equal_javas() -> None:
    known = {"member-0": -649440835, "uniform": -286926412, "range": 108280125, "ü🚀": 2015199, "": 0}
    assert {text: signed(java_order.string_hash(text)) for text in known} == known
    assert [signed(hashed) for hashed in java_order.string_hashes([*known] * 2).tolist()] == [*known.values()] * 2


def test_uuid_hashes_equal_kafkas() -> None:
    ids = {"T1-A4s3VTwiI5CTbEp6POw": 418407434}
    uuids = [Uuid.parse(text) for text in ids]
    most = np.array([int.from_bytes(uuid[:8], "big", signed=True) for uuid in uuids])
    least = np.array([int.from_bytes(uuid[8:], "big", signed=True) for uuid in uuids])
    assert [signed(hashed) for hashed in java_order.uuid_hashes(most, least).tolist()] == [*ids.values()]
    assert [signed(java_order.java_hash(uuid)) for uuid in uuids] == [*ids.values()]


@given(st.lists(st.text(max_size=12), max_size=12))
def test_hashes_of_many_strings_equal_single_hashes(texts: list[str]) -> None:
    assert java_order.string_hashes(texts).tolist() == [java_order.string_hash(text) for text in texts]


@given(st.text(max_size=6), st.lists(st.integers(0, 2**20), max_size=9))
def test_hashes_of_many_partitions_equal_single_hashes(topic: str, partitions: list[int]) -> None:
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


def test_partitions_are_ascending_in_a_copied_set_but_not_in_a_grown_set() -> None:
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


def random_request(seed: int) -> Request:
    """Return a request `javaOrder` with many keys in few buckets, so that trees change."""
    rng = Random(seed)
    kind = rng.choice(tuple(KEYS))
    container = rng.choice(("HashMap", "HashMap", "HashSet", "TimelineHashMap"))
    # A small range of keys per request, for as many keys per bucket as possible.
    pool = [KEYS[kind](rng) for _ in range(rng.choice((5, 20, 60, 150)))]
    request: Request = {"op": "javaOrder", "container": container, "keys": kind, "steps": []}
    if rng.random() < 0.3:
        request["capacity"] = rng.choice((0, 1, 3, 64, 200)) if container != "TimelineHashMap" else 0
    if rng.random() < 0.3:
        request["of"] = [rng.choice(pool) for _ in range(rng.randint(1, 80))]
        if container == "HashSet":
            request.pop("capacity", None)
    adding = MAP_STEPS if container == "HashMap" else ("put",)
    mixed = rng.random() < 0.5
    how = rng.choice(adding)
    for _ in range(rng.randint(0, 150)):
        chance = rng.random()
        if chance < 0.85:
            request["steps"].append({rng.choice(adding) if mixed else how: rng.choice(pool)})
        elif chance < 0.97:
            request["steps"].append({"remove": rng.choice(pool)})
        elif container != "TimelineHashMap":
            if chance < 0.99:
                request["steps"].append({"iteratorRemove": rng.sample(pool, rng.randint(1, len(pool)))})
            else:
                request["steps"].append({"copy": True})
    return request


def parse_key(kind: str, given: Any) -> Any:
    """Convert a key of the request to our type."""
    return Uuid.parse(given) if kind == "uuid" else tuple(given) if kind == "topicPartition" else given


def ours(request: Request) -> list[Any]:
    """Return the keys in our order after the steps."""
    original: dict[Any, Any] = {}

    def read(given: Any) -> Any:
        key = parse_key(request["keys"], given)
        original.setdefault(key, given)
        return key

    initial = [read(given) for given in request.get("of", ())]
    steps = [(next(iter(step.items()))) for step in request["steps"]]
    if request["container"] == "TimelineHashMap":
        timeline: TimelineMap[Any, int] = TimelineMap()
        for key in initial:
            timeline[key] = 1
        for name, given in steps:
            if name == "put":
                timeline[read(given)] = 1
            else:
                timeline.pop(read(given), None)
        return [original[key] for key, _ in timeline.ordered()]
    if request["container"] == "HashSet":
        keys: JavaHashSet[Any] = (
            JavaHashSet.of(initial, jdk=JDK) if "of" in request else JavaHashSet(request.get("capacity"))
        )
        for name, given in steps:
            match name:
                case "put":
                    keys.add(read(given))
                case "remove":
                    keys.discard(read(given))
                case "iteratorRemove":
                    removed = {read(key) for key in given}
                    for key in [key for key in keys if key in removed]:
                        keys.discard(key, walking=True)
                case "copy":
                    keys = JavaHashSet.of(list(keys), jdk=JDK)
        return [original[key] for key in keys]
    values: JavaHashMap[Any, int] = JavaHashMap(request.get("capacity"))
    for key in initial:
        values.put(key, 1)
    for name, given in steps:
        match name:
            case "put" | "putIfAbsent":
                values.put(read(given), 1)
            case "computeIfAbsent" | "compute" | "merge":
                values.compute_if_absent(read(given), int)
            case "remove":
                values.remove(read(given))
            case "iteratorRemove":
                removed = {read(key) for key in given}
                for key in [key for key in values if key in removed]:
                    values.remove(key, walking=True)
            case "copy":
                size = len(values)
                copy: JavaHashMap[Any, int] = JavaHashMap(java_order.copied_map_capacity(size, JDK) if size else None)
                for key in values:
                    copy.put(key, 1)
                values = copy
    return [original[key] for key in values]


@pytest.mark.oracle
def test_random_steps_give_javas_order(oracle: Oracle) -> None:
    requests = [random_request(seed) for seed in range(START, START + 1500)]
    results = oracle.call_many(requests)
    assert results[0]["java"] == JDK
    different = [
        START + number
        for number, (request, result) in enumerate(zip(requests, results, strict=True))
        if ours(request) != result["order"]
    ]
    assert different == []
    assert sum(map(_has_tree, requests)) > 100


def _has_tree(request: Request) -> bool:
    """Return whether a bucket has so many keys that Java stores them in a tree."""
    if request["container"] == "TimelineHashMap":
        return False
    keys = {
        parse_key(request["keys"], given)
        for step in request["steps"]
        for name, given in step.items()
        if name in MAP_STEPS
    }
    hashes = java_order.spread(np.array([java_order.java_hash(key) for key in keys], np.uint32))
    return len(keys) > 8 and int(np.bincount(hashes & np.uint32(255)).max()) > 8


# ---- orders of many keys equal those of maps filled step by step

# Any hashes, and hashes in few buckets, which get crowded.
some_hashes = st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 40).map(lambda number: 64 * number), max_size=60)
capacities = st.sampled_from([1, 2, 16, 64, 256])


def as_array(hashes: list[int]) -> java_order.UInts:
    return np.array(hashes, np.uint32)


@given(st.lists(st.text(max_size=3), unique=True, max_size=40))
def test_timeline_order_equals_a_timeline_map(texts: list[str]) -> None:
    timeline: TimelineMap[str, int] = TimelineMap()
    for text in texts:
        timeline[text] = 1
    order = java_order.timeline_order(java_order.string_hashes(texts)).tolist()
    assert [texts[place] for place in order] == [text for text, _ in timeline.ordered()]


@given(
    st.lists(
        st.tuples(st.lists(st.text("abc", max_size=4), max_size=60), st.lists(st.text("abc", max_size=4), max_size=60))
    )
)
def test_put_all_and_put_new_equal_single_puts(
    steps: list[tuple[list[str], list[str]]],
) -> None:
    bulk: TimelineMap[str, int] = TimelineMap()
    single: TimelineMap[str, int] = TimelineMap()
    for number, (put, removed) in enumerate(steps):
        bulk.put_all(dict.fromkeys(put, number))
        for text in dict.fromkeys(put):
            single[text] = number
        for text in removed:
            bulk.pop(text, None)
            single.pop(text, None)
        assert (bulk.slots, list(bulk.ordered())) == (single.slots, list(single.ordered()))
    some = {text for put, _ in steps for text in put[::2]}
    assert bulk.in_order(some) == [text for text, _ in single.ordered() if text in some]


@given(st.randoms(use_true_random=False), st.integers(0, 400), st.sampled_from([17, 21]))
def test_copied_sets_of_many_texts_equal_step_by_step_sets(random: Random, count: int, jdk: int) -> None:
    texts = [random.choice(["t", "topic-", "Aa", "BB"]) + str(random.randrange(500)) for _ in range(count)]
    order = list(JavaHashSet.of(texts, jdk=jdk))
    assert java_order.copied_set(texts, jdk) == order
    some = set(random.sample(order, min(len(order), 5)))
    capacity = java_order.copied_set_capacity(len(texts), jdk)
    if capacity >= 64:
        assert java_order.placed(some, capacity) in (None, [text for text in order if text in some])


def test_texts_that_share_a_bucket_cannot_be_placed() -> None:
    assert java_order.placed(["Aa", "BB"], 1024) is None
    assert java_order.placed(["x", "Aa"], 1024) == ["Aa", "x"]


@given(some_hashes, capacities)
def test_orders_of_put_keys_equal_a_hash_map(hashes: list[int], capacity: int) -> None:
    keys: JavaHashSet[int] = JavaHashSet(capacity, hash_of=hashes.__getitem__, order_of=lambda _: 0)
    for place in range(len(hashes)):
        keys.add(place)
    assert java_order.hash_map_order(as_array(hashes), capacity).tolist() == list(keys)


@given(some_hashes.filter(bool), capacities, st.booleans())
def test_orders_of_computed_keys_equal_a_hash_map(hashes: list[int], capacity: int, last_is_new: bool) -> None:
    computed: JavaHashMap[int, int] = JavaHashMap(capacity, hash_of=hashes.__getitem__, order_of=lambda _: 0)
    for place in range(len(hashes)):
        computed.compute_if_absent(place, int)
    if not last_is_new:
        computed.compute_if_absent(len(hashes) - 1, int)
    order = java_order.computed_map_order(as_array(hashes), last_is_new=last_is_new, capacity=capacity)
    assert order.tolist() == list(computed)


@given(st.lists(some_hashes, max_size=6))
def test_orders_of_many_sets_equal_single_sets(sets: list[list[int]]) -> None:
    sizes = np.array([len(hashes) for hashes in sets], np.int64)
    flat = as_array([hashed for hashes in sets for hashed in hashes])
    maps = np.repeat(np.arange(len(sets)), sizes)
    sixteen = np.full(len(sets), 16)
    crowded = java_order.crowded_maps(java_order.spread(flat), sixteen, 9, sizes=sizes)
    order = java_order.set_order(maps, java_order.spread(flat), java_order.grown(sixteen, sizes)).tolist()
    starts = np.cumsum(sizes) - sizes
    for number, hashes in enumerate(sets):
        expected = java_order.hash_map_order(as_array(hashes), 16).tolist()
        order_in_set = [place - int(starts[number]) for place in order[starts[number] : starts[number] + sizes[number]]]
        assert crowded[number] or order_in_set == expected
        # A set with fewer than nine keys per bucket at all times is not crowded.
        if crowded[number]:
            spread = java_order.spread(as_array(hashes))
            assert np.bincount(spread & np.uint32(15)).max() >= 9


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
def test_orders_of_maps_of_sets_equal_single_maps(
    maps: list[tuple[int, list[tuple[int, bool, int, list[int]]]]],
) -> None:
    """Keys are put before others are computed, as when targets are copied and extended."""
    sorted_maps = [(capacity, sorted(keys, key=lambda key: key[1])) for capacity, keys in maps]
    expected: list[int] = []
    of, key_maps, hashes, new, numbers, set_capacities = [], [], [], [], [], []
    map_capacities = []
    for number, (capacity, keys) in enumerate(sorted_maps):
        first = len(hashes)
        java_map: JavaHashMap[int, JavaHashSet[int]] = JavaHashMap(
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
                java_map.compute_if_absent(place, lambda filled=filled: filled)  # type: ignore[misc]
            else:
                java_map.put(place, filled)
            of += [place] * len(values)
            numbers += values
            set_capacities.append(filled.capacity)
        map_capacities.append(java_map.capacity)
        expected += [value for _, values in java_map.items() for value in values]
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
