"""The batches of fetches with kafka-python's consumer, which are decoded by columns.

Most of a reader's time is kafka-python's, which checks and decodes batches and records one by one.
Here it only fetches them, and decodes those which are damaged, of an old format, or among aborted
transactions. `bench/watch.py` has the figures. A version of kafka-python without these classes
returns records.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from quorate.codecs.batches.v2 import CONTROL
from quorate.codecs.log.batch_starts import batch_starts
from quorate.codecs.log.blocks import Batches, crc_mismatches, headers_of
from quorate.codecs.log.raw import RawBlock, block_of_batches, concatenated

if TYPE_CHECKING:
    from kafka import KafkaConsumer

_EPOCH_AT = 12
"""Where the leader epoch of a batch is, an int32."""


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """Intact batches with records, as the key of a record that stands for them.

    Records before `first_offset` were not requested.
    """

    batches: Batches
    first_offset: int

    def __len__(self) -> int:
        return int((self.batches.end - self.batches.start).sum())

    def block(self) -> RawBlock:
        """Return the records: those of committed transactions are plain ones."""
        found = block_of_batches(self.batches).since(self.first_offset)
        return replace(found, producer_id=np.full(len(found), -1, np.int64))

    def leader_epochs(self) -> Iterator[tuple[int, int]]:
        """Yield the first offset and the leader epoch of each batch."""
        data = np.frombuffer(self.batches.block, np.uint8)
        epochs = data[self.batches.start[:, None] + np.arange(_EPOCH_AT, _EPOCH_AT + 4)].view(">i4").ravel()
        return zip(self.batches.base_offset.tolist(), epochs.tolist(), strict=True)


class _Run:
    """Consecutive intact batches, as one batch of kafka-python's that has one record at most."""

    magic = 2
    is_control_batch = False

    def __init__(self, batches: Batches, fetch_offset: int) -> None:
        self.base_offset = int(batches.base_offset[0])
        self.next_offset = int(batches.last_offsets()[-1]) + 1
        self.leader_epoch = -1
        self._batches = batches.select((batches.count > 0) & (batches.attributes & CONTROL == 0))
        self._fetch_offset = fetch_offset

    def validate_crc(self) -> bool:
        return True  # the batches are intact

    def has_producer_id(self) -> bool:
        return False  # there are none of aborted transactions

    def __iter__(self) -> Iterator[Any]:
        if len(self._batches):
            key = WholeBatches(self._batches, self._fetch_offset)
            yield SimpleNamespace(
                offset=int(self._batches.last_offsets()[-1]),
                timestamp=int(self._batches.max_timestamp[-1]),
                timestamp_type=0,
                key=key,
                value=None,
                headers=[],
                checksum=None,
                size_in_bytes=len(key),
                validate_crc=self.validate_crc,
            )


class _Fetched:
    """kafka-python's `MemoryRecords`, with runs of intact batches.

    With `aborted`, there are batches of aborted transactions.
    """

    def __init__(self, records: Any, fetch_offset: int, *, aborted: bool) -> None:
        self._batches = _batches_of(records, fetch_offset, aborted=aborted)

    def next_batch(self) -> Any:
        return next(self._batches, None)


def _batches_of(records: Any, fetch_offset: int, *, aborted: bool) -> Iterator[Any]:
    data = bytes(records._buffer)
    starts, end = batch_starts(data)
    if len(starts):
        batches = headers_of(data, starts, end)
        together = batches.plain.copy()
        together[crc_mismatches(batches)] = False
        if aborted:
            together &= (batches.producer_id < 0) & (batches.attributes & CONTROL == 0)
        borders = np.flatnonzero(together[1:] != together[:-1]) + 1
        for first, stop in zip([0, *borders.tolist()], [*borders.tolist(), len(batches)], strict=True):
            part = batches.select(slice(first, stop))
            if together[first]:
                yield _Run(part, fetch_offset)
            else:
                yield from type(records)(data[int(part.start[0]) : int(part.end[-1])])
    yield from type(records)(data[end:])


def return_batches(consumer: "KafkaConsumer") -> None:
    """Let a consumer return whole batches, if this version of kafka-python can."""
    fetcher = getattr(consumer, "_fetcher", None)
    kind = getattr(fetcher, "PartitionRecords", None)
    if not isinstance(kind, type) or not hasattr(kind, "_unpack_records"):
        return

    class PartitionRecords(kind):  # type: ignore[misc, valid-type]
        def __init__(self, fetch_offset: int, at: Any, records: Any, **options: Any) -> None:
            if hasattr(records, "_buffer"):
                records = _Fetched(records, fetch_offset, aborted=bool(options.get("aborted_transactions")))
            super().__init__(fetch_offset, at, records, **options)

    fetcher.PartitionRecords = PartitionRecords  # type: ignore[union-attr]


def block_of_polled(records: Sequence[Any], topic: str, number: int) -> RawBlock:
    """Return the records of a poll as a block, without transactions."""
    parts: list[RawBlock] = []
    for whole, group in groupby(records, key=lambda record: isinstance(record.key, WholeBatches)):
        some = list(group)
        parts += [record.key.block() for record in some] if whole else [_block_of_records(some)]
    return replace(parts[0] if len(parts) == 1 else concatenated(parts), topic=topic, partition=number)


def _block_of_records(records: Sequence[Any]) -> RawBlock:
    return RawBlock.of(
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        offset=[record.offset for record in records],
        timestamp_ms=[-1 if record.timestamp is None else record.timestamp for record in records],
    )


def leader_epochs(records: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the first offset of each leader epoch, if the client shows it."""
    found: list[tuple[int, int]] = []
    for record in records:
        whole = isinstance(record.key, WholeBatches)
        for first, epoch in record.key.leader_epochs() if whole else [(record.offset, record.leader_epoch)]:
            if epoch is not None and epoch >= 0 and (not found or found[-1][1] != epoch):
                found.append((first, epoch))
    return found
