"""franz-go's kfake, the embedded cluster of Go: built from `bench/kfake` into `build/`, where Go is installed, and started as a peer."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Kfake", "kfake"]

_SOURCE = Path(__file__).parent / "kfake"
_PROGRAM = Path(__file__).parents[1] / "build" / "kfake"


@dataclass(frozen=True)
class Kfake:
    """One that runs. `start_ms`, `stop_ms`: of three brokers, measured inside."""

    address: str
    pid: int
    start_ms: float
    stop_ms: float


@contextmanager
def kfake() -> Iterator[Kfake | None]:
    """One broker of kfake; `None`, told in one line, where Go is missing or cannot build it."""
    reason = _build()
    if reason is not None:
        print(f"  without kfake: {reason}", file=sys.stderr, flush=True)
        yield None
        return
    with subprocess.Popen([_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address, start_ms, stop_ms = process.stdout.readline().split()
        try:
            yield Kfake(address, process.pid, float(start_ms), float(stop_ms))
        finally:
            process.stdin.close()


def _build() -> str | None:
    """Why there is no program, if there is none."""
    go = shutil.which("go")
    if go is None:
        return "no go on the PATH; install Go 1.26 or newer for it"
    command = [go, "build", "-o", _PROGRAM, "."]
    try:
        ran = subprocess.run(command, cwd=_SOURCE, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "go build takes more than 300 s"
    return None if ran.returncode == 0 else f"go build: {(ran.stderr.strip() or 'failed').splitlines()[-1]}"
