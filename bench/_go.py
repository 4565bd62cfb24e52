"""Build the programs in Go of the folders in `bench/`, into `build/`."""

import shutil
import subprocess
from pathlib import Path

_HERE = Path(__file__).parent


class Unbuilt(Exception):
    """A program that could not be built; the text is the reason."""


def built(name: str) -> Path:
    """Build the program in the folder of this name, if its source has changed.

    Raises `Unbuilt`.
    """
    go = shutil.which("go")
    if go is None:
        raise Unbuilt("`go` is not on the PATH; install Go 1.26 or newer")  # plain: the language
    program = _HERE.parent / "build" / name
    command = [go, "build", "-o", program, "."]
    try:
        ran = subprocess.run(command, cwd=_HERE / name, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise Unbuilt("go build takes more than 300 s") from None
    if ran.returncode != 0:
        raise Unbuilt(f"go build: {(ran.stderr.strip() or 'failed').splitlines()[-1]}")
    return program
