"""How the command fails: one line that says what and where, then what to do, and exit status 1.

Nothing here knows what can go wrong; the place that finds out says so with `UserError`.
"""

import sys
from typing import IO, Any

import click

__all__ = ["UserError", "note", "show_error"]


class UserError(click.ClickException):
    """Something that the user can put right: `message` says what and where, each line of `remedy` what to do about it."""

    exit_code = 1

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it to stderr."""
        show_error(self.message, *self.remedy)


def show_error(message: str, *remedy: str) -> None:
    """One error on stderr, in the house's form; without ending anything."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {_safe(message)}", err=True)
    for line in remedy:
        click.echo(f"       {_safe(line)}", err=True)


def note(message: str) -> None:
    """Something worth knowing, on stderr, also in pipes."""
    sys.stdout.flush()
    click.echo(_safe(message), err=True)


def _safe(text: str) -> str:
    """Text that may quote what a cluster, a file or a user named, for a terminal."""
    from quorate.codecs.printable import printable

    return "\n".join(map(printable, text.split("\n")))
