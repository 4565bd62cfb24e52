"""Errors of the command: one line with what and where, then what to do, and exit status 1."""

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from quorate.codecs.errors import QuorateError


class UserError(click.ClickException):
    """An error that the user can fix.

    `message` says what and where, the lines of `remedy` what to do.
    """

    exit_code = 1

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error to stderr."""
        show_error(self.message, *self.remedy)


def user_error(error: "QuorateError") -> UserError:
    """Return an error of quorate's packages as one of the command."""
    message = getattr(error, "message", str(error))
    return UserError(*message.splitlines(), *getattr(error, "remedy", ()))


def show_error(message: str, *remedy: str) -> None:
    """Print an error and its remedies to stderr, without ending the command."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {_safe(message)}", err=True)
    for line in remedy:
        click.echo(f"       {_safe(line)}", err=True)


def note(message: str) -> None:
    """Print a note to stderr, after what is buffered for stdout."""
    sys.stdout.flush()
    click.echo(_safe(message), err=True)


def _safe(text: str) -> str:
    """Escape control characters in a text that may quote a cluster, a file or the user."""
    from quorate.codecs.printable import printable

    return "\n".join(map(printable, text.split("\n")))


def check_writable(option: str, file: Path) -> None:
    """Raise `UserError` if a file cannot be written, before the run whose results would be lost."""
    if str(file) == "-":
        raise UserError(f"{option} -: standard output has the results", "name a file")
    if not file.parent.is_dir():
        raise UserError(f"{option} {file}: folder {file.parent} does not exist", "name a file in an existing folder")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UserError(f"{option} {file}: cannot be written", f"name another file: {option} FILE")
