"""The values of a log: entries, and problems for bytes that are not entries.

Knows nothing about files or sockets.
"""

from pathlib import Path
from typing import Literal, TypeAlias

from quorate.codecs.batches.model import ControlRecord, ProblemReason, TimestampType
from quorate.codecs.errors import QuorateError
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.records import CONSUMER_OFFSETS, CoordinatorRecord, MalformedRecord, UnknownRecord

IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One record of a log, with the fields of its batch.

    `timestamp_ms` is milliseconds since 1970, -1 without one. `partition` is `None` if the path of
    the file does not contain it. `producer_id`, `producer_epoch` and `sequence` are -1 for records
    without a producer id. They and `transactional` are `None` if the consumer's client hides them
    (`read_live`).
    """

    topic: str
    partition: int | None
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None
    transactional: bool | None
    partition_leader_epoch: int
    headers: tuple[tuple[str, bytes | None], ...]
    key_bytes: bytes | None
    value_bytes: bytes | None
    record: CoordinatorRecord | UnknownRecord | MalformedRecord | ControlRecord

    @classmethod
    def of(
        cls,
        record: CoordinatorRecord | UnknownRecord | MalformedRecord | ControlRecord,
        *,
        topic: str = CONSUMER_OFFSETS,
        partition: int | None,
        offset: int,
        timestamp_ms: int,
        producer_id: int = -1,
        key_bytes: bytes | None = None,
        value_bytes: bytes | None = None,
    ) -> "LogEntry":
        """Return the entry of a record whose batch is not known.

        `producer_id`: that of its transaction, -1 outside of one.
        """
        return cls(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp_ms=timestamp_ms,
            timestamp_type=TimestampType.CREATE_TIME,
            producer_id=producer_id,
            producer_epoch=-1,
            sequence=-1,
            transactional=producer_id >= 0,
            partition_leader_epoch=-1,
            headers=(),
            key_bytes=key_bytes,
            value_bytes=value_bytes,
            record=record,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProblem:
    """Bytes of a segment that are not records: the file, the position and the reason.

    `position` is the byte at which the batch begins, `size_bytes` what the problem covers,
    `base_offset` the first offset of the batch if its header could be read. `rest_lost` says that a
    search found no whole batch after the problem.
    """

    path: Path
    topic: str
    partition: int | None
    position: int
    size_bytes: int
    reason: ProblemReason
    detail: str
    base_offset: int | None
    rest_lost: bool = False

    def __str__(self) -> str:
        place = self.path if self.reason is ProblemReason.UNREADABLE else f"{self.path}, position {self.position:,}"
        return f"{place}: {self.detail}"


HARMLESS = (ProblemReason.TORN_TAIL, ProblemReason.OFFSET_ORDER)
"""A torn tail is normal while a broker is writing, and offsets out of order lose no records."""

_FINAL = (ProblemReason.UNREADABLE, ProblemReason.NOT_A_LOG, ProblemReason.CUT_OFF)
"""Problems after which reading cannot continue."""


def is_damage(problem: LogProblem, *, skip_corrupt: bool = False) -> bool:
    """Whether records were lost. With `skip_corrupt`, batches that were skipped do not count."""
    if skip_corrupt:
        return problem.rest_lost or problem.reason in _FINAL
    return problem.reason not in HARMLESS


class LogError(QuorateError, ValueError):
    """A log cannot be read, or has a problem in strict mode.

    `problem` is set if bytes of a segment are the cause.
    """

    def __init__(self, message: str, problem: LogProblem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


def check_isolation_level(isolation_level: str, error: type[Exception] = LogError) -> bool:
    """Return whether the level is "read_committed". Raises `error` if Kafka has no such level."""
    if isolation_level not in ("read_uncommitted", "read_committed"):
        raise error(f"isolation level {isolation_level!r} is not known; use read_uncommitted or read_committed")
    return isolation_level == "read_committed"
