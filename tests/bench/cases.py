"""The cases that a benchmark prints, and benchmarks that run in the process of the tests."""

import json
import re
import runpy
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
WIDE = {"COLUMNS": "250"}
"""The environment in which the first column of tables does not wrap."""
NOT_IN_SMOKE = re.compile("(client-cooperative-sticky|server-range): ")
"""Lines of `make bench` whose cases a smoke run does not have."""


def import_from_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCH)])  # last: `codecs` stays the standard library's


def run_here(name: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    """Run a benchmark with `--smoke` in this process."""
    import_from_bench(monkeypatch)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--smoke", *options])
    for variable, value in WIDE.items():
        monkeypatch.setenv(variable, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in other processes, warnings are no errors
        runpy.run_path(str(BENCH / f"{name}.py"), run_name="__main__")


def check_cases(name: str, printed: str) -> None:
    """Check that a benchmark printed its cases as JSON and as a table."""
    lines = printed.splitlines()
    cases = [json.loads(line) for line in lines if line.startswith("{")]
    table = "\n".join(line for line in lines if not line.startswith("{"))
    assert cases
    if name != "speed":
        from _lines import LINES, found_by

        unmatched = [line.case for line in LINES if line.bench == name and not found_by(replace(line, peer=""), cases)]
        assert not [case for case in unmatched if not NOT_IN_SMOKE.match(case)]
    for case in cases:
        assert str(next(iter(case.values())))[:12] in table
