"""Reads a copy of coordinator logs into the collector, block by block."""

import threading
import time
from collections.abc import Callable, Sequence

from quorate.assignors.what_if.description import read_topology
from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.errors import QuorateError
from quorate.codecs.log.files import PartitionFiles
from quorate.codecs.log.model import is_damage
from quorate.codecs.log.partitions import LogPartitions
from quorate.codecs.log.raw import read_raw
from quorate.watch.collector import Collector
from quorate.watch.problems import Problems
from quorate.watch.topics import KnownTopics

__all__ = ["FilesThread", "chosen"]

FLUSH_BLOCKS = 8
"""Blocks between two transactions."""


class FilesThread:
    """A thread that reads logs once; `is_done` after their end.

    `on_part`: is called between blocks, with the time of the last record.
    """

    def __init__(
        self,
        paths: Sequence[str],
        topology: str | None,
        collector: Collector,
        topics: KnownTopics,
        problems: Problems,
        stop: threading.Event,
        on_part: Callable[[int], None],
    ) -> None:
        self.is_done = False
        self._collector = collector
        self._problems = problems
        self._stop = stop
        self._on_part = on_part
        if topology is not None:
            topics.set(read_topology(topology)[0])
        found = LogPartitions(paths, topics=(CONSUMER_OFFSETS, SHARE_GROUP_STATE))
        self._partitions = chosen(found.partitions)
        self._thread = threading.Thread(target=self._run, name="quorate-watch-files", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            for files in self._partitions:
                self._read(files)
                if self._stop.is_set():
                    return
        except QuorateError as error:
            self._problems.set("files", str(error).replace("\n", "; "))
        finally:
            self.is_done = True
            if not self._stop.is_set():
                self._collector.flush(time.time_ns() // 1_000_000, is_live=False)

    def _read(self, files: PartitionFiles) -> None:
        number, last_ms = 0, -1
        for number, block in enumerate(read_raw(files, skip_corrupt=True), 1):
            for problem in block.problems:
                if is_damage(problem, skip_corrupt=False):
                    self._problems.set(str(problem.path), f"skipped: {problem}")
            self._collector.take(block)
            if len(block):
                last_ms = int(block.timestamp_ms[-1])
            if number % FLUSH_BLOCKS == 0:
                self._flush(last_ms)
            if self._stop.is_set():
                return
        self._flush(last_ms)

    def _flush(self, last_ms: int) -> None:
        self._collector.flush(time.time_ns() // 1_000_000, is_live=False)
        if last_ms >= 0:
            self._on_part(last_ms)


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
