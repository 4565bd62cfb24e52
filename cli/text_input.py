"""Lines of text from standard input or a file, yielded as they arrive."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

from quorate.cli.errors import UserError

STDIN = "standard input"
MAX_LINE_BYTES = 64 << 20
"""Longest line, or text that is read at once. Brokers limit records to 1 MiB by default."""


def text_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file.

    Raises `UserError` for a line that is not UTF-8 or too long, and for a file that cannot be read.
    """
    number = 0
    while line := _next_line(file, name):
        number += 1
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(
                f"{name}, line {number}: not UTF-8 text", "to decode a segment of a log, give its path"
            ) from None


def _next_line(file: BinaryIO, name: str) -> bytes:
    try:
        line = file.readline(MAX_LINE_BYTES + 1)
    except OSError as error:  # a closed descriptor
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from None
    if len(line) > MAX_LINE_BYTES:
        raise UserError(
            f"{name}: a line is longer than {MAX_LINE_BYTES >> 20} MiB", "give text with one object or record per line"
        )
    return line


def stdin_lines() -> Iterator[str]:
    """Return the lines of standard input. Raises `UserError` if it is not UTF-8 text."""
    return text_lines(sys.stdin.buffer, STDIN)
