"""Share coordinators: random histories on Kafka's own shard and ours, and its rules."""

from random import Random

import pytest

from quorate.codecs import Uuid
from quorate.codecs.messages.share_state import StateBatch
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.share_state.batches import combined
from quorate.coordinator.share_state.key import SharePartitionKey, hash_of
from tests.coordinator.share_state_scripts import difference, played, share_state_script
from tests.extent import portion
from tests.oracle.client import Oracle

T = Uuid(bytes(15) + b"\x01")
STEPS = 60


@pytest.mark.parametrize("seeds", [range(first, first + portion(40, usual=6)) for first in range(0, 320, 40)], ids=str)
def test_random_histories_equal_kafkas(oracle: Oracle, seeds: range) -> None:
    for seed in seeds:
        found = difference(oracle, share_state_script(Random(seed), STEPS))
        assert found is None, f"seed {seed}: {found}"


@pytest.mark.parametrize("seeds", [range(first, first + portion(40, usual=6)) for first in range(0, 80, 40)], ids=str)
def test_epochs_and_offsets_of_random_histories_equal_those_of_4_3(oracle_4_3: Oracle, seeds: range) -> None:
    """Until 4.3, epochs of -1 are not checked, and late writes decrease the start offset.

    Without state batches: 4.3 leaves some adjacent ones apart, which is not reproduced.
    """
    behaviour = Behaviour.of(KafkaVersion(4, 3))
    for seed in seeds:
        script = share_state_script(Random(seed), STEPS)
        for step in script["steps"]:
            for topic in step.get("body", {}).get("topics", ()):
                for partition in topic["partitions"]:
                    partition.pop("stateBatches", None)
        found = difference(oracle_4_3, script, behaviour)
        assert found is None, f"seed {seed}: {found}"


def test_histories_cover_what_they_are_for(oracle: Oracle) -> None:
    """Snapshots, updates, tombstones, fenced epochs and prunable logs all occur."""
    found: set[object] = set()
    for seed in range(30):
        for one in played(share_state_script(Random(seed), STEPS)):
            found.add("some" if one["redundant"] else "none")
            for record in one.get("records", ()):
                found.add((record["key"][:4], record["value"] is None))
            for topic in one.get("response", {}).get("results", ()):
                found.add(topic["partitions"][0]["errorCode"])
    assert {"some", "none", ("0000", False), ("0000", True), ("0001", False), 0, 3, 42, 74, 124} <= found


def batch(first: int, last: int, state: int, count: int) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def test_batch_that_was_delivered_more_often_wins_where_batches_overlap() -> None:
    known = [batch(0, 9, 0, 1)]
    new = [batch(3, 5, 2, 2), batch(5, 12, 0, 1)]
    expected = (batch(0, 2, 0, 1), batch(3, 5, 2, 2), batch(6, 12, 0, 1))
    assert combined(known, new, -1) == expected
    assert combined(new, known, -1) == expected
    assert combined(known, new, 5) == (batch(5, 5, 2, 2), batch(6, 12, 0, 1))


def test_adjacent_batches_in_the_same_state_are_one() -> None:
    assert combined([batch(0, 4, 2, 1)], [batch(5, 9, 2, 1), batch(10, 11, 4, 1)], -1) == (
        batch(0, 9, 2, 1),
        batch(10, 11, 4, 1),
    )


def test_keys_have_the_text_that_kafka_hashes() -> None:
    key = SharePartitionKey("a:b", T, 7)
    assert key.coordinator_key == "a:b:AAAAAAAAAAAAAAAAAAAAAQ:7"
    assert SharePartitionKey.parse(key.coordinator_key) == key


@pytest.mark.parametrize("text", ["", "g", "g:7", ":AAAAAAAAAAAAAAAAAAAAAQ:7", "g:x:7", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"])
def test_other_texts_are_no_keys(text: str) -> None:
    with pytest.raises(ValueError, match=r"GROUP:TOPIC_ID:PARTITION|uuid"):
        SharePartitionKey.parse(text)


def test_java_hash_of_keys_is_the_one_of_kafkas_maps() -> None:
    # Objects.hash("g", new TopicIdPartition(new Uuid(0, 1), new TopicPartition(null, 7)))
    assert hash_of(SharePartitionKey("g", T, 7)) == ((31 * (31 + 103)) + 31 * (31 + 1) + 31 * (31 + 7)) % (1 << 32)
