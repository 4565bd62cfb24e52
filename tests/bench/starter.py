"""Run benchmarks with `--smoke` in forks of a process that has imported what they need.

Imports take most of the time of a smoke run. A fork continues as `python bench/NAME.py --smoke`
does. The process starts no threads; those of NumPy and PyArrow are prepared for forks.
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

BENCH = Path(__file__).parents[2] / "bench"
WITH_SPARK = "pipeline"
"""Runs elsewhere, and its imports take longest."""
TALKING = "watch_differential"
"""Reads the log of its oracle."""
TIMEOUT_S = 600


class Starter:
    """The process that forks. `oracles`: the folder of shared oracles (tests/oracle/shared.py)."""

    def __init__(self, oracles: Path | None, *, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, *([] if oracles is None else [oracles])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )

    def run(self, program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a benchmark. `folder`: that of the files with its output."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        output, errors = folder / "output", folder / "errors"
        print(json.dumps([program, output, errors], default=str), file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(program.name, status, output.read_text(), errors.read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def become(program: str, output: str, errors: str) -> None:
    """Continue as a benchmark does. `output`, `errors`: files of its standard output and error."""
    signal.alarm(TIMEOUT_S)
    for number, path, flags in (0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY), (2, errors, os.O_WRONLY):
        os.dup2(os.open(path, flags | os.O_CREAT | os.O_TRUNC), number)
    if sys.argv[1:] and Path(program).stem != TALKING:
        share(Path(sys.argv[1]))
    sys.argv = [program, "--smoke"]
    runpy.run_path(program, run_name="__main__")


def share(oracles: Path) -> None:
    """Let `Oracle` be a connection to the oracle that tests use, too."""
    from tests.oracle import client, shared

    client.Oracle = partial(shared.SharedOracle, oracles)  # type: ignore[assignment,misc]


def main() -> None:
    sys.path.insert(0, str(BENCH))  # as Python does for a program in it
    for path in BENCH.glob("[!_]*.py"):
        if path.stem != WITH_SPARK:
            with suppress(Exception):  # the benchmark's own run reports it
                import_module(path.stem)
    import_module("pandas")  # PyArrow imports it when it converts a list
    gc.freeze()  # forks do not copy the memory of modules by collecting garbage
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(*json.loads(line))
            return
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
