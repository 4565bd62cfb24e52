"""Scenarios of share groups on Kafka's coordinator and ours."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.codecs import CoordinatorRecord, Uuid, decode_record, encode_record
from quorate.codecs.messages.share_group import ShareGroupCurrentMemberAssignmentValue
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.log import AppendError
from tests.coordinator.scripts import Duel
from tests.oracle.client import Oracle

Json = dict[str, Any]

T, U = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
NAMES = {T: "t", U: "u"}
STATE = "000f"
"""The first bytes of the keys of records with share state."""


@pytest.fixture
def duel(oracle: Oracle) -> Duel:
    made = Duel(oracle)
    made.op("config", **{"group.share.assignment.interval.ms": 0})
    topics(made, {T: 3})
    return made


def topics(duel: Duel, partitions: dict[Uuid, int]) -> Json:
    return duel.op(
        "image",
        brokers=[{"id": 0}],
        topics=[{"name": NAMES[one], "id": str(one), "partitions": count} for one, count in partitions.items()],
    )


def beat(duel: Duel, member: str, epoch: int, **more: Any) -> Json:
    reply = duel.request("ShareGroupHeartbeat", groupId="g", memberId=member, memberEpoch=epoch, **more)
    response: Json = reply["response"] | {"types": [record["key"][:4] for record in reply["records"]]}
    return response


def join(duel: Duel, member: str, *names: str) -> Json:
    return beat(duel, member, 0, subscribedTopicNames=list(names or ("t",)))


def partitions(response: Json) -> list[int]:
    return [partition for topic in response["assignment"]["topicPartitions"] for partition in topic["partitions"]]


def test_partitions_are_assigned_once_they_have_share_state(duel: Duel) -> None:
    joined = join(duel, "m1")
    assert partitions(joined) == []
    assert joined["types"].count(STATE) == 2
    assert partitions(beat(duel, "m1", joined["memberEpoch"])) == [0, 1, 2]


def test_partition_is_assigned_to_several_members_if_there_are_fewer_partitions(duel: Duel) -> None:
    members = ("m1", "m2", "m3", "m4")
    for _ in range(2):
        for member in members:
            join(duel, member)
    given = [partitions(join(duel, member)) for member in members]
    assert all(given)
    assert sum(map(len, given)) > 3


def test_new_partitions_get_share_state_with_the_next_heartbeat(duel: Duel) -> None:
    epoch = beat(duel, "m1", join(duel, "m1")["memberEpoch"])["memberEpoch"]
    topics(duel, {T: 5})
    grown = beat(duel, "m1", epoch)
    assert grown["types"].count(STATE) == 2
    assert partitions(beat(duel, "m1", grown["memberEpoch"])) == [0, 1, 2, 3, 4]


def test_share_state_is_removed_with_its_topic(duel: Duel) -> None:
    topics(duel, {T: 3, U: 2})
    join(duel, "m1", "t", "u")
    gone = topics(duel, {U: 2})
    assert [record["key"][:4] for record in gone["records"]] == [STATE]


def test_initialization_of_share_state_is_retried_after_the_interval(duel: Duel) -> None:
    join(duel, "m1")
    records = duel.op("log")["records"]
    last = max(number for number, one in enumerate(records) if one["key"].startswith(STATE))
    kept = [one for number, one in enumerate(records) if number < last]
    duel.op("load", records=[{"key": one["key"], "value": one["value"]} for one in kept])
    assert STATE not in beat(duel, "m1", 2)["types"]
    duel.op("advance", ms=29_999)
    assert STATE not in beat(duel, "m1", 2)["types"]
    duel.op("advance", ms=1)
    assert beat(duel, "m1", 2)["types"].count(STATE) == 2


def test_session_timeout_removes_a_member(duel: Duel) -> None:
    join(duel, "m1")
    assert len(duel.op("advance", ms=45_000)["records"]) == 5
    assert beat(duel, "m1", 2)["errorCode"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_group_max_size_is_enforced(oracle: Oracle) -> None:
    duel = Duel(oracle)
    duel.op("config", **{"group.share.max.size": 1})
    join(duel, "m1")
    assert join(duel, "m2")["errorCode"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join(duel, "m1")["errorCode"] == ErrorCode.NONE


def test_empty_group_is_deleted_after_its_share_state(duel: Duel) -> None:
    join(duel, "m1")
    rejected = duel.request("DeleteGroups", 2, groupsNames=["g", "nothing"])
    assert {result["groupId"]: result["errorCode"] for result in rejected["response"]["results"]} == {
        "g": 68,
        "nothing": 69,
    }
    beat(duel, "m1", -1)
    deleted = duel.request("DeleteGroups", 2, groupsNames=["g"])
    assert [record["key"][:4] for record in deleted["records"]] == [STATE, "000c", STATE, "000b"]
    assert [event["n"] for event in deleted["events"] if event["n"]] == [1, 3]


def test_an_empty_group_does_not_expire(duel: Duel) -> None:
    join(duel, "m1")
    beat(duel, "m1", -1)
    duel.op("advance", ms=8 * 24 * 3600 * 1000)
    listed = duel.request("ListGroups")["response"]["groups"]
    assert [one["groupId"] for one in listed] == ["g"]


def test_failed_heartbeat_returns_an_error_and_can_be_repeated(duel: Duel) -> None:
    join(duel, "m1")
    duel.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
    assert join(duel, "m2")["errorCode"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert join(duel, "m2")["memberEpoch"] == 3
    topics(duel, {T: 5})
    duel.op("failNextAppend", error="NOT_LEADER_OR_FOLLOWER")
    assert beat(duel, "m1", 2)["errorCode"] == ErrorCode.NOT_COORDINATOR
    assert beat(duel, "m1", 2)["types"].count(STATE) == 2


def test_member_whose_leave_failed_has_no_session_until_its_next_heartbeat(duel: Duel) -> None:
    join(duel, "m1")
    duel.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
    beat(duel, "m1", -1)
    assert not [timer for timer in duel.op("timers")["timers"] if "m1" in timer["key"]]
    assert duel.op("advance", ms=100_000)["records"] == []
    assert beat(duel, "m1", 2)["errorCode"] == ErrorCode.NONE
    assert len(duel.op("advance", ms=45_000)["records"]) == 5


def test_groups_still_exist_after_a_failed_deletion(duel: Duel) -> None:
    join(duel, "m1")
    beat(duel, "m1", -1)
    duel.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
    names = ["g", "nothing", "a"]
    rejected = duel.request("DeleteGroups", 2, groupsNames=names)["response"]["results"]
    assert [one["errorCode"] for one in rejected] == 3 * [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert duel.request("DeleteGroups", 2, groupsNames=["g"])["response"]["results"][0]["errorCode"] == ErrorCode.NONE


def test_non_empty_group_keeps_its_error_when_other_deletions_fail(duel: Duel) -> None:
    join(duel, "m1")
    duel.request("OffsetCommit", 9, groupId="o", topics=[{"name": "t", "partitions": [{"committedOffset": 5}]}])
    duel.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
    rejected = duel.request("DeleteGroups", 2, groupsNames=["g", "o", "nothing"])["response"]["results"]
    found = {one["groupId"]: one["errorCode"] for one in rejected}
    assert found["g"] == ErrorCode.NON_EMPTY_GROUP
    assert found["o"] == found["nothing"] == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_initialization_is_repeated_if_its_record_cannot_be_written(duel: Duel) -> None:
    """Runs on our side only, as Kafka's second append cannot be made to fail."""
    side = duel.ours
    written, failures = side.log.append, 0

    def append(records: Any, **batch: Any) -> int:
        nonlocal failures
        if [type(record.key).__name__ for record in records] == [
            "ShareGroupStatePartitionMetadataKey"
        ] and not failures:
            failures += 1
            raise AppendError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return written(records, **batch)

    side.log.append = append  # type: ignore[method-assign]
    body = {"groupId": "g", "memberId": "m1", "memberEpoch": 0, "subscribedTopicNames": ["t"]}
    operation = {"op": "request", "id": 9, "api": "ShareGroupHeartbeat", "body": body}
    side.run(operation)
    (state,) = [state for _, state in side.shard.state.share_states.ordered()]
    assert failures
    assert not state.initializing_topics
    assert not state.initialized_topics
    side.run(operation)
    (state,) = [state for _, state in side.shard.state.share_states.ordered()]
    assert [initialized_topic.partitions for initialized_topic in state.initialized_topics] == [(0, 1, 2)]


