"""The `quorate` command: its subcommands, and its exit status.

Exit status: 0 for success, also if the reader of a pipe closes it; 1 for a wrong option or
unreadable input, with an error on stderr; 130 after Ctrl-C. Modules of subcommands are imported
when they are called.
"""

import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.errors import UserError, show_error, user_error
from quorate.cli.interrupts import INTERRUPTED, raise_interrupts
from quorate.cli.output import colour_choice
from quorate.cli.subcommands import Commands

if TYPE_CHECKING:
    from quorate.codecs.errors import QuorateError

__all__ = ["main"]

COMMANDS = {
    "decode": "Show the records of logs, of a live cluster, or given as hex.",
    "groups": "Show groups: members, offsets, epochs and history.",
    "watch": "Watch groups: rebalances with causes, lags in time, on a page.",
    "hash": "Compute metadata hashes of topics and groups, and compare them with stored ones.",
    "encode": "Turn JSON into the bytes of records.",
    "assign": "Compare what assignors would assign to the members of a group.",
    "serve": "Run a Kafka cluster for development in this process, without Java.",
    "cluster": "Run a Kafka cluster with racks until you remove it.",
    "verify": "Compare a broker with real brokers of Apache Kafka.",
    "verify-client": "Run a client in any language in scenarios, and judge its requests.",
    "pipeline": "Analyse months of logs, here or with Spark: group states, rebalances, lags, racks.",
    "records": "List the record types, or the fields of one.",
    "demo": "Show racks, rebalances and an upgrade in a few seconds.",
}
"""Subcommands in the order of the help text. Each is a function in the module of the same
name, with underscores.
"""


class _Quorate(Commands):
    """A group that imports a subcommand only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"quorate.cli.{name}"), name)
        raise_interrupts()
        assert isinstance(command, click.Command)
        return command

    def rows(self) -> list[tuple[str, str]]:
        return list(COMMANDS.items())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _output_may_fail(ctx):  # --help and --version print here
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _output_may_fail(ctx):
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
            except KeyboardInterrupt:
                ctx.exit(INTERRUPTED)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except _quorate_error() as error:
                raise user_error(error) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        _ready_streams()
        try:
            status = super().main(args, prog_name or "quorate", complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            if not standalone_mode:
                raise
            error.show()  # the help text, on stderr
            status = 1
        except click.UsageError as error:
            if not standalone_mode:
                raise
            command = error.ctx.command_path if error.ctx else "quorate"
            show_error(" ".join(error.format_message().splitlines()), f"for help: {command} --help")
            status = 1
        except click.ClickException as error:
            if not standalone_mode:
                raise
            error.show()
            status = 1
        except click.Abort:  # Ctrl-C outside of a command
            if not standalone_mode:
                raise
            status = INTERRUPTED
        if not standalone_mode:
            return status
        sys.exit(status)


def _quorate_error() -> "type[QuorateError]":
    from quorate.codecs.errors import QuorateError  # imported only after a failure, for quick help texts

    return QuorateError


@contextmanager
def _output_may_fail(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # The reader of our output has closed the pipe, as `head` does. The interpreter flushes
        # stdout once more at exit.
        _discard_stdout()
        ctx.exit(0)
    except OSError as error:  # mostly a full disk: errors of reading are `UserError` already
        _discard_stdout()
        raise UserError(f"{error.filename or 'standard output'}: {error.strerror or error}") from error


def _discard_stdout() -> None:
    try:
        descriptor = sys.stdout.fileno()
    except OSError:
        return  # not a file, so nothing is flushed into a pipe
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"quorate {version('quorate')}")
        ctx.exit()


HELP = """Inspect, analyse and test Kafka consumer groups.

\b
quorate demo                                   racks and rebalances, on a cluster in this process
quorate decode kafka-logs/                     records of __consumer_offsets
quorate decode -b broker:9092 --group 'web-*'  records of a live cluster
quorate groups history kafka-logs --group web  history of a group
quorate assign examples/three-racks            assignments by several assignors
quorate serve --racks a,b,c                    a Kafka cluster for your own clients
"""


@click.group(cls=_Quorate, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Define the command and its global options."""
    ctx.color = colour_choice()


def _ready_streams() -> None:
    """Make the standard streams safe to use.

    Python has `None` for a closed stream. Replace it with one that fails with EBADF on use; output
    to a closed stderr is dropped. Characters that the encoding of stdout lacks become question
    marks.
    """
    # In this order: each replacement gets the lowest free descriptor, which is the closed one.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
