"""`FileLog`: a coordinator's log in files with the format of Kafka, without a cluster.

Kafka's tools (`kafka-dump-log --offsets-decoder`) and `quorate.codecs.read_log` read it. It is the
log of one partition as the embedded cluster stores it: a folder `TOPIC-PARTITION` with segments,
their indexes and checksums. An append is one record batch of format 2 (KIP-98), which is
transactional if it has a producer id. The end of a transaction is a control batch.

Opening the log truncates a write that a crash left incomplete. The log then has all acknowledged
batches, and possibly the one that was being written. The caller ensures that only one `FileLog` at
a time writes to a folder.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Literal, Self, TypeAlias
from uuid import uuid4

from quorate.cluster.coordinator_log import REMEDY, PartitionCoordinatorLog
from quorate.cluster.log_config import NEVER, LogConfig
from quorate.cluster.storage.cleaning import clean
from quorate.cluster.storage.findings import Place
from quorate.cluster.storage.inspection import inspect
from quorate.cluster.storage.log_files import LogFiles, topic_id_of
from quorate.cluster.storage.recovery import load
from quorate.cluster.storage.stores import Descriptors
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import at_once
from quorate.codecs import CoordinatorRecord, LogError, Uuid
from quorate.codecs.log.files import segments_in
from quorate.codecs.message import CONSUMER_OFFSETS

Fsync: TypeAlias = Literal["always", "never"]
"""Whether each append is flushed to disk (`fsync`) before it is acknowledged.

Without a flush a power failure can lose acknowledged batches.
"""

_MAX_SEGMENT_BYTES = (1 << 31) - 1
"""Kafka's positions in a file are int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Result of a compaction: number of segments, and their records and bytes before and after.

    Records include control records.
    """

    segments: int = 0
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class FileLog(PartitionCoordinatorLog):
    """A `CoordinatorLog` in the folder `TOPIC-PARTITION` of `directory`, created if missing.

    `fsync`: "always" flushes before an append returns, so that acknowledged batches survive a power
    failure. With "never" they survive a crash of the process only. `segment_bytes`: maximum size of
    a segment with more than one batch. `max_batch_bytes`: larger batches are rejected. The defaults
    are those of `offsets.topic.segment.bytes` and `max.message.bytes`. `leader_epoch`: written into
    each batch.

    `cut_bytes`: size of the incomplete write that was truncated after the last whole batch. Raises
    `LogError` for damage before that, and `OSError`.
    """

    min_columns_bytes: ClassVar[int] = 0

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        topic: str = CONSUMER_OFFSETS,
        partition: int = 0,
        fsync: Fsync = "always",
        segment_bytes: int = 100 * 1024 * 1024,
        max_batch_bytes: int = 1024 * 1024 + 12,
        leader_epoch: int = 0,
    ) -> None:
        if fsync not in ("always", "never"):
            raise ValueError(f"unknown fsync {fsync!r}; use 'always' or 'never'")
        if not 1 <= segment_bytes <= _MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes is {segment_bytes:,}; use 1 to {_MAX_SEGMENT_BYTES:,}")
        self.folder = Path(directory) / f"{topic}-{partition}"
        self.folder.mkdir(parents=True, exist_ok=True)
        topic_id = topic_id_of(self.folder) or Uuid(uuid4().bytes)
        # The log may have been compacted, and its machine may have stopped before a flush.
        found = inspect(self.folder, Place(str(topic_id), same_boot=False, has_gaps=True, any_first=True))
        if found.losses:
            raise LogError(f"{found.losses[0]}; {REMEDY}")
        self.cut_bytes = found.cut_bytes
        self._descriptors = Descriptors()
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=NEVER,
            delete=False,
            compact=True,
            max_message_bytes=max_batch_bytes,
            flush_messages=1 if fsync == "always" else NEVER,
        )
        log = load(LogFiles([self.folder], topic_id, self._descriptors), config, found, now_ms=0)
        super().__init__(PartitionState(topic, partition, (0,), (0,), leader_epoch=leader_epoch, log=log))

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return self.partition.log.next_offset

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Append records as one batch, and return the offset of the first.

        No records append nothing.

        Raises `AppendError` with MESSAGE_TOO_LARGE above `max_batch_bytes`, or KAFKA_STORAGE_ERROR
        if the files cannot be written. The log is unchanged then.
        """
        if not records:
            return self.next_offset
        return super().append(
            records, timestamp_ms=timestamp_ms, producer_id=producer_id, producer_epoch=producer_epoch
        )

    def segments(self) -> list[Path]:
        """Return the segments' paths, oldest first. The last one is active."""
        return segments_in(self.folder)

    def roll(self) -> None:
        """Start a new segment if the active one is not empty, so that it can be compacted.

        Raises `AppendError`.
        """
        self.partition.log.roll(0)

    def compact(self, *, now_ms: int, tombstone_retention_ms: int = 0) -> Compaction:
        """Keep the last record of each key in closed segments (`quorate.codecs.log.compaction`).

        Loading the log gives the same state as before. Tombstones stay for at least one pass, and
        for `tombstone_retention_ms` after it. Iterators of earlier `read` calls must be exhausted.
        Raises `LogError` for damage, before any change, and `OSError`.
        """
        log = self.partition.log
        log.config = replace(log.config, delete_retention_ms=tombstone_retention_ms)
        cleaning = at_once(clean(log, now_ms=now_ms))
        if cleaning is None:
            return Compaction()
        return Compaction(
            segments=len(cleaning.segments),
            records_before=cleaning.records_read,
            records_after=cleaning.records_kept,
            bytes_before=cleaning.bytes_read,
            bytes_after=cleaning.bytes_kept,
        )

    def close(self) -> None:
        """Flush the log and close its files. Raises `AppendError`."""
        try:
            self.partition.log.close()
        finally:
            self._descriptors.close_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
