"""Measurements of the coordinator's benchmarks: our least time, the oracle's figures, memory."""

import gc
import json
import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quorate.codecs.releases import KafkaVersion

ORACLE = Path(__file__).resolve().parents[1] / "tests" / "oracle" / "target"
JAVA = f"Kafka {KafkaVersion.NEWEST}, Java"
SMOKE_JAVA = ("-Dwarm=0", "-Dround=1", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A JVM whose figures are not used: no warm-up, short rounds, little compilation."""

Action = Callable[[], Any]


@dataclass
class Measured:
    """An action that makes `calls` calls, and the least time of a call so far, in seconds."""

    action: Action
    calls: int
    least_s: float = field(default=float("inf"))

    def again(self, *, least_s: float = 0.5) -> None:
        """Run at least three more rounds."""
        gc.collect()
        started, rounds = time.perf_counter(), 0
        while rounds < 3 or time.perf_counter() - started < least_s:
            cpu, begin = time.thread_time(), time.perf_counter()
            self.action()
            took = min(time.perf_counter() - begin, time.thread_time() - cpu)
            self.least_s = min(self.least_s, took / self.calls)
            rounds += 1


def java(*families: str, warm_percent: int) -> list[dict[str, Any]]:
    """Run the oracle's benchmark; return its lines, with the least seconds of a call (`least_s`).

    `warm_percent`: percentage of the usual warm-up.
    """
    lines: list[dict[str, Any]] = []
    for family in families:
        command = ["java", "-Xms2g", "-Xmx4g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        command += [*(("-XX:+UseG1GC", f"-Dwarm={warm_percent}") if warm_percent else SMOKE_JAVA)]
        command += ["-cp", f"{ORACLE / 'classes'}{os.pathsep}{ORACLE / 'lib'}{os.sep}*", "oracle.Bench", family]
        run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        lines += map(json.loads, run.stdout.splitlines())
    for line in lines:
        line["least_s"] = min(line["min_ns"], line["cpu_ns_per_op"]) / 1e9
    return lines


def size_of(make: Callable[[], Any]) -> tuple[Any, int]:
    """Return the result of `make`, and its size in bytes."""
    make()  # fill caches
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return made, size
