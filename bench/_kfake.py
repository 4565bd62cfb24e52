"""franz-go's kfake, the embedded cluster of Go: built from `bench/kfake`, where Go is installed, and started as a peer."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from _go import Unbuilt, built

__all__ = ["Kfake", "kfake"]


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
    try:
        program = built("kfake")
    except Unbuilt as reason:
        print(f"  without kfake: {reason}", file=sys.stderr, flush=True)
        yield None
        return
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address, start_ms, stop_ms = process.stdout.readline().split()
        try:
            yield Kfake(address, process.pid, float(start_ms), float(stop_ms))
        finally:
            process.stdin.close()
