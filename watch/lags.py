"""End offsets, and the timestamps of records, read by a consumer that joins no group.

The lag in time of a partition is the timestamp of its last record minus that of the record at the
committed offset. Both are read; nothing is interpolated. Records have the timestamps that their
producers or brokers set (`message.timestamp.type`).
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quorate.codecs.live_connect import client_log, connect
from quorate.watch.model import Place

if TYPE_CHECKING:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaPartition

MOST_KEPT = 500_000
"""Timestamps that are kept, as records do not change."""

FETCH_BYTES = 1 << 16
"""Of a partition, in a fetch; a broker returns a larger batch in a request that begins with it."""

_METADATA_S = 0.1
"""Time in which requested metadata arrive."""

_BACK = (1, 16, 256, 4_096, 65_536)
"""Offsets before the end at which to look for the last record; markers have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """First and end offsets of partitions; those without a leader are missing."""

    first: Mapping[Place, int] = field(default_factory=dict)
    end: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Lags in time by partition and committed offset, in ms.

    `missing`: how many could not be read in time. `refused`: topics that may not be read.
    """

    of: Mapping[tuple[Place, int], int]
    missing: int = 0
    refused: tuple[str, ...] = ()


class TimestampReader:
    """Reads end offsets and timestamps; `close` ends the connection. Used by one thread."""

    def __init__(self, servers: Sequence[str], config: Mapping[str, Any], connect_timeout_ms: int) -> None:
        self._servers = servers
        self._timeout_ms = connect_timeout_ms
        self._config = {
            "bootstrap_timeout_ms": connect_timeout_ms,
            "allow_auto_create_topics": False,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "metrics_enabled": False,
            "max_partition_fetch_bytes": FETCH_BYTES,
            "fetch_max_wait_ms": 100,
            "max_poll_records": 2_000,
            **config,
        }
        self._consumer: KafkaConsumer | None = None
        self._timestamps: OrderedDict[tuple[Place, int], int | None] = OrderedDict()
        self._last: dict[Place, tuple[int, int | None]] = {}
        self.refused: set[str] = set()

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self) -> "KafkaConsumer":
        if self._consumer is None:
            from kafka import KafkaConsumer

            with client_log() as reasons:
                self._consumer = connect(KafkaConsumer, self._servers, self._config, self._timeout_ms, reasons)
        return self._consumer

    def ends(self, places: Collection[Place]) -> Ends:
        """Return first and end offsets of partitions, all of which must have a leader.

        Raises `KafkaError` and `LiveError`.
        """
        from kafka import TopicPartition

        if not places:
            return Ends()
        consumer = self._open()
        at = [TopicPartition(*place) for place in places]
        first = self._bounds(consumer.beginning_offsets, at)
        end = self._bounds(consumer.end_offsets, at)
        return Ends(
            first={(one.topic, one.partition): offset for one, offset in first.items()},
            end={(one.topic, one.partition): offset for one, offset in end.items()},
        )

    def _bounds(
        self, read: "Callable[..., dict[KafkaPartition, int]]", at: "Collection[KafkaPartition]"
    ) -> "dict[KafkaPartition, int]":
        """Read offsets. The consumer's metadata may be older than those that named the leaders.

        kafka-python (3.0) requests metadata for a partition whose leader it does not know, but
        fails with a `KeyError` before they arrive.
        """
        from kafka.errors import LeaderNotAvailableError

        until_s = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                return read(at, timeout_ms=self._timeout_ms)
            except KeyError as error:
                if time.monotonic() >= until_s:
                    raise LeaderNotAvailableError(f"no leader of {error}") from error
                time.sleep(_METADATA_S)

    def lags(self, wanted: Collection[tuple[Place, int]], ends: Ends, within_s: float) -> Lags:
        """Return lags in time of committed offsets (`wanted`), as far as they can be read in time.

        An offset below the first one counts as the first one. A partition without a record at or
        after the offset has no lag.
        """
        found: dict[tuple[Place, int], int] = {}
        reads: dict[Place, set[int]] = {}
        starts: dict[tuple[Place, int], int] = {}
        for place, offset in wanted:
            first, end = ends.first.get(place), ends.end.get(place)
            if first is None or end is None or place[0] in self.refused:
                continue
            start = max(offset, first)
            if start >= end:
                found[place, offset] = 0
                continue
            starts[place, offset] = start
            if (place, start) not in self._timestamps:
                reads.setdefault(place, set()).add(start)
            if self._last.get(place, (-1, None))[0] != end:
                reads.setdefault(place, set())
        self._read(reads, ends, time.monotonic() + within_s)
        missing = 0
        for (place, offset), start in starts.items():
            at, last = self._last.get(place, (-1, None))
            begin = self._timestamps.get((place, start), _UNREAD)
            if begin is _UNREAD or at != ends.end[place]:
                missing += 1
            else:
                self._timestamps.move_to_end((place, start))
                found[place, offset] = 0 if begin is None or last is None else max(0, last - begin)
        while len(self._timestamps) > MOST_KEPT:
            self._timestamps.popitem(last=False)
        return Lags(of=found, missing=missing, refused=tuple(sorted(self.refused)))

    def _read(self, reads: Mapping[Place, set[int]], ends: Ends, until_s: float) -> None:
        """Read the first record at each offset, and the last record of each partition."""
        from kafka import TopicPartition
        from kafka.errors import KafkaError, TopicAuthorizationFailedError

        jobs = {place: _Job(sorted(offsets), ends.first[place], ends.end[place]) for place, offsets in reads.items()}
        while jobs and time.monotonic() < until_s:
            consumer = self._open()
            consumer.assign([TopicPartition(*place) for place in jobs])
            consumer.resume(*consumer.paused())  # those that stay assigned are still paused
            for place, job in jobs.items():
                consumer.seek(TopicPartition(*place), job.position)
            try:
                self._poll(consumer, jobs, until_s)
            except TopicAuthorizationFailedError as error:
                topics = {place[0] for place in jobs}
                refused = {one for one in topics if one in str(error)} or topics
                self.refused |= refused
                jobs = {place: job for place, job in jobs.items() if place[0] not in refused}
            except KafkaError:
                self.close()
                raise

    def _poll(self, consumer: "KafkaConsumer", jobs: dict[Place, "_Job"], until_s: float) -> None:
        from kafka import TopicPartition

        while jobs and time.monotonic() < until_s:
            for at, records in consumer.poll(timeout_ms=100).items():
                job = jobs.get((at.topic, at.partition))
                if job is not None:
                    job.take([(record.offset, record.timestamp) for record in records])
            for place, job in list(jobs.items()):
                at = TopicPartition(*place)
                position = consumer.position(at, timeout_ms=self._timeout_ms)
                job.pass_to(position or 0)
                for start, timestamp in job.found:
                    self._timestamps[place, start] = timestamp
                job.found.clear()
                if job.is_done:
                    self._last[place] = job.end, job.last
                    del jobs[place]
                    consumer.pause(at)
                elif job.position != position:
                    consumer.seek(at, job.position)


_UNREAD: Any = object()


class _Job:
    """The reads of one partition: the first record at each offset, then the last record."""

    def __init__(self, offsets: Sequence[int], first: int, end: int) -> None:
        self.end = end
        self.found: list[tuple[int, int | None]] = []
        self.last: int | None = None
        self.is_done = False
        self._first = first
        self._waiting = deque(offsets)
        self._last_offset = -1
        self._before: int | None = None  # of the last record before the tail that is being read
        self._back = deque(_BACK)
        self._tail: int | None = None
        self.position = 0
        if offsets:
            self.position = offsets[0]
        else:
            self._jump()

    def take(self, records: Sequence[tuple[int, int]]) -> None:
        """Take the next records, each with its timestamp."""
        for offset, timestamp in records:
            while self._waiting and self._waiting[0] <= offset:
                self.found.append((self._waiting.popleft(), timestamp))
            if self._last_offset < offset < self.end:
                self._last_offset, self.last = offset, timestamp

    def pass_to(self, position: int) -> None:
        """Note that everything before `position` was returned, and choose the next position."""
        if self._waiting:
            if position < self.end:
                self.position = max(position, self._waiting[0])
                return
            # There are only markers from these offsets on.
            self.found += [(offset, None) for offset in self._waiting]
            self._waiting.clear()
            self._jump()
        elif position < self.end:
            if self._tail is None and position < self.end - _BACK[1]:
                self._jump()
            else:
                self.position = position
        elif self._last_offset >= 0 or not self._back or (self._tail is not None and self._tail <= self._first):
            self.is_done = True
            if self._last_offset < 0:
                self.last = self._before
        else:
            self._jump()

    def _jump(self) -> None:
        """Continue before the end, further before it each time."""
        if self._last_offset >= 0:
            self._before = self.last
        self._last_offset, self.last = -1, None
        self.position = self._tail = max(self._first, self.end - self._back.popleft())
