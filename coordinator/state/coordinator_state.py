"""`CoordinatorState`: the state of one partition of `__consumer_offsets`, changed by replay only.

The rules are those of Kafka's loader (GroupMetadataManager and OffsetMetadataManager): which
records create a group, what a tombstone removes, and which records contradict earlier ones.
Compaction may have removed any record that was overwritten, so no record is required.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from quorate.assignors.java_order import TimelineMap
from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord, as_kafka_reads
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.message import CONSUMER_OFFSETS, Message
from quorate.codecs.messages import classic_group as classic
from quorate.codecs.messages import consumer_group as consumer
from quorate.codecs.messages import share_group as share
from quorate.codecs.messages import streams_group as streams
from quorate.codecs.messages.offsets import LegacyOffsetCommitKey, OffsetCommitKey
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.groups import CoordinatorGroup, ReplayError
from quorate.coordinator.state.modern import LEFT, ModernGroup
from quorate.coordinator.state.offsets import Offsets, committed_offset
from quorate.coordinator.state.share import ShareGroup
from quorate.coordinator.state.streams import StreamsGroup, WrittenStreams
from quorate.coordinator.state.topic_index import TopicIndex

G = TypeVar("G", bound=CoordinatorGroup)

_SHARED_KEYS: Mapping[type[ModernGroup[Any, Any]], Sequence[type[Message]]] = {
    ConsumerGroup: (
        consumer.ConsumerGroupMetadataKey,
        consumer.ConsumerGroupMemberMetadataKey,
        consumer.ConsumerGroupCurrentMemberAssignmentKey,
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        consumer.ConsumerGroupTargetAssignmentMemberKey,
    ),
    ShareGroup: (
        share.ShareGroupMetadataKey,
        share.ShareGroupMemberMetadataKey,
        share.ShareGroupCurrentMemberAssignmentKey,
        share.ShareGroupTargetAssignmentMetadataKey,
        share.ShareGroupTargetAssignmentMemberKey,
    ),
    StreamsGroup: (
        streams.StreamsGroupMetadataKey,
        streams.StreamsGroupMemberMetadataKey,
        streams.StreamsGroupCurrentMemberAssignmentKey,
        streams.StreamsGroupTargetAssignmentMetadataKey,
        streams.StreamsGroupTargetAssignmentMemberKey,
    ),
}
"""The five record types that all new group types have.

