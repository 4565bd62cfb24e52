"""Consumer groups of KIP-848, as their records tell them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, ClassVar

from quorate.assignors.java_order import TimelineMap
from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    TopicPartition,
    TopicPartitions,
)
from quorate.codecs.tags import Tags
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL, GroupKind, ReplayError
from quorate.coordinator.state.modern import LEFT, ModernGroup
from quorate.coordinator.state.topic_counts import Recount, recount

__all__ = [
    "LEAVE_STATIC",
    "ConsumerGroup",
    "ConsumerMember",
    "MemberState",
    "Owned",
    "owned_of",
    "subscribe_alike",
]

LEAVE_STATIC = -2
"""The epoch at which a static member leaves that will be back under its instance id (KIP-345)."""

Owned = Mapping[Uuid, Mapping[int, int]]
"""Topic id → partition → the epoch at which the member got it (KIP-1251), in the record's order."""


class MemberState(IntEnum):
    """Where a member stands in its reconciliation; the numbers are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions first."""
    UNRELEASED_PARTITIONS = 2
    """Others have to give up partitions that it is to get."""
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """From a record's byte; whatever is not known is `UNKNOWN`."""
        return cls(value) if value in (0, 1, 2) else cls.UNKNOWN


_NEW = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex="",
    server_assignor=None,
    classic_member_metadata=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member: what it announced (`metadata`, as in its record), the epoch that it reached, and what it owns."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue = _NEW
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it came by JoinGroup (a group in online migration)."""
        return self.metadata.classic_member_metadata is not None

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that left for a while (epoch -2)."""
        return self.epoch == LEAVE_STATIC

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it owns exactly what the target assignment of that epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """As the record of its current assignment has it."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=owned_of(value.assigned_partitions, value.member_epoch),
            pending_revocation=owned_of(value.partitions_pending_revocation, value.member_epoch),
        )

    def gone(self) -> "ConsumerMember":
        """After a tombstone of that record."""
        return ConsumerMember(member_id=self.member_id, metadata=self.metadata, epoch=LEFT, previous_epoch=LEFT)


class ConsumerGroup(ModernGroup[ConsumerMember, tuple[TopicPartition, ...]]):
    """A consumer group.

    `partition_epochs`: topic id → partition → epoch of the member that has it, or has to give it
    up; a partition that is not there is free. `regexes`: resolved regular expressions.
    `topic_subscribers`: topic → how many members name it and how many resolved expressions match
    it; `regex_subscribers`, `assignor_votes`, `classic_protocols`: members per expression, server
    assignor, and protocol that classic members offer. `partition_metadata`: the record of type 4,
    in which brokers before KIP-1101 keep what the group subscribes to, until its tombstone.

    For plug-ins: `target_tags`, by member id, and `target_epoch_tags` are tagged fields that Kafka
    does not know, of the records of the target assignment. `attached`: what a plug-in keeps that is
    in no record.
    """

    __slots__ = (
        "_alike",
        "_recounted",
        "assignor_votes",
        "attached",
        "classic_members",
        "classic_protocols",
        "partition_epochs",
        "partition_metadata",
        "regex_subscribers",
        "regexes",
        "static_members",
        "target_epoch_tags",
        "target_tags",
        "topic_subscribers",
    )

    kind: ClassVar[GroupKind] = GroupKind.CONSUMER
    member_class = ConsumerMember

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.partition_epochs: dict[Uuid, dict[int, int]] = {}
        self.regexes: TimelineMap[str, ConsumerGroupRegularExpressionValue] = TimelineMap()
        self.topic_subscribers: TimelineMap[str, tuple[int, int]] = TimelineMap()
        self.regex_subscribers: TimelineMap[str, int] = TimelineMap()
        self.assignor_votes: TimelineMap[str, int] = TimelineMap()
        self.classic_protocols: TimelineMap[str, int] = TimelineMap()
        self.static_members: dict[str, str] = {}
        self.classic_members = 0
        self.target_epoch_tags: Tags = ()
        self.target_tags: dict[str, Tags] = {}
        self.attached: dict[str, Any] = {}
        self.partition_metadata: ConsumerGroupPartitionMetadataValue | None = None
        self._alike: bool | None = None
        self._recounted: tuple[tuple[str, ...], tuple[str, ...], Recount] | None = None

    @property
    def protocol_type(self) -> str:
        """Always "consumer"."""
        return CONSUMER_PROTOCOL

    @property
    def has_partition_metadata_record(self) -> bool:
        """Whether a record of type 4 is there; since KIP-1101 it waits for its tombstone."""
        return self.partition_metadata is not None

    @property
    def subscribes_alike(self) -> bool:
        """Whether all members subscribed to the same, when a member last came, changed or went: what expressions match by now is not looked at, as in Kafka."""
        if self._alike is None:
            self._alike = subscribe_alike(self.regex_subscribers, self.topic_subscribers, len(self.members))
        return self._alike

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The epoch of the member that has a partition; -1 if it is free."""
        return self.partition_epochs.get(topic_id, {}).get(partition, -1)

    def subscribed_topics(self, metadata: ConsumerGroupMemberMetadataValue) -> Sequence[str]:
        """The topics that a member with this metadata subscribes to, by name or by what its expression matched.

        May repeat.
        """
        resolved = self.regexes.get(metadata.subscribed_topic_regex or "")
        return (
            metadata.subscribed_topic_names
            if resolved is None
            else (*metadata.subscribed_topic_names, *resolved.topics)
        )

    def recount_names(self, before: tuple[str, ...], after: tuple[str, ...]) -> Recount:
        """What becomes of `topic_subscribers` when a member names the topics `after` in the place of those `before`.

        A heartbeat needs this, and so does the replay of what it wrote; it is found out once.
        """
        known = self._recounted
        if known is None or known[0] is not before or known[1] is not after:
            known = self._recounted = before, after, recount(self.topic_subscribers, before, after, regex=False)
        return known[2]

    # What replay does

    def put_member(self, member: ConsumerMember) -> None:
        """Add or replace a member, and everything that is counted over members.

        Raises `ReplayError`, see `_take`.
        """
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._alike = None
        if old is None or old.metadata is not member.metadata:
            self._recount(None if old is None else old.metadata, member.metadata)
            if member.metadata.instance_id is not None:
                self.static_members[member.metadata.instance_id] = member.member_id
        elif member.metadata.subscribed_topic_regex:
            # Kafka counts everything down and up again; in its map, where expressions are resolved
            # in order, that makes a new entry.
            for change in (-1, 1):
                _count(self.regex_subscribers, member.metadata.subscribed_topic_regex, change)
        if old is not None:
            self._release(old.assigned, old.epoch)
            self._release(old.pending_revocation, old.epoch)
        self._take(member.assigned, member.epoch)
        self._take(member.pending_revocation, member.epoch)

    def remove_member(self, member_id: str) -> None:
        """Remove a member that is there."""
        old = self.members.pop(member_id)
        self._alike = None
        self._recount(old.metadata, None)
        self._release(old.assigned, old.epoch)
        self._release(old.pending_revocation, old.epoch)
        instance_id = old.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def put_target_metadata(self, value: Any) -> None:
        """Also keeps tagged fields of plug-ins."""
        super().put_target_metadata(value)
        self.target_epoch_tags = () if value is None else value.unknown_tags

    def put_target(self, member_id: str, value: Any) -> None:
        """Also keeps tagged fields of plug-ins."""
        super().put_target(member_id, value)
        if value is not None and value.unknown_tags:
            self.target_tags[member_id] = value.unknown_tags
        else:
            self.target_tags.pop(member_id, None)

    def put_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue) -> None:
        """Keep what an expression matched."""
        old = self.regexes.pop(regex, None)  # so that it is the newest, as in Kafka's map
        self._keep_alike()
        self.regexes[regex] = value
        self._count(recount(self.topic_subscribers, () if old is None else old.topics, value.topics, regex=True))

    def remove_regex(self, regex: str) -> None:
        """Forget what an expression matched, if it is there."""
        old = self.regexes.pop(regex, None)
        if old is not None:
            self._keep_alike()
            self._count(recount(self.topic_subscribers, old.topics, (), regex=True))

    def _keep_alike(self) -> None:
        """Find out now, before what expressions match is counted otherwise."""
        self._alike = self.subscribes_alike

    def _recount(
        self, old: ConsumerGroupMemberMetadataValue | None, new: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        before = () if old is None else old.subscribed_topic_names
        after = () if new is None else new.subscribed_topic_names
        if before is not after:
            self._count(self.recount_names(before, after))
        for metadata, change in ((old, -1), (new, 1)):
            if metadata is None:
                continue
            if metadata.subscribed_topic_regex:
                _count(self.regex_subscribers, metadata.subscribed_topic_regex, change)
            if metadata.server_assignor is not None:
                _count(self.assignor_votes, metadata.server_assignor, change)
            if metadata.classic_member_metadata is not None:
                self.classic_members += change
                for protocol in metadata.classic_member_metadata.supported_protocols:
                    _count(self.classic_protocols, protocol.name, change)

    def _count(self, found: Recount) -> None:
        self._recounted = None
        found.down.apply(self.topic_subscribers)
        self.topic_subscribers.put_all(found.more)
        self.topics_changed(found.new, found.down.gone)

    def _take(self, owned: Owned, epoch: int) -> None:
        """Raises `ReplayError` where somebody has a partition at the same or a later epoch (KAFKA-19862: an earlier one is overwritten)."""
        for topic_id, partitions in owned.items():
            epochs = self.partition_epochs.setdefault(topic_id, {})
            for partition in partitions:
                previous = epochs.get(partition)
                if previous is not None and previous >= epoch:
                    raise ReplayError(
                        f"group {self.group_id}: partition {topic_id}-{partition} is given at epoch {epoch}, but has an owner at epoch {previous}"
                    )
                epochs[partition] = epoch

    def _release(self, owned: Owned, epoch: int) -> None:
        """Where another member has the partition by now, it stays that one's."""
        for topic_id, partitions in owned.items():
            epochs = self.partition_epochs.get(topic_id)
            if epochs is None:
                continue
            for partition in partitions:
                if epochs.get(partition) == epoch:
                    del epochs[partition]
            if not epochs:
                del self.partition_epochs[topic_id]


def subscribe_alike(regexes: Mapping[str, int], topics: Mapping[str, tuple[int, int]], members: int) -> bool:
    """Whether all members subscribe to the same: to the same names, or by one expression and to no names.

    `regexes`: subscribers per expression; `topics`: as `ConsumerGroup.topic_subscribers`.
    """
    counts = set(topics.values())  # few, of many topics
    if not regexes:
        return all(by_name == members for by_name, _ in counts)
    return next(iter(regexes.values())) == members and counts <= {(0, 1)}


def owned_of(topics: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    """From a record.

    Without assignment epochs (before 4.3), or with another number of them, all partitions were got
    at the member's epoch.
    """
    owned: dict[Uuid, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = (max(member_epoch, 0),) * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def _count(counts: TimelineMap[str, int], name: str, change: int) -> None:
    count = counts.get(name, 0) + change
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)
