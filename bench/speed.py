"""Run all benchmarks, and compare quorate's speed where users feel it with the goals.

Prints one table, and writes it to docs/explanation/speed.md with the machine, versions and date.
The lines and their goals are in `_lines.py`. Each benchmark runs in its own process, and its cases
are kept in build/bench, so that `--only` replaces some and keeps the others. `--from` runs nothing.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _lines import LINES, Line, found_by
from _report import SMOKE
from rich.console import Console
from rich.table import Table

from quorate.codecs.releases import KafkaVersion

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "bench"
PAGE = ROOT / "docs" / "explanation" / "speed.md"
BEGIN, END = "<!-- figures: make bench -->\n", "<!-- end of figures -->\n"
NO_SPEED = ("*_differential", "simulation_sweep", "socket_fuzz", "speed", "storage_damage", "verify_clients")
"""Programs in this folder that measure no speed: sweeps, fuzzers and the table of clients."""
ALL = tuple(
    path.stem
    for path in sorted(Path(__file__).parent.glob("[!_]*.py"))
    if not any(fnmatch(path.stem, name) for name in NO_SPEED)
)
IN_SMOKE = ("simulation",)
HEADERS = ("what a user does", "case", "quorate", "peer", "ratio", "goal", "met")

Case = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """The cases of a benchmark, and when and where they were measured."""

    bench: str
    at: str
    cases: Sequence[Case]


def machine() -> str:
    """Describe this machine: processor, cores, memory and load."""
    name = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        names = [line.partition(":")[2].strip() for line in facts.read_text().splitlines() if "model name" in line]
        name = next(iter(names), name)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores of {name}, {memory:.0f} GiB, load {os.getloadavg()[0]:.1f}"


def versions() -> str:
    """Name the versions that matter."""
    packages = ("numpy", "pyarrow", "kafka-python", "confluent-kafka", "uvloop")
    named = ", ".join(map(_named, packages))
    return f"Python {platform.python_version()}, {named}; Kafka {KafkaVersion.NEWEST}"


def _named(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def run(bench: str, options: Sequence[str], kept: Path) -> Measured | None:
    """Run a benchmark and keep its cases; `None` if it fails."""
    print(f"== {bench}", file=sys.stderr, flush=True)
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC{''.join(f', {one}' for one in options)}; {machine()}; {versions()}"
    command = [sys.executable, str(ROOT / "bench" / f"{bench}.py"), "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [line for line in map(_shown, process.stdout) if line.startswith("{")]
    if process.returncode:
        print(f"error: {bench} ended with exit status {process.returncode}", file=sys.stderr, flush=True)
        return None
    kept.mkdir(parents=True, exist_ok=True)
    (kept / f"{bench}.jsonl").write_text(json.dumps({"at": at}) + "\n" + "".join(lines), encoding="utf-8")
    return Measured(bench, at, [json.loads(line) for line in lines])


def _shown(line: str) -> str:
    print(f"  {line}", end="", file=sys.stderr, flush=True)
    return line


def read(kept: Path) -> Iterator[Measured]:
    """Yield the kept cases of earlier runs."""
    for path in sorted(kept.glob("*.jsonl")):
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        yield Measured(path.stem, json.loads(head)["at"], [json.loads(line) for line in lines])


def figure(value: float | None) -> str:
    """Write a number with three digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def row(line: Line, case: Case) -> tuple[str, ...]:
    """Return the cells of a case of a line, by `HEADERS`."""
    peer = f"{figure(case['peer'])} ({case['peer_name']})" if case["peer"] is not None else ""
    goal = f"ratio {line.goal}" if line.figure == "ratio" else f"{line.goal} {case['unit']}"
    ours = f"{figure(case['ours'])} {case['unit']}"
    met = {True: "yes", False: "no", None: ""}[line.met(case)]
    return line.user, str(case["case"]), ours, peer, figure(case["ratio"]), goal, met


def rows(measured: Iterable[Measured]) -> list[tuple[str, ...]]:
    """Return the rows of all lines."""
    cases = {one.bench: one.cases for one in measured}
    found = []
    for line in LINES:
        cells = [row(line, case) for case in found_by(line, cases.get(line.bench, ()))]
        found += dict.fromkeys(cells or [(line.user, f"{line.bench}: not measured", "", "", "", line.goal, "")])
    return found


def markdown(measured: Sequence[Measured], table: Iterable[Sequence[str]]) -> str:
    """Return the figures as Markdown."""
    escaped = (tuple(cell.replace("|", "\\|") for cell in cells) for cells in (HEADERS, ["---"] * len(HEADERS), *table))
    lines = [f"| {' | '.join(cells)} |" for cells in escaped]
    where = [f"- `{one.bench}`: {one.at}" for one in sorted(measured, key=lambda one: one.bench)]
    return "\n".join([*lines, "", "Measured:", "", *where, ""])


def write(page: Path, figures: str) -> None:
    """Replace the figures of the page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{figures}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less data and fewer cases of each benchmark")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE}; only {', '.join(IN_SMOKE)}; writes nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead of the table")
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL, metavar="NAME", help=f"of {', '.join(ALL)}")
    parser.add_argument(
        "--from", dest="kept", type=Path, metavar="FOLDER", help="run nothing; take the cases from this folder"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="page with the figures (default: %(default)s)")
    options = parser.parse_args()
    if options.smoke:
        kept = ROOT / "build" / "bench-smoke"
        found = [run(bench, ["--smoke"], kept) for bench in IN_SMOKE]
    elif options.kept:
        kept, found = options.kept, []
    else:
        kept = KEPT
        found = [run(bench, ["--quick"] if options.quick else [], kept) for bench in options.only]
    measured = list(read(kept))
    table = rows(measured)
    if options.json or options.smoke:
        for cells in table:
            print(json.dumps(dict(zip(HEADERS, cells, strict=True))), flush=True)
    if not options.json:
        shown = Table(title="Speed where users feel it")
        for header in HEADERS:
            shown.add_column(header)
        for cells in table:
            shown.add_row(*cells)
        Console(width=int(os.environ.get("COLUMNS", "200"))).print(shown)
    if not options.smoke:
        write(options.page, markdown(measured, table))
    if None in found:
        sys.exit(1)


if __name__ == "__main__":
    main()
