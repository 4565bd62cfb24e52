"""What the coordinator of Kafka 4.4 does in another way than that of 4.3, with Kafka's issues.

Each scenario runs on Kafka's coordinators of both releases, whose results ours equal. The expected
results of the two differ, so that a release that is confused with the other is found.
"""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.codecs import CoordinatorRecord, Uuid, decode_record
from quorate.codecs.api.error_codes import ErrorCode
from tests.coordinator.scripts import Duel, Json, beat, join
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

T = Uuid(bytes(15) + b"\x01")
U = Uuid(bytes(15) + b"\x02")
TOPICS = [{"name": "t", "id": str(T), "partitions": [[0], [0]]}, {"name": "u", "id": str(U), "partitions": [[0]]}]
EMPTY_GROUP_TARGET = "0006"
"""Type of the record with the epoch of a consumer group's target assignment."""

Started = Callable[..., Duel]


@pytest.fixture(params=["4.4", "4.3"])
def release(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def is_4_4(release: str) -> bool:
    return release == "4.4"


@pytest.fixture
def started(release: str, oracle: Oracle, oracle_4_3: Oracle) -> Started:
    """Return a function that starts both sides with configs."""

    def start(**configs: Any) -> Duel:
        duel = Duel(oracle if release == "4.4" else oracle_4_3)
        duel.op("config", **{"group.consumer.assignment.interval.ms": 0, **configs})
        duel.op("image", brokers=[{"id": 0}], topics=TOPICS)
        return duel

    return start


def test_last_member_that_leaves_moves_the_target_epoch(started: Started, is_4_4: bool) -> None:
    """KAFKA-20442."""
    duel = started()
    join(duel, "m1")
    join(duel, "m2")
    assert EMPTY_GROUP_TARGET not in beat(duel, "m2", -1)["types"]
    assert (EMPTY_GROUP_TARGET in beat(duel, "m1", -1)["types"]) is is_4_4


def test_majority_for_another_assignor_increments_the_epoch(started: Started, is_4_4: bool) -> None:
    """KAFKA-20434."""
    duel = started()
    joined = join(duel, "m1", serverAssignor="uniform")
    moved = beat(duel, "m1", joined["memberEpoch"], serverAssignor="range")
    assert moved["memberEpoch"] - joined["memberEpoch"] == is_4_4


def test_two_equally_preferred_assignors_increment_the_epoch_with_each_heartbeat(
    started: Started, is_4_4: bool
) -> None:
    """A defect since KAFKA-20434: Kafka takes the first of both in the orders of two maps."""
    duel = started()
    join(duel, "m1", serverAssignor="uniform")
    epoch = join(duel, "m2", serverAssignor="range")["memberEpoch"]
    epochs = []
    for _ in range(3):
        beat(duel, "m1", 2)
        epoch = beat(duel, "m2", epoch)["memberEpoch"]
        epochs.append(epoch)
    described = duel.request("ConsumerGroupDescribe", 1, groupIds=["g"])["response"]["groups"][0]
    assert (described["groupEpoch"] > 3) is is_4_4


def test_static_member_rejoins_a_full_group(started: Started, is_4_4: bool) -> None:
    """KAFKA-20601."""
    duel = started(**{"group.consumer.max.size": 1})
    join(duel, "m1", instanceId="i")
    beat(duel, "m1", -2, instanceId="i")
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join(duel, "m2", instanceId="i")["errorCode"] == (ErrorCode.NONE if is_4_4 else full)
    assert join(duel, "m3", instanceId="other")["errorCode"] == full


def test_member_is_not_found_by_its_previous_instance_id(started: Started, is_4_4: bool) -> None:
    """KAFKA-20747."""
    duel = started()
    join(duel, "m1", instanceId="first")
    join(duel, "m1", instanceId="second")
    left = beat(duel, "m1", -2, instanceId="first")
    assert left["errorCode"] == (ErrorCode.UNKNOWN_MEMBER_ID if is_4_4 else ErrorCode.NONE)


def test_target_of_a_replaced_static_member_is_written_once(started: Started, is_4_4: bool) -> None:
    """KAFKA-20292: a new target that equals the old member's needs no record."""
    duel = started()
    join(duel, "m1", instanceId="i")
    beat(duel, "m1", -2, instanceId="i")
    duel.op("image", topics=[*TOPICS, {"name": "v", "id": str(Uuid(bytes(15) + b"\x03")), "partitions": 1}])
    back = join(duel, "m2", instanceId="i", subscribedTopicNames=["t", "v"])
    assert back["types"].count("0007") == 3
    beat(duel, "m2", -2, instanceId="i")
    same = join(duel, "m3", instanceId="i", subscribedTopicNames=["t", "v", "missing"])
    assert same["types"].count("0007") == (2 if is_4_4 else 3)


def commit(duel: Duel, version: int, epoch: int, member: str = "m1", group: str = "g", **topic: Any) -> Json:
    return duel.request(
        "TxnOffsetCommit",
        version,
        transactionalId="x",
        groupId=group,
        producerId=1,
        memberId=member,
        generationIdOrMemberEpoch=epoch,
        topics=[{**topic, "partitions": [{"partitionIndex": 0, "committedOffset": 5, "committedMetadata": ""}]}],
    )


def code_of(reply: Json) -> int:
    code: int = reply["response"]["topics"][0]["partitions"][0]["errorCode"]
    return code


def test_offsets_of_transactions_have_topic_ids(started: Started, is_4_4: bool) -> None:
    """KIP-1319."""
    duel = started()
    epoch = join(duel, "m1")["memberEpoch"]
    (stored,) = commit(duel, 5, epoch, name="t")["records"]
    record = decode_record(bytes.fromhex(stored["key"]), bytes.fromhex(stored["value"]))
    assert isinstance(record, CoordinatorRecord)
    assert record.value is not None
    assert record.value.topic_id == (T if is_4_4 else Uuid.ZERO)  # type: ignore[attr-defined]


def test_transactional_commit_by_topic_id_has_the_errors_of_version_6(oracle: Oracle) -> None:
    """KIP-1319. Version 5 has ILLEGAL_GENERATION for the first two."""
    duel = Duel(oracle)
    duel.op("config", **{"group.consumer.assignment.interval.ms": 0})
    duel.op("image", brokers=[{"id": 0}], topics=TOPICS)
    epoch = join(duel, "m1")["memberEpoch"]
    stale, missing = epoch + 1, "nothing"
    assert code_of(commit(duel, 6, stale, topicId=str(T))) == ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(commit(duel, 6, 1, group=missing, topicId=str(T))) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(commit(duel, 6, epoch, topicId=str(Uuid(bytes(15) + b"\x09")))) == ErrorCode.UNKNOWN_TOPIC_ID
    assert code_of(commit(duel, 6, epoch, topicId=str(T))) == ErrorCode.NONE
    assert code_of(commit(duel, 5, stale, name="t")) == ErrorCode.ILLEGAL_GENERATION
    assert code_of(commit(duel, 5, 1, group=missing, name="t")) == ErrorCode.ILLEGAL_GENERATION


def test_commit_of_an_unknown_topic_at_an_older_epoch_without_partitions(started: Started, is_4_4: bool) -> None:
    """KIP-1319: it no longer has an illegal generation."""
    duel = started()
    join(duel, "m1")
    epoch = join(duel, "m2")["memberEpoch"]
    beat(duel, "m1", 2, topicPartitions=[{"topicId": str(T), "partitions": [0]}])
    reply = duel.request(
        "TxnOffsetCommit",
        5,
        transactionalId="x",
        groupId="g",
        producerId=1,
        memberId="m2",
        generationIdOrMemberEpoch=epoch - 1,
        topics=[{"name": "unknown", "partitions": []}],
    )
    assert reply["response"]["topics"] == [{"name": "unknown", "partitions": []}]
    assert epoch > 2


def test_share_group_with_offsets_prevents_expiry(started: Started, is_4_4: bool) -> None:
    """A defect since KIP-1331: Kafka checks offsets first, then whether the group may expire.

    They are those of an empty consumer group that a rejected JoinGroup removed without a record.
    """
    every_ms = 100_000
    duel = started(**{"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": every_ms})
    topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "committedOffset": 5, "committedMetadata": ""}]}]
    duel.request("OffsetCommit", 9, groupId="simple", memberId="", generationIdOrMemberEpoch=-1, topics=topics)
    epoch = join(duel, "m1")["memberEpoch"]
    duel.request("OffsetCommit", 9, groupId="g", memberId="m1", generationIdOrMemberEpoch=epoch, topics=topics)
    beat(duel, "m1", -1)
    duel.request("JoinGroup", 8, groupId="g", memberId="unknown", sessionTimeoutMs=10_000)
    duel.request("ShareGroupHeartbeat", 1, groupId="g", memberId="s", memberEpoch=0, subscribedTopicNames=["t"])
    duel.op("advance", ms=90_000)
    expired = duel.op("cleanup")["records"]
    duel.op("advance", ms=2 * every_ms)  # the timer fires again
    fetched = duel.request("OffsetFetch", 8, groups=[{"groupId": "simple", "topics": None}])["response"]["groups"][0]
    assert (not expired) is bool(fetched["topics"]) is is_4_4
    assert len(duel.op("timers")["timers"]) == 2
