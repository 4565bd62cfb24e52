"""An oracle that the workers of a test run share, each with a coordinator shard of its own.

The first worker that needs it starts it; it ends with the last connection.
"""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
from pathlib import Path

from tests.oracle.client import Oracle, OracleMissingError, folder_of, missing_reason

_START = '"$0" serve 2>"$1" &'
"""The program closes its standard output after its port, and is no child of the worker."""


class SharedOracle(Oracle):
    """A connection to the oracle of a release that runs for all workers. Not thread-safe.

    `folder`: the same one in all workers of a run, and in no other run.
    """

    def __init__(self, folder: Path, release: str | None = None) -> None:
        reason = missing_reason(release)
        if reason is not None:
            raise OracleMissingError(reason)
        name = f"oracle-{release or 'newest'}"
        self._log = folder / f"{name}.log"
        with (folder / name).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if not self._connect(file.read()):
                port = self._start(release)
                if not self._connect(port):
                    raise OracleMissingError(f"{name} does not serve connections: {self.stderr()}")
                file.truncate(0)
                file.write(port)

    def _start(self, release: str | None) -> str:
        command = ["sh", "-c", _START, folder_of(release) / "run", self._log]
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout

    def _connect(self, port: str) -> bool:
        """Connect; return whether the program exists. It then runs until this is closed."""
        try:
            connection = socket.create_connection(("127.0.0.1", int(port)))
        except (ConnectionError, ValueError):  # it has ended; none has started
            return False
        with connection:  # its files keep it open
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._lines = connection.makefile("w", encoding="utf-8")
            self._responses = connection.makefile("r", encoding="utf-8")
        first = self._readline()
        if not first:  # it ended at that moment
            self.close()
            return False
        self.process_id = int(first)
        return True

    def _readline(self) -> str:
        try:
            return super()._readline()
        except ConnectionError:  # it was killed
            return ""

    def _kill(self) -> None:
        os.kill(self.process_id, signal.SIGKILL)

    def _was_killed(self) -> bool:
        return False  # its standard error says why it ended

    def stderr(self) -> str:
        return self._log.read_text("utf-8", "replace")[-8000:]

    def close(self) -> None:
        """Disconnect."""
        with contextlib.suppress(ConnectionError):  # the program has ended already
            self._lines.close()
        self._responses.close()
