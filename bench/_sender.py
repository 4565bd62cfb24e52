"""Send one request repeatedly: by `bench/sender` in Go, or by this process in Python.

The program in Go needs little CPU. Python is used if it cannot be built, and needs as much CPU as
the server.
"""

import os
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from _go import Unbuilt, built

_in_python = False


def use_python() -> None:
    """Send from this process even if Go is installed."""
    global _in_python
    _in_python = True


@cache
def _program() -> Path | None:
    if _in_python:
        return None
    try:
        return built("sender")
    except Unbuilt as reason:
        print(f"  using a client in Python: {reason}", file=sys.stderr, flush=True)
        return None


def client() -> str:
    """Return the language of the client: Go or Python."""
    return "Python" if _program() is None else "Go"


def send(address: str, request: bytes, seconds: float, *, ahead: int = 1, core: int | None = None) -> tuple[int, float]:
    """Send a request over one connection; return the number of responses, and the seconds.

    All responses must be equal. `request`: starts with its size. `ahead`: maximum number of
    requests in flight. `core`: the CPU core to run on.
    """
    program = _program()
    if program is None:
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, before if core is None else {core})
            return _send(address, request, seconds, ahead)
        finally:
            os.sched_setaffinity(0, before)
    command = [program, address, str(seconds), str(ahead)]
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    ran = subprocess.run([*pinned, *command], input=request, capture_output=True, timeout=seconds + 60, check=False)
    if ran.returncode:
        raise SystemExit(ran.stderr.decode().strip())
    count, took = ran.stdout.split()
    return int(count), float(took)


def _send(address: str, request: bytes, seconds: float, ahead: int) -> tuple[int, float]:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request)
        first = connection.recv(1 << 16)
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            for _ in range(50):
                connection.sendall(request * ahead)
                found = connection.recv(1 << 16)
                while len(found) < ahead * len(first):
                    found += connection.recv(1 << 16)
                assert found == first * ahead
                count += ahead
        return count, time.perf_counter() - began
