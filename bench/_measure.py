"""Measurements of the coordinator's benchmarks: our least time, the oracle's figures, memory."""

import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quorate.codecs.releases import KafkaVersion

_ORACLE = Path(__file__).resolve().parents[1] / "tests" / "oracle" / "target"
JAVA = f"Kafka {KafkaVersion.NEWEST}, Java"
USUAL_JAVA = ("-XX:+UseG1GC",)
SMOKE_JAVA = (
    *("-Dwarm=0", "-Dround=1", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *(f"-XX:SharedArchiveFile={_ORACLE / 'classes.jsa'}", "-Xlog:cds*=off"),
)
"""A JVM whose figures are not used: short rounds, little compilation, archived classes."""

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


def need_java() -> None:
    """Exit if Kafka's classes are missing."""
    if not (_ORACLE / "classes").is_dir():
        sys.exit("error: Kafka's jars are missing; run `make bench`, or tests/oracle/build")


def java(program: str, *arguments: str, options: Sequence[str]) -> list[dict[str, Any]]:
    """Run a program of the oracle in a new JVM; return its lines.

    A line about calls has the least seconds of one (`least_s`). `options`: the JVM's.
    """
    command = ["java", "-Xms2g", "-Xmx4g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", *options]
    command += ["-cp", f"{_ORACLE / 'lib'}{os.sep}*{os.pathsep}{_ORACLE}{os.sep}*", program, *arguments]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    for line in lines:
        if "min_ns" in line:
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


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
