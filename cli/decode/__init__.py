"""`quorate decode`: filter records of logs, of a live cluster or given as hex, and print them."""

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
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
from quorate.cli.output import terminal_width
from quorate.cli.reporting import byte_progress, show_damage
from quorate.cli.text_input import STDIN, stdin_lines
from quorate.cli.times import read_time
from quorate.codecs.errors import QuorateError
from quorate.codecs.json_lines import Entry, hex_entries
from quorate.codecs.log import IsolationLevel
from quorate.codecs.log.model import LogEntry, LogProblem, is_damage
from quorate.codecs.log.partitions import LogPartitions
from quorate.codecs.records import CONSUMER_OFFSETS, RECORD_TYPES, CoordinatorRecord

__all__ = ["decode"]

TOPICS = tuple(RECORD_TYPES)
T = TypeVar("T")

HELP = """Show the records that Kafka's coordinators wrote.

A SOURCE is a segment file, the folder of a partition, or a broker's log directory with all its __consumer_offsets-*,
__share_group_state-* and __transaction_state-*; - reads lines of `key-hex value-hex` from standard input. With -b
records are read from a live cluster.

\b
quorate decode kafka-logs/__consumer_offsets-17          one partition
quorate decode kafka-logs --group 'web-*' --since 2h     these groups, in the last two hours
quorate decode kafka-logs --type OffsetCommit --format kafka | jq .value.data.offset
quorate decode kafka-logs --problems                     records that cannot be decoded
quorate decode -b broker:9092 --follow                   watch a live cluster
echo 000100... 000300... | quorate decode -              a record given as hex

Records that cannot be decoded are shown as bytes, with the reason. Exit status is 1 if batches of a log are damaged
(see --skip-corrupt).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """How entries are filtered and printed."""

    form: Format
    keep: Predicate | None
    limit: int | None
    strict: bool
    skip_corrupt: bool
    unbuffered: bool
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
    help="Only this topic.  [default: all topics of a SOURCE; __consumer_offsets with -b]",
)
@click.option(
    "--partition", "partitions", multiple=True, type=click.IntRange(min=0), metavar="N", help="Only this partition."
)
@click.option("--follow", is_flag=True, help="Continue with new records until Ctrl-C (with -b).")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Omit or show records of open and aborted transactions.  "
    "[default: read_committed with -b, read_uncommitted for files]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl", "kafka"]),
    help="Table, JSON lines, or the output of Kafka's formatters.  [default: table on a terminal, else jsonl]",
)
@click.option("--group", "groups", multiple=True, metavar="GLOB", help="Only groups whose name matches.")
@click.option(
    "--type", "types", multiple=True, metavar="NAME|ID", help="Only records of this type; * matches any characters."
)
@click.option(
    "--since",
    metavar="TIME",
    help="Only records from this time on: ISO time (UTC), ms since 1970, or an age such as 2h.",
)
@click.option("--until", metavar="TIME", help="Only records before this time.")
@click.option("--tombstones/--no-tombstones", default=None, help="Only tombstones, or none.")
@click.option("--problems", is_flag=True, help="Only records that cannot be decoded.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option("--strict", is_flag=True, help="Stop with exit status 1 at the first record that cannot be decoded.")
@click.option("--skip-corrupt", is_flag=True, help="Skip damaged batches and exit with status 0.")
@click.option(
    "--summary/--no-summary",
    default=None,
    help="Print the number of records per type to stderr at the end.  [default: if stderr is a terminal]",
)
@click.option("--wide", is_flag=True, help="Print each row in one line, even if it is wider than the terminal.")
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
    """Check the options, read the entries and print them."""
    _check_sources(ctx, sources, bootstrap_servers, follow, connection)
    if "-" in sources and (since or until):
        raise UserError(
            "--since and --until do not apply to lines of hex, which have no timestamps", "omit them, or read a log"
        )
    now = datetime.now(UTC)
    since_ms = None if since is None else read_time("--since", since, now)
    until_ms = None if until is None else read_time("--until", until, now)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise UserError(
            f"--since {since} is not before --until {until}",
            "give an earlier --since or a later --until",
        )
    show = Show(
        form=form or ("table" if sys.stdout.isatty() else "jsonl"),
        keep=predicate(groups=groups, types=types, tombstones=tombstones, problems=problems),
        limit=limit,
        strict=strict,
        skip_corrupt=skip_corrupt,
        unbuffered=follow or ("-" in sources and _is_interactive()),
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
                # Brokers look up no times before 1970, and no record is older.
                since_ms=None if since_ms is None or since_ms < 0 else since_ms,
                connect_timeout_ms=connect_timeout_ms,
                on_notice=note,
                **connection_config(connection),
            )
            live = _note_if_empty(
                live,
                lambda: (
                    f"nothing to show: {topics[0] if topics else CONSUMER_OFFSETS} on {bootstrap_servers} "
                    "has no records"
                    + (f" since {since}" if since else "")
                    + (f" in partition {', '.join(map(str, partitions))}" if partitions else "")
                ),
            )
            entries = live if until_ms is None else (entry for entry in live if entry.timestamp_ms < until_ms)
        elif sources == ("-",):
            entries = hex_entries(stdin_lines(), topics[0] if topics else CONSUMER_OFFSETS, STDIN)
        else:
            files = LogPartitions(sources, topics=topics, partitions=partitions)
            if files.empty:
                note(f"nothing to show: the segments of {', '.join(sources)} have 0 bytes")
            found = files.entries(
                isolation_level=isolation_level or "read_uncommitted",
                since_ms=since_ms,
                until_ms=until_ms,
                skip_corrupt=skip_corrupt,
                progress=stack.enter_context(byte_progress(files.size_bytes)),
            )
            entries = _note_if_empty(found, lambda: _zeros(files))
        damaged = _show(entries, show)
    if damaged:
        ctx.exit(1)


def _zeros(files: LogPartitions) -> str | None:
    """Return a note about files without a record that are not empty either."""
    if files.empty or not files.all_zeros:
        return None
    return (
        f"nothing to show: all {files.size_bytes:,} bytes are zero, from position 0 on; brokers with log.preallocate "
        "create such segments, and a copy of a file that was not written to disk may be one"
    )


def _note_if_empty(entries: Iterator[T], text: Callable[[], str | None]) -> Iterator[T]:
    """Yield the entries; print a note, if there is one, if there are none."""
    some = False
    for entry in entries:
        some = True
        yield entry
    if not some and (found := text()) is not None:
        note(found)


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
            "nothing to read: give a segment file, a log directory, - for hex on standard input, "
            "or -b for a live cluster",
            ctx,
        )
    if "-" in sources and len(sources) > 1:
        raise click.UsageError("- cannot be read together with other sources", ctx)
    if follow:
        raise click.UsageError("--follow needs a live cluster (-b)", ctx)
    refuse_connection_options(ctx)


def _show(entries: Iterator[Entry], show: Show) -> bool:
    """Print the entries that pass the filters. Return whether records were lost to damage."""
    writer = Writer(show.form, unbuffered=show.unbuffered, width=show.width)
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
        with _delayed_interrupt():
            _finish(writer, counts, show, cut_off)
            finished = True
    except KeyboardInterrupt:
        if not finished:
            with _delayed_interrupt():
                _finish(writer, counts, show, cut_off)
        raise
    except (UserError, QuorateError):
        writer.finish()
        raise
    return damaged


@contextmanager
def _delayed_interrupt() -> Iterator[None]:
    """Delay the first Ctrl-C until the end of the block.

    Ctrl-C also ends the program that writes into our pipe, so that EOF and signal arrive together.
    A second one is not delayed, as the reader of our output may block forever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
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
    if writer.omitted:
        reasons = ", ".join(f"{reason} ({number:,})" for reason, number in writer.omitted.most_common())
        note(f"omitted, because Kafka's formatters print nothing for them: {reasons}; --format jsonl shows them")
    if show.summary:
        show_summary(counts, cut_off=cut_off)


def _check(entry: Entry) -> None:
    """Raise `UserError` for an entry that cannot be decoded (--strict)."""
    if isinstance(entry, LogProblem):
        raise UserError(str(entry), "without --strict it is shown in its place, and reading continues if possible")
    if is_problem(entry):
        problem = (
            entry.record.problem
            if isinstance(entry.record, CoordinatorRecord)
            else getattr(entry.record, "problem", None)
        )
        raise UserError(
            f"{_place(entry)}: {problem}", "without --strict it is shown with its bytes, and reading continues"
        )


def _place(entry: Any) -> str:
    if entry.offset is None:
        return f"standard input, line {entry.line}"
    return f"{entry.topic if entry.partition is None else f'{entry.topic}-{entry.partition}'}, offset {entry.offset:,}"


def _is_interactive() -> bool:
    """Return whether standard input may arrive line by line, from a terminal or a program."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except OSError:
        return False  # not a file at all
    return not stat.S_ISREG(mode)
