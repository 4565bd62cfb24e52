"""Every benchmark runs with `--smoke` in seconds, and prints its cases as JSON and as a table.

Figures are not checked. A benchmark that calls a renamed function fails here, and not weeks later
in `make bench` (issue 14). In `make test`, one is started as users start it, and the others are
forks of a process that has imported what they need. In `make test-full`, all are started as users
start them.
"""

import json
import os
import re
import runpy
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest

from quorate.assignors.registry import server_assignor
from tests.bench.starter import Starter
from tests.extent import is_full
from tests.oracle.fixtures import shared_folder
from tests.watch.helpers.browser import find_browser

ROOT = Path(__file__).parents[2]

NEEDS = {
    "integration": pytest.mark.containers,
    "cluster": (),
    "cluster_load": (),
    "commands": (),
    "consumers": (),
    "simulation": (),
    "simulation_sweep": (),
    "socket_fuzz": (),
    "storage_damage": (),
    "verify": (),
    "verify_clients": (),
    "watch": (),
    "watch_page": pytest.mark.skipif(
        find_browser() is None, reason="no browser: scripts/setup-browser installs Chromium"
    ),
}
"""All others need Java: Kafka's own classes, a broker or Spark."""


AS_USERS_DO = "verify"
"""The benchmark that is started as users start it also in `make test`."""

WIDE = {"COLUMNS": "250"}
"""The environment in which the first column of tables does not wrap."""

NOT_IN_SMOKE = re.compile("(client-cooperative-sticky|server-range): ")
"""Lines of `make bench` whose cases a smoke run does not have."""


def benchmarks() -> list[object]:
    names = sorted(path.stem for path in (ROOT / "bench").glob("[!_]*.py") if path.stem != "pipeline")
    return [pytest.param(name, marks=NEEDS.get(name, pytest.mark.oracle)) for name in names]


@pytest.fixture(scope="module")
def starter(pytestconfig, tmp_path_factory):
    with Starter(shared_folder(pytestconfig, tmp_path_factory), env=os.environ | WIDE) as found:
        yield found


@pytest.mark.parametrize("name", benchmarks())
def test_a_benchmark_runs_and_prints_its_cases(name, monkeypatch, request, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "bench")])  # last: `codecs` stays the standard library's
    program = ROOT / "bench" / f"{name}.py"
    if name == AS_USERS_DO or is_full():
        command = [sys.executable, str(program), "--smoke"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=os.environ | WIDE)
    else:
        ran = request.getfixturevalue("starter").run(program, tmp_path)
    assert ran.returncode == 0, f"exit status {ran.returncode}\n{ran.stdout}{ran.stderr}"
    check_cases(name, ran.stdout)


@pytest.mark.oracle
def test_the_benchmark_with_spark_runs_and_prints_its_cases(own_spark, monkeypatch, capsys):
    """Runs in the JVM of the pipeline's tests: one of its own takes most of the time."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "bench")])
    monkeypatch.setattr(sys, "argv", ["pipeline.py", "--smoke"])
    monkeypatch.setenv("COLUMNS", WIDE["COLUMNS"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in other processes, warnings are no errors
        runpy.run_path(str(ROOT / "bench" / "pipeline.py"), run_name="__main__")
    check_cases("pipeline", capsys.readouterr().out)


def check_cases(name, printed):
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


def test_a_copy_of_a_prepared_group_lacks_nothing_but_what_assignors_find_out(monkeypatch):
    """A new attribute of Group ended `bench/assignors.py --quick` by AttributeError (issue 14)."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "bench")])  # last: `codecs` stays the standard library's
    from _groups import Cell, fresh, group, members_of

    cell = Cell(members=4, ratio=2, topics=2)
    prepared = group(members_of(cell, server_assignor("uniform")), cell)
    assigned = server_assignor("uniform").assign_group(prepared)
    copy = fresh(prepared)
    lacking = vars(prepared).keys() - vars(copy).keys()
    assert lacking
    assert all(isinstance(vars(type(prepared))[name], cached_property) for name in lacking)
    assert server_assignor("uniform").assign_group(copy) == assigned
