"""What an upgrade did to the groups of the consumer protocol, found in their records.

Before 4.1 a group keeps the partitions of its topics in a record of type 4. A newer coordinator
deletes that and keeps a hash beside the group's epoch instead (KIP-1101); an older one that takes
over again writes it anew. Nothing here is printed, and no capture is known.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from quorate.codecs.json_lines import group_of
from quorate.codecs.log.model import LogEntry
from quorate.codecs.message import Message
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
)
from quorate.codecs.records import CoordinatorRecord

__all__ = ["Story", "Takeover", "stories"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A coordinator of another release takes a group over: one batch, in which the group's epoch goes up.

    `partition_metadata` is the record of type 4 in it, a tombstone on the way up; `group` the one
    of type 3. `reassigned`: whether that batch also gave members other partitions to aim for.
    """

    partition_metadata: LogEntry
    group: LogEntry
    epoch_before: int
    reassigned: bool

    @property
    def epoch(self) -> int:
        """The group's epoch from then on."""
        return _group_value(self.group).epoch

    @property
    def metadata_hash(self) -> int:
        """The hash of the group's topics, 0 for none."""
        return _group_value(self.group).metadata_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One group: the last type 4 record before it moved up, the move, and the move back if there was one."""

    group_id: str
    before: LogEntry
    up: Takeover
    down: Takeover | None


def stories(entries: Iterable[LogEntry]) -> Iterator[Story]:
    """One for each group that was moved up, in the order of their first records."""
    groups: dict[str, list[LogEntry]] = {}
    for entry in entries:
        group_id = group_of(entry)
        if group_id is not None and isinstance(entry.record, CoordinatorRecord):
            groups.setdefault(group_id, []).append(entry)
    for group_id, records in groups.items():
        story = _story(group_id, records)
        if story is not None:
            yield story


def _story(group_id: str, records: Sequence[LogEntry]) -> Story | None:
    before: LogEntry | None = None
    up: Takeover | None = None
    for entry in records:
        if not isinstance(_record(entry).key, ConsumerGroupPartitionMetadataKey):
            continue
        written = isinstance(_record(entry).value, ConsumerGroupPartitionMetadataValue)
        if up is None and written:
            before = entry
        elif up is None and before is not None:
            up = _move(entry, records)
        elif up is not None and before is not None and written:
            return Story(group_id=group_id, before=before, up=up, down=_move(entry, records))
    return Story(group_id=group_id, before=before, up=up, down=None) if before is not None and up is not None else None


def _move(partition_metadata: LogEntry, records: Sequence[LogEntry]) -> Takeover | None:
    """The move that a type 4 record belongs to; its neighbours are what was written in the same millisecond."""
    epochs = [entry for entry in records if isinstance(_record(entry).value, ConsumerGroupMetadataValue)]
    together = [entry for entry in epochs if entry.timestamp_ms == partition_metadata.timestamp_ms]
    earlier = [entry for entry in epochs if together and entry.offset < together[0].offset]
    if not together or not earlier:
        return None
    return Takeover(
        partition_metadata=partition_metadata,
        group=together[0],
        epoch_before=_group_value(earlier[-1]).epoch,
        reassigned=any(
            isinstance(_record(entry).key, ConsumerGroupTargetAssignmentMemberKey)
            and entry.timestamp_ms == partition_metadata.timestamp_ms
            for entry in records
        ),
    )


def _record(entry: LogEntry) -> CoordinatorRecord:
    assert isinstance(entry.record, CoordinatorRecord)
    return entry.record


def _group_value(entry: LogEntry) -> ConsumerGroupMetadataValue:
    value: Message | None = _record(entry).value
    assert isinstance(value, ConsumerGroupMetadataValue)
    return value
