"""`--format table`: one row per entry, fitted to the width of the terminal.

The first rows determine the widths of columns; later rows are written at once. The last column
wraps onto further lines. In a narrow terminal, days move into headings, type ids replace type
names, and member ids are abbreviated. Other text that does not fit is cut with a mark (…),
identifiers in the middle. If the output is not a terminal, nothing is cut.
"""

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from quorate.cli.decode.filters import is_problem
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.json_lines import Entry, RecordEntry, group_of
from quorate.codecs.log.model import LogProblem
from quorate.codecs.messages.transaction import TransactionLogKey
from quorate.codecs.printable import printable, time_text
from quorate.codecs.record_text import METADATA, RecordText
from quorate.codecs.records import RECORD_TYPES, CoordinatorRecord, MalformedRecord, UnknownRecord

SAMPLE = 200
"""Number of rows that determine the widths of columns."""

STYLES = {
    "offsets": "",
    "classic": "blue",
    "consumer": "green",
    "share": "magenta",
    "streams": "yellow",
    "transaction": "cyan",
    "control": "dim",
    "tombstone": "red",
    "problem": "bold white on red",
    "heading": "bold",
}
"""Kind of row → style of rich. Families of record types colour the type only, other kinds the whole
row.
"""

_FAMILIES = {
    "Consumer": "consumer",
    "Share": "share",
    "Streams": "streams",
    "Group": "classic",
    "Transaction": "transaction",
}
_WHOLE_ROWS = ("control", "tombstone", "problem", "heading")
_GAP = "  "
_HEADER = ("part", "offset", "time (UTC)", "id", "type", "group", "what")
_USUAL = (0, 9, 0, 2, max(len(t.name) for types in RECORD_TYPES.values() for t in types.values()), 20, 0)
_RIGHT = (True, True, False, True, False, False, False)
_ID, _TYPE, _GROUP, _WHAT = 3, 4, 5, 6
_MAX_LINES = 4
"""Lines of one row: a record of a classic group holds all its members and would fill the screen."""
_WIDE_ENOUGH_FOR_YEARS = 150
_WIDE_ENOUGH_FOR_TYPES = 110


@dataclass(frozen=True, slots=True)
class Row:
    """The printable cells of an entry, and its kind."""

    topic: str
    kind: str
    cells: tuple[str, ...]
    day: str


