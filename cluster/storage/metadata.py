"""`MetadataLog`: what there is in the cluster, in a folder `__cluster_metadata-0` with records as KRaft's controllers write them (KIP-631).

Each change is one batch, so it is there as a whole or not at all. When the log has grown far beyond what it says, it is written anew: only what counts, with the last offsets that it had,
so that offsets never go back.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from quorate.cluster.flushing import Flusher, Unflushed
from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import NEVER, LogConfig
from quorate.cluster.storage.log_files import LogFiles
from quorate.cluster.storage.metadata_state import MetadataState, difference
from quorate.cluster.storage.recovery import load
from quorate.cluster.storage.stores import Descriptors
from quorate.codecs import LogError, Uuid
from quorate.codecs.batches import BatchProblem, BatchRecord, encode_batch, read_batches
from quorate.codecs.errors import DecodeError
from quorate.codecs.message import Message
from quorate.codecs.metadata_records import CLUSTER_METADATA, decode_metadata, encode_metadata

__all__ = ["MetadataLog"]

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


class MetadataLog:
    """The log in `directory`, and what it says: `state`.

    `cut_bytes`: of an unfinished write; `durable`: changes are on the disk before anybody is told. Raises `LogError` for what cannot be read, and `OSError`.
    """

    def __init__(self, directory: Path, descriptors: Descriptors, *, now_ms: int, durable: bool = False) -> None:
        self._folder = directory / f"{CLUSTER_METADATA}-0"
        self._descriptors = descriptors
        self._config = replace(_CONFIG, flush_messages=1) if durable else _CONFIG
        self.state = MetadataState()
        self._flusher: Flusher | None = None
        self._compact_at_bytes = _AT_LEAST_BYTES
        self.log, self.cut_bytes = self._opened(now_ms)
        self._compact_if_worth(now_ms)

    def _opened(self, now_ms: int) -> tuple[PartitionLog, int]:
        files = LogFiles([self._folder], _TOPIC_ID, self._descriptors)
        log, cut = load(files, self._config, clean=False, start_offset=0, flushed_offset=0, now_ms=now_ms)
        self.state = MetadataState()
        for batch in log:
            self._take(batch.data)
        if self._flusher is not None:
            log.on_due = self._flusher.ask
        return log, cut

    def flush_by(self, flusher: Flusher) -> None:
        """From now on whoever changes something does not wait for the disk; `is_flushing` says whether it is busy with that."""
        self._flusher = flusher
        self.log.on_due = flusher.ask

    @property
    def is_flushing(self) -> bool:
        """Whether a change is on its way to the disk."""
        return self.log.held_from is not None

    def _take(self, data: bytes) -> None:
        batch = next(read_batches(data))
        assert not isinstance(batch, BatchProblem)
        for record in batch.records():
            offset = batch.header.base_offset
            try:
                if not isinstance(record, BatchRecord):
                    raise LogError(record.detail)
                offset = record.offset
                self.state.apply(decode_metadata(record.value or b""), record.offset)
            except (DecodeError, LogError, KeyError, IndexError, StopIteration) as error:
                raise LogError(
                    f"{self._folder}, offset {offset:,}: the cluster's metadata contradicts itself ({error!r}); restore the folder from a copy"
                ) from None

    def become(self, state: MetadataState, now_ms: int, *, only: Collection[Uuid] | None = None) -> int:
        """Write down what differs from what is known; returns how many records that took. Raises `Refused` if it cannot be written.

        `only`: ids of the topics that can differ; `state` need not have the others.
        """
        records = list(difference(self.state, state, self.log.next_offset, only=only))
        for start in range(0, len(records), _MOST_RECORDS):
            self._append(records[start : start + _MOST_RECORDS], now_ms)
        if records:
            self._compact_if_worth(now_ms)
        return len(records)

    def _append(self, records: Sequence[Message], now_ms: int) -> None:
        first = self.log.next_offset
        batch = encode_batch(
            [
                BatchRecord(offset=first + index, timestamp_ms=now_ms, key=None, value=_encoded(record))
                for index, record in enumerate(records)
            ],
            partition_leader_epoch=1,
        )
        self.log.append_own(batch, now_ms)
        for index, record in enumerate(records):
            self.state.apply(record, first + index)

    def _compact_if_worth(self, now_ms: int) -> None:
        """Write the log anew if it has become so large that what counts is but a small part of it. Looked at when it has doubled, as that takes a look at everything."""
        if self.log.size_bytes <= self._compact_at_bytes:
            return
        whole = list(difference(MetadataState(), self.state, 0))
        self._compact_at_bytes = max(_AT_LEAST_BYTES, _TIMES * sum(map(len, map(_encoded, whole))))
        if self.log.size_bytes > self._compact_at_bytes:
            self._compact(len(whole), now_ms)

    def _compact(self, count: int, now_ms: int) -> None:
        """Only what counts, `count` records, in a file of its own, which has taken the place of the others once it has its name: a crash before that leaves them."""
        first = max(self.log.next_offset - count, self.log.start_offset + 1)
        values = [
            BatchRecord(offset=offset, timestamp_ms=now_ms, key=None, value=_encoded(record))
            for offset, record in enumerate(difference(MetadataState(), self.state, first), first)
        ]
        beside = self._folder / "compacted.tmp"
        with beside.open("wb") as file:
            for start in range(0, len(values), _MOST_RECORDS):
                file.write(encode_batch(values[start : start + _MOST_RECORDS], partition_leader_epoch=1))
        work = Unflushed(files=[os.open(beside, os.O_RDWR | os.O_CLOEXEC)])
        until = self.log.next_offset

        def put() -> None:
            if work.error is None and self.log.next_offset == until:
                self._put(beside, first, now_ms)

        if self._flusher is None or not self._flusher.bring(work, put):
            work.flush()
            put()

    def _put(self, made: Path, first: int, now_ms: int) -> None:
        old = self.log
        for segment in old.segments:
            segment.store.delete()
        made.replace(self._folder / f"{first:020}.log")
        for segment in old.segments:
            assert old.files is not None
            old.files.delete_segment(segment.base_offset)
        self.log, _ = self._opened(now_ms)

    def close(self) -> None:
        """Everything is on the disk. Raises `Refused`."""
        self.log.close()


def _encoded(record: Message) -> bytes:
    return encode_metadata(record, _VERSIONS.get(type(record).__name__, 0))
