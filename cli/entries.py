"""What the commands pass along: entries of logs, and records given as lines of hex, which have no place in a log."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from quorate.codecs.log.model import LogEntry, LogProblem
from quorate.codecs.records import Record

__all__ = ["Entry", "HexEntry", "RecordEntry", "group_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HexEntry:
    """A record that stood on a line of its own. What a log would say about it is `None`."""

    topic: str
    line: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    record: Record

    partition: ClassVar[None] = None
    offset: ClassVar[None] = None
    timestamp_ms: ClassVar[None] = None
    producer_id: ClassVar[None] = None
    producer_epoch: ClassVar[None] = None
    transactional: ClassVar[None] = None


RecordEntry: TypeAlias = LogEntry | HexEntry
Entry: TypeAlias = LogEntry | HexEntry | LogProblem


def group_of(entry: RecordEntry) -> str | None:
    """The group that a record is about; `None` if its key has none or could not be read."""
    key = getattr(entry.record, "key", None)
    group: str | None = getattr(key, "group_id", None)  # `group` in the two oldest types
    return group if group is not None else getattr(key, "group", None)
