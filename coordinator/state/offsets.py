"""Committed offsets, and those of open transactions (KIP-447)."""

from collections.abc import Iterator
from typing import TypeVar

from quorate.assignors.java_order import TimelineMap
from quorate.codecs import Uuid
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message_methods import positional
from quorate.codecs.messages.offsets import LegacyOffsetCommitValue, OffsetCommitValue

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset as in its record, and the record's own log offset (-1 if unknown)."""

    value: OffsetCommitValue | LegacyOffsetCommitValue
    record_offset: int

    @property
    def leader_epoch(self) -> int:
        """The leader epoch, -1 if the record has none."""
        return self.value.leader_epoch if isinstance(self.value, OffsetCommitValue) else -1

    @property
    def topic_id(self) -> Uuid:
        """The topic id, zero if the record has none."""
        return self.value.topic_id if isinstance(self.value, OffsetCommitValue) else Uuid.ZERO

    @property
    def expire_timestamp_ms(self) -> int:
        """When it expires, in ms; -1 if the broker's retention applies."""
        return self.value.expire_timestamp if isinstance(self.value, OffsetCommitValue) else -1


committed_offset = positional(CommittedOffset, "value", "record_offset")
"""Creates a committed offset: a replay needs one for each commit."""

Partitions = TimelineMap[int, CommittedOffset]
Topics = TimelineMap[str, Partitions]

_NOTHING: TimelineMap[str, Topics] = TimelineMap()


class Offsets:
    """Group → topic → partition → offset.

    `committed`: committed offsets. `pending`: the same by producer id, of open transactions.
    `open`: producer ids of each partition.

    A transaction's offset is committed by its marker, unless a later record has committed the
    partition. Deleting a partition's offset deletes it in open transactions, too. A producer whose
    offsets were all deleted keeps an empty entry in `pending` until its marker.
    """

    __slots__ = ("committed", "open", "pending")

    def __init__(self) -> None:
        self.committed: TimelineMap[str, Topics] = TimelineMap()
        self.pending: TimelineMap[int, TimelineMap[str, Topics]] = TimelineMap(_long_hash)
        self.open: TimelineMap[str, TimelineMap[str, TimelineMap[int, set[int]]]] = TimelineMap()

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset; `None` if there is none."""
        found = self.committed.get(group)
        partitions = None if found is None else found.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yield topic, partition and offset of all commits of a group."""
        for topic, partitions in self.committed.get(group, {}).items():
            for partition, offset in partitions.items():
                yield topic, partition, offset

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has an offset for the partition."""
        topics = self.open.get(group)
        return topics is not None and topic in topics and partition in topics[topic]

    def has_pending(self, group: str) -> bool:
        """Return whether an open transaction has an offset of the group."""
        return group in self.open

    # Replay

    def partitions(self, group: str, topic: str) -> Partitions:
        """Return the map of a topic's partitions; a new one must get an entry."""
        return _at(self.committed, group, topic)

    def put(self, group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """Set a committed offset."""
        self.partitions(group, topic)[partition] = offset

    def put_pending(self, producer_id: int, group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """Set an offset that the producer's transaction will commit."""
        groups = self.pending.get(producer_id)
        if groups is None:
            groups = self.pending[producer_id] = TimelineMap()
        _put(groups, group, topic, partition, offset)
        producers = _at(self.open, group, topic)
        if partition in producers:
            producers[partition].add(producer_id)
        else:
            producers[partition] = {producer_id}

    def remove(self, group: str, topic: str, partition: int) -> None:
        """Delete a partition's offset, also in open transactions."""
        _remove(self.committed, group, topic, partition)
        if not self.is_pending(group, topic, partition):
            return
        for producer_id in self.open[group][topic][partition]:
            _remove(self.pending[producer_id], group, topic, partition)
        _remove(self.open, group, topic, partition)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Commit or abort a producer's pending offsets."""
        for group, topics in self.pending.pop(producer_id, _NOTHING).ordered():
            for topic, partitions in topics.ordered():
                for partition, offset in partitions.ordered():
                    producers = self.open[group][topic][partition]
                    producers.discard(producer_id)
                    if not producers:
                        _remove(self.open, group, topic, partition)
                    stored = self.get(group, topic, partition)
                    if commit and (stored is None or offset.record_offset > stored.record_offset):
                        self.put(group, topic, partition, offset)


def _long_hash(number: int) -> int:
    """Return Java's hash of a `Long`."""
    return ((number >> 32) ^ number) & 0xFFFFFFFF


def _at(groups: TimelineMap[str, TimelineMap[str, TimelineMap[int, V]]], group: str, topic: str) -> TimelineMap[int, V]:
    """Return the map of a topic's partitions, creating it if missing."""
    topics = groups.get(group)
    if topics is None:
        topics = groups[group] = TimelineMap()
    partitions = topics.get(topic)
    if partitions is None:
        partitions = topics[topic] = TimelineMap()
    return partitions


def _put(groups: TimelineMap[str, Topics], group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
    _at(groups, group, topic)[partition] = offset


def _remove(
    groups: TimelineMap[str, TimelineMap[str, TimelineMap[int, V]]], group: str, topic: str, partition: int
) -> None:
    topics = groups.get(group)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None or partition not in partitions:
        return
    del partitions[partition]
    if not partitions:
        del topics[topic]
        if not topics:
            del groups[group]
