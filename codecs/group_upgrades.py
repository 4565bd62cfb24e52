"""Effects of a broker upgrade on consumer groups, found in their records.

Before 4.1 a group stores the partition counts of its topics in a record of type 4. A newer
coordinator deletes it and stores a hash with the group epoch (KIP-1101). An older coordinator that
takes over again writes the record again. Nothing is printed here.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The batch with which a coordinator of another release takes over a group.

    It increments the group epoch.

    `partition_metadata` is the record of type 4 in the batch, a tombstone for an upgrade; `group`
    the one of type 3. `reassigned`: whether the batch also changed target assignments.
    """

    partition_metadata: LogEntry
    group: LogEntry
    epoch_before: int
    reassigned: bool

    @property
    def epoch(self) -> int:
        """The group epoch after the takeover."""
        return _group_value(self.group).epoch

    @property
    def metadata_hash(self) -> int:
        """The hash of the group's topics, 0 without one."""
        return _group_value(self.group).metadata_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUpgrade:
    """A group's last type 4 record before its upgrade, the upgrade, and the downgrade if any."""

    group_id: str
    before: LogEntry
    up: Takeover
    down: Takeover | None


def group_upgrades(entries: Iterable[LogEntry]) -> Iterator[GroupUpgrade]:
    """Yield one for each upgraded group, in the order of their first records."""
    groups: dict[str, list[LogEntry]] = {}
    for entry in entries:
        group_id = group_of(entry)
        if group_id is not None and isinstance(entry.record, CoordinatorRecord):
            groups.setdefault(group_id, []).append(entry)
    for group_id, records in groups.items():
        upgrade = _upgrade_of(group_id, records)
        if upgrade is not None:
            yield upgrade


def _upgrade_of(group_id: str, records: Sequence[LogEntry]) -> GroupUpgrade | None:
    before: LogEntry | None = None
    up: Takeover | None = None
    for entry in records:
        if not isinstance(_record(entry).key, ConsumerGroupPartitionMetadataKey):
            continue
        written = isinstance(_record(entry).value, ConsumerGroupPartitionMetadataValue)
        if up is None and written:
            before = entry
        elif up is None and before is not None:
            up = _takeover(entry, records)
        elif up is not None and before is not None and written:
            return GroupUpgrade(group_id=group_id, before=before, up=up, down=_takeover(entry, records))
    if before is None or up is None:
        return None
    return GroupUpgrade(group_id=group_id, before=before, up=up, down=None)


def _takeover(partition_metadata: LogEntry, records: Sequence[LogEntry]) -> Takeover | None:
    """Return the takeover with a type 4 record; its records have the same millisecond."""
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
