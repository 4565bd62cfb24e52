"""`MetadataLog`: what there is in the cluster, in a folder `__cluster_metadata-0` with records as KRaft's controllers write them (KIP-631).

Each change is one batch, so it is there as a whole or not at all. When the log has grown far beyond
what it says, it is written anew: only what counts, with the last offsets that it had, so that
offsets never go back.
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
from quorate.codecs.batches.writer import assemble_batch, encode_record
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

__all__ = ["MetadataBatch", "MetadataLog", "inspect_metadata"]

_TOPIC_ID = Uuid((1).to_bytes(16, "big"))
"""KRaft's log has this id in every cluster."""
_VERSIONS = {
    "RegisterBrokerRecord": 3,
    "PartitionRecord": 1,
    "PartitionChangeRecord": 1,
    "BrokerRegistrationChangeRecord": 2,
}
_AT_LEAST_BYTES = 1 << 20
_TIMES = 8
_MOST_RECORDS = 10_000
_CONFIG = LogConfig(delete=False, segment_bytes=(1 << 31) - 1, segment_ms=NEVER, max_message_bytes=1 << 30)


def inspect_metadata(directory: Path, *, clean: bool = False, same_boot: bool = True) -> FolderFindings:
    """What is in the folder of the metadata log in a directory. Raises `OSError`."""
    place = Place(str(_TOPIC_ID), clean=clean, same_boot=same_boot, any_first=True)
    return inspect(directory / f"{CLUSTER_METADATA}-0", place)


class MetadataBatch:
    """Records of one change, in their order, `encoded` for a metadata log unless that is `None`."""

    def __init__(self, *, encode: bool = True) -> None:
        self.records: list[Message] = []
        self.encoded: bytearray | None = bytearray() if encode else None

    def add(self, record: Message) -> None:
        """Add one more record."""
        if self.encoded is not None:
            made = BatchRecord(offset=0, timestamp_ms=0, key=None, value=_encoded(record))
            self.encoded += encode_record(made, len(self.records))
        self.records.append(record)

    @classmethod
    def of(cls, records: Iterable[Message]) -> "MetadataBatch":
        """All these records."""
        batch = cls()
        for record in records:
            batch.add(record)
        return batch


class MetadataLog:
    """The log in `directory`, which is replayed into `state`. It is only read until `begin`.

    `removed`: ids of topics that were deleted since the log was written anew; `found`: what is in
    its folder, of which some may be lost (`repaired`; `dropped` says which records were about
    that); `durable`: changes are on the disk before anybody is told. Raises `LogError` for what
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
        self._compact_at_bytes = _AT_LEAST_BYTES
        self.removed: set[Uuid] = set()
        self.dropped: list[str] = []
        self._found = found
        self._note = on_note
        for segment in found.segments.values():
            self._read(segment_path(self._folder, segment.sum.base_offset), segment.sum.size)

    def begin(self, now_ms: int) -> None:
        """From now on it can be written to; so it is at once, if some of it was lost or it is worth it.

        Raises `OSError`.
        """
        self._open(self._found, now_ms)
        if self._found.repaired:
            self._compact(now_ms)
        else:
            self._compact_if_worth(now_ms)

    def _open(self, found: FolderFindings, now_ms: int) -> None:
        files = LogFiles([self._folder], _TOPIC_ID, self._descriptors)
        self.log = load(files, self._config, found, now_ms=now_ms)

    def _read(self, path: Path, size: int) -> None:
        with path.open("rb") as file:
            for batch in read_batches(file.read(size)):
                assert not isinstance(batch, BatchProblem), batch.detail  # `inspection` has read them
                self._take(batch)

    def _take(self, batch: Batch) -> None:
        for record in batch.records():
            offset = batch.header.base_offset
            try:
                if not isinstance(record, BatchRecord):
                    raise LogError(record.detail)
                offset = record.offset
                self._replay(decode_metadata(record.value or b""))
            except (DecodeError, LogError, KeyError, IndexError) as error:
                if self._found.repaired:
                    self.dropped.append(f"offset {offset:,} of the cluster's metadata is about something that is lost")
                    continue
                known = isinstance(error, DecodeError | LogError)
                why = str(error) if known else "the record does not fit those before it"
                raise LogError(
                    f"{self._folder}, offset {offset:,}: the cluster's metadata contradicts itself: {why}; restore the folder from a copy"
                ) from None

    def _replay(self, record: object) -> None:
        self.state.replay(record)
        if isinstance(record, RemoveTopicRecord):
            self.removed.add(record.topic_id)
        elif isinstance(record, TopicRecord):
            self.removed.discard(record.topic_id)

    def append(self, batch: MetadataBatch, now_ms: int) -> None:
        """Write a change, all of it or nothing.

        Raises `AppendError`. The caller replays it, and then calls `compact_after`.
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
        """Compact the log if it is worth it, after a change of so many records."""
        if written >= _MOST_RECORDS:  # a large change leaves it to the next one
            return
        try:
            self._compact_if_worth(now_ms)
        except OSError as error:  # the change is written down; the next one tries this again
            self._note(f"{self._folder} could not be compacted: {error}")

    def _compact_if_worth(self, now_ms: int) -> None:
        """Write the log anew if it has become so large that what counts is but a small part of it.

        Looked at when it has doubled, as that takes a look at everything.
        """
        if self.log.size_bytes <= self._compact_at_bytes:
            return
        whole = sum(len(_encoded(record)) for record in snapshot(self.state))
        self._compact_at_bytes = max(_AT_LEAST_BYTES, _TIMES * whole)
        if self.log.size_bytes > self._compact_at_bytes:
            self._compact(now_ms)

    def _compact(self, now_ms: int) -> None:
        """Only what counts, in a file of its own, which has taken the place of the oldest segment once it has its name: a crash before that leaves that."""
        records = list(snapshot(self.state))
        first = max(self.log.next_offset - len(records), self.log.start_offset)
        values = [
            BatchRecord(offset=offset, timestamp_ms=now_ms, key=None, value=_encoded(record))
            for offset, record in enumerate(records, first)
        ]
        made = self._folder / "compacted.tmp"
        with made.open("wb") as file:
            for start in range(0, len(values), _MOST_RECORDS):
                file.write(encode_batch(values[start : start + _MOST_RECORDS], partition_leader_epoch=1))
            file.flush()
            os.fsync(file.fileno())
        files = self.log.files
        assert files is not None
        oldest, *others = self.log.segments
        files.forget_checksums(self.log)
        for segment in (oldest, *others):
            segment.store.delete()
        made.replace(files.path(oldest))
        for segment in others:
            files.delete_segment(segment.base_offset)
        self._open(inspect_metadata(self._directory), now_ms)

    def close(self) -> None:
        """Everything is on the disk. Raises `AppendError`."""
        self.log.close()


def _encoded(record: Message) -> bytes:
    return encode_metadata(record, _VERSIONS.get(type(record).__name__, 0))
