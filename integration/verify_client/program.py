"""`Program`: one process of the client under test, in a process group of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from quorate.cluster.errors import ClusterError

_QUOTED_LINES = 12


def filled(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the command with `{name}` replaced for each known name; other braces are unchanged."""
    found = []
    for argument in command:
        for name, value in values.items():
            argument = argument.replace(f"{{{name}}}", value)
        found.append(argument)
    return found


def _problem(program: str) -> str:
    """Return why a program cannot be run. Its name is a path if it contains a slash."""
    if os.sep not in program:
        return "no such program in PATH"
    if Path(program).is_dir():
        return "it is a folder"
    return "it is not executable" if Path(program).exists() else "no such program"


class Program:
    """A running command. Its output goes to a temporary file.

    `values`: placeholders in the command, and, as QUORATE_NAME, its environment variables.

    Raises `ClusterError` if the command cannot be run.
    """

    def __init__(self, command: Sequence[str], values: Mapping[str, str]) -> None:
        arguments = filled(command, values)
        if shutil.which(arguments[0]) is None:
            raise ClusterError(f"cannot run {arguments[0]}: {_problem(arguments[0])}", "write the command after --")
        environment = {f"QUORATE_{name.upper()}": value for name, value in values.items()}
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        try:
            self._process = subprocess.Popen(
                arguments,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._output.close()
            raise ClusterError(f"cannot run {arguments[0]}: {error.strerror}") from None

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; `None` while the program runs."""
        return self._process.poll()

    @property
    def output(self) -> list[str]:
        """The last lines that the program has printed."""
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), 8192, max(0, size - 8192))
        return tail.decode(errors="replace").splitlines()[-_QUOTED_LINES:]

    def terminate(self) -> None:
        """Send SIGTERM to the program and its children."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the program and its children, and wait."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Kill the program if it runs, and remove its output."""
        self.kill()
        self._output.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(self._process.pid, number)
