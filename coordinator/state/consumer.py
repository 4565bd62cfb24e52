"""Consumer groups of KIP-848 as stored in records."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from quorate.assignors.java_order import TimelineMap
from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    TopicPartition,
)
from quorate.codecs.tags import Tags
from quorate.coordinator.state.consumer_member import ConsumerMember
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL, GroupKind, ReplayError
from quorate.coordinator.state.modern import ModernGroup
from quorate.coordinator.state.partition_epochs import PartitionEpochs
from quorate.coordinator.state.target_index import TargetIndex
from quorate.coordinator.state.topic_counts import Recount, recount


class ConsumerGroup(ModernGroup[ConsumerMember, tuple[TopicPartition, ...]]):
    """A consumer group.

    `partition_epochs`: the owners of partitions. `regexes`: resolved regexes. `topic_subscribers`:
    topic → number of members that subscribe by name, and of resolved regexes that match it.
    `regex_subscribers`, `assignor_votes`, `classic_protocols`: number of members by regex,
    preferred server-side assignor, and protocol of classic members. `partition_metadata`: the topic
    metadata record (type 4) of brokers before KIP-1101, until its tombstone.

    `all_plain`: whether all members joined by the new protocol, subscribe by name, and agree on the
    server-side assignor as far as they prefer one. A heartbeat reads it instead of three counts.

    `forgets_instance_ids`: see `Behaviour`. `target_index`: of the targets of a small group, once
    one was computed.

    For plug-ins: `target_tags` (by member id) and `target_epoch_tags` are unknown tagged fields of
    the target assignment's records. `attached`: state of plug-ins that is in no record.
    """

    __slots__ = (
        "_homogeneous",
        "_recounted",
        "all_plain",
        "assignor_votes",
        "attached",
        "classic_members",
        "classic_protocols",
        "forgets_instance_ids",
        "partition_epochs",
        "partition_metadata",
        "regex_subscribers",
        "regexes",
        "static_members",
        "target_epoch_tags",
        "target_index",
        "target_tags",
        "topic_subscribers",
    )

    kind: ClassVar[GroupKind] = GroupKind.CONSUMER
    member_class = ConsumerMember

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.partition_epochs = PartitionEpochs()
        self.regexes: TimelineMap[str, ConsumerGroupRegularExpressionValue] = TimelineMap()
        self.topic_subscribers: TimelineMap[str, tuple[int, int]] = TimelineMap()
        self.regex_subscribers: TimelineMap[str, int] = TimelineMap()
        self.assignor_votes: TimelineMap[str, int] = TimelineMap()
        self.classic_protocols: TimelineMap[str, int] = TimelineMap()
        self.static_members: dict[str, str] = {}
        self.forgets_instance_ids = True
        self.classic_members = 0
        self.all_plain = True
        self.target_index: TargetIndex | None = None
        self.target_epoch_tags: Tags = ()
        self.target_tags: dict[str, Tags] = {}
        self.attached: dict[str, Any] = {}
        self.partition_metadata: ConsumerGroupPartitionMetadataValue | None = None
        self._homogeneous: bool | None = None
        self._recounted: tuple[tuple[str, ...], tuple[str, ...], Recount] | None = None

    @property
    def protocol_type(self) -> str:
        """Always "consumer"."""
        return CONSUMER_PROTOCOL

    @property
    def has_partition_metadata_record(self) -> bool:
        """Whether a record of type 4 exists, which brokers since KIP-1101 delete."""
        return self.partition_metadata is not None

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members had the same subscription when a member last changed.

        As in Kafka, later changes of the topics that a regex matches do not count.
        """
        if self._homogeneous is None:
            self._homogeneous = is_homogeneous(self.regex_subscribers, self.topic_subscribers, len(self.members))
        return self._homogeneous

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """Return the epoch of a partition's owner; -1 if it is free."""
        epoch = self.partition_epochs.get(topic_id, partition)
        return -1 if epoch is None else epoch

    def subscribed_topics(self, metadata: ConsumerGroupMemberMetadataValue) -> Sequence[str]:
        """Return the topics that a member with this metadata subscribes to, by name or regex.

        May have repeats.
        """
        resolved = self.regexes.get(metadata.subscribed_topic_regex or "")
        return (
            metadata.subscribed_topic_names
            if resolved is None
            else (*metadata.subscribed_topic_names, *resolved.topics)
        )

    def recount_names(self, before: tuple[str, ...], after: tuple[str, ...]) -> Recount:
        """Return the changes of `topic_subscribers` when a member's topics change.

        The last result is cached, as a heartbeat and the replay of its records both need it.
        """
        known = self._recounted
        if known is None or known[0] is not before or known[1] != after:
            known = self._recounted = before, after, recount(self.topic_subscribers, before, after, regex=False)
        return known[2]

    # Replay

    def shared_metadata(
        self, old: ConsumerGroupMemberMetadataValue, new: ConsumerGroupMemberMetadataValue
    ) -> ConsumerGroupMemberMetadataValue:
        """Return a member's new metadata: those of the newest member, or its topics, if equal.

        Most members of a group have the same, which would take most of its memory. An object that
        is not `old` remains one: `put_member` counts it.
        """
        newest = next(reversed(self.members.values()), None)
        if newest is None or newest.metadata is old:
            return new
        shared = newest.metadata
        if shared == new:
            return shared
        names = shared.subscribed_topic_names
        return replace(new, subscribed_topic_names=names) if names == new.subscribed_topic_names else new

    def put_member(self, member: ConsumerMember) -> None:
        """Add or replace a member, and update all counts over members.

        Raises `ReplayError` if another member owns one of its partitions.
        """
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._homogeneous = None
        if old is None and self.target_index is not None:
            self.target_index.order.added(member.member_id)
        if old is None or old.metadata is not member.metadata:
            self._recount(None if old is None else old.metadata, member.metadata)
            if self.forgets_instance_ids and old is not None and old.metadata.instance_id is not None:
                self.static_members.pop(old.metadata.instance_id, None)
            if member.metadata.instance_id is not None:
                self.static_members[member.metadata.instance_id] = member.member_id
        elif member.metadata.subscribed_topic_regex:
            # Kafka counts everything down and up again, which makes a new entry in its map. Regexes
            # are resolved in that order.
            for change in (-1, 1):
                _count(self.regex_subscribers, member.metadata.subscribed_topic_regex, change)
        if old is not None:
            self.partition_epochs.release(old.assigned_partitions, old.epoch)
            self.partition_epochs.release(old.partitions_pending_revocation, old.epoch)
        try:
            self.partition_epochs.take(member.assigned_partitions, member.epoch)
            self.partition_epochs.take(member.partitions_pending_revocation, member.epoch)
        except ReplayError as error:
            raise ReplayError(f"group {self.group_id}: {error}") from None

    def remove_member(self, member_id: str) -> None:
        """Remove an existing member."""
        old = self.members.pop(member_id)
        if self.target_index is not None:
            self.target_index.order.sort_again()
        self._homogeneous = None
        self._recount(old.metadata, None)
        self.partition_epochs.release(old.assigned_partitions, old.epoch)
        self.partition_epochs.release(old.partitions_pending_revocation, old.epoch)
        instance_id = old.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def put_target_metadata(self, value: Any) -> None:
        """Set the target epoch; also keeps tagged fields of plug-ins."""
        super().put_target_metadata(value)
        self.target_epoch_tags = () if value is None else value.unknown_tags

    def put_target(self, member_id: str, value: Any) -> None:
        """Set a member's target; also keeps tagged fields of plug-ins."""
        if self.target_index is not None:
            new = () if value is None else value.topic_partitions
            self.target_index.replace(member_id, self.targets.get(member_id, ()), new)
        super().put_target(member_id, value)
        if value is not None and value.unknown_tags:
            self.target_tags[member_id] = value.unknown_tags
        else:
            self.target_tags.pop(member_id, None)

    def put_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue) -> None:
        """Set the topics that a regex matches."""
        old = self.regexes.pop(regex, None)  # so that it becomes the newest, as in Kafka's map
        self._fix_homogeneous()
        self.regexes[regex] = value
        self._count(recount(self.topic_subscribers, () if old is None else old.topics, value.topics, regex=True))

    def remove_regex(self, regex: str) -> None:
        """Remove a resolved regex, if it exists."""
        old = self.regexes.pop(regex, None)
        if old is not None:
            self._fix_homogeneous()
            self._count(recount(self.topic_subscribers, old.topics, (), regex=True))

    def _fix_homogeneous(self) -> None:
        """Compute it before the topics of regexes change."""
        self._homogeneous = self.is_homogeneous

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
        self.all_plain = not self.regex_subscribers and not self.classic_members and len(self.assignor_votes) < 2

    def _count(self, found: Recount) -> None:
        self._recounted = None
        found.down.apply(self.topic_subscribers)
        self.topic_subscribers.put_all(found.more)
        self.topics_changed(found.new, found.down.gone)


def is_homogeneous(regexes: Mapping[str, int], topics: Mapping[str, tuple[int, int]], members: int) -> bool:
    """Return whether all members subscribe to the same names, or by one regex and no names.

    `regexes`: number of subscribers by regex; `topics`: as `ConsumerGroup.topic_subscribers`.
    """
    counts = set(topics.values())  # few distinct counts
    if not regexes:
        return all(by_name == members for by_name, _ in counts)
    return next(iter(regexes.values())) == members and counts <= {(0, 1)}


def _count(counts: TimelineMap[str, int], name: str, change: int) -> None:
    count = counts.get(name, 0) + change
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)
