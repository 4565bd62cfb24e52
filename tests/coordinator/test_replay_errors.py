"""Replay by single records: what contradicts what is there is refused and said why, and the rest of the state stays as it was."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorate.assignors.kafka_version import KafkaVersion
from quorate.codecs import CoordinatorRecord, Uuid, decode_record
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.messages import consumer_group as consumer
from quorate.codecs.messages import share_group as share
from quorate.codecs.messages import streams_group as streams
from quorate.codecs.messages.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue, TopicPartition, TopicPartitions
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.state import (
    ClassicGroup,
    ConsumerGroup,
    CoordinatorState,
    MemberState,
    ReplayError,
    ShareGroup,
    StreamsGroup,
)
from quorate.coordinator.state.classic import topics_of
from quorate.coordinator.state.consumer import owned_of, subscribe_alike
from quorate.coordinator.state.streams import STABLE
from quorate.coordinator.state.topic_index import TopicIndex

T, U = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
KINDS = {"consumer": ("ConsumerGroup", consumer), "share": ("ShareGroup", share), "streams": ("StreamsGroup", streams)}


def refused(text: str) -> "pytest.RaisesExc[ReplayError]":
    return pytest.raises(ReplayError, match=f"^{re.escape(text)}$")


class Log:
    """Records of one group, "g", of a kind; each is replayed at once."""

    def __init__(self, kind: str = "consumer", state: CoordinatorState | None = None) -> None:
        self.name, self.module = KINDS[kind]
        self.state = state or CoordinatorState()

    def write(self, what: str, value: Any, *key: str, strict: bool = True) -> None:
        self.state.replay(self.record(what, value, *key), strict=strict)

    def record(self, what: str, value: Any, *key: str) -> CoordinatorRecord:
        cls = getattr(self.module, f"{self.name}{what}Key")
        names = ("group_id", "regular_expression" if what == "RegularExpression" else "member_id")
        made = cls(**dict(zip(names, key or ("g",), strict=False)))
        return CoordinatorRecord(key=made, value=value, version=0)

    def value(self, what: str, **given: Any) -> Any:
        return getattr(self.module, f"{self.name}{what}Value")(**given)

    def group_at(self, epoch: int) -> None:
        more = {"metadata_hash": 7}
        if self.module is streams:
            more |= {"validated_topology_epoch": -1}
        self.write("Metadata", self.value("Metadata", epoch=epoch, **more))

    def target_at(self, epoch: int) -> None:
        self.write("TargetAssignmentMetadata", self.value("TargetAssignmentMetadata", assignment_epoch=epoch))

    def target(self, member_id: str) -> None:
        given: dict[str, Any] = {"topic_partitions": (TopicPartition(topic_id=T, partitions=(0,)),)}
        if self.module is streams:
            given = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}
        self.write("TargetAssignmentMember", self.value("TargetAssignmentMember", **given), "g", member_id)

    def current(self, member_id: str, epoch: int, *partitions: int) -> None:
        self.write("CurrentMemberAssignment", self.current_value(epoch, *partitions), "g", member_id)

    def current_value(self, epoch: int, *partitions: int) -> Any:
        given: dict[str, Any] = {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": 0}
        if self.module is consumer:
            owned = (TopicPartitions(topic_id=T, partitions=partitions),) if partitions else ()
            given |= {"assigned_partitions": owned, "partitions_pending_revocation": ()}
        elif self.module is share:
            given |= {"assigned_partitions": (TopicPartition(topic_id=T, partitions=partitions),)}
        else:
            tasks = ("active_tasks", "standby_tasks", "warmup_tasks")
            given |= dict.fromkeys((*tasks, *(f"{one}_pending_revocation" for one in tasks)), ())
        return self.value("CurrentMemberAssignment", **given)

    @property
    def group(self) -> Any:
        return self.state.groups["g"]


def commit(state: CoordinatorState, group: str = "g") -> None:
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    state.replay(CoordinatorRecord(key=OffsetCommitKey(group=group, topic="t", partition=0), value=value, version=4))


KIND = pytest.mark.parametrize("kind", KINDS)


@KIND
def test_a_group_is_not_deleted_while_there_is_something_in_it(kind: str) -> None:
    log = Log(kind)
    log.group_at(3)
    log.current("m", 3)
    with refused("group g is deleted while it has members"):
        log.write("Metadata", None)
    log.write("CurrentMemberAssignment", None, "g", "m")
    log.write("MemberMetadata", None, "g", "m")
    log.target_at(3)
    log.target("m")
    told = "target assignments" if kind != "streams" else "a target assignment epoch"
    with refused(f"group g is deleted while it has {told}"):
        log.write("Metadata", None)
    log.write("TargetAssignmentMember", None, "g", "m")
    with refused("group g is deleted while it has a target assignment epoch"):
        log.write("Metadata", None)
    log.write("TargetAssignmentMetadata", None)
    log.write("Metadata", None)
    assert not log.state.groups


@KIND
def test_a_target_goes_before_its_epoch(kind: str) -> None:
    log = Log(kind)
    log.group_at(3)
    log.target_at(3)
    log.target("m")
    with refused("group g: the target assignment is deleted while members have one"):
        log.write("TargetAssignmentMetadata", None)
    assert log.group.assignment_epoch == 3
    log.write("TargetAssignmentMember", None, "g", "m")
    log.write("TargetAssignmentMetadata", None)
    assert (log.group.assignment_epoch, log.group.assignment_timestamp_ms) == (-1, 0)


@KIND
def test_a_member_leaves_before_it_is_removed(kind: str) -> None:
    log = Log(kind)
    log.group_at(3)
    log.current("m", 2)
    log.target("m")
    with refused("group g: member m is removed at epoch 2"):
        log.write("MemberMetadata", None, "g", "m")
    log.write("CurrentMemberAssignment", None, "g", "m")
    with refused("group g: member m is removed while it has a target assignment"):
        log.write("MemberMetadata", None, "g", "m")
    log.write("TargetAssignmentMember", None, "g", "m")
    log.write("MemberMetadata", None, "g", "m")
    assert not len(log.group.members)


@KIND
def test_a_member_that_left_has_nothing_and_epoch_minus_one(kind: str) -> None:
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
        assert log.group.partition_epochs == {}


@KIND
def test_tombstones_of_what_is_not_there_change_nothing(kind: str) -> None:
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
def test_a_group_does_not_change_its_kind(first: str, second: str) -> None:
    log = Log(first)
    log.group_at(1)
    other = Log(second, log.state)
    with refused(f"group g is a {first} group, not a {second} group"):
        other.group_at(2)
    with refused(f"group g is a {first} group, not a {second} group"):
        other.write("Metadata", None)
    assert log.group.epoch == 1


@KIND
def test_a_group_that_is_there_for_its_offsets_becomes_one_of_any_kind(kind: str) -> None:
    log = Log(kind)
    commit(log.state)
    assert type(log.group) is ClassicGroup
    log.group_at(1)
    assert type(log.group) is {"consumer": ConsumerGroup, "share": ShareGroup, "streams": StreamsGroup}[kind]
    assert len(list(log.state.offsets.of_group("g"))) == 1


def test_what_is_left_out_is_counted_by_its_reason() -> None:
    log = Log()
    log.group_at(1)
    log.current("m", 1)
    for _ in range(3):
        log.write("Metadata", None, strict=False)
    log.write("MemberMetadata", None, "g", "m", strict=False)
    assert log.state.skipped == {
        "group g is deleted while it has members": 3,
        "group g: member m is removed at epoch 1": 1,
    }


def test_unknown_types_are_skipped_and_damaged_records_refused() -> None:
    state = CoordinatorState()
    unknown = decode_record(b"\x03\xe7\x00", b"x")
    for _ in range(2):
        state.replay(unknown, strict=True)
    damaged = decode_record(b"\x00\x03\x00", b"x")
    with refused(str(damaged.problem)):  # type: ignore[union-attr]
        state.replay(damaged, strict=True)
    for _ in range(2):
        state.replay(damaged)
    assert state.skipped == {str(unknown.problem): 2, str(damaged.problem): 2}  # type: ignore[union-attr]


def test_records_of_other_topics_are_refused() -> None:
    log = Log()
    record = log.record("Metadata", None)
    elsewhere = CoordinatorRecord(key=record.key, value=None, version=None, topic="__share_group_state")
    with refused("ConsumerGroupMetadata is a record of __share_group_state"):
        log.state.replay(elsewhere, strict=True)


def test_a_partition_has_one_owner_at_an_epoch() -> None:
    """KAFKA-19862: whoever has it at an earlier epoch has lost it."""
    log = Log()
    log.group_at(5)
    log.current("a", 3, 0)
    for epoch in (2, 3):
        with refused(f"group g: partition {T}-0 is given at epoch {epoch}, but has an owner at epoch 3"):
            log.current("b", epoch, 0)
    log.current("c", 4, 0)
    assert log.group.partition_epoch(T, 0) == 4
    log.write("CurrentMemberAssignment", None, "g", "a")  # what it had is another's by now
    assert log.group.partition_epoch(T, 0) == 4
    assert (log.group.partition_epoch(T, 1), log.group.partition_epoch(U, 0)) == (-1, -1)


def test_a_partition_is_free_once_nobody_has_it_also_where_topics_are_missing() -> None:
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
    assert log.group.partition_epochs == {T: {0: 3, 1: 3}, U: {1: 3, 2: 3}}
    log.current("n", 4, 0, 1)
    log.write("CurrentMemberAssignment", None, "g", "n")
    log.write("CurrentMemberAssignment", None, "g", "m")
    assert log.group.partition_epochs == {}
    assert log.group.members["m"].state is MemberState.STABLE


def test_assignment_epochs_are_the_members_where_the_record_has_none_or_another_number() -> None:
    def read(*epochs: int, none: bool = False, member: int = 4) -> dict[int, int]:
        given = None if none else epochs
        owned = owned_of([TopicPartitions(topic_id=T, partitions=(3, 1), assignment_epochs=given)], member)
        return dict(owned[T])

    assert read(7, 8) == {3: 7, 1: 8}
    assert read(7) == read() == read(none=True) == {3: 4, 1: 4}
    assert read(member=0) == read(member=-1) == {3: 0, 1: 0}


def test_states_of_newer_releases_are_unknown() -> None:
    assert [MemberState.of(value) for value in (0, 1, 2, 3, 127, -1)] == [0, 1, 2, 127, 127, 127]
    assert all(isinstance(MemberState.of(value), MemberState) for value in range(5))


def member(**given: Any) -> ConsumerGroupMemberMetadataValue:
    base: dict[str, Any] = {"instance_id": None, "rack_id": None, "client_id": "c", "client_host": "/h"}
    base |= {"subscribed_topic_names": (), "subscribed_topic_regex": None, "server_assignor": None}
    return ConsumerGroupMemberMetadataValue(**base | given)


def test_topics_find_the_groups_that_subscribe_by_name_or_by_expression() -> None:
    state = CoordinatorState()
    last: list[str] = []
    state.topics.on_last = last.append
    log = Log(state=state)
    log.group_at(1)
    log.write("MemberMetadata", member(subscribed_topic_names=("a", "b")), "g", "m")
    log.write("MemberMetadata", member(subscribed_topic_names=("b",), subscribed_topic_regex="x.*"), "g", "n")
    value = consumer.ConsumerGroupRegularExpressionValue(topics=("x1", "b"), version=1, timestamp=2)
    log.write("RegularExpression", value, "g", "x.*")
    assert dict(log.group.topic_subscribers) == {"a": (1, 0), "b": (2, 1), "x1": (0, 1)}
    assert [state.topics.groups([one]) for one in ("a", "b", "x1", "c")] == [{"g"}, {"g"}, {"g"}, set()]
    assert set(log.group.subscribed_topics(log.group.members["n"].metadata)) == {"b", "x1"}
    later = consumer.ConsumerGroupRegularExpressionValue(topics=("x2",), version=2, timestamp=3)
    log.write("RegularExpression", later, "g", "x.*")
    assert dict(log.group.topic_subscribers) == {"a": (1, 0), "b": (2, 0), "x2": (0, 1)}
    assert last == ["x1"]
    log.write("RegularExpression", None, "g", "x.*")
    log.write("RegularExpression", None, "g", "x.*")
    assert dict(log.group.topic_subscribers) == {"a": (1, 0), "b": (2, 0)}
    assert last == ["x1", "x2"]
    log.write("MemberMetadata", member(subscribed_topic_names=("b",)), "g", "m")
    assert last == ["x1", "x2", "a"]


def test_share_groups_are_found_by_their_topics_until_the_last_member_goes() -> None:
    log = Log("share")
    last: list[str] = []
    log.state.topics.on_last = last.append

    def subscribe(member_id: str, *names: str) -> None:
        value = share.ShareGroupMemberMetadataValue(
            rack_id=None, client_id="", client_host="", subscribed_topic_names=names
        )
        log.write("MemberMetadata", value, "g", member_id)

    log.group_at(1)
    subscribe("m", "a", "b")
    subscribe("n", "b")
    assert dict(log.group.topic_subscribers) == {"a": 1, "b": 2}
    subscribe("m", "b", "c")
    assert dict(log.group.topic_subscribers) == {"b": 2, "c": 1}
    assert (last, log.state.topics.groups(["a"]), log.state.topics.groups(["c", "b"])) == (["a"], set(), {"g"})
    for member_id in ("m", "n"):
        log.write("CurrentMemberAssignment", None, "g", member_id)
        log.write("MemberMetadata", None, "g", member_id)
    assert (dict(log.group.topic_subscribers), sorted(last)) == ({}, ["a", "b", "c"])


def test_an_index_knows_every_group_of_a_topic() -> None:
    index = TopicIndex()
    index.subscribe("t", "g")
    index.subscribe("t", "h")
    index.subscribe("u", "i")
    assert index.groups(["t", "nothing", "u"]) == {"g", "h", "i"}
    index.unsubscribe("t", "g")
    index.unsubscribe("nothing", "g")
    assert index.groups(["t"]) == {"h"}
    index.unsubscribe("t", "h")
    assert index.groups_by_topic == {"u": {"i"}}


def test_static_members_are_found_by_their_instance_until_another_has_it() -> None:
    log = Log()
    log.group_at(1)
    log.write("MemberMetadata", member(instance_id="i"), "g", "old")
    assert log.group.static_members == {"i": "old"}
    log.write("MemberMetadata", member(instance_id="i"), "g", "new")
    log.write("CurrentMemberAssignment", None, "g", "old")
    log.write("MemberMetadata", None, "g", "old")
    assert log.group.static_members == {"i": "new"}
    log.write("CurrentMemberAssignment", None, "g", "new")
    log.write("MemberMetadata", None, "g", "new")
    assert log.group.static_members == {}


def test_members_subscribe_alike_by_the_same_names_or_by_one_expression() -> None:
    assert subscribe_alike({}, {"a": (2, 0), "b": (2, 0)}, 2)
    assert not subscribe_alike({}, {"a": (2, 0), "b": (1, 0)}, 2)
    assert subscribe_alike({"x": 2}, {"a": (0, 1)}, 2)
    assert not subscribe_alike({"x": 1}, {"a": (0, 1)}, 2)
    assert not subscribe_alike({"x": 2}, {"a": (1, 1)}, 2)
    assert not subscribe_alike({"x": 2}, {"a": (0, 2)}, 2)
    assert not subscribe_alike({"x": 2}, {"a": (1, 0)}, 2)


@pytest.mark.parametrize(
    ("interval_ms", "last_ms", "now_ms", "may"),
    [(1000, 0, 5, True), (0, 900, 901, True), (1000, 900, 1899, False), (1000, 900, 1900, True), (1, 1, 1, False)],
)
@pytest.mark.parametrize("kind", [ConsumerGroup, ShareGroup])
def test_a_new_target_waits_for_the_interval(
    kind: Callable[[str], Any], interval_ms: int, last_ms: int, now_ms: int, may: bool
) -> None:
    group = kind("g")
    group.assignment_timestamp_ms = last_ms
    assert group.may_assign(interval_ms, now_ms) is may


def test_share_state_is_kept_by_group() -> None:
    log = Log("share")
    value = share.ShareGroupStatePartitionMetadataValue(
        initializing_topics=(), initialized_topics=(), deleting_topics=()
    )
    log.write("StatePartitionMetadata", value)
    assert (dict(log.state.share_states), type(log.group)) == ({"g": value}, ShareGroup)
    log.write("StatePartitionMetadata", None)
    log.write("StatePartitionMetadata", None)
    assert not log.state.share_states


def test_a_streams_topology_comes_and_goes() -> None:
    log = Log("streams")
    log.group_at(1)
    value = streams.StreamsGroupTopologyValue(epoch=2, subtopologies=())
    log.write("Topology", value)
    assert log.group.topology is value
    log.write("Topology", None)
    assert log.group.topology is None
    Log("streams").write("Topology", None)


def test_what_is_known_of_members_is_found_out_again_when_they_change_not_when_matches_do() -> None:
    """Kafka asks when a member comes, changes or goes; what expressions match later does not count before the next of these."""
    log = Log()
    log.group_at(1)
    log.write("MemberMetadata", member(subscribed_topic_names=("a",)), "g", "m")
    assert log.group.subscribes_alike is True
    log.write("MemberMetadata", member(subscribed_topic_names=("b",)), "g", "n")
    assert log.group.subscribes_alike is False
    log.write("CurrentMemberAssignment", None, "g", "n")
    log.write("MemberMetadata", None, "g", "n")
    assert log.group.subscribes_alike is True
    log.write("MemberMetadata", member(subscribed_topic_regex="x.*"), "g", "m")
    value = consumer.ConsumerGroupRegularExpressionValue(topics=("x1",), version=1, timestamp=2)
    log.write("RegularExpression", value, "g", "x.*")
    assert log.group.subscribes_alike is True
    other = consumer.ConsumerGroupRegularExpressionValue(topics=("x1",), version=1, timestamp=2)
    log.write("RegularExpression", other, "g", "y.*")  # matches the same topic, so it is counted twice
    assert dict(log.group.topic_subscribers) == {"x1": (0, 2)}
    assert log.group.subscribes_alike is True
    log.write("MemberMetadata", member(subscribed_topic_regex="x.*", rack_id="r"), "g", "m")
    assert log.group.subscribes_alike is False


def test_a_new_group_is_due_for_everything() -> None:
    for group in (ConsumerGroup("g"), ShareGroup("g")):
        assert group.may_assign(1000, 5)
        assert (group.refresh_at_ms, group.refresh_epoch) == (0, 0)
    assert ShareGroup("g").initializing_since_ms == 0
    assert ConsumerGroup("g").computed_by is None
    assert repr(ConsumerGroup("g")) == "ConsumerGroup('g', Empty)"


def test_a_member_of_a_share_group_in_a_state_of_another_release_is_unknown() -> None:
    log = Log("share")
    log.group_at(1)
    value = replace(log.current_value(1), state=5)
    log.write("CurrentMemberAssignment", value, "g", "m")
    assert log.group.members["m"].state is MemberState.UNKNOWN


def test_share_state_is_that_of_a_share_group() -> None:
    log = Log("consumer")
    log.group_at(1)
    with refused("group g is a consumer group, not a share group"):
        Log("share", log.state).write("StatePartitionMetadata", None)


def test_a_streams_member_keeps_its_tasks_when_it_announces_something_else() -> None:
    log = Log("streams")
    log.group_at(1)
    log.write("CurrentMemberAssignment", replace(log.current_value(4), state=STABLE), "g", "m")
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
    log.write("CurrentMemberAssignment", replace(log.current_value(5), state=STABLE + 1), "g", "m")
    assert not log.group.members["m"].is_reconciled_to(5)


def test_who_computed_a_target_and_what_it_tells_members_is_kept_with_the_target() -> None:
    log = Log()
    log.group_at(3)
    by = consumer.ComputedBy(assignor="own", member_id="m", error=0)
    log.write(
        "TargetAssignmentMetadata",
        log.value("TargetAssignmentMetadata", assignment_epoch=3, assignment_timestamp=9, computed_by=by),
    )
    assert (log.group.computed_by, log.group.assignment_timestamp_ms) == (by, 9)
    told = consumer.TargetMetadata(version=1, data=b"x")
    log.write(
        "TargetAssignmentMember", log.value("TargetAssignmentMember", topic_partitions=(), metadata=told), "g", "m"
    )
    assert dict(log.group.target_metadata) == {"m": told}
    log.target("m")
    assert not log.group.target_metadata
    log.write("TargetAssignmentMember", None, "g", "m")
    log.write("TargetAssignmentMetadata", None)
    assert log.group.computed_by is None


def test_control_records_that_end_no_transaction_end_none() -> None:
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
def test_transactions_are_kept_in_the_order_of_javas_longs(producers: tuple[int, int]) -> None:
    state = CoordinatorState()
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    for producer_id in producers:  # whose hashes are 1 and 0
        state.replay(CoordinatorRecord(key=key, value=value, version=4), producer_id=producer_id)
    assert [producer_id for producer_id, _ in state.offsets.pending.ordered()] == [1 << 32 | 1, 1]


def test_a_transaction_whose_offsets_were_all_deleted_keeps_its_place_until_its_marker() -> None:
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


def test_a_classic_group_that_is_not_there_can_be_deleted() -> None:
    state = CoordinatorState()
    state.replay(CoordinatorRecord(key=GroupMetadataKey(group="g"), value=None, version=None), strict=True)
    assert not state.groups


def test_topics_of_subscriptions_are_read_as_kafka_reads_them() -> None:
    """Only the fields that version 0 has, whatever comes behind them."""
    names = bytes.fromhex("00000002000161000162ffffffff")
    assert topics_of([b"\0\0" + names]) == {"a", "b"}
    assert topics_of([b"\0\1" + names + b"\xff"]) == {"a", "b"}  # what version 1 adds cannot be read
    assert topics_of([b"\0\0" + names, b"\0"]) is None
    assert topics_of([]) == set()


def test_loaders_of_kafka_4_0_skip_streams_groups_and_refuse_share_groups() -> None:
    state = CoordinatorState(Behaviour.of(KafkaVersion(4, 0, 2)))
    record = Log("streams").record("Metadata", None)
    for _ in range(2):
        state.replay(record, strict=True)
    assert state.skipped == {"StreamsGroupMetadataKey is not known to this release of Kafka": 2}
    with refused("ShareGroupMetadataKey of Kafka 4.1 or later cannot be read by this release of Kafka"):
        state.replay(Log("share").record("Metadata", None), strict=True)
    log = Log(state=state)
    log.group_at(1)
    assert list(state.groups) == ["g"]


def test_a_commit_whose_producer_is_not_known_counts_at_once() -> None:
    """Clients of a live cluster are not told who wrote, and are given committed records only."""
    state = CoordinatorState()
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    state.replay(CoordinatorRecord(key=key, value=value, version=4), producer_id=None)
    assert [offset.value for _, _, offset in state.offsets.of_group("g")] == [value]
    assert not state.offsets.pending


def test_a_static_member_of_a_classic_group_is_found_by_its_name() -> None:
    def one(member_id: str, instance_id: str | None) -> MemberMetadata:
        times = {"rebalance_timeout": 1, "session_timeout": 1}
        who = {"member_id": member_id, "group_instance_id": instance_id, "client_id": "c", "client_host": "/h"}
        return MemberMetadata(**who, **times, subscription=b"", assignment=b"")

    members = (one("a", None), one("b", "i"))
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="a", members=members)
    group = ClassicGroup("g", value)
    assert (group.static_member("i"), group.static_member("j")) == ("b", None)
