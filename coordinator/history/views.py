"""Immutable views of a group at one moment, with the same fields for all group types."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from functools import singledispatch
from typing import Any
from zlib import crc32

from quorate.codecs import DecodeError
from quorate.codecs.client_assignors import ClientAssignor, TargetOrigin
from quorate.codecs.consumer_protocol import decode_assignment, decode_subscription
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from quorate.codecs.messages.streams_group import Subtopology
from quorate.codecs.tags import read_tags
from quorate.coordinator.client_assignors.selection import announced_by
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.state import (
    ClassicGroup,
    ConsumerGroup,
    ConsumerMember,
    CoordinatorGroup,
    GroupKind,
    MemberState,
    ShareGroup,
    StreamsGroup,
)
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL
from quorate.coordinator.state.modern import ModernGroup

_STATES = {
    MemberState.STABLE: "stable",
    MemberState.UNREVOKED_PARTITIONS: "revoking",
    MemberState.UNRELEASED_PARTITIONS: "waiting",
    MemberState.UNKNOWN: "unknown",
}

_TASK_STATES = {1: "stable", 2: "revoking", 3: "waiting"}
"""The states of members of streams groups, whose numbers start at 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member.

    `epoch`: the generation in classic groups. `state`: stable, revoking (it must revoke partitions
    first) or waiting (for partitions of other members). `protocol`: classic, consumer, share or
    streams; members differ during a migration. `client_assignors`: descriptions of its client-side
    assignors (KIP-848).

    For streams groups, partitions are active tasks. `process_id`: the application instance.
    `standby`, `warmup`, `standby_target`: its standby and warm-up tasks; Kafka 4.4 has no target
    for the latter.
    """

    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    protocol: str
    epoch: int
    state: str = "stable"
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    client_assignors: tuple[str, ...] = ()
    assigned: frozenset[Partition] = frozenset()
    pending_revocation: frozenset[Partition] = frozenset()
    target: frozenset[Partition] = frozenset()
    process_id: str = ""
    standby: frozenset[Partition] = frozenset()
    warmup: frozenset[Partition] = frozenset()
    standby_target: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtopologyView:
    """A subtopology: source topics, those of repartition topics included, and changelogs."""

    subtopology_id: str
    sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group.

    In classic groups `epoch` and `assignment_epoch` are the generation, and `metadata_hash` is
    `None`.

    `assignor`: the selected protocol, the client-side assignor of the target assignment, or the
    preferred server-side assignor, `None` for the broker's default. `computed_by`: the member that
    ran a client-side assignor; `assignor_error`: the error that it reported, 0 for none. `topics`:
    the subscribed topics, `None` if unknown. `has_topic_record`: a record of type 4 (before
    KIP-1101) exists. Of streams groups, `configs`: those of the assignment; `topology_epoch`: that
    of `subtopologies`; `validated_topology_epoch`: the latest topology whose topics all exist.
    """

    group_id: str
    kind: GroupKind
    state: str
    protocol_type: str
    epoch: int
    assignment_epoch: int
    metadata_hash: int | None = None
    assignor: str | None = None
    computed_by: str | None = None
    assignor_error: int = 0
    leader: str | None = None
    topics: frozenset[str] | None = None
    members: Mapping[str, MemberView] = field(default_factory=dict)
    regexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_topic_record: bool = False
    configs: frozenset[tuple[str, str]] = frozenset()
    topology_epoch: int | None = None
    validated_topology_epoch: int | None = None
    subtopologies: tuple[SubtopologyView, ...] = ()

    @property
    def is_for_offsets(self) -> bool:
        """Whether it only has offsets."""
        return self.kind is GroupKind.CLASSIC and not self.protocol_type and not self.members


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """An earlier view, and the ids of members that have changed since; other members are reused."""

    view: GroupView
    touched: Collection[str]


@singledispatch
def view(group: CoordinatorGroup, since: Since | None = None) -> GroupView:
    """Return a view of the group as it is now."""
    raise TypeError(f"{group!r} has no view")


@view.register
def _classic(group: ClassicGroup, since: Since | None = None) -> GroupView:
    members = {}
    is_consumers = group.protocol_type == CONSUMER_PROTOCOL
    for member in group.ordered_members():
        subscription = _subscription(group.subscription(member.member_id)) if is_consumers else None
        owned = _assigned(member.assignment) if is_consumers else frozenset()
        members[member.member_id] = MemberView(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            rack=None if subscription is None else subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            protocol="classic",
            epoch=group.generation,
            topics=() if subscription is None else tuple(sorted(subscription.topics)),
            assigned=owned,
            target=owned,
        )
    topics = group.subscribed_topics
    return GroupView(
        group_id=group.group_id,
        kind=group.kind,
        state=group.state,
        protocol_type=group.protocol_type,
        epoch=group.generation,
        assignment_epoch=group.generation,
        assignor=group.protocol,
        leader=None if group.metadata is None else group.metadata.leader,
        topics=None if topics is None else frozenset(topics),
        members=members,
    )