def test_every_record_of_share_state_restarts_the_retry_interval(duel: Duel) -> None:
    """bench/coordinator_differential.py, kind share, seed 440100186"""
    join(duel, "m1")
    beat(duel, "m1", -1)
    log = [{"key": one["key"], "value": one["value"]} for one in duel.op("log")["records"]]
    state = next(number for number, one in enumerate(log) if one["key"].startswith(STATE))
    kept = [one for number, one in enumerate(log) if number <= state or not one["key"].startswith(STATE)]
    duel.op("load", records=kept)
    duel.op("advance", ms=45_000)
    duel.request("DeleteShareGroupOffsets", groupId="g", topics=[{"topicName": "u"}])
    assert STATE not in join(duel, "m1")["types"]
    beat(duel, "m1", -1)
    duel.op("advance", ms=45_000)
    assert STATE in join(duel, "m1")["types"]


def current_assignments(
    records: list[Json],
) -> list[tuple[CoordinatorRecord, ShareGroupCurrentMemberAssignmentValue]]:
    """Return the members' assignments in the records."""
    decoded = [
        decode_record(bytes.fromhex(record["key"]), bytes.fromhex(record["value"]))
        for record in records
        if record["value"]
    ]
    return [
        (one, one.value)
        for one in decoded
        if isinstance(one, CoordinatorRecord) and isinstance(one.value, ShareGroupCurrentMemberAssignmentValue)
    ]


def test_member_in_a_state_of_a_newer_release_becomes_stable_with_the_next_target(duel: Duel) -> None:
    """A load loses the unknown value: records of the member have state "unknown" until it moves."""
    epoch = beat(duel, "m1", join(duel, "m1")["memberEpoch"])["memberEpoch"]
    log = [{"key": one["key"], "value": one["value"]} for one in duel.op("log")["records"]]
    record, value = current_assignments(log)[-1]
    key, changed = encode_record(replace(record, value=replace(value, state=5)))
    assert changed is not None
    duel.op("config", **{"group.share.assignment.interval.ms": 1000})
    topics(duel, {T: 3, U: 1})
    duel.op("load", records=[*log, {"key": key.hex(), "value": changed.hex()}])

    def written(*names: str) -> list[int]:
        body = {"groupId": "g", "memberId": "m1", "memberEpoch": epoch, "subscribedTopicNames": list(names)}
        records = duel.request("ShareGroupHeartbeat", **body)["records"]
        return [one.state for _, one in current_assignments(records)]

    assert written("u") == [127]  # fewer topics, but the assignment interval delays the target
    duel.op("advance", ms=2000)
    assert written("t") == [0]
