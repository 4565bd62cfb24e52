"""Options, progress and results of sweeps: each compares random cases, which have seeds."""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from _report import SMOKE
from rich.console import Console
from rich.table import Table

SHOWN = 5
"""The number of differences of a kind that are printed."""


class Sweep:
    """A sweep of `count` cases, by default `full`; prints its first seed.

    `parser`: has further arguments, whose values are in `options`.
    """

    def __init__(
        self,
        description: str,
        what: str,
        full: int,
        *,
        quick: int,
        smoke: int,
        each: str = "",
        parser: argparse.ArgumentParser | None = None,
    ) -> None:
        parser = parser or argparse.ArgumentParser()
        parser.description = description
        parser.add_argument(f"--{what}", type=int, default=full, dest="count", help=each.strip() or None)
        parser.add_argument("--seed", type=int, help="the first seed (default: a new one)")
        parser.add_argument("--quick", action="store_true", help=f"at most {quick:,} {what}{each}")
        parser.add_argument("--smoke", action="store_true", help=f"{SMOKE}: {smoke} {what}{each}")
        parser.add_argument("--json", action="store_true", help="JSON objects instead of a table")
        self.options = options = parser.parse_args()
        self.count: int = smoke if options.smoke else min(options.count, quick) if options.quick else options.count
        new = 1 if options.smoke else int.from_bytes(os.urandom(3), "big")
        self.first: int = new if options.seed is None else options.seed
        self.seeds = range(self.first, self.first + self.count)
        self._what = what
        self._began = time.perf_counter()
        print(f"seeds from {self.first}; --seed {self.first} repeats this run", file=sys.stderr)

    def progress(self, done: int, differ: int, which: str = "") -> None:
        """Print how many cases are done, and how many of them differ. `which`: the cases."""
        rate = done / (time.perf_counter() - self._began)
        print(f"  {which}{done:,} {self._what}, {differ} differ, {rate:,.1f}/s", file=sys.stderr, flush=True)

    def results(self, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Print rows as JSON or as a table, without their lists."""
        if self.options.json or self.options.smoke:
            for row in rows:
                print(json.dumps(row), flush=True)
        if self.options.json or not rows:
            return
        table = Table(title=f"{title}, seeds from {self.first}")
        for name in (names := [name for name, value in rows[0].items() if not isinstance(value, list)]):
            table.add_column(name, justify="right" if isinstance(rows[0][name], int) else "left")
        for row in rows:
            table.add_row(*(_text(row[name]) for name in names))
        Console(width=int(os.environ.get("COLUMNS", "150"))).print(table)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {number:,}" for name, number in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)
