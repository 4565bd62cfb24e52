"""The table of `quorate assign`: a row for each member, columns for each assignor.

Rows for racks and for the whole group follow. If the terminal is too narrow for all assignors,
several tables follow each other, and long member ids are cut in the middle. If the output is not a
terminal, nothing is cut.
"""

from collections.abc import Callable, Iterator, Sequence

import click

from quorate.assignors.explanations import WHY, RemotePartition
from quorate.assignors.what_if import Outcome
from quorate.cli.assign.comparison import Comparison
from quorate.cli.decode.table import cells_of, cut_end, cut_middle
from quorate.codecs.printable import brief_id, printable

_GAP = "  "
_BETWEEN = " │ "
_NAME_AT_MOST = 32
_NAME_AT_LEAST = 8


def table_lines(comparison: Comparison, *, limit: int | None, width: int | None) -> Iterator[str]:
    """Return heading, tables and remarks.

    `limit` is the highest number of members (`None`: all), `width` that of columns (`None`: any).
    """
    for text in _wrapped(printable(comparison.heading), 2, width):
        yield click.style(text, bold=True)
    if comparison.changes:
        yield from _wrapped(f"what if: {printable(', '.join(comparison.changes))}", 2, width)
    shown = comparison.members if limit is None else comparison.members[:limit]
    rows = [
        (_short(printable(comparison.name_of(one)), width), printable(comparison.rack_of(one)), one) for one in shown
    ]
    racks = [_rack_words(comparison, rack) for rack in comparison.rack_names]
    if racks == [_rack_words(comparison, None)]:
        racks = []
    left = max(map(cells_of, [*(row[0] for row in rows), *racks, "member"]))
    if width is not None:
        left = min(left, _NAME_AT_MOST)
    rack = max(map(cells_of, ["rack", *(row[1] for row in rows)])) if any(row[1] for row in rows) else 0
    lines = [_Block(comparison, outcome, shown) for outcome in comparison.outcomes]
    for blocks in _packed(lines, left + (rack and len(_GAP) + rack), width):
        yield ""
        yield from _table(blocks, rows, racks, (left, rack), width)
    hidden = len(comparison.members) - len(shown)
    if hidden:
        yield ""
        yield f"{hidden:,} more members; --limit 0 shows all"
    remarks = comparison.remarks()
    if remarks:
        yield ""
        for remark in remarks:
            yield from _wrapped(printable(remark), 2, width)


class _Block:
    """The columns of one outcome."""

    def __init__(self, comparison: Comparison, outcome: Outcome, shown: Sequence[str]) -> None:
        self.columns = [column for column in comparison.columns if column != "moved" or outcome.choice is not None]
        keep = len(self.columns)

        def cut(cells: list[str]) -> list[str]:
            return cells[:keep]  # the current assignment has no "moved", which is the last column

        self.title = printable(outcome.label)
        self.members = [cut(comparison.member_cells(outcome, one)) for one in shown]
        self.racks = [cut(comparison.rack_cells(outcome, rack_name)) for rack_name in comparison.rack_names]
        self.sums = [
            cut(cells(outcome)) for cells in (comparison.sum_cells, comparison.least_cells, comparison.most_cells)
        ]
        rows = [self.columns, *self.members, *self.racks, *self.sums]
        self.widths = [max(len(row[index]) for row in rows) for index in range(keep)]
        self.width = sum(self.widths) + len(_GAP) * (keep - 1)
        if cells_of(self.title) > self.width:  # widen the first column to fit the title
            self.widths[0] += cells_of(self.title) - self.width
            self.width = cells_of(self.title)

    def line(self, cells: Sequence[str]) -> str:
        return _GAP.join(cell.rjust(width) for cell, width in zip(cells, self.widths, strict=True))


def _packed(blocks: Sequence[_Block], left: int, width: int | None) -> Iterator[list[_Block]]:
    """Arrange blocks in lines, with as many side by side as fit."""
    line: list[_Block] = []
    used = left
    for block in blocks:
        if line and width is not None and used + len(_BETWEEN) + block.width > width:
            yield line
            line, used = [], left
        line.append(block)
        used += len(_BETWEEN) + block.width
    if line:
        yield line