class TableLines:
    """Formats entries as lines, without line ends.

    `width` is in columns of the terminal, `None` for no limit. `colour` writes the ANSI codes of
    `STYLES`. `hold=False` prints the first row at once, with estimated widths. `one_group` is for
    rows of a single group: it omits the group's column, moves days into headings and does not limit
    the lines of a row. A row of several lines is one string with line ends in between.
    """

    def __init__(self, *, width: int | None, colour: bool, hold: bool = True, one_group: bool = False) -> None:
        self._width = width
        narrow = width is not None and width < _WIDE_ENOUGH_FOR_TYPES
        self._columns = [
            i for i in range(len(_HEADER)) if not (i == _TYPE and narrow) and not (i == _GROUP and one_group)
        ]
        self._days_apart = narrow or one_group
        self._max_lines = None if one_group else _MAX_LINES
        self._codes = _ansi_codes() if colour else {}
        self._sample = SAMPLE if hold else 1
        self._held: list[Row] | None = []
        self._widths: list[int] = []
        self._words = RecordText(brief=width is not None and (narrow or one_group))
        self._day = ""
        self._heading: tuple[str, str] | None = None

    def lines(self, entry: Entry) -> Iterator[str]:
        """Add an entry, and yield the lines that can be written."""
        row = self._row(entry)
        if self._held is None:
            yield from self._print(row)
            return
        self._held.append(row)
        if len(self._held) >= self._sample:
            yield from self.rest()

    def learn(self, entry: Entry) -> None:
        """Learn topic names from an entry that is not shown."""
        if not isinstance(entry, LogProblem):
            self._words.learn(entry.record)

    def rest(self) -> Iterator[str]:
        """Yield the buffered rows."""
        if not self._held:  # rows that come later determine the widths
            return
        held, self._held = self._held, None
        self._widths = _widths(held, self._columns, self._width, guess=self._sample == 1)
        for row in held:
            yield from self._print(row)

    def _row(self, entry: Entry) -> Row:
        partition = "" if entry.partition is None else str(entry.partition)
        if isinstance(entry, LogProblem):
            offset = "" if entry.base_offset is None else f"{entry.base_offset:,}"
            cells = (
                partition,
                offset,
                "",
                "",
                str(entry.reason),
                "",
                f"{entry.path.name} position {entry.position:,}: {entry.detail}",
            )
            return self._named(Row(entry.topic, "problem", tuple(map(printable, cells)), self._day))
        record = entry.record
        what = self._words.what(record)
        if entry.transactional:
            what += f" · producer {entry.producer_id} epoch {entry.producer_epoch}"
        kind, type_id, name = _kind(record)
        time = "" if entry.timestamp_ms is None or entry.timestamp_ms == -1 else time_text(entry.timestamp_ms)
        cells = (
            partition,
            "" if entry.offset is None else f"{entry.offset:,}",
            self._time(time),
            type_id,
            name,
            printable(_owner(entry)),
            printable(what),
        )
        self._day = time[:10] if self._days_apart else ""
        return self._named(Row(entry.topic, "problem" if is_problem(entry) else kind, cells, self._day))

    def _named(self, row: Row) -> Row:
        """Put the type's name before the last cell if neither a column nor an id shows the type."""
        if _TYPE in self._columns or row.cells[_ID]:
            return row
        *cells, what = row.cells
        return replace(row, cells=(*cells, f"{row.cells[_TYPE]}: {what}"))

    def _time(self, text: str) -> str:
        if self._days_apart:
            return text[11:] if self._width is None or self._width >= _WIDE_ENOUGH_FOR_YEARS else text[11:19]
        return text if self._width is None or self._width >= _WIDE_ENOUGH_FOR_YEARS else text[5:19]

    def _print(self, row: Row) -> Iterator[str]:
        if (row.topic, row.day) != self._heading:
            if self._heading is None:
                yield self._styled("heading", self._line(self._fitted(_HEADER)))
            self._heading = row.topic, row.day
            yield self._styled("heading", f"── {row.topic}{row.day and f', {row.day}'} ──")
        yield self._styled_row(row)

    def _styled(self, kind: str, text: str) -> str:
        start, end = self._codes.get(kind, ("", ""))
        return f"{start}{text}{end}"

    def _styled_row(self, row: Row) -> str:
        first, *further = self._wrapped(row)
        cells = self._fitted((*row.cells[:_WHAT], first))
        line = "\n".join([self._line(cells), *further])
        if row.kind in _WHOLE_ROWS:
            return "\n".join(self._styled(row.kind, one) for one in line.split("\n"))
        coloured = self._columns.index(_TYPE if _TYPE in self._columns else _ID)
        start = line.find(cells[coloured], len(_GAP.join(cells[:coloured])))
        end = start + len(cells[coloured])
        return line if start < 0 else line[:start] + self._styled(row.kind, line[start:end]) + line[end:]

    def _wrapped(self, row: Row) -> list[str]:
        """Return the text of the last column: the first line as a cell, further lines in full."""
        what, width, most = row.cells[_WHAT], self._widths[-1], self._max_lines
        if self._width is None or cells_of(what) <= width:
            return [what]
        if row.kind == "offsets" and cells_of(what.partition(METADATA)[0]) < width:
            return [what]  # a commit with metadata stays in one line
        lines = textwrap.wrap(
            what if most is None else what[: (most + 1) * width],
            max(width, 8),
            subsequent_indent="  ",
            max_lines=most,
            placeholder=" …",
            break_on_hyphens=False,
        )
        indent = " " * (sum(self._widths[:-1]) + len(_GAP) * (len(self._widths) - 1))
        return [lines[0], *(cut_end(indent + line, self._width) for line in lines[1:])]

    def _fitted(self, cells: Sequence[str]) -> list[str]:
        """Pad each shown cell to the width of its column; cut it if the width is limited."""
        fitted = []
        for index, width in zip(self._columns, self._widths, strict=True):
            cell = cells[index]
            if self._width is not None and index >= _TYPE:
                cell = cut_end(cell, width) if index == _WHAT else cut_middle(cell, width)
            padding = " " * (width - cells_of(cell))
            fitted.append(padding + cell if _RIGHT[index] else cell + padding)
        return fitted

    def _line(self, fitted: Sequence[str]) -> str:
        line = _GAP.join(fitted).rstrip()
        # Later offsets and partitions may be longer than those that determined the widths.
        return line if self._width is None else cut_end(line, self._width)


