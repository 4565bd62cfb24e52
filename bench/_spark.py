"""Spark for the benchmarks: a session of two cores, and the time, CPU time and memory of jobs.

CPU time is that of the JVM and Python's workers together, including JIT and garbage collection. On
a busy machine it is a better measure than time: half of it is the time of a job on two idle cores.
Linux only.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import DataFrame, SparkSession

CORES = 2
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def session(*, compile_well: bool) -> SparkSession:
    """Start a local session.

    `compile_well`: use the default JIT and generate code; otherwise each query starts faster.
    """
    quick = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    }
    spark = (
        SparkSession.builder.master(f"local[{CORES}]")
        .appName("quorate-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        # With a limit, Spark computes a batch's size again for each row that it passes to Python.
        # This is quadratic for rows with lists in structs. Rows are small here.
        .config("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
        .config(map={} if compile_well else quick)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


@dataclass(slots=True)
class Took:
    """The least times of some rounds, in seconds, and the maximum of memory, in MB.

    Pages that workers share count for each worker.
    """

    clock_s: float = float("inf")
    cpu_s: float = float("inf")
    jvm_cpu_s: float = float("inf")
    jvm_mb: float = 0.0
    workers_mb: float = 0.0
    rounds: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The lesser of the time, and the CPU time divided by the number of cores."""
        return min(self.clock_s, self.cpu_s / CORES)


def noop(df: DataFrame) -> Callable[[], None]:
    """Return an action that computes all rows and discards them."""
    return lambda: df.write.format("noop").mode("overwrite").save()


def took(action: Callable[[], object], *, rounds: int = 3, into: Took | None = None) -> Took:
    """Measure some rounds, in addition to earlier ones in `into`."""
    found = Took() if into is None else into
    done = Event()
    watcher = Thread(target=_watch, args=(found, done), daemon=True)
    watcher.start()
    for _ in range(rounds):
        before, begin = _cpu(), time.perf_counter()
        action()
        clock = time.perf_counter() - begin
        after = _cpu()
        found.clock_s = min(found.clock_s, clock)
        # It is read in steps. Less than one may look like none.
        found.cpu_s = min(found.cpu_s, max(sum(after) - sum(before), 1 / TICKS))
        found.jvm_cpu_s = min(found.jvm_cpu_s, after[0] - before[0])
        found.rounds.append(sum(after) - sum(before))
    done.set()
    watcher.join()
    return found


def _watch(found: Took, done: Event) -> None:
    pause_s = 0.1
    while not done.wait(pause_s):
        begin = time.perf_counter()
        processes = list(_spark_processes())
        pause_s = max(0.1, 20 * (time.perf_counter() - begin))  # reads all processes: at most 5 % of a core
        found.jvm_mb = max(found.jvm_mb, sum(one.mb for one in processes if one.jvm))
        found.workers_mb = max(found.workers_mb, sum(one.mb for one in processes if not one.jvm))


def _cpu() -> tuple[float, float]:
    """Return CPU seconds of the JVM, and of all workers, also those that have ended."""
    # A worker that ends is counted with its parent from then on. If this happens between reading
    # the parent and the worker, its time is in neither, and the next look has fewer processes.
    before, found = None, list(_spark_processes())
    while before != (before := [one.id for one in found]):
        found = list(_spark_processes())
    jvm = sum(one.own_s for one in found if one.jvm)
    return jvm, sum(one.own_s + one.ended_s for one in found) - jvm


class _Process(NamedTuple):
    id: int
    jvm: bool
    own_s: float  # CPU time
    ended_s: float  # that of children that have ended
    mb: float


def _spark_processes() -> Iterator[_Process]:
    """Yield the JVMs that this process started, and their workers."""
    children: dict[int, list[_Process]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text()
            except OSError:  # it has ended
                continue
            name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            own_s, ended_s = ((int(rest[at]) + int(rest[at + 1])) / TICKS for at in (11, 13))
            process = _Process(int(path.name), name == "java", own_s, ended_s, int(rest[21]) * PAGE_MB)
            children.setdefault(int(rest[1]), []).append(process)
    found = [one for one in children.get(os.getpid(), ()) if one.jvm]
    while found:
        one = found.pop()
        yield one
        found += children.get(one.id, ())
