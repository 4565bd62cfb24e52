"""Write entries to stdout in one of the formats, count them, and print the summary.

Data goes to stdout, everything else to stderr. Lines are buffered, except with --follow and with
interactive input.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeAlias

import click

from quorate.cli.output import columns, stdout_has_colour
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.errors import Reason
from quorate.codecs.json_lines import Entry
from quorate.codecs.log.model import LogProblem
from quorate.codecs.message import Message
from quorate.codecs.records import CoordinatorRecord

Format: TypeAlias = Literal["table", "jsonl", "kafka"]

BUFFERED_LINES = 512


class Writer:
    """Writes entries to stdout; `unbuffered` writes each line at once.

    `omitted`: number of entries that the format cannot represent, by reason. Call `learn` with
    entries that the filters omit: they may contain topic names that later entries lack.
    """

    def __init__(self, output_format: Format, *, unbuffered: bool, width: int | None) -> None:
        self.omitted: Counter[str] = Counter()
        self._buffered_lines = 1 if unbuffered else BUFFERED_LINES
        self._buffer: list[str] = []
        # JSON is UTF-8. Bytes of a path that are not valid UTF-8 are written as JSON escapes.
        self._encoding, self._errors = "utf-8", "backslashreplace"
        self._remaining_lines: Callable[[], Iterable[str]] = tuple
        self.learn: Callable[[Entry], None] = lambda _: None
        self._lines = self._make_lines(output_format, unbuffered, width)

    def write(self, entry: Entry) -> None:
        """Write the lines of an entry, or buffer them."""
        self._buffer += self._lines(entry)
        if len(self._buffer) >= self._buffered_lines:
            self._flush()

    def finish(self) -> None:
        """Write the buffered lines."""
        self._buffer += self._remaining_lines()
        self._flush()

    def _flush(self) -> None:
        if self._buffer:
            text = "\n".join(self._buffer) + "\n"
            self._buffer.clear()
            sys.stdout.buffer.write(text.encode(self._encoding, self._errors))
        sys.stdout.buffer.flush()

    def _make_lines(
        self, output_format: Format, unbuffered: bool, width: int | None
    ) -> Callable[[Entry], Iterable[str]]:
        if output_format == "table":
            from quorate.cli.decode.table import TableLines

            self._encoding, self._errors = sys.stdout.encoding or "utf-8", "replace"
            table = TableLines(width=width, colour=stdout_has_colour(), hold=not unbuffered)
            self._remaining_lines, self.learn = table.rest, table.learn
            return table.lines
        if output_format == "jsonl":
            from quorate.codecs.json_lines import JsonLines

            line = JsonLines().line
            return lambda entry: (line(entry),)
        from quorate.codecs.json_lines import KafkaLines

        return self._kafka_lines(KafkaLines().line)

    def _kafka_lines(self, line: Callable[[Entry], str | None]) -> Callable[[Entry], Iterable[str]]:
        def lines(entry: Entry) -> Iterable[str]:
            text = line(entry)
            if text is not None:
                return (text,)
            if not isinstance(entry, LogProblem):  # reported separately
                self.omitted[_reason(entry.record)] += 1
            return ()

        return lines


def _reason(record: object) -> str:
    return "transaction marker" if isinstance(record, ControlRecord) else str(getattr(record, "reason", ""))


class Counts:
    """Number of entries shown, by type, and of entries that the filters omitted."""

    def __init__(self) -> None:
        self.shown = 0
        self.filtered = 0
        self._records: Counter[tuple[type[Message], bool]] = Counter()
        self._markers = 0
        self._problems: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        """Count an entry that was shown."""
        self.shown += 1
        if isinstance(entry, LogProblem):
            self._problems[str(entry.reason)] += 1
            return
        record = entry.record
        if isinstance(record, CoordinatorRecord):
            self._records[type(record.key), record.value is None] += 1
            if record.key_trailing or record.value_trailing:
                self._problems[Reason.TRAILING] += 1
        elif isinstance(record, ControlRecord):
            self._markers += 1
        else:
            self._problems[record.reason] += 1

    def rows(self) -> Iterator[tuple[str, int, int, bool]]:
        """Yield name, number of records, number of tombstones, and whether it is a problem."""
        from quorate.codecs.records import RECORD_TYPES

        for types in RECORD_TYPES.values():
            for _, record_type in sorted(types.items()):
                tombstones = self._records[record_type.key.cls, True]
                number = self._records[record_type.key.cls, False] + tombstones
                if number:
                    yield record_type.name, number, tombstones, False
        if self._markers:
            yield "transaction marker", self._markers, 0, False
        for reason, number in self._problems.most_common():
            yield reason, number, 0, True


def show_summary(counts: Counts, *, cut_off: bool) -> None:
    """Print the numbers of records by type and of problems."""
    rows = [
        (name, f"{number:,}", f"{tombstones:,}" if tombstones else "", problem)
        for name, number, tombstones, problem in counts.rows()
    ]
    if rows:
        header, *lines = columns([("type", "records", "tombstones"), *(row[:3] for row in rows)], right=(1, 2))
        click.secho(header, bold=True, err=True)
        for line, row in zip(lines, rows, strict=True):
            click.secho(line, fg="red" if row[3] else None, bold=row[3], err=True)
    parts = [f"{counts.shown:,} shown"]
    if counts.filtered:
        parts.append(f"{counts.filtered:,} omitted by filters")
    if cut_off:
        parts.append("more may follow: --limit was reached")
    click.echo("; ".join(parts), err=True)
