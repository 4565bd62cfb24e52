"""Lines of text from standard input or a file, one by one as they come.

What they say is not looked at.
"""

import sys
from collections.abc import Iterator
from typing import BinaryIO

from quorate.cli.errors import UserError

__all__ = ["MOST_BYTES", "STDIN", "stdin_lines", "text_lines"]

STDIN = "standard input"
MOST_BYTES = 64 << 20
"""What a line may have, or a text that is read as a whole: a record has a megabyte unless brokers
are told otherwise.
"""


def text_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a file of UTF-8.

    Raises `UserError` naming the line that is not, or why there are none.
    """
    number = 0
    while line := _next_line(file, name):
        number += 1
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(
                f"{name}, line {number}: not text (UTF-8)", "a segment of a log is given by its path"
            ) from None


def _next_line(file: BinaryIO, name: str) -> bytes:
    try:
        line = file.readline(MOST_BYTES + 1)
    except OSError as error:  # a closed descriptor
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from None
    if len(line) > MOST_BYTES:
        raise UserError(
            f"{name}: a line is longer than {MOST_BYTES >> 20} MiB", "is that text? It takes an object or record a line"
        )
    return line


def stdin_lines() -> Iterator[str]:
    """The lines of standard input. Raises `UserError` if it is not text."""
    return text_lines(sys.stdin.buffer, STDIN)