def _owner(entry: RecordEntry) -> str:
    """Return the group, or the transactional id."""
    key = getattr(entry.record, "key", None)
    return group_of(entry) or (key.transactional_id if isinstance(key, TransactionLogKey) else "")


def _kind(record: CoordinatorRecord | UnknownRecord | MalformedRecord | ControlRecord) -> tuple[str, str, str]:
    """Return kind of row, type id and type name."""
    if isinstance(record, ControlRecord):
        return "control", "", "transaction marker"
    if record.type_id is None:
        return "problem", "", "not a record"
    known = RECORD_TYPES[record.topic].get(record.type_id)
    if known is None:
        return "problem", str(record.type_id), "unknown type"
    kind = next((family for prefix, family in _FAMILIES.items() if known.name.startswith(prefix)), "offsets")
    if isinstance(record, CoordinatorRecord) and record.value is None:
        kind = "tombstone"
    return kind, str(record.type_id), known.name


def _widths(rows: Sequence[Row], columns: Sequence[int], limit: int | None, guess: bool) -> list[int]:
    """Return widths of columns for these rows; the last columns shrink to the terminal's width.

    `guess` applies usual widths as minimum, for a sample that is too small.
    """
    natural = [max(cells_of(row.cells[i]) for row in rows) for i in range(len(_HEADER))]
    needed = [max(*found) for found in zip(natural, map(len, _HEADER), _USUAL if guess else natural, strict=True)]
    widths = {column: needed[column] for column in columns}
    if limit is None:
        widths[_WHAT] = 0
        return list(widths.values())
    left = limit - sum(width for column, width in widths.items() if column < _TYPE) - len(_GAP) * (len(widths) - 1)
    for column, share, least in ((_TYPE, 0.32, 8), (_GROUP, 0.2, 6)):
        others = sum(width for other, width in widths.items() if column < other < _WHAT)
        if column in widths and widths[column] + others + max(20, left // 3) > left:
            widths[column] = min(widths[column], max(least, int(left * share)))
    widths[_WHAT] = max(1, left - widths.get(_TYPE, 0) - widths.get(_GROUP, 0))
    return list(widths.values())


def cells_of(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut_end(text: str, width: int) -> str:
    """Cut a text at its end to `width` columns, with a mark."""
    return text if cells_of(text) <= width else _head(text, width - 1) + "…"


def cut_middle(text: str, width: int) -> str:
    """Cut a text in the middle to `width` columns, as identifiers may differ at either end."""
    if cells_of(text) <= width:
        return text
    tail = (width - 1) // 3
    return _head(text, width - 1 - tail) + "…" + _head(text[::-1], tail)[::-1]


def _head(text: str, width: int) -> str:
    """Return the first characters that fit into `width` columns."""
    if text.isascii():
        return text[:width]
    used = 0
    for index, character in enumerate(text):
        used += cells_of(character)
        if used > width:
            return text[:index]
    return text


def _ansi_codes() -> dict[str, tuple[str, str]]:
    from rich.style import Style

    codes = {}
    for kind, style in STYLES.items():
        start, _, end = Style.parse(style).render("\0").partition("\0")
        codes[kind] = (start, end)
    return codes
