"""Reads a copy of coordinator logs into the collector, block by block."""

import threading
import time
from collections.abc import Sequence

from quorate.assignors.what_if.description import read_topology
from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.errors import QuorateError
from quorate.codecs.log.files import PartitionFiles
from quorate.codecs.log.model import is_damage
from quorate.codecs.log.partitions import LogPartitions
from quorate.codecs.log.raw import read_raw
from quorate.watch.collector import Collector
from quorate.watch.lag_history import LagHistory
from quorate.watch.problems import Problems
from quorate.watch.threads import ObserverThread
from quorate.watch.topics import KnownTopics

BLOCK_BYTES = 1 << 21
"""Of a file that are decoded together: a quarter of the usual size, and of its memory."""

FLUSH_RECORDS = 100_000
"""Records after which they are written, which limits memory."""


class FilesThread(ObserverThread):
    """A thread that reads logs once; `is_done` after their end.

    `lags`: keeps the offsets after each flush, at the time of the last record.
    """

    def __init__(
        self,
        paths: Sequence[str],
        topology: str | None,
        collector: Collector,
        topics: KnownTopics,
        problems: Problems,
        stop: threading.Event,
        lags: LagHistory,
    ) -> None:
        self.is_done = False
        self._last_ms = -1
        self._collector = collector
        self._problems = problems
        self._stop = stop
        self._lags = lags
        if topology is not None:
            topics.set(read_topology(topology)[0])
        found = LogPartitions(paths, topics=(CONSUMER_OFFSETS, SHARE_GROUP_STATE))
        self._partitions = chosen(found.partitions)
        super().__init__("files", self._run)

    def _run(self) -> None:
        try:
            try:
                self._read_all()
            except QuorateError as error:
                self._problems.set("files", str(error).replace("\n", "; "))
            if not self._stop.is_set():
                self._collector.flush(time.time_ns() // 1_000_000, is_live=False)
        except Exception as error:  # noqa: BLE001  # of the store, such as a full disk, or of an output
            self._problems.set("files", f"reading ended: {error}")
        finally:
            self.is_done = True

    def _read_all(self) -> None:
        end_ms = -1
        for files in self._partitions:
            self._last_ms = -1
            self._read(files)
            end_ms = max(end_ms, self._last_ms)
            if self._stop.is_set():
                return
        if end_ms >= 0:
            self._lags.keep_offsets(end_ms, at_end=True)

    def _read(self, files: PartitionFiles) -> None:
        taken = 0
        for block in read_raw(files, skip_corrupt=True, block_bytes=BLOCK_BYTES):
            for problem in block.problems:
                if is_damage(problem, skip_corrupt=False):
                    self._problems.set(f"{problem.path} {problem.position}", f"skipped: {problem}")
            self._collector.take(block)
            taken += len(block)
            if len(block):
                self._last_ms = max(self._last_ms, int(block.timestamp_ms[-1]))
            if taken >= FLUSH_RECORDS:
                self._flush()
                taken = 0
            if self._stop.is_set():
                return
        self._flush()

    def _flush(self) -> None:
        self._collector.flush(time.time_ns() // 1_000_000, is_live=False)
        if self._last_ms >= 0:
            self._lags.keep_offsets(self._last_ms)


def chosen(partitions: Sequence[PartitionFiles]) -> list[PartitionFiles]:
    """Return each partition once: of several copies, as of several brokers, the longest one."""
    best: dict[tuple[str, int | None], PartitionFiles] = {}
    alone = []
    for files in partitions:
        if files.partition is None:
            alone.append(files)
            continue
        place = files.topic, files.partition
        if place not in best or _end(files) > _end(best[place]):
            best[place] = files
    return [*alone, *(best[place] for place in sorted(best, key=str))]


def _end(files: PartitionFiles) -> tuple[str, int]:
    last = files.segments[-1] if files.segments else None
    return ("", 0) if last is None else (last.path.name, last.size_bytes)
