"""Records that contradict the state are rejected and change nothing."""

import pytest

from quorate.codecs import CoordinatorRecord, MalformedRecord, decode_record
from quorate.coordinator.state import (
    ClassicGroup,
    ConsumerGroup,
    CoordinatorState,
    MemberState,
    ShareGroup,
    StreamsGroup,
)
from tests.coordinator.single_records import KIND, KINDS, Log, commit, rejected
from tests.oracle.client import Oracle


@KIND
def test_tombstone_of_a_group_with_members_or_targets_is_rejected(kind: str) -> None:
    log = Log(kind)
    log.group_at(3)
    log.current("m", 3)
    with rejected("group g: tombstone while it has members"):
        log.write("Metadata", None)
    log.write("CurrentMemberAssignment", None, "g", "m")
    log.write("MemberMetadata", None, "g", "m")
    log.target_at(3)
    log.target("m")
    reported = "target assignments" if kind != "streams" else "a target assignment epoch"
    with rejected(f"group g: tombstone while it has {reported}"):
        log.write("Metadata", None)
    log.write("TargetAssignmentMember", None, "g", "m")
    with rejected("group g: tombstone while it has a target assignment epoch"):
        log.write("Metadata", None)
    log.write("TargetAssignmentMetadata", None)
    log.write("Metadata", None)
    assert not log.state.groups


@KIND
def test_tombstone_of_the_target_epoch_requires_tombstones_of_all_targets(kind: str) -> None:
    log = Log(kind)
    log.group_at(3)
    log.target_at(3)
    log.target("m")
    with rejected("group g: tombstone of the target assignment while members have targets"):
        log.write("TargetAssignmentMetadata", None)
    assert log.group.assignment_epoch == 3
    log.write("TargetAssignmentMember", None, "g", "m")
    log.write("TargetAssignmentMetadata", None)
    assert (log.group.assignment_epoch, log.group.assignment_timestamp_ms) == (-1, 0)


@KIND
def test_tombstone_of_a_member_requires_that_it_left(kind: str) -> None:
    log = Log(kind)
    log.group_at(3)
    log.current("m", 2)
    log.target("m")
    with rejected("group g: tombstone of member m at epoch 2"):
        log.write("MemberMetadata", None, "g", "m")
    log.write("CurrentMemberAssignment", None, "g", "m")
    with rejected("group g: tombstone of member m while it has a target assignment"):
        log.write("MemberMetadata", None, "g", "m")
    log.write("TargetAssignmentMember", None, "g", "m")
    log.write("MemberMetadata", None, "g", "m")
    assert not len(log.group.members)


@KIND
def test_member_that_left_has_no_partitions_and_epoch_minus_one(kind: str) -> None:
    log = Log(kind)
    log.group_at(3)
    log.current("m", 2, 0, 1)
    assert (
        (log.group.members["m"].epoch, log.group.members["m"].previous_epoch) == (2, 1) if kind != "streams" else True
    )
    log.write("CurrentMemberAssignment", None, "g", "m")
    member = log.group.members["m"]
    assert member.epoch == -1
    if kind == "streams":
        assert member.current.previous_member_epoch == -1
        return
    assert member.previous_epoch == -1
    assert not member.assigned
    if kind == "consumer":
        assert (member.state, member.pending_revocation) == (MemberState.STABLE, {})
        assert log.group.partition_epochs.by_topic() == {}


@KIND
def test_tombstones_of_missing_keys_change_nothing(kind: str) -> None:
    log = Log(kind)
    for what, *key in (
        ("Metadata",),
        ("MemberMetadata", "g", "m"),
        ("TargetAssignmentMetadata",),
        ("TargetAssignmentMember", "g", "m"),
        ("CurrentMemberAssignment", "g", "m"),
    ):
        log.write(what, None, *key)
    assert not log.state.groups
    log.group_at(1)
    log.write("CurrentMemberAssignment", None, "g", "nobody")
    log.write("MemberMetadata", None, "g", "nobody")
    assert not len(log.group.members)


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in KINDS for b in KINDS if a != b])
def test_record_of_another_group_kind_is_rejected(first: str, second: str) -> None:
    log = Log(first)
    log.group_at(1)
    other = Log(second, log.state)
    with rejected(f"group g is a {first} group, not a {second} group"):
        other.group_at(2)
    with rejected(f"group g is a {first} group, not a {second} group"):
        other.write("Metadata", None)
    assert log.group.epoch == 1


@KIND
def test_group_with_offsets_only_can_become_any_kind(kind: str) -> None:
    log = Log(kind)
    commit(log.state)
    assert type(log.group) is ClassicGroup
    log.group_at(1)
    assert type(log.group) is {"consumer": ConsumerGroup, "share": ShareGroup, "streams": StreamsGroup}[kind]
    assert len(list(log.state.offsets.of_group("g"))) == 1


def test_skipped_records_are_counted_by_reason() -> None:
    log = Log()
    log.group_at(1)
    log.current("m", 1)
    for _ in range(3):
        log.write("Metadata", None, strict=False)
    log.write("MemberMetadata", None, "g", "m", strict=False)
    assert log.state.skipped == {
        "group g: tombstone while it has members": 3,
        "group g: tombstone of member m at epoch 1": 1,
    }


def test_unknown_types_are_skipped_and_damaged_records_rejected() -> None:
    state = CoordinatorState()
    unknown = decode_record(b"\x03\xe7\x00", b"x")
    for _ in range(2):
        state.replay(unknown, strict=True)
    damaged = decode_record(b"\x00\x03\x00", b"x")
    with rejected(str(damaged.problem)):  # type: ignore[union-attr]
        state.replay(damaged, strict=True)
    for _ in range(2):
        state.replay(damaged)
    assert state.skipped == {str(unknown.problem): 2, str(damaged.problem): 2}  # type: ignore[union-attr]


@pytest.mark.oracle
def test_damage_that_kafka_ignores_is_replayed_as_by_kafka(oracle: Oracle) -> None:
    """Issue 14: the tag has a length of 77 bytes, but 8 bytes follow."""
    key, value = bytes.fromhex("0003000167"), bytes.fromhex("00000000000401004df4c0d617a910f4f9")
    loaded = oracle.call("load", records=[{"key": key.hex(), "value": value.hex()}])
    assert loaded["state"] == "ACTIVE"
    record = decode_record(key, value)
    assert isinstance(record, MalformedRecord)
    state = CoordinatorState()
    state.replay(record, strict=True)
    group = state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert (group.epoch, group.metadata_hash) == (4, -0x0B3F29E856EF0B07)
    assert not state.skipped


def test_records_of_other_topics_are_rejected() -> None:
    log = Log()
    record = log.record("Metadata", None)
    elsewhere = CoordinatorRecord(key=record.key, value=None, version=None, topic="__share_group_state")
    with rejected("ConsumerGroupMetadata belongs to topic __share_group_state"):
        log.state.replay(elsewhere, strict=True)
