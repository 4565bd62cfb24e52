"""Batch headers, records, control records and problems of a log segment, as values.

This module does not know how they are read or written, nor what keys and values mean.
"""

from enum import StrEnum

from quorate.codecs.lazy_dataclass import dataclass

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of Kafka's compression types; the index is the id in the lowest three attribute bits."""


class TimestampType(StrEnum):
    """Who set a record's timestamp (KIP-32); the values are the names that Kafka's tools print."""

    NO_TIMESTAMP_TYPE = "NoTimestampType"
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class ProblemReason(StrEnum):
    """Why some bytes of a log are not records.

    The value is the wording that users see and may filter by.
    """

    TORN_TAIL = "torn tail"
    """The file ends inside a batch: a broker was writing it, or stopped while writing."""
    BAD_LENGTH = "impossible length"
    """The length field is not valid, so the start of the next batch is not known."""
    UNKNOWN_MAGIC = "unknown magic"
    """A message format that is not 0, 1 or 2."""
    CRC_MISMATCH = "CRC mismatch"
    """The checksum of the batch differs from the one in its header."""
    UNKNOWN_COMPRESSION = "unknown compression"
    """A compression id that no Kafka release has."""
    BAD_COMPRESSION = "not decompressable"
    """The compressed bytes do not decompress."""
    TOO_LARGE = "larger than the limit"
    """A batch, or its decompressed records, are larger than the limit set by the caller."""
    BAD_RECORDS = "malformed records"
    """The batch is whole, but its records do not follow the format."""
    OFFSET_ORDER = "offsets out of order"
    """A batch begins at or before the end of the previous one. Its records are still read."""
    UNREADABLE = "unreadable file"
    """The operating system refused access, or a broker deleted the file meanwhile."""
    CUT_OFF = "cut off segment"
    """The file ends inside a batch, but a later segment exists, so no broker was writing it."""
    NOT_A_LOG = "not a log segment"
    """The file has no batch at its start: it is another kind of file, or its start is damaged."""
    NO_BEGINNING = "beginning missing"
    """The first bytes are missing or overwritten, but whole batches follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """The header of a record batch (magic 2, KIP-98), or of a v0/v1 message, which is a batch too.

    `position` is that in the file. `size_bytes` includes the offset and length fields. `crc` is the
    stored CRC; `crc_valid` says whether it matches the bytes. `compression` is one of
    `COMPRESSIONS` or `unknown(ID)`.

    Magic 2: `count` is the number of records; after compaction it may be less than
    `last_offset_delta + 1`, down to 0. Record timestamps are relative to `base_timestamp_ms`. Once
    the cleaner sets a delete horizon (KIP-534), that field holds the horizon, and so does
    `delete_horizon_ms`.

    Magic 0 and 1: `count` is `None` for a compressed wrapper, because only its content has the
    number. `base_offset` is then the offset of the *last* record, which is all that Kafka stores.
    There is no leader epoch and no producer (-1).
    """

    position: int
    base_offset: int
    size_bytes: int
    partition_leader_epoch: int
    magic: int
    crc: int
    crc_valid: bool
    compression: str
    timestamp_type: TimestampType
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int | None
    transactional: bool
    control: bool
    delete_horizon_ms: int | None

    @property
    def last_offset(self) -> int:
        """The last offset of the batch; compaction may have removed its record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number at the last offset, -1 for batches without sequence numbers."""
        return sequence_at(self.base_sequence, self.last_offset_delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One record of a batch.

    `headers` are (key, value) pairs; bytes of a key that are not UTF-8 are kept as surrogate
    escapes. `sequence` is derived from the base sequence of the batch, -1 without one; the encoder
    ignores it.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    sequence: int = -1


_ENDS = {"COMMIT": True, "ABORT": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """A record that the broker wrote for itself, such as a transaction marker (KIP-98).

    `name` is Kafka's (`COMMIT`, `ABORT`, `LEADER_CHANGE`, …). It is `UNKNOWN` for a type that Kafka
    4.3 does not have. A key too short for a type has `type_id` `None` and the same name. `version`
    and `coordinator_epoch` are those of a transaction marker, else `None`.
    """

    type_id: int | None
    name: str
    version: int | None
    coordinator_epoch: int | None
    key_bytes: bytes | None
    value_bytes: bytes | None

    @property
    def commits(self) -> bool | None:
        """True for COMMIT, False for ABORT, `None` if this is no transaction marker."""
        return _ENDS.get(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProblem:
    """Bytes that are not a batch, or only part of one.

    `position` is where the batch begins; `size_bytes` is what the problem covers. `header` is set
    if it could be read. `rest_lost` says that a search found no whole batch after the problem, so
    the rest of the file is lost.
    """

    position: int
    size_bytes: int
    reason: ProblemReason
    detail: str
    header: BatchHeader | None = None
    rest_lost: bool = False


def sequence_at(base_sequence: int, offset_delta: int) -> int:
    """Return the sequence number of a record: after 2³¹ - 1 follows 0 (KIP-98); -1 stays -1."""
    return -1 if base_sequence < 0 else (base_sequence + offset_delta) & 0x7FFFFFFF
