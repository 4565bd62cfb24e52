"""Programs in Go beside these benchmarks, each in a folder of its own: built into `build/`, where Go is installed."""

import shutil
import subprocess
from pathlib import Path

__all__ = ["Unbuilt", "built"]

_HERE = Path(__file__).parent


class Unbuilt(Exception):
    """There is no program; its text says why."""


def built(name: str) -> Path:
    """The program whose source is in the folder of that name, built anew if that has changed.

    Raises `Unbuilt`.
    """
    go = shutil.which("go")
    if go is None:
        raise Unbuilt("no go on the PATH; install Go 1.26 or newer for it")
    program = _HERE.parent / "build" / name
    command = [go, "build", "-o", program, "."]
    try:
        ran = subprocess.run(command, cwd=_HERE / name, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise Unbuilt("go build takes more than 300 s") from None
    if ran.returncode != 0:
        raise Unbuilt(f"go build: {(ran.stderr.strip() or 'failed').splitlines()[-1]}")
    return program
