"""`MetadataLog`: the cluster's metadata, as records of KRaft (KIP-631) in `__cluster_metadata-0`.

Each change is one batch, so that it is stored as a whole or not at all. A log that has become much
larger than a snapshot is replaced with one. The snapshot ends at the same offset, so that offsets
never decrease.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from quorate.cluster.controller.records import snapshot
from quorate.cluster.controller.state import ClusterState
from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import NEVER, LogConfig
from quorate.cluster.storage.findings import FolderFindings, Place
from quorate.cluster.storage.inspection import inspect
from quorate.cluster.storage.log_files import LogFiles
from quorate.cluster.storage.recovery import load
from quorate.cluster.storage.stores import Descriptors
from quorate.codecs import LogError, Uuid
from quorate.codecs.batches import Batch, BatchProblem, BatchRecord, encode_batch, read_batches
from quorate.codecs.batches.writer import assemble_batch, encode_pair
from quorate.codecs.errors import DecodeError
from quorate.codecs.log.files import segment_path
from quorate.codecs.message import Message
from quorate.codecs.metadata_records import (
    CLUSTER_METADATA,
    RemoveTopicRecord,
    TopicRecord,
    decode_metadata,
    encode_metadata,
)

_TOPIC_ID = Uuid((1).to_bytes(16, "big"))
"""Topic id of KRaft's log in every cluster."""
_VERSIONS = {
    "RegisterBrokerRecord": 3,
    "PartitionRecord": 1,
    "PartitionChangeRecord": 1,
    "BrokerRegistrationChangeRecord": 2,
}
_MIN_COMPACT_BYTES = 1 << 20
_COMPACT_RATIO = 8
_MAX_BATCH_RECORDS = 10_000
_CONFIG = LogConfig(delete=False, segment_bytes=(1 << 31) - 1, segment_ms=NEVER, max_message_bytes=1 << 30)


def inspect_metadata(directory: Path, *, clean: bool = False, same_boot: bool = True) -> FolderFindings:
    """Inspect the folder of the metadata log in a directory. Raises `OSError`."""
    place = Place(str(_TOPIC_ID), clean=clean, same_boot=same_boot, any_first=True)
    return inspect(directory / f"{CLUSTER_METADATA}-0", place)


class MetadataBatch:
    """Records of one change, in order. `encoded`: their bytes, or `None` without a metadata log."""

    def __init__(self, *, encode: bool = True) -> None:
        self.records: list[Message] = []
        self.encoded: bytearray | None = bytearray() if encode else None

    def add(self, record: Message) -> None:
        """Add a record."""
        if self.encoded is not None:
            self.encoded += encode_pair(None, _encoded(record), len(self.records))
        self.records.append(record)

    @classmethod
    def of(cls, records: Iterable[Message]) -> "MetadataBatch":
        """Return a batch of records."""
        batch = cls()
        for record in records:
            batch.add(record)
        return batch


