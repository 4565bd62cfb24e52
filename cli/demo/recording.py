"""`quorate demo decode`: records that real brokers wrote during an upgrade, with remarks.

The remarks are computed from the records. Only the versions of Kafka are known in advance.
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
from quorate.codecs.group_upgrades import GroupUpgrade, group_upgrades
from quorate.codecs.json_lines import group_of
from quorate.codecs.log.model import LogEntry
from quorate.codecs.log.partitions import LogPartitions
from quorate.codecs.messages.offsets import OffsetCommitKey
from quorate.codecs.printable import hash_text
from quorate.codecs.records import CoordinatorRecord

DATA = Path(__file__).parent / "data"

PRINTED_BY_KAFKA = (0, 1, 2, *range(10, 16))
"""Types of `__consumer_offsets` that one of Kafka's console formatters prints."""

HELP = """Show what an upgrade of real brokers wrote, record by record.

The log comes with quorate. Three brokers were upgraded from Kafka 4.0 to 4.3 and downgraded again while consumers were
running. The output shows the records of one group, with remarks.
"""


@click.command("decode", help=HELP)
@click.option("--group", "group_id", metavar="NAME", help="Show this group.  [default: the first one]")
@click.option(
    "--width",
    type=click.IntRange(min=60, max=10_000),
    metavar="N",
    help="Columns to use.  [default: width of the terminal]",
)
def decode(group_id: str | None, width: int | None) -> None:
    """Read the packaged log and print the records of a group, with remarks."""
    about, entries = packaged()
    found = {story.group_id: story for story in group_upgrades(entries)}
    story = found.get(group_id) if group_id is not None else next(iter(found.values()))
    if story is None:
        exists = group_id in {group_of(entry) for entry in entries}
        why = "the upgrade did not affect it" if exists else "the log has no such group"
        raise UserError(f"--group {group_id}: {why}", f"use one of {', '.join(found)}")
    width = width or terminal_width()
    releases = " → ".join(about["kafka_versions"])
    before, after = about["kafka_versions"][:2]
    _echo_wrapped(f"{about['about']}: Kafka {releases}.", width)
    partitions = len({entry.partition for entry in entries})
    _echo_wrapped(f"{len(entries):,} records in {partitions} partitions. Those of the group {story.group_id}:", width)
    click.echo()
    echo_lines(_group_lines(entries, story, width, before, after))
    click.echo()
    echo_lines(comparison(list(found.values()), before, after))
    _echo_wrapped(_formatter_summary(entries), width)
    click.echo()
    place = _short(DATA / about["log"])
    name = command_name()
    commands = (
        (
            f"{name} decode {place} --group 'legacy-*' --format table",
            "the groups of the classic protocol in the same log",
        ),
        (f"{name} decode {place} --type OffsetCommit --limit 3", "JSON for jq and programs"),
        (f"{name} records ConsumerGroupMetadata", "the fields of a record, and since when"),
        (f"{name} decode -b localhost:9092 --follow", "your own cluster"),
    )
    echo_lines(next_steps(commands, width))


def packaged() -> tuple[dict[str, Any], list[LogEntry]]:
    """Return the description and the records of the log that comes with quorate."""
    about: dict[str, Any] = json.loads((DATA / "about.json").read_text(encoding="utf-8"))
    files = LogPartitions([str(DATA / about["log"])])
    return about, [entry for entry in files.entries() if isinstance(entry, LogEntry)]


def command_name() -> str:
    """Return the command to type: a path if `quorate` is not on PATH, as after `make demo`."""
    path = Path(sys.argv[0])
    return _short(path) if path.name == "quorate" and shutil.which("quorate") is None else "quorate"


def _echo_wrapped(text: str, width: int | None) -> None:
    click.echo(click.wrap_text(text, width=width or 120))


def _group_lines(
    entries: Sequence[LogEntry], story: GroupUpgrade, width: int | None, before: str, after: str
) -> Iterator[str]:
    """Return the group's records as a table, with consecutive commits in one line, and remarks."""
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


def _remarks(story: GroupUpgrade, before: str, after: str) -> dict[int, str]:
    """Return offset → remark on the record at this offset."""
    up, down = story.up, story.down
    targets = "members got other partitions" if up.reassigned else "no partition was reassigned"
    said = {
        story.before.offset: f"Kafka {before} stores the partitions of the group's topics: "
        "ConsumerGroupPartitionMetadata",
        up.group.offset: f"Kafka {after} is the coordinator: it stores a hash of the topics instead (KIP-1101), "
        f"so epoch {up.epoch_before} becomes {up.epoch}; {targets}",
        up.partition_metadata.offset: "its tombstone removes the ConsumerGroupPartitionMetadata",
    }
    if down is not None:
        said[down.partition_metadata.offset] = (
            f"Kafka {before} is the coordinator again: "
            "it does not know the hash, and writes ConsumerGroupPartitionMetadata"
        )
        lost = "the hash is removed, and" if down.metadata_hash == 0 else "and"
        said[down.group.offset] = (
            f"{lost} epoch {down.epoch_before} becomes {down.epoch}: the downgrade bumps the epoch, too"
        )
    return said


def comparison(found: Sequence[GroupUpgrade], before: str, after: str) -> Iterator[str]:
    """Return a table of how the upgrade affected each group."""
    rows = [("group", f"epoch {before} → {after}", "metadata hash", "and back", "reassigned")]
    for story in found:
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


def _formatter_summary(entries: Sequence[LogEntry]) -> str:
    types = [entry.record.type_id for entry in entries if isinstance(entry.record, CoordinatorRecord)]
    hidden = [type_id for type_id in types if type_id not in PRINTED_BY_KAFKA]
    return (
        f"Kafka's console formatters print {len(types) - len(hidden):,} of the {len(types):,} records; "
        f"the other {len(hidden):,} are of types that none of them supports."
    )


def _short(path: Path) -> str:
    """Return the path, relative to the working directory if possible, quoted for the shell."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