@view.register
def _consumer(group: ConsumerGroup, since: Since | None = None) -> GroupView:
    def member_view(member: ConsumerMember, target: Any) -> MemberView:
        metadata = member.metadata
        return MemberView(
            member_id=member.member_id,
            instance_id=metadata.instance_id,
            rack=metadata.rack_id or None,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            protocol="classic" if member.uses_classic_protocol else "consumer",
            epoch=member.epoch,
            state=_STATES[member.state],
            topics=tuple(sorted(metadata.subscribed_topic_names)),
            regex=metadata.subscribed_topic_regex or "",
            assignor=metadata.server_assignor,
            client_assignors=tuple(map(_description, announced_by(metadata))),
            assigned=frozenset((topic, number) for topic, numbers in member.assigned.items() for number in numbers),
            pending_revocation=frozenset(
                (topic, number) for topic, numbers in member.pending_revocation.items() for number in numbers
            ),
            target=_listed(target or ()),
        )

    votes = max(group.assignor_votes.ordered(), key=lambda vote: vote[1], default=None)
    made = read_tags(TargetOrigin, group.target_epoch_tags, strict=False).computed_by
    return _modern(
        group,
        since,
        member_view,
        assignor=made.assignor if made is not None else None if votes is None else votes[0],
        computed_by=None if made is None else made.member_id,
        assignor_error=0 if made is None else made.error,
        topics=frozenset(group.topic_subscribers),
        regexes={regex: tuple(sorted(value.topics)) for regex, value in group.regexes.items()},
        has_topic_record=group.has_partition_metadata_record,
    )


@view.register
def _share(group: ShareGroup, since: Since | None = None) -> GroupView:
    def member_view(member: Any, target: Any) -> MemberView:
        return MemberView(
            member_id=member.member_id,
            rack=member.metadata.rack_id or None,
            client_id=member.metadata.client_id,
            client_host=member.metadata.client_host,
            protocol="share",
            epoch=member.epoch,
            topics=tuple(sorted(member.metadata.subscribed_topic_names)),
            assigned=_listed(member.assigned),
            target=_listed(target or ()),
        )

    return _modern(group, since, member_view, topics=frozenset(group.topic_subscribers))


@view.register
def _streams(group: StreamsGroup, since: Since | None = None) -> GroupView:
    def member_view(member: Any, target: Any) -> MemberView:
        member_metadata, current = member.metadata, member.current
        return MemberView(
            member_id=member.member_id,
            instance_id=None if member_metadata is None else member_metadata.instance_id,
            rack=None if member_metadata is None else member_metadata.rack_id or None,
            client_id="" if member_metadata is None else member_metadata.client_id,
            client_host="" if member_metadata is None else member_metadata.client_host,
            protocol="streams",
            epoch=member.epoch,
            state="stable" if current is None else _TASK_STATES.get(current.state, "unknown"),
            assigned=frozenset() if current is None else _tasks(current.active_tasks),
            pending_revocation=frozenset() if current is None else _tasks(current.active_tasks_pending_revocation),
            target=frozenset() if target is None else _tasks(target.active_tasks),
            process_id="" if member_metadata is None else member_metadata.process_id,
            standby=frozenset() if current is None else _tasks(current.standby_tasks, "standby of "),
            warmup=frozenset() if current is None else _tasks(current.warmup_tasks, "warm-up of "),
            standby_target=frozenset() if target is None else _tasks(target.standby_tasks, "standby of "),
        )

    metadata, topology = group.metadata, group.topology
    configs = () if metadata is None else metadata.last_assignment_configs or ()
    return _modern(
        group,
        since,
        member_view,
        configs=frozenset((config.key, config.value) for config in configs),
        topics=None if topology is None else frozenset(group.topics),
        topology_epoch=None if topology is None else topology.epoch,
        validated_topology_epoch=None if metadata is None else metadata.validated_topology_epoch,
        subtopologies=() if topology is None else tuple(map(_subtopology, topology.subtopologies)),
    )


def _subtopology(one: Subtopology) -> SubtopologyView:
    return SubtopologyView(
        subtopology_id=one.subtopology_id,
        sources=(*one.source_topics, *(topic.name for topic in one.repartition_source_topics)),
        repartition_sinks=tuple(one.repartition_sink_topics),
        changelogs=tuple(topic.name for topic in one.state_changelog_topics),
    )


def _modern(group: ModernGroup[Any, Any], since: Since | None, make: Any, **more: Any) -> GroupView:
    members: dict[str, MemberView] = {}
    touched: Collection[str] = group.members
    if since is not None and since.view.kind is group.kind:
        members, touched = dict(since.view.members), since.touched
    for member_id in touched:
        member = group.members.get(member_id)
        if member is None:
            members.pop(member_id, None)
        else:
            members[member_id] = make(member, group.targets.get(member_id))
    return GroupView(
        group_id=group.group_id,
        kind=group.kind,
        state=group.state,
        protocol_type=group.protocol_type,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        metadata_hash=group.metadata_hash,
        members=members,
        **more,
    )


def _description(one: ClientAssignor) -> str:
    """Describe the fields that affect the group epoch; metadata by size and checksum."""
    metadata = f", {len(one.metadata):,} bytes of metadata {crc32(one.metadata):08x}" if one.metadata else ""
    versions = f"{one.minimum_version}–{one.maximum_version}"
    return f"{one.name} (versions {versions}, version {one.metadata_version}, reason {one.reason}{metadata})"


def _listed(topics: Iterable[Any]) -> frozenset[Partition]:
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)


def _tasks(tasks: Iterable[Any], role: str = "") -> frozenset[Partition]:
    return frozenset(
        (f"{role}subtopology {task.subtopology_id}", number) for task in tasks for number in task.partitions
    )


def _subscription(data: bytes) -> ConsumerProtocolSubscription | None:
    try:
        found = decode_subscription(data).message
    except DecodeError:
        return None
    assert isinstance(found, ConsumerProtocolSubscription)
    return found


def _assigned(data: bytes) -> frozenset[Partition]:
    try:
        found = decode_assignment(data).message if data else None
    except DecodeError:
        return frozenset()
    if not isinstance(found, ConsumerProtocolAssignment):
        return frozenset()
    return frozenset((topic.topic, number) for topic in found.assigned_partitions for number in topic.partitions)