class MetadataLog:
    """The metadata log in `directory`, which is replayed into `state`.

    It is only read until `begin`.

    `found`: the findings of its folder. `removed`: ids of topics that were deleted since the last
    snapshot. `dropped`: notes on records that refer to lost data, after a loss was accepted.
    `durable`: flush each change before it is acknowledged. Raises `LogError` for records that
    cannot be read, and `OSError`.
    """

    log: PartitionLog

    def __init__(
        self,
        directory: Path,
        descriptors: Descriptors,
        found: FolderFindings,
        state: ClusterState,
        on_note: Callable[[str], object],
        *,
        durable: bool = False,
    ) -> None:
        self._directory = directory
        self._folder = directory / f"{CLUSTER_METADATA}-0"
        self._descriptors = descriptors
        self._config = replace(_CONFIG, flush_messages=1) if durable else _CONFIG
        self.state = state
        self._compact_at_bytes = _MIN_COMPACT_BYTES
        self.removed: set[Uuid] = set()
        self.dropped: list[str] = []
        self._found = found
        self._note = on_note
        for segment in found.segments.values():
            self._read(segment_path(self._folder, segment.sum.base_offset), segment.sum.size)

    def begin(self, now_ms: int) -> None:
        """Open the log for writing, and compact it if it was repaired or is large.

        Raises `OSError`.
        """
        self._open(self._found, now_ms)
        if self._found.repaired:
            self._compact(now_ms)
        else:
            self._compact_if_large(now_ms)

    def _open(self, found: FolderFindings, now_ms: int) -> None:
        files = LogFiles([self._folder], _TOPIC_ID, self._descriptors)
        self.log = load(files, self._config, found, now_ms=now_ms)

    def _read(self, path: Path, size: int) -> None:
        with path.open("rb") as file:
            for batch in read_batches(file.read(size)):
                assert not isinstance(batch, BatchProblem), batch.detail  # `inspection` has read them
                self._replay_batch(batch)

    def _replay_batch(self, batch: Batch) -> None:
        for record in batch.records():
            offset = batch.header.base_offset
            try:
                if not isinstance(record, BatchRecord):
                    raise LogError(record.detail)
                offset = record.offset
                self._replay(decode_metadata(record.value or b""))
            except (DecodeError, LogError, KeyError, IndexError) as error:
                if self._found.repaired:
                    self.dropped.append(f"offset {offset:,} of the cluster's metadata refers to data that is lost")
                    continue
                known = isinstance(error, DecodeError | LogError)
                reason = str(error) if known else "the record contradicts earlier records"
                raise LogError(
                    f"{self._folder}, offset {offset:,}: invalid cluster metadata: {reason}; "
                    "restore the folder from a copy"
                ) from None

    def _replay(self, record: object) -> None:
        self.state.replay(record)
        if isinstance(record, RemoveTopicRecord):
            self.removed.add(record.topic_id)
        elif isinstance(record, TopicRecord):
            self.removed.discard(record.topic_id)

    def append(self, batch: MetadataBatch, now_ms: int) -> None:
        """Append a change as one batch. The caller replays it, then calls `compact_after`.

        Raises `AppendError`.
        """
        assert batch.encoded is not None
        count = len(batch.records)
        first = self.log.next_offset
        data = assemble_batch(
            bytes(batch.encoded), count, base_offset=first, timestamp_ms=now_ms, partition_leader_epoch=1
        )
        self.log.append_own(data, now_ms)
        self.removed.update(record.topic_id for record in batch.records if isinstance(record, RemoveTopicRecord))

    def compact_after(self, written: int, now_ms: int) -> None:
        """Compact the log if it is large, after a change of so many records."""
        if written >= _MAX_BATCH_RECORDS:  # after a large change, the next one compacts
            return
        try:
            self._compact_if_large(now_ms)
        except OSError as error:  # the change is written; the next one tries to compact again
            self._note(f"{self._folder} could not be compacted: {error}")

    def _compact_if_large(self, now_ms: int) -> None:
        """Compact the log if it is much larger than a snapshot.

        The size of a snapshot is computed only when the log has grown, because that visits all
        state.
        """
        if self.log.size_bytes <= self._compact_at_bytes:
            return
        whole = sum(len(_encoded(record)) for record in snapshot(self.state))
        self._compact_at_bytes = max(_MIN_COMPACT_BYTES, _COMPACT_RATIO * whole)
        if self.log.size_bytes > self._compact_at_bytes:
            self._compact(now_ms)

    def _compact(self, now_ms: int) -> None:
        """Replace the log with a snapshot.

        The snapshot is written to a new file, which then replaces the oldest segment by a rename. A
        crash before the rename leaves the old log.
        """
        records = list(snapshot(self.state))
        first = max(self.log.next_offset - len(records), self.log.start_offset)
        values = [
            BatchRecord(offset=offset, timestamp_ms=now_ms, key=None, value=_encoded(record))
            for offset, record in enumerate(records, first)
        ]
        compacted = self._folder / "compacted.tmp"
        with compacted.open("wb") as file:
            for start in range(0, len(values), _MAX_BATCH_RECORDS):
                file.write(encode_batch(values[start : start + _MAX_BATCH_RECORDS], partition_leader_epoch=1))
            file.flush()
            os.fsync(file.fileno())
        files = self.log.files
        assert files is not None
        oldest, *others = self.log.segments
        files.forget_checksums(self.log)
        for segment in (oldest, *others):
            segment.store.delete()
        compacted.replace(files.path(oldest))
        for segment in others:
            files.delete_segment(segment.base_offset)
        self._open(inspect_metadata(self._directory), now_ms)

    def close(self) -> None:
        """Flush and close the log. Raises `AppendError`."""
        self.log.close()


def _encoded(record: Message) -> bytes:
    return encode_metadata(record, _VERSIONS.get(type(record).__name__, 0))
