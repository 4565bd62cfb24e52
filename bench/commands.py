"""Measure what a user waits for: the first test, and commands on a log directory.

Wall time of new processes, from their start; the median, and the peak of their memory.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _report import Report
from _year import Year, write_year

BYTES_PER_RECORD = 91
"""Of a generated log, about."""


READY = """
from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.interface import TEST_PROPERTIES

with EmbeddedCluster(racks=["a", "b", "c"], properties=TEST_PROPERTIES) as kafka:
    kafka.wait_ready()
    print(kafka.bootstrap_servers, flush=True)
"""
"""What the fixture `kafka_cluster` does."""

COMMAND = [sys.executable, "-P", "-c", "from quorate.cli.main import main; main()"]


@dataclass(frozen=True)
class Ran:
    """A process: seconds to its first line and to its end, CPU time, and its peak memory."""

    first_s: float
    whole_s: float
    cpu_s: float
    peak_mb: float


def ran(command: Sequence[str]) -> Ran:
    """Run a process to its end. Raises `CalledProcessError`."""
    began = time.perf_counter()
    compiled = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # as installed packages are
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=compiled) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        first_s = time.perf_counter() - began
        process.stdout.read()
        errors = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    whole_s = time.perf_counter() - began
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=errors)
    return Ran(first_s, whole_s, used.ru_utime + used.ru_stime, used.ru_maxrss * _UNIT / 1e6)


_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes of `ru_maxrss`."""


def times(command: Sequence[str], rounds: int) -> Ran:
    """Return the medians of several runs, and their peak of memory."""
    found = [ran(command) for _ in range(rounds)]
    return Ran(
        median(one.first_s for one in found),
        median(one.whole_s for one in found),
        median(one.cpu_s for one in found),
        max(one.peak_mb for one in found),
    )


def first_test(report: Report) -> None:
    """Measure the fixture of README's first test, from the start of Python to three brokers."""
    ready = times([sys.executable, "-P", "-c", READY], report.pick(9, quick=5, smoke=1))
    report.cost("three brokers for a test, from the start of Python", ready.first_s, None, "", "s", cpu_s=ready.cpu_s)


def year(report: Report, folder: Path, size_bytes: int) -> Year:
    """Generate a log of about so many bytes, like a broker's."""
    groups, slots, processes = report.pick((200, None, 2), quick=(200, None, 2), smoke=(20, 2, 1))
    records = size_bytes // BYTES_PER_RECORD
    return write_year(folder, records, groups=groups, slots=slots, damage=0, processes=processes)


def size_of(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2g} GB" if size_bytes >= 10_000_000 else f"{size_bytes / 1e6:.2g} MB"


def groups_list(report: Report, temporary: Path) -> None:
    """Measure `quorate groups list` on logs of three sizes: time to the first line, and memory."""
    sizes = report.pick(
        [100_000_000, 300_000_000, 1_000_000_000], quick=[30_000_000, 100_000_000, 300_000_000], smoke=[200_000]
    )
    first = None
    for size in sizes:
        log = year(report, temporary / str(size), size)
        found = times([*COMMAND, "groups", "list", str(log.folder)], report.pick(3, quick=3, smoke=1))
        # Growth: time for each byte, compared with the smallest log.
        each = found.first_s / log.size_bytes
        first = first or each
        name = size_of(log.size_bytes)
        report.cost(
            f"quorate groups list, {name}", found.first_s, None, "", "s", cpu_s=found.cpu_s, records=float(log.records)
        )
        report.cost(f"quorate groups list, {name}: time for each byte", each * 1e9, first * 1e9, "the smallest", "ns")
        report.cost(f"quorate groups list, {name}: memory", found.peak_mb, 500.0, "the bound", "MB")
        for path in log.folder.rglob("*.log"):
            path.unlink()


def reports(report: Report, temporary: Path) -> None:
    """Measure a report and the table of groups of a small log: 700 records, four partitions."""
    folder = temporary / "small"
    log = write_year(folder, 700, groups=8, partitions=4, slots=2, damage=0, processes=1)
    rounds = report.pick(5, quick=3, smoke=1)
    page = ["pipeline", "report", str(folder), "--output", str(temporary / "page.html")]
    for name, arguments in (
        ("quorate pipeline report", page),
        ("quorate pipeline state --table groups", ["pipeline", "state", str(folder), "--table", "groups"]),
        ("quorate groups list", ["groups", "list", str(folder)]),
    ):
        found = times([*COMMAND, *arguments], rounds)
        report.cost(f"{name}, {log.records:,} records", found.whole_s, None, "", "s", cpu_s=found.cpu_s)


def main() -> None:
    report = Report("What users wait for", __doc__ or "")
    first_test(report)
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as temporary:
        reports(report, Path(temporary))
        groups_list(report, Path(temporary))
    report.finish()


if __name__ == "__main__":
    main()
