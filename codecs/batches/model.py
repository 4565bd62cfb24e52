"""What a log segment is made of, as values: batch headers, records, control records, and what is wrong with the bytes.

These are plain facts in Kafka's terms. This module does not know how they are read or written, and
not what keys and values mean.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "COMPRESSIONS",
    "BatchHeader",
    "BatchProblem",
    "BatchRecord",
    "ControlRecord",
    "ProblemReason",
    "TimestampType",
]

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
    """The file ends inside a batch: a broker was writing, or stopped while it was."""
    BAD_LENGTH = "impossible length"
    """The length field cannot be that of a batch, so where the next one begins is not known."""
    UNKNOWN_MAGIC = "unknown magic"
    """A message format that is not 0, 1 or 2."""
    CRC_MISMATCH = "CRC mismatch"
    """The checksum over the batch differs from the one in its header."""
    UNKNOWN_COMPRESSION = "unknown compression"
    """A compression id that no Kafka release has."""
    BAD_COMPRESSION = "not decompressable"
    """The compressed bytes do not decompress."""
    TOO_LARGE = "larger than the limit"
    """A batch, or what it decompresses to, is larger than the limit that the caller set."""
    BAD_RECORDS = "malformed records"
    """The batch is whole but its records do not follow the format."""
    OFFSET_ORDER = "offsets out of order"
    """A batch begins at or before the end of the one before it. Its records are read all the same."""
    UNREADABLE = "unreadable file"
    """The operating system did not let the file be read: no permission, or a broker deleted it
    meanwhile.
    """
    CUT_OFF = "cut off segment"
    """The file ends inside a batch although a later segment follows it: nobody was still writing
    this one.
    """
    NOT_A_LOG = "not a log segment"
    """The file begins with no batch, and is neither empty nor all zeros: it is something else, or
    damaged from its beginning.
    """
    NO_BEGINNING = "beginning missing"
    """The file begins with no batch, but whole ones follow: its first bytes are missing or
    overwritten.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeader:
    """The header of a record batch (magic 2, KIP-98), or of a v0/v1 message, which Kafka also treats as a batch.

    `position` and `size_bytes` are in bytes of the file, the size with offset and length fields.
    `crc` is as written, `crc_valid` whether it is that of the bytes. `compression` is one of
    `COMPRESSIONS` or `unknown(ID)`.

    Magic 2: `count` is the number of records, which compaction makes less than `last_offset_delta +
    1`, down to 0. `base_timestamp_ms` is the number that record timestamps are relative to; once
    the cleaner has given the batch a delete horizon (KIP-534), it is that horizon, which is then
    also in `delete_horizon_ms`.

    Magic 0 and 1: `count` is `None` for a compressed wrapper, whose number of records only its
    inside tells, and its `base_offset` is then the offset of the *last* record, which is all that
    Kafka keeps. There is no leader epoch and no producer (-1).
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
        """The last offset that the batch covers; its record may be gone by compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number at the last offset, -1 without one."""
        return sequence_at(self.base_sequence, self.last_offset_delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One record of a batch.

    `headers` are (key, value) pairs; bytes of a key that are not UTF-8 are kept as surrogate
    escapes. `sequence` follows from the batch's base sequence and is -1 without one; writing
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

    `name` is Kafka's (`COMMIT`, `ABORT`, `LEADER_CHANGE`, …), `UNKNOWN` for a type that Kafka 4.3
    does not have and for a key too short to hold one (`type_id` is then `None`). `version` and
    `coordinator_epoch` are those of a transaction marker, else `None`.
    """

    type_id: int | None
    name: str
    version: int | None
    coordinator_epoch: int | None
    key_bytes: bytes | None
    value_bytes: bytes | None

    @property
    def commits(self) -> bool | None:
        """Whether it ends a transaction by a commit, or (`False`) by an abort; `None` if it ends none."""
        return _ENDS.get(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProblem:
    """Bytes that are not a batch, or not all of one: where, why, and the numbers.

    `position` is where the batch begins; `size_bytes` is what the problem covers. `header` is there
    when it could be read. `rest_lost` says that no whole batch was found behind it, though it was
    looked for: nothing brings back what this file may have had there.
    """

    position: int
    size_bytes: int
    reason: ProblemReason
    detail: str
    header: BatchHeader | None = None
    rest_lost: bool = False


def sequence_at(base_sequence: int, offset_delta: int) -> int:
    """The sequence number of a record: they run on at 0 after 2³¹ - 1 (KIP-98); -1 stays -1."""
    return -1 if base_sequence < 0 else (base_sequence + offset_delta) & 0x7FFFFFFF
