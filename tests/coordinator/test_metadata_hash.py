"""The metadata hash: Kafka's vectors, Kafka's code on generated topics, and invariants."""

import random
from typing import Any

import mmh3
import pytest
import xxhash
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorate.codecs.wire import Uuid
from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash, topic_hash
from tests.conftest import FULL
from tests.coordinator.hash_vectors import GROUPS, TOPICS
from tests.oracle.client import Oracle

ID = Uuid.parse("AQIDBAUGBwgREhMUFRYXGA")
BOTH = pytest.mark.parametrize("algorithm", list(HashAlgorithm))

# U+10000 sorts before U+FFFF in Java and after it in Python.
texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("a\x00é\uffff\ue000🚀\U00010000"), max_size=40
)
racks = st.lists(st.none() | texts, max_size=4)
partitions = st.lists(racks, max_size=6)
uuids = st.binary(min_size=16, max_size=16)
signed = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(("topic_id", "name", "count", "racks", "expected"), TOPICS)
def test_topic_hash_equals_kafkas(topic_id: str, name: str, count: int, racks: list[list[str]], expected: int) -> None:
    assert topic_hash(bytes.fromhex(topic_id), name, [racks[i % len(racks)] for i in range(count)]) == expected


@pytest.mark.parametrize(("count", "expected"), GROUPS)
def test_group_hash_equals_kafkas(count: int, expected: int) -> None:
    hashes = {f"t{i:05}": (i * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63 for i in range(count)}
    shuffled = dict(random.Random(count).sample(list(hashes.items()), count))
    assert group_hash(shuffled) == expected


@pytest.mark.oracle
def test_generated_topics_and_groups_hash_as_in_kafka(oracle: Oracle) -> None:
    ops: list[dict[str, Any]] = []
    ours = []

    @settings(max_examples=FULL)  # all in one request to the oracle
    @given(uuids, texts.filter(bool), partitions, st.dictionaries(texts, signed, max_size=8))
    @example(ID, "t", [[None, "null"], ["null"]], {})  # no rack, and a rack of that name
    @example(ID, "t", [["a", "b"], ["b", "c"]] * 1250, {})  # several blocks
    @example(ID, "t", [["a", "b"], ["longer"], []] * 850, {})
    def collect(topic_id: bytes, name: str, partition_racks: list[list[str | None]], group: dict[str, int]) -> None:
        ops.append({"op": "topicHash", "name": name, "topicId": str(Uuid(topic_id)), "partitionRacks": partition_racks})
        ours.append(topic_hash(topic_id, name, partition_racks))
        ops.append({"op": "groupHash", "topics": {topic: str(value) for topic, value in group.items()}})
        ours.append(group_hash(group))

    collect()
    assert len(ops) >= 200
    for op, mine, response in zip(ops, ours, oracle.call_many(ops), strict=True):
        assert response["hash"] == mine, op


@BOTH
@given(topic_id=uuids, name=texts, partition_racks=partitions, seed=st.randoms(use_true_random=False))
def test_hash_ignores_the_order_of_racks_and_brokers_without_a_rack(
    algorithm: HashAlgorithm, topic_id: bytes, name: str, partition_racks: list[list[str | None]], seed: random.Random
) -> None:
    shuffled = [seed.sample([*racks, None], len(racks) + 1) for racks in partition_racks]
    assert topic_hash(topic_id, name, shuffled, algorithm) == topic_hash(topic_id, name, partition_racks, algorithm)


@BOTH
@given(topic_id=uuids, name=texts, partition_racks=partitions, other=st.tuples(uuids, texts, partitions))
def test_different_topics_hash_differently(
    algorithm: HashAlgorithm,
    topic_id: bytes,
    name: str,
    partition_racks: list[list[str | None]],
    other: tuple[bytes, str, list[list[str | None]]],
) -> None:
    def canonical(topic_id: bytes, name: str, partition_racks: list[list[str | None]]) -> object:
        return topic_id, name, [sorted(rack for rack in racks if rack is not None) for racks in partition_racks]

    same = canonical(topic_id, name, partition_racks) == canonical(*other)
    assert (topic_hash(topic_id, name, partition_racks, algorithm) == topic_hash(*other, algorithm)) is same


@BOTH
@pytest.mark.parametrize(
    "changed",
    [
        (bytes(16), "t", [["a", "b"], ["c"]]),
        (ID, "u", [["a", "b"], ["c"]]),
        (ID, "t", [["a", "b"], ["c"], []]),
        (ID, "t", [["a", "b"]]),
        (ID, "t", [["c"], ["a", "b"]]),
        (ID, "t", [["ab"], ["c"]]),
        (ID, "t", [["a", "a", "b"], ["c"]]),
        (ID, "t", [["a"], ["b", "c"]]),
    ],
    ids=[
        "id",
        "name",
        "more partitions",
        "fewer partitions",
        "racks swapped",
        "racks joined",
        "rack repeated",
        "rack moved to another partition",
    ],
)
def test_a_change_of_the_topic_changes_the_hash(
    algorithm: HashAlgorithm, changed: tuple[bytes, str, list[list[str]]]
) -> None:
    assert topic_hash(*changed, algorithm) != topic_hash(ID, "t", [["a", "b"], ["c"]], algorithm)


@BOTH
def test_group_hash_depends_on_the_order_of_topic_hashes(algorithm: HashAlgorithm) -> None:
    assert group_hash({"a": 1, "b": 2}, algorithm) != group_hash({"a": 2, "b": 1}, algorithm)
    assert group_hash({"b": 2, "a": 1}, algorithm) == group_hash({"a": 1, "b": 2}, algorithm)
    assert group_hash({}, algorithm) == 0


def test_names_are_in_java_order() -> None:
    # As UTF-16, U+1F680 begins with D83D and comes before U+E000; by code point it comes after it.
    astral_first = group_hash({"\U0001f680": 1, "\ue000": 2})
    assert astral_first == group_hash({"a": 1, "b": 2})
    assert astral_first != group_hash({"a": 2, "b": 1})


def test_murmur3_hash_follows_the_text_of_the_kip() -> None:
    written = bytes.fromhex(
        "00"  # magic
        "0807060504030201" "1817161514131211"  # id
        "01000000" "74"  # name
        "0200000000000000"  # partition size
        "00000000" "01000000" "61" "02000000" "c3a9"  # partition 0, its racks sorted
        "01000000"  # partition 1, without racks
    )  # fmt: skip
    assert topic_hash(ID, "t", [["é", "a"], []], "murmur3") == mmh3.hash64(written, 0, True)[0]
    # "hash(topicA) = a, hash(topicB) = b: hash = a + 2 * b", in 64 bits
    assert group_hash({"topicB": 2**62 + 1, "topicA": 3}, "murmur3") == -(2**63) + 5


def test_invalid_input_is_rejected() -> None:
    with pytest.raises(ValueError, match="16 bytes, not 5"):
        topic_hash(b"short", "t", [])
    with pytest.raises(ValueError, match="md5"):
        topic_hash(ID, "t", [], "md5")
    with pytest.raises(ValueError, match="md5"):
        group_hash({}, "md5")


@BOTH
def test_hash_beyond_64_bits_is_rejected(algorithm: HashAlgorithm) -> None:
    with pytest.raises(ValueError, match=str(2**63)):
        group_hash({"t": 2**63}, algorithm)


def test_topic_hashes_must_be_signed_64_bit_integers() -> None:
    for algorithm in HashAlgorithm:
        for value in (-(2**63), 2**63 - 1):
            assert group_hash({"t": value}, algorithm) is not None
        for value in (-(2**63) - 1, 2**63):
            with pytest.raises(ValueError, match=f"topic hash {value} is not a signed 64-bit integer"):
                group_hash({"t": value}, algorithm)


def test_sum_of_the_kips_text_wraps_at_64_bits() -> None:
    most = 2**63 - 1
    assert group_hash(dict.fromkeys("abc", most), "murmur3") == (6 * most + 2**63) % 2**64 - 2**63
    assert group_hash(dict.fromkeys("abc", -(2**63)), "murmur3") == 0
    assert group_hash(dict.fromkeys("ab", most), "murmur3") == 2**63 - 3
    assert group_hash({"a": most, "b": most, "c": 1}, "murmur3") == -(2**63)


def test_racks_are_in_java_order() -> None:
    # As for names, U+1F680 comes before U+E000. They have the UTF-16 lengths of "aa" and "b".
    racks = ["\ue000", "\U0001f680"]
    written = bytes.fromhex(
        "00" "0807060504030201" "1817161514131211"  # magic, id
        "7400" "01000000" "01000000"  # name, number of partitions
        "00000000" "02000000" "3dd880de" "02000000" "01000000" "00e0" "01000000"
    )  # fmt: skip
    assert topic_hash(ID, "t", [racks]) == _signed(xxhash.xxh3_64_intdigest(written))
    in_utf8 = bytes.fromhex(
        "00" "0807060504030201" "1817161514131211" "01000000" "74" "0100000000000000"
        "00000000" "04000000" "f09f9a80" "03000000" "ee8080"
    )  # fmt: skip
    assert topic_hash(ID, "t", [racks], "murmur3") == mmh3.hash64(in_utf8, 0, True)[0]


def test_unpaired_surrogate_is_hashed_as_a_code_unit() -> None:
    """Java's strings can contain one, and Kafka hashes code units."""
    written = bytes.fromhex(
        "00" "0807060504030201" "1817161514131211" "00d8" "01000000" "01000000" "00000000" "01000000" "00dc" "01000000"
    )  # fmt: skip
    assert topic_hash(ID, "\ud800", [["\udc00"]]) == _signed(xxhash.xxh3_64_intdigest(written))
    in_utf8 = bytes.fromhex(
        "00" "0807060504030201" "1817161514131211" "03000000" "eda080" "0100000000000000" "00000000" "03000000" "edb080"
    )  # fmt: skip
    assert topic_hash(ID, "\ud800", [["\udc00"]], "murmur3") == mmh3.hash64(in_utf8, 0, True)[0]
    low, high = "\udc00", "\ud800"
    assert group_hash({low: 2, high: 1}) == group_hash({"a": 1, "b": 2})


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
