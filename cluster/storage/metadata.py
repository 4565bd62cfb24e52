"""`MetadataLog`: what there is in the cluster, in a folder `__cluster_metadata-0` with records as KRaft's controllers write them (KIP-631).

Each change is one batch, so it is there as a whole or not at all. When the log has grown far beyond what it says, it is written anew: only what counts, with the last offsets that it had,
so that offsets never go back.
"""

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import NEVER, LogConfig
from quorate.cluster.storage.findings import FolderFindings, Place
from quorate.cluster.storage.inspection import inspect
from quorate.cluster.storage.log_files import LogFiles
from quorate.cluster.storage.metadata_state import MetadataState, TopicFacts, difference, topic_difference
from quorate.cluster.storage.recovery import load
from quorate.cluster.storage.stores import Descriptors
from quorate.cluster.turns import Work
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

__all__ = ["MetadataLog", "TopicsChange", "inspect_metadata"]

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
_RECORDS_AT_ONCE = 200
"""Records of a topic that are encoded without others having their turn."""
_CONFIG = LogConfig(delete=False, segment_bytes=(1 << 31) - 1, segment_ms=NEVER, max_message_bytes=1 << 30)


def inspect_metadata(directory: Path, *, clean: bool = False, same_boot: bool = True) -> FolderFindings:
    """What is in the folder of the metadata log in a directory. Raises `OSError`."""
    place = Place(str(_TOPIC_ID), clean=clean, same_boot=same_boot, any_first=True)
    return inspect(directory / f"{CLUSTER_METADATA}-0", place)


@dataclass(slots=True, eq=False)
class TopicsChange:
    """A change of topics, `None` for deleted ones, and its records, encoded for the offset at which they begin."""

    first: int
    timestamp_ms: int
    topics: dict[Uuid, TopicFacts | None] = field(default_factory=dict)
    count: int = 0
    records: bytearray = field(default_factory=bytearray)

    def add(self, record: Message) -> None:
        """Encode one more record."""
        made = BatchRecord(
            offset=self.first + self.count, timestamp_ms=self.timestamp_ms, key=None, value=_encoded(record)
        )
        self.records += encode_record(made, self.count)
        self.count += 1

    def batch(self) -> bytes:
        """All records as one batch."""
        return assemble_batch(
            bytes(self.records),
            self.count,
            base_offset=self.first,
            timestamp_ms=self.timestamp_ms,
            partition_leader_epoch=1,
        )


