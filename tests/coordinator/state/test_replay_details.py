"""Replay of single records, by group and record type."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.codecs import CoordinatorRecord
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.messages import consumer_group as consumer
from quorate.codecs.messages import share_group as share
from quorate.codecs.messages import streams_group as streams
from quorate.codecs.messages.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue, TopicPartitions
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.codecs.releases import KafkaVersion
from quorate.codecs.tags import OWN_TAG
from quorate.codecs.wire import TaggedField
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.state import (
    ClassicGroup,
    ConsumerGroup,
    CoordinatorState,
    MemberState,
    ShareGroup,
)
from quorate.coordinator.state.classic import topics_of
from quorate.coordinator.state.consumer_member import ConsumerMember, owned_of, recorded, with_epochs
from quorate.coordinator.state.streams import TaskState
from tests.coordinator.single_records import Log, T, U, member, rejected


def test_partition_has_one_owner_per_epoch() -> None:
    """KAFKA-19862: an owner with an earlier epoch lost the partition."""
    log = Log()
    log.group_at(5)
    log.current("a", 3, 0)
    for epoch in (2, 3):
        with rejected(f"group g: partition {T}-0 is assigned at epoch {epoch}, but its owner has epoch 3"):
            log.current("b", epoch, 0)
    log.current("c", 4, 0)
    assert log.group.partition_epoch(T, 0) == 4
    log.write("CurrentMemberAssignment", None, "g", "a")  # its partition has another owner now
    assert log.group.partition_epoch(T, 0) == 4
    assert (log.group.partition_epoch(T, 1), log.group.partition_epoch(U, 0)) == (-1, -1)


def test_partition_without_owner_is_free() -> None:
    log = Log()
    log.group_at(5)
    log.write(
        "CurrentMemberAssignment",
        log.value(
            "CurrentMemberAssignment",
            member_epoch=3,
            previous_member_epoch=2,
            state=1,
            assigned_partitions=(
                TopicPartitions(topic_id=T, partitions=(0, 1)),
                TopicPartitions(topic_id=U, partitions=(1,)),
            ),
            partitions_pending_revocation=(TopicPartitions(topic_id=U, partitions=(2,)),),
        ),
        "g",
        "m",
    )
    assert log.group.partition_epochs.by_topic() == {T: {0: 3, 1: 3}, U: {1: 3, 2: 3}}
    log.current("n", 4, 0, 1)
    log.write("CurrentMemberAssignment", None, "g", "n")
    log.write("CurrentMemberAssignment", None, "g", "m")
    assert log.group.partition_epochs.by_topic() == {}
    assert log.group.members["m"].state is MemberState.STABLE


def test_missing_or_miscounted_assignment_epochs_default_to_the_member_epoch() -> None:
    def read(*epochs: int, none: bool = False, member: int = 4) -> dict[int, int]:
        given = None if none else epochs
        topics = (TopicPartitions(topic_id=T, partitions=(3, 1), assignment_epochs=given),)
        return dict(owned_of(with_epochs(topics, member))[T])

    assert read(7, 8) == {3: 7, 1: 8}
    assert read(7) == read() == read(none=True) == {3: 4, 1: 4}
    assert read(member=0) == read(member=-1) == {3: 0, 1: 0}


def test_repeated_topics_and_partitions_count_once() -> None:
    once = TopicPartitions(topic_id=T, partitions=(1,), assignment_epochs=(7,))
    log = Log()
    for owned in (
        (TopicPartitions(topic_id=T, partitions=(1, 1), assignment_epochs=(6, 7)),),
        (TopicPartitions(topic_id=T, partitions=(0,), assignment_epochs=(7,)), once),
    ):
        log.write("CurrentMemberAssignment", replace(log.current_value(7), assigned_partitions=owned), "g", "m")
        assert log.group.members["m"].assigned_partitions == (once,)
        assert log.group.partition_epochs.by_topic() == {T: {1: 7}}


def test_complete_partitions_of_a_record_are_kept_as_they_are() -> None:
    topics = recorded({T: {1: 7, 0: 6}, U: {0: 7}})
    assert with_epochs(topics, 9) is topics


def test_members_are_equal_in_any_order_of_partitions() -> None:
    def owning(*partitions: int, epoch: int = 3) -> ConsumerMember:
        return ConsumerMember(member_id="m", assigned_partitions=recorded({T: dict.fromkeys(partitions, epoch)}))

    assert owning(0, 1) == owning(1, 0)
    assert owning(0, 1) != owning(0)
    assert owning(0) != owning(0, epoch=4)


def test_members_share_equal_metadata_and_topics() -> None:
    """As decoded, each member has its own copies, which were a quarter of a large group."""
    log = Log()

    def joins(member_id: str, host: str) -> ConsumerGroupMemberMetadataValue:
        topics = tuple("".join(name) for name in (["t"], ["topic"]))
        log.write("MemberMetadata", member(client_host=host, subscribed_topic_names=topics), "g", member_id)
        found: ConsumerGroupMemberMetadataValue = log.group.members[member_id].metadata
        assert (found.client_host, found.subscribed_topic_names) == (host, ("t", "topic"))
        return found

    first, second, elsewhere = joins("a", "/h"), joins("b", "/h"), joins("c", "/other")
    assert second is first
    assert elsewhere.subscribed_topic_names is first.subscribed_topic_names
    assert log.group.topic_subscribers == {"t": (3, 0), "topic": (3, 0)}


def test_repeated_metadata_of_a_member_count_as_new() -> None:
    """Also if another member has the same: the instance id belongs to the last one."""
    log = Log()
    for member_id in ("a", "b", "a"):
        log.write("MemberMetadata", member(instance_id="i"), "g", member_id)
        assert log.group.static_members == {"i": member_id}


def test_states_of_newer_releases_are_unknown() -> None:
    assert [MemberState.of(value) for value in (0, 1, 2, 3, 127, -1)] == [0, 1, 2, 127, 127, 127]
    assert all(isinstance(MemberState.of(value), MemberState) for value in range(5))


def test_share_state_is_stored_by_group() -> None:
    log = Log("share")
    value = share.ShareGroupStatePartitionMetadataValue(
        initializing_topics=(), initialized_topics=(), deleting_topics=()
    )
    log.write("StatePartitionMetadata", value)
    assert (dict(log.state.share_states), type(log.group)) == ({"g": value}, ShareGroup)
    log.write("StatePartitionMetadata", None)
    log.write("StatePartitionMetadata", None)
    assert not log.state.share_states


def test_streams_topology_is_replayed_and_deleted() -> None:
    log = Log("streams")
    log.group_at(1)
    value = streams.StreamsGroupTopologyValue(epoch=2, subtopologies=())
    log.write("Topology", value)
    assert log.group.topology is value
    log.write("Topology", None)
    assert log.group.topology is None
    Log("streams").write("Topology", None)


def test_subscription_type_is_computed_again_for_members_but_not_for_regexes() -> None:
    """Kafka computes it when a member changes, but not when a regex matches other topics."""
    log = Log()
    log.group_at(1)
    log.write("MemberMetadata", member(subscribed_topic_names=("a",)), "g", "m")
    assert log.group.is_homogeneous is True
    log.write("MemberMetadata", member(subscribed_topic_names=("b",)), "g", "n")
    assert log.group.is_homogeneous is False
    log.write("CurrentMemberAssignment", None, "g", "n")
    log.write("MemberMetadata", None, "g", "n")
    assert log.group.is_homogeneous is True
    log.write("MemberMetadata", member(subscribed_topic_regex="x.*"), "g", "m")
    value = consumer.ConsumerGroupRegularExpressionValue(topics=("x1",), version=1, timestamp=2)
    log.write("RegularExpression", value, "g", "x.*")
    assert log.group.is_homogeneous is True
    other = consumer.ConsumerGroupRegularExpressionValue(topics=("x1",), version=1, timestamp=2)
    log.write("RegularExpression", other, "g", "y.*")  # matches the same topic, so it is counted twice
    assert dict(log.group.topic_subscribers) == {"x1": (0, 2)}
    assert log.group.is_homogeneous is True
    log.write("MemberMetadata", member(subscribed_topic_regex="x.*", rack_id="r"), "g", "m")
    assert log.group.is_homogeneous is False


def test_new_group_may_assign_and_refresh_at_once() -> None:
    for group in (ConsumerGroup("g"), ShareGroup("g")):
        assert group.may_assign(1000, 5)
        assert (group.refresh_at_ms, group.refresh_epoch) == (0, 0)
    assert ShareGroup("g").initializing_since_ms == 0
    assert ConsumerGroup("g").target_epoch_tags == ()
    assert repr(ConsumerGroup("g")) == "ConsumerGroup('g', Empty)"


def test_share_group_member_in_a_state_of_another_release_is_unknown() -> None:
    log = Log("share")
    log.group_at(1)
    value = replace(log.current_value(1), state=5)
    log.write("CurrentMemberAssignment", value, "g", "m")
    assert log.group.members["m"].state is MemberState.UNKNOWN


def test_share_state_requires_a_share_group() -> None:
    log = Log("consumer")
    log.group_at(1)
    with rejected("group g is a consumer group, not a share group"):
        Log("share", log.state).write("StatePartitionMetadata", None)


def test_streams_member_keeps_its_tasks_when_its_metadata_changes() -> None:
    log = Log("streams")
    log.group_at(1)
    log.write("CurrentMemberAssignment", replace(log.current_value(4), state=TaskState.STABLE), "g", "m")
    announced: Any = streams.StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        topology_epoch=1,
        process_id="p",
        user_endpoint=None,
        client_tags=(),
    )
    log.write("MemberMetadata", announced, "g", "m")
    found = log.group.members["m"]
    assert (found.member_id, found.epoch, found.metadata) == ("m", 4, announced)
    assert (found.is_reconciled_to(4), found.is_reconciled_to(5)) == (True, False)
    log.write("CurrentMemberAssignment", replace(log.current_value(5), state=TaskState.STABLE + 1), "g", "m")
    assert not log.group.members["m"].is_reconciled_to(5)


def test_tagged_fields_of_a_plug_in_stay_with_the_target() -> None:
    log = Log()
    log.group_at(3)
    by = (TaggedField(OWN_TAG, b"by"),)
    log.write(
        "TargetAssignmentMetadata",
        log.value("TargetAssignmentMetadata", assignment_epoch=3, assignment_timestamp=9, unknown_tags=by),
    )
    assert (log.group.target_epoch_tags, log.group.assignment_timestamp_ms) == (by, 9)
    reported = (TaggedField(OWN_TAG, b"reported"),)
    log.write(
        "TargetAssignmentMember",
        log.value("TargetAssignmentMember", topic_partitions=(), unknown_tags=reported),
        "g",
        "m",
    )
    assert dict(log.group.target_tags) == {"m": reported}
    log.target("m")
    assert not log.group.target_tags
    log.write("TargetAssignmentMember", None, "g", "m")
    log.write("TargetAssignmentMetadata", None)
    assert log.group.target_epoch_tags == ()


def test_only_markers_of_a_producer_end_its_transactions() -> None:
    state = CoordinatorState()
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    for producer_id in (7, 8):
        state.replay(CoordinatorRecord(key=key, value=value, version=4), offset=1, producer_id=producer_id)

    def control(name: str, producer_id: int | None) -> None:
        record = ControlRecord(type_id=0, name=name, version=0, coordinator_epoch=0, key_bytes=b"", value_bytes=b"")
        state.replay(record, producer_id=producer_id, strict=True)

    control("LEADER_CHANGE", 7)
    control("COMMIT", None)
    assert set(state.offsets.pending) == {7, 8}
    control("ABORT", 7)
    assert (set(state.offsets.pending), state.offsets.is_pending("g", "t", 0)) == ({8}, True)
    assert list(state.offsets.of_group("g")) == list(state.offsets.of_group("nobody")) == []
    control("COMMIT", 8)
    assert not state.offsets.has_pending("g")
    assert [(topic, number) for topic, number, _ in state.offsets.of_group("g")] == [("t", 0)]


@pytest.mark.parametrize("producers", [(1, 1 << 32 | 1), (1 << 32 | 1, 1)])
def test_transactions_are_in_the_order_of_javas_long_hashes(producers: tuple[int, int]) -> None:
    state = CoordinatorState()
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    for producer_id in producers:  # whose hashes are 1 and 0
        state.replay(CoordinatorRecord(key=key, value=value, version=4), producer_id=producer_id)
    assert [producer_id for producer_id, _ in state.offsets.pending.ordered()] == [1 << 32 | 1, 1]


def test_transaction_without_offsets_keeps_its_position_until_its_marker() -> None:
    state = CoordinatorState()
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)

    def commit(producer_id: int, group: str) -> None:
        key = OffsetCommitKey(group=group, topic="t", partition=0)
        state.replay(CoordinatorRecord(key=key, value=value, version=4), producer_id=producer_id)

    def order() -> list[int]:
        return [producer_id for producer_id, _ in state.offsets.pending.ordered()]

    commit(1, "g")
    state.replay(CoordinatorRecord(key=OffsetCommitKey(group="g", topic="t", partition=0), value=None, version=None))
    assert not state.offsets.has_pending("g")
    assert order() == [1]
    commit(3, "g")
    commit(1, "h")
    assert order() == [3, 1]  # in one slot, the newest first
    state.offsets.end_transaction(1, commit=True)
    commit(1, "h")
    assert order() == [1, 3]


def test_tombstone_of_a_missing_classic_group_changes_nothing() -> None:
    state = CoordinatorState()
    state.replay(CoordinatorRecord(key=GroupMetadataKey(group="g"), value=None, version=None), strict=True)
    assert not state.groups


def test_topics_of_subscriptions_are_read_as_kafka_reads_them() -> None:
    """Kafka decodes the fields of version 0 only."""
    names = bytes.fromhex("00000002000161000162ffffffff")
    assert topics_of([b"\0\0" + names]) == {"a", "b"}
    assert topics_of([b"\0\1" + names + b"\xff"]) == {"a", "b"}  # fields of version 1 are damaged
    assert topics_of([b"\0\0" + names, b"\0"]) is None
    assert topics_of([]) == set()


def test_loader_of_kafka_4_0_skips_streams_groups_and_rejects_share_groups() -> None:
    state = CoordinatorState(Behaviour.of(KafkaVersion(4, 0, 2)))
    record = Log("streams").record("Metadata", None)
    for _ in range(2):
        state.replay(record, strict=True)
    assert state.skipped == {"StreamsGroupMetadataKey is unknown to this release of Kafka": 2}
    with rejected("this release of Kafka cannot read ShareGroupMetadataKey of Kafka 4.1 or later"):
        state.replay(Log("share").record("Metadata", None), strict=True)
    log = Log(state=state)
    log.group_at(1)
    assert list(state.groups) == ["g"]


def test_commit_of_an_unknown_producer_is_committed_at_once() -> None:
    """Clients of a live cluster receive only committed records, without producer ids."""
    state = CoordinatorState()
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    state.replay(CoordinatorRecord(key=key, value=value, version=4), producer_id=None)
    assert [offset.value for _, _, offset in state.offsets.of_group("g")] == [value]
    assert not state.offsets.pending


def test_static_member_of_a_classic_group_is_found_by_instance_id() -> None:
    def one(member_id: str, instance_id: str | None) -> MemberMetadata:
        times = {"rebalance_timeout": 1, "session_timeout": 1}
        who = {"member_id": member_id, "group_instance_id": instance_id, "client_id": "c", "client_host": "/h"}
        return MemberMetadata(**who, **times, subscription=b"", assignment=b"")

    members = (one("a", None), one("b", "i"))
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="a", members=members)
    group = ClassicGroup("g", value)
    assert (group.static_member("i"), group.static_member("j")) == ("b", None)
