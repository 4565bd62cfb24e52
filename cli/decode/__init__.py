"""`quorate decode`: the records of logs, of a live cluster, or given as hex, through filters, to stdout."""

import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from quorate.cli.connection import (
    WithConnection,
    connection_config,
    connection_options,
    refuse_connection_options,
    servers_option,
)
from quorate.cli.decode.filters import Predicate, is_problem, predicate
from quorate.cli.decode.output import Counts, Format, Writer, show_summary
from quorate.cli.errors import UserError, note
from quorate.cli.moments import read_time
from quorate.cli.output import terminal_width
from quorate.cli.reporting import byte_progress, show_damage
from quorate.cli.text_input import STDIN, stdin_lines
from quorate.codecs.errors import QuorateError
from quorate.codecs.json_lines import Entry, hex_entries
from quorate.codecs.log import IsolationLevel
from quorate.codecs.log.model import LogEntry, LogProblem, is_damage
from quorate.codecs.log.partitions import LogPartitions
from quorate.codecs.records import CONSUMER_OFFSETS, RECORD_TYPES, CoordinatorRecord

__all__ = ["decode"]

TOPICS = tuple(RECORD_TYPES)
T = TypeVar("T")

HELP = """Show what Kafka's coordinators wrote.

A SOURCE is a segment file, the folder of a partition, or a broker's log directory with all its __consumer_offsets-*, __share_group_state-*
and __transaction_state-*; - reads lines of `key-hex value-hex`. With -b the records come from a live cluster.

\b
quorate decode kafka-logs/__consumer_offsets-17          one partition
quorate decode kafka-logs --group 'web-*' --since 2h     what happened to these groups
quorate decode kafka-logs --type OffsetCommit --format kafka | jq .value.data.offset
quorate decode kafka-logs --problems                     what is not understood
quorate decode -b broker:9092 --follow                   watch a live cluster
echo 000100... 000300... | quorate decode -              bytes at hand

Bytes that are not understood are shown as such, with the reason. Exit status is 1 if batches of a log are damaged (see --skip-corrupt).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """What becomes of entries."""

    form: Format
    keep: Predicate | None
    limit: int | None
    strict: bool
    skip_corrupt: bool
    promptly: bool
    width: int | None
    summary: bool


@click.command(cls=WithConnection, help=HELP)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@servers_option()
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=click.Choice(TOPICS),
    help="Only this topic; for a live cluster __consumer_offsets unless given.",
)
@click.option(
    "--partition", "partitions", multiple=True, type=click.IntRange(min=0), metavar="N", help="Only this partition."
)
@click.option("--follow", is_flag=True, help="Go on with what is written from now on (with -b).")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether records of open and aborted transactions are shown.  [default: read_committed with -b, read_uncommitted for files]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl", "kafka"]),
    help="For people, for programs, or as Kafka's own formatters print it.  [default: table on a terminal, else jsonl]",
)
@click.option("--group", "groups", multiple=True, metavar="GLOB", help="Only groups with such a name.")
@click.option(
    "--type", "types", multiple=True, metavar="NAME|ID", help="Only records of this type; * stands for anything."
)
@click.option("--since", metavar="TIME", help="Only from then on: ISO time (UTC), ms since 1970, or an age such as 2h.")
@click.option("--until", metavar="TIME", help="Only before then.")
@click.option("--tombstones/--no-tombstones", default=None, help="Only tombstones, or none.")
@click.option("--problems", is_flag=True, help="Only what is not understood.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N.")
@click.option("--strict", is_flag=True, help="Stop at the first thing that is not understood, with exit status 1.")
@click.option("--skip-corrupt", is_flag=True, help="Go on behind damaged batches, and don't fail for them.")
@click.option(
    "--summary/--no-summary",
    default=None,
    help="Numbers per type at the end, on stderr.  [default: if stderr is a terminal]",
)
@click.option("--wide", is_flag=True, help="One line for each row of the table, however wide the terminal.")
@connection_options
@click.pass_context
def decode(
    ctx: click.Context,
    /,
    sources: tuple[str, ...],
    bootstrap_servers: str | None,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    follow: bool,
    isolation_level: IsolationLevel | None,
    form: Format | None,
    groups: tuple[str, ...],
    types: tuple[str, ...],
    since: str | None,
    until: str | None,
    tombstones: bool | None,
    problems: bool,
    limit: int | None,
    strict: bool,
    skip_corrupt: bool,
    summary: bool | None,
    wide: bool,
    connect_timeout_ms: int,
    **connection: Any,
) -> None:
    """Read the options, find the entries, show them."""
    _check_sources(ctx, sources, bootstrap_servers, follow, connection)
    if "-" in sources and (since or until):
        raise UserError(
            "--since and --until need times, which lines of hex do not have", "leave them out, or read a log"
        )
    now = datetime.now(UTC)
    since_ms = None if since is None else read_time("--since", since, now)
    until_ms = None if until is None else read_time("--until", until, now)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UserError(
            f"--since {since} is not before --until {until}: nothing can lie in between",
            "give an earlier --since or a later --until",
        )
    show = Show(
        form=form or ("table" if sys.stdout.isatty() else "jsonl"),
        keep=predicate(groups=groups, types=types, tombstones=tombstones, problems=problems),
        limit=limit,
        strict=strict,
        skip_corrupt=skip_corrupt,
        promptly=follow or ("-" in sources and _someone_types()),
        width=None if wide else terminal_width(),
        summary=sys.stderr.isatty() if summary is None else summary,
    )
    with ExitStack() as stack:
        entries: Iterator[Entry]
        if bootstrap_servers is not None:
            from quorate.codecs.live import read_live

            live: Iterator[LogEntry] = read_live(
                bootstrap_servers.split(","),
                topic=topics[0] if topics else CONSUMER_OFFSETS,
                partitions=partitions or None,
                follow=follow,
                isolation_level=isolation_level or "read_committed",
                since_ms=since_ms,
                connect_timeout_ms=connect_timeout_ms,
                on_notice=note,
                **connection_config(connection),
            )
            live = _or_note(
                live,
                f"nothing to show: {topics[0] if topics else CONSUMER_OFFSETS} on {bootstrap_servers} has no records"
                + (f" since {since}" if since else "")
                + (f" in partition {', '.join(map(str, partitions))}" if partitions else ""),
            )
            entries = live if until_ms is None else (entry for entry in live if entry.timestamp_ms < until_ms)
        elif sources == ("-",):
            entries = hex_entries(stdin_lines(), topics[0] if topics else CONSUMER_OFFSETS, STDIN)
        else:
            files = LogPartitions(sources, topics=topics, partitions=partitions)
            if files.empty:
                note(f"nothing to show: the segments of {', '.join(sources)} have 0 bytes")
            entries = files.entries(
                isolation_level=isolation_level or "read_uncommitted",
                since_ms=since_ms,
                until_ms=until_ms,
                skip_corrupt=skip_corrupt,
                progress=stack.enter_context(byte_progress(files.size_bytes, wanted=True)),
            )
        damaged = _show(entries, show)
    if damaged:
        ctx.exit(1)


def _or_note(entries: Iterator[T], text: str) -> Iterator[T]:
    """The same entries; if there are none, a note says so."""
    some = False
    for entry in entries:
        some = True
        yield entry
    if not some:
        note(text)


def _check_sources(
    ctx: click.Context, sources: Sequence[str], bootstrap_servers: str | None, follow: bool, connection: Any
) -> None:
    if bootstrap_servers is not None:
        if sources:
            raise click.UsageError("give either -b or a SOURCE, not both", ctx)
        if len(ctx.params["topics"]) > 1:
            raise click.UsageError("with -b one --topic at a time", ctx)
        return
    if not sources:
        raise click.UsageError(
            "nothing to read: give a segment file, a log directory, - for hex on standard input, or -b for a live cluster",
            ctx,
        )
    if "-" in sources and len(sources) > 1:
        raise click.UsageError("- cannot be read together with other sources", ctx)
    if follow:
        raise click.UsageError("--follow needs a live cluster (-b)", ctx)
    refuse_connection_options(ctx)


def _show(entries: Iterator[Entry], show: Show) -> bool:
    """Write everything that is wanted. Returns whether records were lost to damage."""
    writer = Writer(show.form, promptly=show.promptly, width=show.width)
    counts = Counts()
    damaged = cut_off = finished = False
    try:
        for entry in entries:
            if show.strict:
                _check(entry)
            if isinstance(entry, LogProblem):
                if is_damage(entry, skip_corrupt=show.skip_corrupt):
                    damaged = True
                    writer.finish()
                    show_damage(entry)
                elif show.form == "kafka":
                    note(str(entry))
            elif show.keep is not None and not show.keep(entry):
                counts.filtered += 1
                writer.learn(entry)
                continue
            counts.add(entry)
            writer.write(entry)
            if counts.shown == show.limit:
                cut_off = True
                break
        with _interrupt_held_back():
            _finish(writer, counts, show, cut_off)
            finished = True
    except KeyboardInterrupt:
        if not finished:
            with _interrupt_held_back():
                _finish(writer, counts, show, cut_off)
        raise
    except (UserError, QuorateError):
        writer.finish()
        raise
    return damaged


@contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Let the first Ctrl-C wait for the end of the block: it also ends who wrote into our pipe, so that its EOF and the signal come together.

    A second one is not held back, as the reader of our output may never go on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go to the main thread
        return
    held: list[int] = []

    def hold(number: int, _: object) -> None:
        if held:
            raise KeyboardInterrupt
        held.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


def _finish(writer: Writer, counts: Counts, show: Show, cut_off: bool) -> None:
    writer.finish()
    if writer.left_out:
        reasons = ", ".join(f"{reason} ({number:,})" for reason, number in writer.left_out.most_common())
        note(f"not shown, because Kafka's formatters print nothing for them: {reasons}; --format jsonl shows them")
    if show.summary:
        show_summary(counts, cut_off=cut_off)


def _check(entry: Entry) -> None:
    """For --strict. Raises `UserError` for whatever is not understood."""
    if isinstance(entry, LogProblem):
        raise UserError(str(entry), "without --strict it is shown in its place, and reading goes on where it can")
    if is_problem(entry):
        problem = (
            entry.record.problem
            if isinstance(entry.record, CoordinatorRecord)
            else getattr(entry.record, "problem", None)
        )
        raise UserError(
            f"{_place(entry)}: {problem}", "without --strict it is shown with its bytes, and reading goes on"
        )


def _place(entry: Any) -> str:
    if entry.offset is None:
        return f"standard input, line {entry.line}"
    return f"{entry.topic if entry.partition is None else f'{entry.topic}-{entry.partition}'}, offset {entry.offset:,}"


def _someone_types() -> bool:
    """Whether standard input may come line by line, from a terminal or a program."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except OSError:
        return False  # not a file at all
    return not stat.S_ISREG(mode)
