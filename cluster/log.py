"""`PartitionLog`: the batches of one partition, as producers sent them, with the offsets that the broker gives.

Batches stay bytes: of a batch only base offset, leader epoch and, with log-append time, timestamp and CRC are written anew. What a producer may append is decided
here (KIP-98): CRC, sizes, the sequence of an idempotent producer, its epoch. All replicas of a partition share one log, so its high watermark is its end.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct

import google_crc32c

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.v2 import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from quorate.codecs.batches.writer import encode_marker

__all__ = ["Appended", "Batch", "PartitionLog", "Refused"]

_PLACE = Struct(">qi")  # base offset, length
_EPOCH = Struct(">i")
_EPOCH_AT = 12
_REMEMBERED = 5
"""So many batches of a producer are remembered, so that one that comes again is known (KIP-98)."""


class Refused(Exception):
    """A batch that is not taken: `code` is Kafka's."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message


@dataclass(slots=True)
class Batch:
    """A batch in the log."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int
    transactional: bool
    control: bool
    data: bytes


@dataclass(slots=True)
class Appended:
    """Where a batch is. `timestamp_ms`: the broker's, with log-append time; else -1."""

    base_offset: int
    last_offset: int
    timestamp_ms: int = -1
    duplicate: bool = False


@dataclass(slots=True)
class Producer:
    """What is known of a producer: its epoch, its last batches (first and last sequence, offsets), when it wrote last, where its open transaction begins."""

    epoch: int
    batches: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    last_timestamp_ms: int = -1
    transaction_start: int | None = None
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """Of its last record; -1 before the first."""
        return self.batches[-1][1] if self.batches else -1


