"""Run the command in a pseudo-terminal."""

import os
import pty
import struct
import tempfile
import termios
from fcntl import ioctl
from subprocess import DEVNULL, Popen
from typing import IO


def in_terminal(
    command: list[str],
    *,
    streams: tuple[str, ...],
    env: dict[str, str],
    columns: int = 100,
    stdin: IO[bytes] | None = None,
) -> tuple[int, str, str, str]:
    """Return exit status, output to the terminal, and stdout and stderr if not in `streams`."""
    screen, tty = pty.openpty()
    ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # pipes could fill up
        process = Popen(
            command,
            env=env,
            stdin=tty if "stdin" in streams else stdin or DEVNULL,
            stdout=tty if "stdout" in streams else out,
            stderr=tty if "stderr" in streams else err,
        )
        os.close(tty)
        shown = b""
        while True:
            try:
                more = os.read(screen, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not more:
                break
            shown += more
        status = process.wait(timeout=300)
        os.close(screen)
        out.seek(0)
        err.seek(0)
        return status, shown.decode().replace("\r\n", "\n"), out.read().decode(), err.read().decode()
