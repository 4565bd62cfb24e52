"""`Commands`: a group of commands with a complete help list and suggestions for typing errors.

`FiniteRange`: a number in a range. `with_options`: options that commands share.
"""

import functools
import math
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LONGEST_SENTENCE = 200
"""Longest description in a list, in characters: click would cut it at the width of a line."""


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options and arguments to a command, in this order."""

    def add(command: F) -> F:
        return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)

    return add


class FiniteRange(click.FloatRange):
    """A number in a range; click's own type accepts `nan`, and `inf` in an open range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        if not math.isfinite(click.FLOAT.convert(value, param, ctx)):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        number: float = super().convert(value, param, ctx)
        return number


class Commands(click.Group):
    """A group that lists commands in the order of the code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def rows(self) -> list[tuple[str, str]]:
        """Return name and description of each command."""
        return [(name, one.get_short_help_str(LONGEST_SENTENCE)) for name, one in self.commands.items()]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list into the help text."""
        with formatter.section("Commands"):
            formatter.write_dl(self.rows())

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the command, and add it to a `UsageError`.

        Click omits it if an option lacks its argument.
        """
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None and ctx.invoked_subcommand is not None:
                command = self.get_command(ctx, ctx.invoked_subcommand)
                assert command is not None
                error.ctx = click.Context(command, info_name=ctx.invoked_subcommand, parent=ctx)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises `UsageError` that suggests the closest match."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            names, word = self.list_commands(ctx), args[0]
            like = [name for name in names if name.startswith(word)] or get_close_matches(word, names, n=1)
            if not like:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}; did you mean {like[0]!r}?", ctx) from None
