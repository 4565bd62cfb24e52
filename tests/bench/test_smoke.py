"""Every benchmark runs with `--smoke` in seconds, and prints its cases as JSON and as a table.

Figures are not checked. A benchmark that calls a renamed function fails here, and not weeks later
in `make bench` (issue 14). In `make test`, one is started as users start it, and the others are
forks of a process that has imported what they need. In `make test-full`, all are started as users
start them.
"""

import os
import subprocess
import sys
from functools import cached_property

import pytest

from quorate.assignors.registry import server_assignor
from tests.bench.cases import BENCH, WIDE, check_cases, import_from_bench, run_here
from tests.bench.starter import Starter
from tests.extent import is_full
from tests.oracle.fixtures import shared_folder
from tests.watch.helpers.browser import find_browser

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
ELSEWHERE = ("pipeline", "cluster_differential")
"""Run in the test below, and in tests/cluster/test_pair.py, on whose brokers it compares."""


def benchmarks() -> list[object]:
    names = sorted(path.stem for path in BENCH.glob("[!_]*.py") if path.stem not in ELSEWHERE)
    return [pytest.param(name, marks=NEEDS.get(name, pytest.mark.oracle)) for name in names]


@pytest.fixture(scope="module")
def starter(pytestconfig, tmp_path_factory):
    with Starter(shared_folder(pytestconfig, tmp_path_factory), env=os.environ | WIDE) as found:
        yield found


@pytest.mark.parametrize("name", benchmarks())
def test_a_benchmark_runs_and_prints_its_cases(name, monkeypatch, request, tmp_path):
    import_from_bench(monkeypatch)
    program = BENCH / f"{name}.py"
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
    run_here("pipeline", monkeypatch)
    check_cases("pipeline", capsys.readouterr().out)


def test_a_copy_of_a_prepared_group_lacks_nothing_but_what_assignors_find_out(monkeypatch):
    """A new attribute of Group ended `bench/assignors.py --quick` by AttributeError (issue 14)."""
    import_from_bench(monkeypatch)
    from _groups import Cell, fresh, group, members_of

    cell = Cell(members=4, ratio=2, topics=2)
    prepared = group(members_of(cell, server_assignor("uniform")), cell)
    assigned = server_assignor("uniform").assign_group(prepared)
    assert prepared.sorted_places  # `uniform` in C finds out nothing
    copy = fresh(prepared)
    lacking = vars(prepared).keys() - vars(copy).keys()
    assert lacking
    assert all(isinstance(vars(type(prepared))[name], cached_property) for name in lacking)
    assert server_assignor("uniform").assign_group(copy) == assigned


def test_the_cpu_time_of_a_worker_of_spark_counts_also_after_its_end(monkeypatch, tmp_path):
    """A worker that ended made `bench/pipeline.py` divide by a CPU time of 0."""
    import_from_bench(monkeypatch)
    from _spark import TICKS, _cpu, took

    assert took(lambda: None, rounds=1).cpu_s == 1 / TICKS
    (tmp_path / "java").symlink_to("/bin/sh")
    worker = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    with subprocess.Popen(
        [tmp_path / "java", "-c", f"read _; sh -c '{worker}'; echo ended; read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as jvm:
        jvm_s, workers_s = _cpu()
        jvm.stdin.write("\n")
        jvm.stdin.flush()
        assert jvm.stdout.readline() == "ended\n"
        jvm_later_s, workers_later_s = _cpu()
    assert workers_later_s - workers_s > 10 / TICKS
    assert jvm_later_s - jvm_s < 10 / TICKS