Group epoch, member metadata, current assignment, target epoch, and a member's target assignment.
"""

_OF_STREAMS_MEMBERS = (streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupCurrentMemberAssignmentKey)


class CoordinatorState:
    """Groups and offsets of one partition.

    `skipped`: reason → number of skipped records. `topics`: the consumer and share groups that
    subscribe to a topic. `share_states`: share state by group (record type 15). `share_group_ids`:
    all share groups with a record or tombstone. `written_streams`: what is in no record of
    streams groups, as of the last write, where it changed since. `unwritten` and `removed`: groups
    created or removed without a record since the last write. Reads see the state as of that write,
    see `readable`. `behaviour`: of the release whose loader to follow, by default the newest.
    """

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour.NEWEST
        self.groups: TimelineMap[str, CoordinatorGroup] = TimelineMap()
        self.offsets = Offsets()
        self.topics = TopicIndex()
        self.share_states: TimelineMap[str, share.ShareGroupStatePartitionMetadataValue] = TimelineMap()
        self.share_group_ids: set[str] = set()
        self.unwritten: set[str] = set()
        self.written_streams: dict[str, WrittenStreams] = {}
        self.removed: dict[str, CoordinatorGroup] = {}
        self.skipped: Counter[str] = Counter()
        self._replay: dict[type, Callable[..., None]] = {
            classic.GroupMetadataKey: self._classic,
            consumer.ConsumerGroupPartitionMetadataKey: self._consumer_partition_metadata,
            consumer.ConsumerGroupRegularExpressionKey: self._consumer_regex,
            share.ShareGroupStatePartitionMetadataKey: self._share_state_partitions,
            streams.StreamsGroupTopologyKey: self._streams_topology,
        }
        shared = (self._metadata, self._member, self._current, self._target_metadata, self._target)
        for cls, keys in _SHARED_KEYS.items():
            self._replay |= {key: partial(take, cls) for key, take in zip(keys, shared, strict=True)}
        if not self.behaviour.streams_groups:
            self._replay.update({kind: self._unknown for kind in self._replay if kind.__module__ == streams.__name__})
        for kind in [kind for kind in self._replay if kind.__module__ == share.__name__]:
            take = self._replay[kind] if self.behaviour.share_groups else self._unreadable
            self._replay[kind] = partial(self._share_record, take)

    def replay(
        self,
        record: CoordinatorRecord | UnknownRecord | MalformedRecord | ControlRecord,
        *,
        offset: int = -1,
        producer_id: int | None = -1,
        strict: bool = False,
    ) -> None:
        """Apply one record.

        `offset`: its log offset. `producer_id`: of its batch, if transactional.

        A record that cannot be decoded, or contradicts the state, is counted in `skipped` and
        changes nothing. With `strict` it raises `ReplayError`, except for unknown record types,
        which Kafka's loader skips, too.
        """
        try:
            if isinstance(record, CoordinatorRecord):
                if record.topic != CONSUMER_OFFSETS:
                    raise ReplayError(f"{record.name} belongs to topic {record.topic}")
                key: Any = record.key
                kind = type(key)
                if kind is not OffsetCommitKey and kind is not LegacyOffsetCommitKey:
                    self._replay[kind](key, record.value)
                elif (value := record.value) is None:
                    self.offsets.remove(key.group, key.topic, key.partition)
                else:  # most records of a log: without further calls, if other partitions are known
                    group, offsets = key.group, self.offsets
                    if group not in self.groups:
                        self.need_group(group)
                    stored = committed_offset(value, offset)
                    if producer_id is not None and producer_id >= 0:
                        offsets.put_pending(producer_id, group, key.topic, key.partition, stored)
                        return
                    try:
                        partitions = offsets.committed[group][key.topic]
                    except KeyError:
                        partitions = offsets.partitions(group, key.topic)
                    partitions[key.partition] = stored
            elif isinstance(record, ControlRecord):
                self._control(record, producer_id)
            elif isinstance(record, UnknownRecord) and record.key is None:
                self.skipped[str(record.problem)] += 1
            elif (readable := as_kafka_reads(record)) is not None:
                self.replay(readable, offset=offset, producer_id=producer_id, strict=strict)
            else:
                raise ReplayError(str(record.problem))
        except ReplayError as error:
            if strict:
                raise
            self.skipped[str(error)] += 1

    def _unknown(self, key: Any, value: Any) -> None:
        """Skip a record, as older loaders skip unknown types."""
        self.skipped[f"{type(key).__name__} is unknown to this release of Kafka"] += 1

    def _unreadable(self, key: Any, value: Any) -> None:
        raise ReplayError(f"this release of Kafka cannot read {type(key).__name__} of Kafka 4.1 or later")

    def need_group(self, group_id: str) -> None:
        """Create a classic group without members for offsets, unless the group exists."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def need_unwritten_group(self, group_id: str) -> None:
        """Create a hidden, empty group for a commit that was rejected in full.

        It is described and listed only after the next write.
        """
        if group_id not in self.groups:
            self.need_group(group_id)
            if self.behaviour.new_coordinator:
                self.unwritten.add(group_id)

    def remove_unwritten(self, group_id: str) -> CoordinatorGroup:
        """Remove a group without a record, and return it. Reads see it until the next write."""
        group = self.groups.pop(group_id)
        self.removed[group_id] = group
        return group

    def restore(self, group: CoordinatorGroup) -> None:
        """Undo `remove_unwritten`."""
        self.removed.pop(group.group_id, None)
        self.groups[group.group_id] = group

    def readable(self, group_id: str) -> CoordinatorGroup | None:
        """Return the group as reads see it: as of the last write."""
        if group_id in self.unwritten:
            return self.removed.get(group_id)
        return self.groups.get(group_id) or self.removed.get(group_id)

    def all_readable(self) -> Iterator[CoordinatorGroup]:
        """Yield all groups as reads see them, in the order of Kafka's map."""
        for group_id, group in self.groups.ordered_with(self.removed):
            if group_id not in self.unwritten or group is self.removed.get(group_id):
                yield group

    def written(self) -> None:
        """Take note of a write: reads see the current groups."""
        if self.unwritten or self.removed or self.written_streams:
            self.unwritten.clear()
            self.removed.clear()
            self.written_streams.clear()

    def remember_streams(self, group: StreamsGroup) -> None:
        """Take note that what is in no record is about to change in a streams group."""
        self.written_streams.setdefault(group.group_id, WrittenStreams(group.configured, group.refined))

    def not_written(self, records: Iterable[CoordinatorRecord]) -> None:
        """Revert what changed in streams groups since the last write, and is in no record.

        Kafka has replayed the records, and reverts that. What it does not revert is done here, too:
        members without cached endpoint information or, if they were removed, without task offsets.
        """
        for group_id, written in self.written_streams.items():
            group = self.groups.get(group_id)
            if isinstance(group, StreamsGroup):
                group.configured, group.refined = written
        self.written_streams.clear()
        for record in records:
            if isinstance(record.key, _OF_STREAMS_MEMBERS):
                group = self.groups.get(record.key.group_id)
                if isinstance(group, StreamsGroup):
                    is_member = isinstance(record.key, streams.StreamsGroupMemberMetadataKey)
                    group.not_written(record.key.member_id, removed=is_member and record.value is None)

    def _control(self, record: ControlRecord, producer_id: int | None) -> None:
        if record.commits is not None and producer_id is not None:
            self.offsets.end_transaction(producer_id, commit=record.commits)

    # Group lookup

    def _group(self, cls: type[G], group_id: str) -> G | None:
        """Return the group, or `None`. Raises `ReplayError` if it has another type."""
        found = self.groups.get(group_id)
        if found is None or isinstance(found, cls):
            return found
        if isinstance(found, ClassicGroup) and found.is_simple:
            return None
        raise ReplayError(f"group {group_id} is a {found.kind.lower()} group, not a {cls.kind.lower()} group")

    def _get_or_create(self, cls: type[G], group_id: str) -> G:
        """Return the group, creating it if it is missing or only has offsets."""
        found = self._group(cls, group_id)
        if found is None:
            found = cls(group_id)
            if isinstance(found, ModernGroup):
                found.index = self.topics
                found.epoch = found.assignment_epoch = self.behaviour.first_epoch
            if isinstance(found, ConsumerGroup):
                found.forgets_instance_ids = self.behaviour.forgets_instance_ids
            self.groups[group_id] = found
        return found

    # Classic groups

    def _classic(self, key: Any, value: Any) -> None:
        if value is None:
            self.groups.pop(key.group, None)
        else:
            self.groups[key.group] = ClassicGroup(key.group, value)

    # All new group types

    def _metadata(self, cls: type[ModernGroup[Any, Any]], key: Any, value: Any) -> None:
        if value is None:
            self._delete(cls, key.group_id)
        else:
            self._get_or_create(cls, key.group_id).put_metadata(value)

    def _member(self, cls: type[ModernGroup[Any, Any]], key: Any, value: Any) -> None:
        if value is not None:
            group = self._get_or_create(cls, key.group_id)
            member = group.need_member(key.member_id)
            group.put_member(replace(member, metadata=group.shared_metadata(member.metadata, value)))
        elif (found := self._removable(cls, key)) is not None:
            found.remove_member(key.member_id)

    def _current(self, cls: type[ModernGroup[Any, Any]], key: Any, value: Any) -> None:
        if value is not None:
            group = self._get_or_create(cls, key.group_id)
            group.put_member(group.need_member(key.member_id).with_assignment(value))
            return
        found = self._group(cls, key.group_id)
        left = None if found is None else found.members.get(key.member_id)
        if found is not None and left is not None:
            found.put_member(left.without_assignment())

    def _target_metadata(self, cls: type[ModernGroup[Any, Any]], key: Any, value: Any) -> None:
        if value is not None:
            self._get_or_create(cls, key.group_id).put_target_metadata(value)
        elif (group := self._group(cls, key.group_id)) is not None:
            if group.targets:
                raise ReplayError(
                    f"group {key.group_id}: tombstone of the target assignment while members have targets"
                )
            group.put_target_metadata(None)

    def _target(self, cls: type[ModernGroup[Any, Any]], key: Any, value: Any) -> None:
        group = self._group(cls, key.group_id) if value is None else self._get_or_create(cls, key.group_id)
        if group is not None:
            group.put_target(key.member_id, value)

    def _delete(self, cls: type[ModernGroup[Any, Any]], group_id: str) -> None:
        group = self._group(cls, group_id)
        if group is None:
            return
        for left, what in (
            (group.members, "members"),
            (group.targets and cls is not StreamsGroup, "target assignments"),
            (group.assignment_epoch != LEFT, "a target assignment epoch"),
        ):
            if left:
                raise ReplayError(f"group {group_id}: tombstone while it has {what}")
        # As in Kafka, the index keeps the topics of a streams group, whose topology's tombstone
        # comes too late: cached hashes of its topics stay.
        del self.groups[group_id]

    def _removable(self, cls: type[G], key: Any) -> G | None:
        """Return the group of a member to remove; `None` if the member does not exist.

        Raises `ReplayError` if it has not left.
        """
        group: Any = self._group(cls, key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if member is None:
            return None
        if member.epoch != LEFT:
            raise ReplayError(f"group {key.group_id}: tombstone of member {key.member_id} at epoch {member.epoch}")
        if key.member_id in group.targets:
            raise ReplayError(
                f"group {key.group_id}: tombstone of member {key.member_id} while it has a target assignment"
            )
        found: G = group
        return found

    # One group type only

    def _consumer_partition_metadata(self, key: Any, value: Any) -> None:
        if value is not None:
            self._get_or_create(ConsumerGroup, key.group_id).partition_metadata = value
        elif (group := self._group(ConsumerGroup, key.group_id)) is not None:
            group.partition_metadata = None

    def _consumer_regex(self, key: Any, value: Any) -> None:
        if value is not None:
            self._get_or_create(ConsumerGroup, key.group_id).put_regex(key.regular_expression, value)
        elif (group := self._group(ConsumerGroup, key.group_id)) is not None:
            group.remove_regex(key.regular_expression)

    def _share_record(self, take: Callable[..., None], key: Any, value: Any) -> None:
        self.share_group_ids.add(key.group_id)
        take(key, value)

    def _share_state_partitions(self, key: Any, value: Any) -> None:
        if value is not None:
            self._get_or_create(ShareGroup, key.group_id)
            self.share_states[key.group_id] = value
        else:
            self._group(ShareGroup, key.group_id)
            self.share_states.pop(key.group_id, None)

    def _streams_topology(self, key: Any, value: Any) -> None:
        if value is not None:
            self._get_or_create(StreamsGroup, key.group_id).put_topology(value)
        elif (group := self._group(StreamsGroup, key.group_id)) is not None:
            group.put_topology(None)
