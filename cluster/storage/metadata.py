"""`MetadataLog`: what there is in the cluster, in a folder `__cluster_metadata-0` with records as KRaft's controllers write them (KIP-631).

Each change is one batch, so it is there as a whole or not at all. When the log has grown far beyond what it says, it is written anew when it is opened.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

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
        self.log, self.cut_bytes = self._opened(now_ms)
        for batch in self.log:
            self._take(batch.data)
        whole = list(difference(MetadataState(), self.state, 0))
        if self.log.size_bytes > max(_AT_LEAST_BYTES, _TIMES * sum(map(len, map(_encoded, whole)))):
            self._rewrite(whole, now_ms)

    def _opened(self, now_ms: int) -> tuple[PartitionLog, int]:
        files = LogFiles([self._folder], _TOPIC_ID, self._descriptors)
        return load(files, self._config, clean=False, start_offset=0, flushed_offset=0, now_ms=now_ms)

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

    def _rewrite(self, records: Sequence[Message], now_ms: int) -> None:
        """Only what counts, from offset 0 on. A crash before the file is replaced leaves the old one."""
        values = [
            BatchRecord(offset=at, timestamp_ms=now_ms, key=None, value=_encoded(one)) for at, one in enumerate(records)
        ]
        beside = self._folder / "compacted.tmp"
        with beside.open("wb") as file:
            for start in range(0, len(values), _MOST_RECORDS):
                file.write(encode_batch(values[start : start + _MOST_RECORDS], partition_leader_epoch=1))
        for segment in self.log.segments:
            segment.store.delete()
        beside.replace(self._folder / f"{0:020}.log")
        self.state = MetadataState()
        self.log, _ = self._opened(now_ms)
        for batch in self.log:
            self._take(batch.data)

    def close(self) -> None:
        """Everything is on the disk. Raises `Refused`."""
        self.log.close()


def _encoded(record: Message) -> bytes:
    return encode_metadata(record, _VERSIONS.get(type(record).__name__, 0))
