"""`quorate demo decode`: what real brokers wrote into `__consumer_offsets` during an upgrade, with the lines that matter pointed out.

Everything that is said about the records is computed from them; only which releases took part is
known beforehand.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from quorate.cli.decode.table import TableLines
from quorate.cli.errors import UserError
from quorate.cli.output import echo_lines, next_steps, stdout_has_colour, table_lines, terminal_width
from quorate.codecs.json_lines import group_of
from quorate.codecs.log.model import LogEntry
from quorate.codecs.log.partitions import LogPartitions
from quorate.codecs.messages.offsets import OffsetCommitKey
from quorate.codecs.printable import hash_text
from quorate.codecs.records import CoordinatorRecord
from quorate.codecs.takeovers import Story, stories

__all__ = ["DATA", "called", "comparison", "decode", "packaged"]

DATA = Path(__file__).parent / "data"

PRINTED_BY_KAFKA = (0, 1, 2, *range(10, 16))
"""Types of `__consumer_offsets` that one of Kafka's console formatters prints."""

HELP = """See what an upgrade of real brokers wrote, record by record.

The log comes with quorate. Three brokers went from Kafka 4.0 to 4.3 and back while consumers were running. Shown are the records of one
group; the lines that matter are explained.
"""


@click.command("decode", help=HELP)
@click.option("--group", "group_id", metavar="NAME", help="Show this group.  [default: the first one]")
@click.option(
    "--width", type=click.IntRange(min=60), metavar="N", help="Columns to use.  [default: those of the terminal]"
)
def decode(group_id: str | None, width: int | None) -> None:
    """Read the packaged log, tell its story."""
    about, entries = packaged()
    told = {story.group_id: story for story in stories(entries)}
    story = told.get(group_id) if group_id is not None else next(iter(told.values()))
    if story is None:
        there = group_id in {group_of(entry) for entry in entries}
        why = "the upgrade did nothing to it" if there else "there is no such group in the log"
        raise UserError(f"--group {group_id}: {why}", f"use one of {', '.join(told)}")
    width = width or terminal_width()
    releases = " → ".join(about["kafka_versions"])
    before, after = about["kafka_versions"][:2]
    _say(f"{about['about']}: Kafka {releases}.", width)
    _say(
        f"{len(entries):,} records in {len({entry.partition for entry in entries})} partitions. Those of the group {story.group_id}:",
        width,
    )
    click.echo()
    echo_lines(_group_lines(entries, story, width, before, after))
    click.echo()
    echo_lines(comparison(list(told.values()), before, after))
    _say(_what_kafka_prints(entries), width)
    click.echo()
    place = _short(DATA / about["log"])
    name = called()
    commands = (
        (
            f"{name} decode {place} --group 'legacy-*' --format table",
            "the groups of the classic protocol in the same log",
        ),
        (f"{name} decode {place} --type OffsetCommit --limit 3", "JSON for jq and programs"),
        (f"{name} records ConsumerGroupMetadata", "what a record consists of, and since when"),
        (f"{name} decode -b localhost:9092 --follow", "your own cluster"),
    )
    echo_lines(next_steps(commands, width))


def packaged() -> tuple[dict[str, Any], list[LogEntry]]:
    """The log that comes with quorate: what is known of it beforehand, and its records."""
    about: dict[str, Any] = json.loads((DATA / "about.json").read_text(encoding="utf-8"))
    files = LogPartitions([str(DATA / about["log"])])
    return about, [entry for entry in files.entries() if isinstance(entry, LogEntry)]


def called() -> str:
    """What to type for this command: `make demo` installs it where the shell does not look."""
    called = Path(sys.argv[0])
    return _short(called) if called.name == "quorate" and shutil.which("quorate") is None else "quorate"


def _say(text: str, width: int | None) -> None:
    click.echo(click.wrap_text(text, width=width or 120))


