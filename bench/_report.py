"""Arguments, timing and output of all benchmarks.

Our figure and the peer's come from one run. Compare their ratio, rather than figures of two runs.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import quantiles
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")


SMOKE = "the least data, for tests: takes seconds, and prints JSON and the table"


@dataclass(frozen=True)
class Case:
    """A result. A `ratio` above 1 means that quorate is better.

    `goal`: the goal of the ratio or of our figure, as a text. `details`: further figures of
    quorate, in the same unit.
    """

    case: str
    ours: float
    peer: float | None
    peer_name: str
    ratio: float | None
    unit: str
    goal: str = ""
    details: dict[str, float] = field(default_factory=dict)


class Report:
    """Output of cases: a JSON line for each, or a table at the end.

    `parser`: has further arguments of the benchmark, whose values are in `options`.
    """

    def __init__(self, title: str, description: str, parser: argparse.ArgumentParser | None = None) -> None:
        parser = parser or argparse.ArgumentParser()
        parser.description = description
        parser.add_argument("--quick", action="store_true", help="fewer cases and less data; ends within 50 s")
        parser.add_argument("--smoke", action="store_true", help=SMOKE)
        parser.add_argument("--json", action="store_true", help="one JSON object per case")
        self.options = options = parser.parse_args()
        self.smoke: bool = options.smoke
        self.quick: bool = options.quick and not options.smoke
        self.json: bool = options.json or options.smoke
        self.table: bool = not options.json
        self.title = title
        self.cases: list[Case] = []

    def pick(self, full: T, *, quick: T, smoke: T) -> T:
        """Return the value for this run: full, `--quick` or `--smoke`."""
        return smoke if self.smoke else quick if self.quick else full

    def rate(
        self,
        case: str,
        ours: float,
        peer: float | None,
        peer_name: str,
        unit: str = "records/s",
        goal: str = "",
        **details: float,
    ) -> None:
        """Add figures of which more is better."""
        self._add(Case(case, ours, peer, peer_name, None if peer is None else ours / peer, unit, goal, details))

    def cost(
        self,
        case: str,
        ours: float,
        peer: float | None,
        peer_name: str,
        unit: str,
        goal: str = "",
        **details: float,
    ) -> None:
        """Add figures of which less is better."""
        self._add(Case(case, ours, peer, peer_name, None if peer is None else peer / ours, unit, goal, details))

    def steady(self, action: Callable[[], Any]) -> float:
        """Return the seconds of a run in the steady state, measured as in Java.

        This is the median of the first three consecutive runs that differ by at most 5 %. On a busy
        machine, it is the median of the closest three within 4 s. A smoke run uses the first three.
        """
        most_s = self.pick(4.0, quick=4.0, smoke=0.0)
        runs: list[float] = []
        started = time.perf_counter()
        best: tuple[float, float] | None = None
        while best is None or (best[0] > 1.05 and time.perf_counter() - started < most_s):
            begin = time.perf_counter()
            action()
            runs.append(time.perf_counter() - begin)
            last = sorted(runs[-3:])
            if len(last) == 3:
                spread = last[2] / last[0], last[1]
                best = spread if best is None else min(best, spread)
        return best[1]

    def _add(self, case: Case) -> None:
        self.cases.append(case)
        if self.json:
            line = asdict(case)
            line |= line.pop("details")
            print(json.dumps(line), flush=True)
        else:
            print(f"  {case.case}: {_number(case.ours)} {case.unit}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Print the table, unless `--json` is given."""
        if not self.table:
            return
        table = Table(title=self.title)
        further = list(dict.fromkeys(name for case in self.cases for name in case.details))
        for name in (
            "case",
            "ours",
            *(name.replace("_", " ") for name in further),
            "peer",
            "peer is",
            "ratio",
            "unit",
            "goal",
        ):
            table.add_column(name, justify="left" if name in ("case", "peer is", "unit", "goal") else "right")
        for c in self.cases:
            ratio = "" if c.ratio is None else f"{c.ratio:.2f}"
            details = [_number(c.details[name]) if name in c.details else "" for name in further]
            peer = "" if c.peer is None else _number(c.peer)
            table.add_row(c.case, _number(c.ours), *details, peer, c.peer_name, ratio, c.unit, c.goal)
        Console(width=int(os.environ.get("COLUMNS", "150"))).print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]
