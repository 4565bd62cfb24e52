"""Whole batches from kafka-python's consumer, which are decoded by columns.

kafka-python decodes records one by one, in 90 % of the time of a reader. It continues to check
batches, and to leave out control batches and those of aborted transactions; only the records inside
are left to `block_of_polled`. An observer then reads 85,000 commits per second and core from a
running broker, and 44,600 without (`bench/watch.py`). A version of kafka-python without these
classes returns records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from quorate.codecs.log.blocks import headers_of
from quorate.codecs.log.raw import RawBlock, block_of_batches

if TYPE_CHECKING:
    from kafka import KafkaConsumer


class WholeBatch(bytes):
    """The bytes of a batch, as the key of a record that stands for it."""


class _Batch:
    """A batch of kafka-python with one record, which is the batch itself at its last offset."""

    def __init__(self, batch: Any, data: bytes) -> None:
        self._batch = batch
        self._data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        batch = self._batch
        if batch.records_count > 0:
            yield SimpleNamespace(
                offset=batch.last_offset,
                timestamp=batch.max_timestamp,
                timestamp_type=batch.timestamp_type,
                key=WholeBatch(self._data),
                value=None,
                headers=[],
                checksum=None,
                size_in_bytes=len(self._data),
                validate_crc=lambda: True,  # that of the batch was checked
            )


class _Batches:
    """kafka-python's `MemoryRecords`, whose batches of the current format are `_Batch`."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        data = getattr(batch, "_buffer", None)
        if batch is None or batch.magic != 2 or data is None or batch.is_control_batch:
            return batch
        return _Batch(batch, bytes(data))


def return_batches(consumer: "KafkaConsumer") -> None:
    """Let a consumer return whole batches, if this version of kafka-python can."""
    fetcher = getattr(consumer, "_fetcher", None)
    kind = getattr(fetcher, "PartitionRecords", None)
    if not isinstance(kind, type) or not hasattr(kind, "_unpack_records"):
        return

    class PartitionRecords(kind):  # type: ignore[misc, valid-type]
        def __init__(self, fetch_offset: int, at: Any, records: Any, **options: Any) -> None:
            super().__init__(fetch_offset, at, _Batches(records), **options)

    fetcher.PartitionRecords = PartitionRecords  # type: ignore[union-attr]


def block_of_polled(records: Sequence[Any], topic: str, number: int) -> RawBlock:
    """Return the records of a poll as a block: those of committed transactions are plain ones."""
    batches = [record.key for record in records if isinstance(record.key, WholeBatch)]
    if len(batches) == len(records) and batches:
        starts = np.array([0, *accumulate(map(len, batches))], np.int64)
        found = block_of_batches(headers_of(b"".join(batches), starts[:-1], int(starts[-1])))
        return replace(found, topic=topic, partition=number, producer_id=np.full(len(found), -1, np.int64))
    parts = [one for record in records for one in _single(record)]
    block = RawBlock.of(
        pa.array([key for key, _, _, _ in parts], pa.binary()),
        pa.array([value for _, value, _, _ in parts], pa.binary()),
        offset=[offset for _, _, offset, _ in parts],
        timestamp_ms=[ms for _, _, _, ms in parts],
    )
    return replace(block, topic=topic, partition=number)


def _single(record: Any) -> Iterator[tuple[bytes | None, bytes | None, int, int]]:
    """Yield the records of a batch, or a record of an old format between batches."""
    if not isinstance(record.key, WholeBatch):
        yield record.key, record.value, record.offset, record.timestamp
        return
    block = block_of_polled([record], "", 0)
    for row in range(len(block)):
        ms = int(block.timestamp_ms[row])
        yield block.keys.bytes_at(row), block.values.bytes_at(row), int(block.offset[row]), ms


def leader_epochs(records: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the first offset of each leader epoch, if the client shows it."""
    found: list[tuple[int, int]] = []
    for record in records:
        epoch = record.leader_epoch
        if epoch is not None and epoch >= 0 and (not found or found[-1][1] != epoch):
            first = int.from_bytes(record.key[:8], "big") if isinstance(record.key, WholeBatch) else record.offset
            found.append((first, epoch))
    return found