class MetadataLog:
    """The log in `directory`, and what it says: `state`. It is only read until `begin`.

    `removed`: ids of topics that were deleted since the log was written anew; `found`: what is in its folder, of which some may be lost (`repaired`; `dropped`
    says which records were about that); `durable`: changes are on the disk before anybody is told. Raises `LogError` for what cannot be read, and `OSError`.
    """

    log: PartitionLog

    def __init__(
        self,
        directory: Path,
        descriptors: Descriptors,
        found: FolderFindings,
        on_note: Callable[[str], object],
        *,
        durable: bool = False,
    ) -> None:
        self._directory = directory
        self._folder = directory / f"{CLUSTER_METADATA}-0"
        self._descriptors = descriptors
        self._config = replace(_CONFIG, flush_messages=1) if durable else _CONFIG
        self.state = MetadataState()
        self._compact_at_bytes = _AT_LEAST_BYTES
        self.removed: set[Uuid] = set()
        self.dropped: list[str] = []
        self._found = found
        self._note = on_note
        for segment in found.segments.values():
            self._read(segment_path(self._folder, segment.sum.base_offset), segment.sum.size)

    def begin(self, now_ms: int) -> None:
        """From now on it can be written to; so it is at once, if some of it was lost or it is worth it. Raises `OSError`."""
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
                self._apply(decode_metadata(record.value or b""), record.offset)
            except (DecodeError, LogError, KeyError, IndexError) as error:
                if self._found.repaired:
                    self.dropped.append(f"offset {offset:,} of the cluster's metadata is about something that is lost")
                    continue
                known = isinstance(error, DecodeError | LogError)
                why = str(error) if known else "the record does not fit those before it"
                raise LogError(
                    f"{self._folder}, offset {offset:,}: the cluster's metadata contradicts itself: {why}; restore the folder from a copy"
                ) from None

    def _apply(self, record: object, offset: int) -> None:
        self.state.apply(record, offset)
        if isinstance(record, RemoveTopicRecord):
            self.removed.add(record.topic_id)
        elif isinstance(record, TopicRecord):
            self.removed.discard(record.topic_id)

    def become(self, state: MetadataState, now_ms: int, *, only: Collection[Uuid] | None = None) -> int:
        """Write down what differs from what is known, all of it or nothing; returns the number of records.

        Raises `AppendError` if it cannot be written.

        `only`: ids of the topics that can differ; `state` need not have the others.
        """
        records = list(difference(self.state, state, self.log.next_offset, only=only))
        if records:
            change = TopicsChange(self.log.next_offset, now_ms)
            for record in records:
                change.add(record)
            self.log.append_own(change.batch(), now_ms)
            for offset, record in enumerate(records, change.first):
                self._apply(record, offset)
            self._compact_after(len(records), now_ms)
        return len(records)

    def preparing(self, topics: Iterable[tuple[Uuid, TopicFacts | None]], now_ms: int) -> Work[TopicsChange]:
        """Encode a change of topics in turns, for `write`. `None`: a topic is deleted."""
        change = TopicsChange(self.log.next_offset, now_ms)
        for topic_id, topic in topics:
            for record in topic_difference(topic_id, self.state.topics.get(topic_id), topic, self.state.brokers):
                change.add(record)
                if not change.count % _RECORDS_AT_ONCE:
                    yield None
            change.topics[topic_id] = topic
            yield None
        return change

    def write(self, change: TopicsChange, now_ms: int) -> None:
        """Write down a change, all of it or nothing. Raises `AppendError`. Nothing else was written since it was encoded."""
        assert change.first == self.log.next_offset, "something else was written meanwhile"
        if not change.count:
            return
        self.log.append_own(change.batch(), now_ms)
        for topic_id, topic in change.topics.items():
            self.state.replace_topic(topic_id, topic)
            if topic is None:
                self.removed.add(topic_id)
        self._compact_after(change.count, now_ms)

    def _compact_after(self, written: int, now_ms: int) -> None:
        if written >= _MOST_RECORDS:  # a large change leaves it to the next one
            return
        try:
            self._compact_if_worth(now_ms)
        except OSError as error:  # the change is written down; the next one tries this again
            self._note(f"{self._folder} could not be compacted: {error}")

    def _compact_if_worth(self, now_ms: int) -> None:
        """Write the log anew if it has become so large that what counts is but a small part of it. Looked at when it has doubled, as that takes a look at everything."""
        if self.log.size_bytes <= self._compact_at_bytes:
            return
        whole = list(difference(MetadataState(), self.state, 0))
        self._compact_at_bytes = max(_AT_LEAST_BYTES, _TIMES * sum(map(len, map(_encoded, whole))))
        if self.log.size_bytes > self._compact_at_bytes:
            self._compact(now_ms)

    def _compact(self, now_ms: int) -> None:
        """Only what counts, in a file of its own, which has taken the place of the oldest segment once it has its name: a crash before that leaves that."""
        count = sum(1 for _ in difference(MetadataState(), self.state, 0))
        first = max(self.log.next_offset - count, self.log.start_offset)
        values = [
            BatchRecord(offset=offset, timestamp_ms=now_ms, key=None, value=_encoded(record))
            for offset, record in enumerate(difference(MetadataState(), self.state, first), first)
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
        self.state = MetadataState()
        self._read(files.path(oldest), self.log.segments[0].size)

    def close(self) -> None:
        """Everything is on the disk. Raises `AppendError`."""
        self.log.close()


def _encoded(record: Message) -> bytes:
    return encode_metadata(record, _VERSIONS.get(type(record).__name__, 0))