def _group_lines(
    entries: Sequence[LogEntry], story: Story, width: int | None, before: str, after: str
) -> Iterator[str]:
    """The group's records as a table, commits that follow each other in one line, the lines that matter with a remark below."""
    table = TableLines(width=width, colour=stdout_has_colour(), one_group=True)
    of_group = [entry for entry in entries if group_of(entry) == story.group_id]
    rows = [entry for entry in of_group if not _is_commit(entry)]
    lines: list[str] = []
    for entry in rows:
        lines += table.lines(entry)
    lines += table.rest()
    header, by_offset = (
        lines[: len(lines) - len(rows)],
        dict(zip((entry.offset for entry in rows), lines[-len(rows) :], strict=True)),
    )
    remarks = _remarks(story, before, after)
    yield from header
    commits: list[int] = []
    for entry in of_group:
        if _is_commit(entry):
            commits.append(entry.offset)
            continue
        yield from _commits(commits)
        commits = []
        yield by_offset[entry.offset]
        if entry.offset in remarks:
            for line in _wrapped(f"▲ {remarks[entry.offset]}", width):
                yield click.style(line, fg="cyan", bold=True)
    yield from _commits(commits)


def _wrapped(text: str, width: int | None) -> list[str]:
    return click.wrap_text(text, width=width or 10_000, initial_indent=" " * 8, subsequent_indent=" " * 10).splitlines()


def _is_commit(entry: LogEntry) -> bool:
    return isinstance(entry.record, CoordinatorRecord) and isinstance(entry.record.key, OffsetCommitKey)


def _commits(offsets: Sequence[int]) -> Iterator[str]:
    if offsets:
        yield click.style(f"{'':8}… {len(offsets)} committed offsets, from offset {offsets[0]} on", dim=True)


def _remarks(story: Story, before: str, after: str) -> dict[int, str]:
    """Offset → what to notice there."""
    up, down = story.up, story.down
    targets = "its members were given other partitions" if up.reassigned else "no member was given other partitions"
    said = {
        story.before.offset: f"Kafka {before} writes out the partitions of the group's topics: ConsumerGroupPartitionMetadata",
        up.group.offset: f"Kafka {after} has taken over: a hash of the topics instead (KIP-1101), so epoch {up.epoch_before} becomes {up.epoch}; {targets}",
        up.partition_metadata.offset: "and with its tombstone the ConsumerGroupPartitionMetadata is gone",
    }
    if down is not None:
        said[down.partition_metadata.offset] = (
            f"Kafka {before} again: it does not know the hash, and writes ConsumerGroupPartitionMetadata anew"
        )
        lost = "the hash is gone, and" if down.metadata_hash == 0 else "and"
        said[down.group.offset] = (
            f"{lost} epoch {down.epoch_before} becomes {down.epoch}: the way back has its bump, too"
        )
    return said


def comparison(told: Sequence[Story], before: str, after: str) -> Iterator[str]:
    """What the upgrade did to each group, in a few columns."""
    rows = [("group", f"epoch {before} → {after}", "metadata hash", "and back", "reassigned")]
    for story in told:
        down = story.down
        rows.append(
            (
                story.group_id,
                f"{story.up.epoch_before} → {story.up.epoch}",
                hash_text(story.up.metadata_hash),
                "" if down is None else f"{down.epoch_before} → {down.epoch}",
                "yes" if story.up.reassigned or (down is not None and down.reassigned) else "no",
            )
        )
    yield from table_lines(rows)


def _what_kafka_prints(entries: Sequence[LogEntry]) -> str:
    types = [entry.record.type_id for entry in entries if isinstance(entry.record, CoordinatorRecord)]
    hidden = [type_id for type_id in types if type_id not in PRINTED_BY_KAFKA]
    return f"Kafka's console formatters print {len(types) - len(hidden):,} of the {len(types):,} records; the other {len(hidden):,} are of types that none of them knows."


def _short(path: Path) -> str:
    """The path, as it can be typed here."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
