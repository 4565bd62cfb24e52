"""The `quorate` command itself: which subcommands there are, and how it ends.

Exit status: 0 when done, also when the reader of a pipe has had enough; 1 for a mistake of the user
or input that cannot be read, said in one line on stderr; 130 after Ctrl-C. What the subcommands do
is not known here: their modules are imported when they are called.
"""

import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from quorate.cli.errors import UserError, show_error
from quorate.cli.interrupts import INTERRUPTED, ready
from quorate.cli.output import colour_asked_for
from quorate.cli.subcommands import Commands

__all__ = ["main"]

COMMANDS = {
    "decode": "Show the records of logs, of a live cluster, or given as hex.",
    "groups": "Show groups: members, offsets, epochs, and what happened to them.",
    "hash": "Compute metadata hashes of topics and groups, and compare them with those stored.",
    "encode": "Turn JSON into the bytes of records.",
    "assign": "Try assignors on a group: who would get what, and why.",
    "serve": "Run a Kafka for development in this process, without Java.",
    "cluster": "Run a Kafka cluster with racks, which goes on until it is taken down.",
    "pipeline": "Analyse months of logs with Spark: states, rebalances, lags, racks.",
    "records": "List the record types, or the fields of one.",
    "demo": "See racks, rebalances and an upgrade, in a few seconds.",
}
"""Subcommands in the order of the help text; each is the function of its name in the module of its
name.
"""


class _Quorate(Commands):
    """A group that imports a subcommand when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"quorate.cli.{cmd_name}"), cmd_name)
        ready()
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
                message = getattr(error, "message", str(error))
                raise UserError(*message.splitlines(), *getattr(error, "remedy", ())) from error

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
            show_error(" ".join(error.format_message().splitlines()), f"`{command} --help` shows what there is")
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


def _quorate_error() -> type[Exception]:
    from quorate.codecs.errors import QuorateError  # not before something has failed: help is shown without it

    return QuorateError


@contextmanager
def _output_may_fail(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # Whoever read our output has had enough, as `head` does. The interpreter flushes stdout
        # once more at exit.
        _discard_stdout()
        ctx.exit(0)
    except OSError as error:  # a full disk, mostly: what cannot be read has been said by whoever reads it
        _discard_stdout()
        raise UserError(f"{error.filename or 'standard output'}: {error.strerror or error}") from error


def _discard_stdout() -> None:
    try:
        descriptor = sys.stdout.fileno()
    except OSError:
        return  # not a file: there is nothing that would be flushed into a pipe
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"quorate {version('quorate')}")
        ctx.exit()


HELP = """Kafka consumer groups: what the brokers wrote of them, what happened and why, what would happen if; and a Kafka to try it on, without Java.

\b
quorate demo                                   racks and rebalances, on a cluster in this process
quorate decode kafka-logs/                     what is in __consumer_offsets
quorate decode -b broker:9092 --group 'web-*'  the same from a live cluster
quorate groups history kafka-logs --group web  what happened to a group
quorate assign examples/three-racks            who would get what, with which assignor
quorate serve --racks a,b,c                    a Kafka for your own clients
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
    """Consumer groups of Kafka."""
    ctx.color = colour_asked_for()


def _ready_streams() -> None:
    """Make the three streams safe to use.

    Python has `None` for a closed one. Instead, reading and writing it shall fail with the system's
    own words (EBADF); what goes to a closed stderr is dropped. Characters that the encoding of
    stdout lacks become question marks.
    """
    # In this order: the stand-ins get the lowest free descriptors, and these are the closed ones.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