class PartitionLog:
    """The log of one partition. Offsets begin at `start_offset` and go up to `next_offset`, excluded. `waiting`: called whenever something is appended."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._bases: list[int] = []
        self.start_offset = 0
        self.next_offset = 0
        self.size_bytes = 0
        self.producers: dict[int, Producer] = {}
        self.open_transactions: dict[int, int] = {}
        self.aborted: list[
            tuple[int, int, int, int]
        ] = []  # last offset (the marker's), producer id, first offset, LSO then
        self.epochs: list[tuple[int, int]] = []
        self.waiting: set[Callable[[], object]] = set()

    # ---- what consumers may see

    @property
    def high_watermark(self) -> int:
        """All replicas have everything."""
        return self.next_offset

    @property
    def last_stable_offset(self) -> int:
        """Where the first open transaction begins (KIP-98)."""
        return min(self.open_transactions.values(), default=self.next_offset)

    def read(self, offset: int, max_bytes: int, *, until: int, at_least_one: bool) -> list[Batch]:
        """Whole batches from the one that has `offset` on, up to about `max_bytes`, of those that end before `until`.

        The first one is given even if it is larger, with `at_least_one` (KIP-74).
        """
        index = max(bisect_right(self._bases, offset) - 1, 0)
        found: list[Batch] = []
        size = 0
        for place in range(index, len(self.batches)):
            batch = self.batches[place]
            if batch.last_offset < offset:
                continue
            if batch.last_offset >= until:
                break
            size += len(batch.data)
            if size > max_bytes and (found or not at_least_one):
                break
            found.append(batch)
        return found

    def aborted_between(self, first: int, until: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the transactions that were aborted in a range of offsets, as a fetch response has them."""
        start = bisect_left(self.aborted, (first,))
        return [(producer, begin) for last, producer, begin, _ in self.aborted[start:] if begin < until]

    def offset_for(self, timestamp_ms: int, *, until: int) -> Batch | None:
        """The first batch with a record at or after a time."""
        for batch in self.batches:
            if batch.base_offset >= until:
                return None
            if batch.max_timestamp_ms >= timestamp_ms and not batch.control:
                return batch
        return None

    def greatest_timestamp(self) -> Batch | None:
        """The batch with the latest timestamp, the first of them."""
        return max((one for one in self.batches if not one.control), key=lambda one: one.max_timestamp_ms, default=None)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch up to `epoch`, and where it ended (KIP-101); (-1, -1) if none is known."""
        known = [one for one, _ in self.epochs if one <= epoch]
        if not known:
            return -1, -1
        later = [start for one, start in self.epochs if one > epoch]
        return known[-1], later[0] if later else self.next_offset

    # ---- appending

    def append(
        self,
        data: bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        append_time: bool = False,
        max_batch_bytes: int = 1_048_588,
    ) -> Appended:
        """Take the one batch of a produce request. Raises `Refused`."""
        if len(data) < HEADER_BYTES:
            raise Refused(ErrorCode.CORRUPT_MESSAGE, f"{len(data)} bytes are less than a batch's header")
        fields = HEADER.unpack_from(data)
        _, length, _, magic, crc, attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, count = fields
        if magic != 2:
            raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic}")
        if LOG_OVERHEAD + length != len(data):
            raise Refused(ErrorCode.INVALID_RECORD, "a produce request has one batch for each partition")
        if len(data) > max_batch_bytes:
            raise Refused(
                ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(data)} bytes, at most {max_batch_bytes} are allowed"
            )
        if google_crc32c.value(data[CRC_START:]) != crc:
            raise Refused(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match")
        if count <= 0 or last_delta != count - 1 or attributes & CONTROL or attributes & COMPRESSION_MASK > 4:
            raise Refused(ErrorCode.INVALID_RECORD, "the batch contradicts itself, or is none that a producer may send")
        transactional = bool(attributes & TRANSACTIONAL)
        producer = None
        if producer_id >= 0:
            if (known := self._known(producer_id, epoch, sequence, last_delta)) is not None:
                return known
            producer = self._checked(producer_id, epoch, sequence, transactional)
        base = self.next_offset
        stamp = -1
        buffer = bytearray(data)
        _PLACE.pack_into(buffer, 0, base, length)
        _EPOCH.pack_into(buffer, _EPOCH_AT, leader_epoch)
        if append_time:
            stamp = max_timestamp = now_ms
            _stamp(buffer, attributes, now_ms)
        self._add(
            Batch(
                base, base + last_delta, max_timestamp, leader_epoch, producer_id, transactional, False, bytes(buffer)
            )
        )
        if producer is not None:
            last_sequence = (sequence + last_delta) & 0x7FFFFFFF
            producer.batches.append((sequence, last_sequence, base, base + last_delta))
            producer.last_timestamp_ms = max_timestamp
            if transactional and producer.transaction_start is None:
                producer.transaction_start = self.open_transactions[producer_id] = base
        return Appended(base, base + last_delta, stamp)

    def append_own(self, data: bytes, *, producer_id: int = -1, epoch: int = -1, transactional: bool = False) -> None:
        """Take a batch that the broker itself made, whose offsets are `next_offset` and on."""
        base, _, leader_epoch, _, _, _, last_delta, _, max_timestamp, *_ = HEADER.unpack_from(data)
        self._add(Batch(base, base + last_delta, max_timestamp, leader_epoch, producer_id, transactional, False, data))
        if producer_id >= 0:
            producer = self.producers.setdefault(producer_id, Producer(epoch))
            producer.epoch = epoch
            if transactional and producer.transaction_start is None:
                producer.transaction_start = self.open_transactions[producer_id] = base

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        now_ms: int,
        leader_epoch: int,
        coordinator_epoch: int = 0,
    ) -> int:
        """End a producer's transaction; returns the marker's offset."""
        offset = self.next_offset
        data = encode_marker(
            commit=commit,
            offset=offset,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            partition_leader_epoch=leader_epoch,
        )
        self._add(Batch(offset, offset, now_ms, leader_epoch, producer_id, True, True, data))
        producer = self.producers.setdefault(producer_id, Producer(epoch))
        if epoch > producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        start = self.open_transactions.pop(producer_id, None)
        producer.transaction_start = None
        if start is not None and not commit:
            self.aborted.append((offset, producer_id, start, self.last_stable_offset))
        return offset

    def delete_before(self, offset: int) -> None:
        """The oldest records may go (DeleteRecords, retention)."""
        self.start_offset = max(self.start_offset, offset)
        gone = 0
        while gone < len(self.batches) and self.batches[gone].last_offset < self.start_offset:
            self.size_bytes -= len(self.batches[gone].data)
            gone += 1
        del self.batches[:gone]
        del self._bases[:gone]

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)

    def _add(self, batch: Batch) -> None:
        if not self.epochs or self.epochs[-1][0] < batch.leader_epoch:
            self.epochs.append((batch.leader_epoch, batch.base_offset))
        self.batches.append(batch)
        self._bases.append(batch.base_offset)
        self.next_offset = batch.last_offset + 1
        self.size_bytes += len(batch.data)
        for listener in list(self.waiting):
            listener()

    def _known(self, producer_id: int, epoch: int, sequence: int, last_delta: int) -> Appended | None:
        """Where a batch is that came before."""
        producer = self.producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            return None
        last = (sequence + last_delta) & 0x7FFFFFFF
        for first, end, base, last_offset in producer.batches:
            if (first, end) == (sequence, last):
                return Appended(base, last_offset, duplicate=True)
        return None

    def _checked(self, producer_id: int, epoch: int, sequence: int, transactional: bool) -> Producer:
        """The producer, if its batch is the next one. Raises `Refused`."""
        producer = self.producers.get(producer_id)
        if producer is None:
            # Nothing is known of it, or not any more: any sequence is taken, as since KAFKA-14402's verification a new producer's first may be.
            producer = self.producers[producer_id] = Producer(epoch)
            return producer
        if epoch < producer.epoch:
            raise Refused(ErrorCode.INVALID_PRODUCER_EPOCH, f"producer epoch {epoch} is older than {producer.epoch}")
        if not transactional and producer.transaction_start is not None:
            raise Refused(ErrorCode.INVALID_TXN_STATE, "a batch outside the producer's open transaction")
        if epoch > producer.epoch:
            if sequence != 0:
                raise Refused(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {sequence} is the first of a new epoch, not 0"
                )
            producer.epoch = epoch
            producer.batches.clear()
            return producer
        expected = 0 if producer.last_sequence < 0 else (producer.last_sequence + 1) & 0x7FFFFFFF
        if producer.batches and sequence != expected:
            raise Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {sequence}, but {expected} would be the next"
            )
        return producer


_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_AT = 21
_TIME = Struct(">q")
_MAX_TIMESTAMP_AT = 35
_CRC = Struct(">I")
_CRC_AT = 17


def _stamp(buffer: bytearray, attributes: int, now_ms: int) -> None:
    """Log-append time: the broker's time counts for all records of the batch."""
    _ATTRIBUTES.pack_into(buffer, _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _TIME.pack_into(buffer, _MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(buffer, _CRC_AT, google_crc32c.value(bytes(buffer[CRC_START:])))
