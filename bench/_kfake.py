"""Start kfake, the embedded cluster of franz-go, as a peer; it is built from `bench/kfake`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from _go import Unbuilt, built


@dataclass(frozen=True)
class Kfake:
    """A running kfake. `start_ms`, `stop_ms`: times of three brokers, measured in its process."""

    address: str
    pid: int
    start_ms: float
    stop_ms: float


@contextmanager
def kfake() -> Iterator[Kfake | None]:
    """Start a broker of kfake; `None`, with a message, if it cannot be built."""
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
