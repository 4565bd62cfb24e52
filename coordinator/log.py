"""The coordinator's log: its interface, `MemoryLog`, and conversion to and from record batches.

`MAPPED_ERRORS`: the error codes that clients get for errors of the log (Kafka's
CoordinatorRuntime).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from quorate.codecs import CoordinatorRecord, LogError, MalformedRecord, UnknownRecord, decode_record, encode_record
from quorate.codecs.batches import Batch, BatchProblem, control_record
from quorate.codecs.batches.v2 import HEADER_BYTES
from quorate.codecs.batches.writer import assemble_batch, encode_pair
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = [
    "MAPPED_ERRORS",
    "AppendError",
    "ColumnarLog",
    "CoordinatorLog",
    "EncodedRecords",
    "MemoryLog",
    "StoredMarker",
    "StoredRecord",
    "batch_of",
    "in_batches",
    "stored_in",
]

MAPPED_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class AppendError(ApiError):
    """The log rejected a batch or a marker, or cannot be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record in a log, with fields of its batch.

    `producer_id`, `producer_epoch`: -1 outside transactions.
    """

    offset: int
    timestamp_ms: int
    record: CoordinatorRecord | UnknownRecord | MalformedRecord
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMarker:
    """The end of a producer's transaction."""

    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    commit: bool


class CoordinatorLog(Protocol):
    """A log of records. Each batch is written completely or not at all."""

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Write one batch; returns the offset of its first record. Raises `AppendError`."""

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """Split records into as few batches as the log accepts.

        A record that exceeds the limit gets its own batch.
        """

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns the marker's offset. Raises `AppendError`."""

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Read all records and markers, oldest first."""


@runtime_checkable
class ColumnarLog(CoordinatorLog, Protocol):
    """A log that can be read by columns."""

    def blocks(self) -> Iterator["RawBlock"] | None:
        """Read all blocks, oldest first; `None` if this log cannot be read by columns."""


@dataclass
class MemoryLog:
    """A log in memory. `fail_next`: the error with which the next append fails."""

    stored: list[StoredRecord | StoredMarker] = field(default_factory=list)
    fail_next: ErrorCode | None = None

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Write one batch; returns the offset of its first record.

        Raises `AppendError` if `fail_next` is set.
        """
        self._fail()
        first = len(self.stored)
        self.stored += [
            StoredRecord(
                offset=first + index,
                timestamp_ms=timestamp_ms,
                record=record,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
            for index, record in enumerate(records)
        ]
        return first

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """Return all records in one batch, as there is no size limit."""
        return [records]

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns its offset.

        Raises `AppendError` if `fail_next` is set.
        """
        self._fail()
        self.stored.append(
            StoredMarker(
                offset=len(self.stored),
                timestamp_ms=timestamp_ms,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                commit=commit,
            )
        )
        return len(self.stored) - 1

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Read all records and markers, oldest first."""
        return iter(self.stored)

    def _fail(self) -> None:
        if self.fail_next is not None:
            code, self.fail_next = self.fail_next, None
            raise AppendError(code)


class EncodedRecords(list[CoordinatorRecord]):
    """Records that are encoded one by one, for a batch that is written at once.

    `content`: the records as they are in a batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.content = bytearray()

    def append(self, record: CoordinatorRecord) -> None:
        """Add a record, and encode it."""
        key, value = encode_record(record)
        self.content += encode_pair(key, value, len(self))
        super().append(record)


def batch_of(
    records: Sequence[CoordinatorRecord],
    *,
    first_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    leader_epoch: int,
    base_sequence: int = 0,
) -> bytes:
    """Encode one batch, which is transactional with a producer id.

    `base_sequence`: group coordinators write 0, with and without a producer id.
    """
    if isinstance(records, EncodedRecords):
        content = bytes(records.content)
    else:
        content = b"".join([encode_pair(*encode_record(record), index) for index, record in enumerate(records)])
    return assemble_batch(
        content,
        len(records),
        base_offset=first_offset,
        timestamp_ms=timestamp_ms,
        partition_leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=producer_id >= 0,
    )


def in_batches(records: Sequence[CoordinatorRecord], max_bytes: int) -> Iterator[Sequence[CoordinatorRecord]]:
    """Split records into batches of at most `max_bytes`, each as full as possible.

    Kafka's runtime writes non-atomic records like this: expired offsets and groups, and offsets of
    deleted topics. A record that exceeds the limit gets its own batch.
    """
    begin, size = 0, HEADER_BYTES
    for index, record in enumerate(records):
        key, value = encode_record(record)
        more = len(encode_pair(key, value, index - begin))
        if size + more > max_bytes and index > begin:
            yield records[begin:index]
            begin, size = index, HEADER_BYTES
            more = len(encode_pair(key, value, 0))
        size += more
    yield records[begin:]


def stored_in(batch: Batch, *, topic: str, place: object) -> Iterator[StoredRecord | StoredMarker]:
    """Read the records or the marker of a batch. `place`: the log's name in errors.

    Raises `LogError` for a damaged record.
    """
    header = batch.header
    producer = (header.producer_id, header.producer_epoch) if header.transactional else (-1, -1)
    for record in batch.records():
        if isinstance(record, BatchProblem):
            raise LogError(f"{place}, position {record.position:,}: {record.detail}; restore the file from a copy")
        if not header.control:
            yield StoredRecord(
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                record=decode_record(record.key, record.value, topic=topic),
                producer_id=producer[0],
                producer_epoch=producer[1],
            )
            continue
        commit = control_record(record.key, record.value).commits
        if commit is not None:  # brokers' logs may have other control records
            yield StoredMarker(
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                producer_id=producer[0],
                producer_epoch=producer[1],
                commit=commit,
            )