def _table(
    blocks: Sequence[_Block],
    rows: Sequence[tuple[str, str, str]],
    racks: Sequence[str],
    widths: tuple[int, int],
    width: int | None,
) -> Iterator[str]:
    left, rack = widths

    def line(first: str, second: str, cells: Callable[[_Block], str]) -> str:
        head = _pad(cut_middle(first, left), left) + (_GAP + _pad(second, rack) if rack else "")
        return _fit(_BETWEEN.join([head, *(cells(block) for block in blocks)]).rstrip(), width)

    def below(index: int, of: str) -> Callable[[_Block], str]:
        return lambda block: block.line(getattr(block, of)[index])

    yield click.style(line("", "", lambda block: _pad(block.title, block.width)), bold=True)
    yield click.style(line("member", "rack" if rack else "", lambda block: block.line(block.columns)), bold=True)
    for index, (name, where, _) in enumerate(rows):
        yield line(name, where, below(index, "members"))
    if racks:
        yield click.style(_fit("── racks ──", width), dim=True)
        for index, name in enumerate(racks):
            yield line(name, "", below(index, "racks"))
    yield click.style(_fit("── group ──", width), dim=True)
    for index, what in enumerate(("sum", "least", "most")):
        yield line(what, "", below(index, "sums"))


def _rack_words(comparison: Comparison, rack: str | None) -> str:
    """Return a rack with its number of members; both numbers if the changes affect it."""
    found = [
        sum((member.rack or None) == rack for member in situation.members.values())
        for situation in (comparison.before, comparison.after)
    ]
    numbers = " → ".join(f"{number:,}" for number in dict.fromkeys(found))
    return f"{'no rack' if rack is None else printable(rack)}, {numbers} member{'' if numbers == '1' else 's'}"


def reason_lines(comparison: Comparison, *, limit: int | None, width: int | None) -> Iterator[str]:
    """Return for each outcome how many partitions are remote for which reason, and list them."""
    yield click.style("why partitions are remote", bold=True)
    if not comparison.racks:
        yield "  unknown: the racks of the replicas or of all members are missing"
        return
    for outcome in comparison.outcomes:
        facts = outcome.explanation
        yield ""
        yield click.style(
            f"{printable(outcome.label)}: {facts.partitions - facts.local:,} of {facts.partitions:,}", bold=True
        )
        for reason, number in facts.reasons.items():
            yield from _wrapped(f"{number:>7,}  {WHY[reason]}", 9, width)
        shown = facts.remote if limit is None else facts.remote[:limit]
        for one in shown:
            yield from _wrapped(_remote(comparison, one), 4, width)
        if len(facts.remote) > len(shown):
            yield f"  {len(facts.remote) - len(shown):,} more; --limit 0 shows all"


def _remote(comparison: Comparison, one: RemotePartition) -> str:
    racks = ", ".join(dict.fromkeys(rack or "?" for rack in one.replica_racks)) or "unknown"
    where = f" in {printable(one.rack)}" if one.rack else ""
    reader = f"{printable(brief_id(comparison.name_of(one.member_id)))}{where}"
    partition = f"{printable(one.topic)}-{one.partition} ({printable(racks)})"
    return f"  {partition} read by {reader}: {one.reason.replace('_', ' ')}"


def _wrapped(text: str, indent: int, width: int | None) -> list[str]:
    wrapped = click.wrap_text(text.strip(), width=10_000 if width is None else max(20, width - indent))
    first = text[: len(text) - len(text.lstrip())]
    lines = wrapped.split("\n")
    return [first + lines[0], *(" " * indent + line for line in lines[1:])]


def _short(name: str, width: int | None) -> str:
    if width is None:
        return name
    return cut_middle(brief_id(name), max(_NAME_AT_LEAST, min(_NAME_AT_MOST, width // 4)))


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cells_of(text))


def _fit(line: str, width: int | None) -> str:
    return line if width is None else cut_end(line, width)
