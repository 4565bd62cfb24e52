"""Batches and segment files for tests."""

from collections.abc import Iterable
from typing import Any

from quorate.codecs import (
    CoordinatorRecord,
    encode_record,
)
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.log.model import LogEntry, LogProblem
from quorate.codecs.messages import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue


def group_epoch(epoch: int, group: str = "g") -> tuple[bytes, bytes]:
    key, value = ConsumerGroupMetadataKey(group_id=group), ConsumerGroupMetadataValue(epoch=epoch)
    return encode_record(CoordinatorRecord(key=key, value=value, version=0))


def record(offset: int, timestamp_ms: int | None = None) -> BatchRecord:
    """Return a record of a group epoch equal to the offset, by default at 1000 ms per offset."""
    key, value = group_epoch(offset)
    timestamp_ms = 1000 * offset if timestamp_ms is None else timestamp_ms
    return BatchRecord(offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)


def batch(*offsets: int, **fields: Any) -> bytes:
    return encode_batch([record(offset) for offset in offsets], **fields)


def transactional(producer_id: int, *offsets: int, **fields: Any) -> bytes:
    return batch(*offsets, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True, **fields)


def marker(producer_id: int, offset: int, *, commit: bool) -> bytes:
    return encode_marker(commit=commit, offset=offset, timestamp_ms=0, producer_id=producer_id, producer_epoch=0)


def offsets(entries: Iterable[LogEntry | LogProblem]) -> list[int]:
    found = list(entries)
    assert [entry for entry in found if isinstance(entry, LogProblem)] == []
    return [entry.offset for entry in found]


def damaged(*batches: bytes, index: int = 1) -> bytes:
    spoiled = bytearray(batches[index])
    spoiled[-1] ^= 0xFF
    return b"".join([*batches[:index], bytes(spoiled), *batches[index + 1 :]])
