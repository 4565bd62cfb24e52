"""Measuring what the coordinator's benchmarks share: the least time of ours, the oracle's own figures, and memory."""

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

ORACLE = Path(__file__).resolve().parents[1] / "tests" / "oracle" / "target"
JAVA = "Kafka 4.3.1, Java"
SMOKE_JAVA = ("-Dwarm=0", "-Dround=1", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A JVM whose figures are not used: no warm-up, short rounds, little compilation."""

Action = Callable[[], Any]


@dataclass
class Measured:
    """Something that is done `calls` times by one `action`, and the least seconds that one took so far."""

    action: Action
    calls: int
    least_s: float = field(default=float("inf"))

    def again(self, *, least_s: float = 0.5) -> None:
        """Some more rounds, at least three."""
        gc.collect()
        started, rounds = time.perf_counter(), 0
        while rounds < 3 or time.perf_counter() - started < least_s:
            cpu, begin = time.thread_time(), time.perf_counter()
            self.action()
            took = min(time.perf_counter() - begin, time.thread_time() - cpu)
            self.least_s = min(self.least_s, took / self.calls)
            rounds += 1


def java(*families: str, warm_percent: int) -> list[dict[str, Any]]:
    """The lines of the oracle's benchmark, with the `least_s` that one call took.

    `warm_percent`: of its usual warm-up.
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


def held(make: Callable[[], Any]) -> tuple[Any, int]:
    """What `make` gives, and the bytes that it holds."""
    make()  # whatever is only made once
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return made, size
