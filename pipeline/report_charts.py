"""SVG charts: lag panels, a timeline of rebalances, a matrix of racks.

Colours are classes of report.css, which has a light and a dark scheme.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

KINDS: Mapping[str, tuple[str, ...]] = {
    "membership": ("joined", "left", "replaced", "member"),
    "subscription": ("subscription", "regex", "assignor", "config", "topology"),
    "metadata": ("hash", "topics", "share-state"),
    "upgrade": ("hash-first", "hash-dropped", "converted"),
    "other": ("compacted", "unknown"),
}
"""The class, and so the colour, of a rebalance → its causes."""

_IMPORTANCE = ("upgrade", "metadata", "subscription", "membership", "other")
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000),
)
"""Seconds between marks of a time axis."""

WIDTH = 1100


def e(text: object) -> str:
    """Escape text for HTML; control characters become spaces."""
    return escape("".join(c if c.isprintable() else " " for c in str(text)), quote=True)


def human(number: float) -> str:
    """Format a number with at most three digits: 1.2 k, 34 M."""
    for power, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= power:
            short = number / power
            return f"{short:.0f}{unit}" if abs(short) >= 100 else f"{short:.1f}".removesuffix(".0") + unit
    return f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else f"{number:.1f}"


def seconds_text(seconds: float | None) -> str:
    """Format a duration: 45 s, 3 min, 2 h, 5 days; "never" for `None`."""
    if seconds is None:
        return "never"
    for size, unit in ((172_800, "days"), (7200, "h"), (120, "min")):
        if seconds >= size:
            return f"{human(round(seconds / {'days': 86_400, 'h': 3600, 'min': 60}[unit], 1))} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == 0 else f"{seconds:.1f} s"


def time_text(moment: float | datetime | None, *, span: float = 0) -> str:
    """Format a time in UTC, with the precision that an axis of `span` seconds needs."""
    if moment is None:
        return "–"
    at = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    if span > 3 * 86_400:
        return f"{at:%Y-%m-%d}"
    if span > 12 * 3600:
        return f"{at:%m-%d %H:%M}"
    return f"{at:%H:%M}" if span > 600 else f"{at:%H:%M:%S}" if span else f"{at:%Y-%m-%d %H:%M:%S}"


def lag_panel(title: str, points: Sequence[tuple[float, float]], note: str, domain: tuple[float, float]) -> str:
    """Draw one group's lag over time, on its own scale."""
    return "\n".join(_lag_panel(title, points, note, domain))


def _lag_panel(
    title: str, points: Sequence[tuple[float, float]], note: str, domain: tuple[float, float]
) -> Iterator[str]:
    width, height, left, right, top, bottom = 350, 150, 46, 8, 8, 20
    most = max((value for _, value in points), default=0)
    high = _round_up(most)
    first, last = domain

    def x(at: float) -> float:
        return left + (width - left - right) * ((at - first) / (last - first) if last > first else 0.5)

    def y(value: float) -> float:
        return top + (height - top - bottom) * (1 - value / high)

    yield f'<figure class="panel"><figcaption><b title="{e(title)}">{e(title)}</b><span>{e(note)}</span></figcaption>'
    yield f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Lag of {e(title)}, at most {e(human(most))}">'
    for value in (0, high / 2, high):
        yield f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        yield f'<text class="tick" x="{left - 5}" y="{y(value) + 3.5:.1f}" text-anchor="end">{e(human(value))}</text>'
    for at, text, anchor in _time_marks(first, last, 2):
        yield f'<text class="tick" x="{x(at):.1f}" y="{height - 5}" text-anchor="{anchor}">{e(text)}</text>'
    if points:
        line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        ground = f"{x(points[-1][0]):.1f},{y(0):.1f} {x(points[0][0]):.1f},{y(0):.1f}"
        yield f'<polygon class="area" points="{line} {ground}"/>'
        yield f'<polyline class="line" points="{line}"/>'
        peak = max(points, key=lambda point: point[1])
        for (at, value), name in ((peak, "peak"), (points[-1], "last")):
            yield f'<circle class="dot" cx="{x(at):.1f}" cy="{y(value):.1f}" r="3">'
            yield f"<title>{name}: {e(human(value))} at {e(time_text(at))}</title></circle>"
    yield "</svg></figure>"


def timeline(
    lanes: Sequence[tuple[str, int]],
    bars: Sequence[tuple[str, float, float | None, Sequence[str], str]],
    storms: Sequence[tuple[str, float, float]],
) -> str:
    """Draw a timeline of rebalances, with storms shaded.

    `lanes`: group and number of rebalances. `bars`: group, begin, end (`None` if not completed),
    causes and text. `storms`: group, begin and end. Times in seconds since 1970.
    """
    return "\n".join(_timeline(lanes, bars, storms))


def _timeline(
    lanes: Sequence[tuple[str, int]],
    bars: Sequence[tuple[str, float, float | None, Sequence[str], str]],
    storms: Sequence[tuple[str, float, float]],
) -> Iterator[str]:
    left, right, top, lane = 220, 60, 26, 22
    height = top + lane * len(lanes) + 8
    times = [at for _, start, end, *_ in bars for at in (start, end) if at is not None]
    first, last = (min(times), max(times)) if times else (0.0, 1.0)
    pad = max((last - first) * 0.01, 0.5)
    first, last = first - pad, last + pad
    row = {group: top + lane * number for number, (group, _) in enumerate(lanes)}

    def x(at: float) -> float:
        return left + (WIDTH - left - right) * (at - first) / (last - first)

    label = f"Rebalances of {len(lanes)} groups over time"
    yield f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" style="min-width: 700px">'
    for at, text, anchor in _time_marks(first, last, 8):
        yield f'<line class="grid" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top - 4}" y2="{height - 8}"/>'
        yield f'<text class="tick" x="{x(at):.1f}" y="{top - 10}" text-anchor="{anchor}">{e(text)}</text>'
    for number, (group, count) in enumerate(lanes):
        y = top + lane * number
        if number % 2 == 0:
            yield f'<rect class="lane" x="0" y="{y}" width="{WIDTH}" height="{lane}"/>'
        yield f'<text class="name" x="8" y="{y + 15}">{e(_short(group, 30))}<title>{e(group)}</title></text>'
        yield f'<text class="tick" x="{WIDTH - 8}" y="{y + 15}" text-anchor="end">{count:,}</text>'
    for group, begun, over in storms:
        if group in row:
            width = max(x(min(over, last)) - x(max(begun, first)), 4)
            yield f'<rect class="storm" x="{x(max(begun, first)) - 2:.1f}" y="{row[group] + 1}"'
            yield f' width="{width + 4:.1f}" height="{lane - 2}" rx="3">'
            yield f"<title>storm: {e(time_text(begun))} to {e(time_text(over))}</title></rect>"
    for group, start, end, causes, text in bars:
        if group not in row:
            continue
        width = max(x(end) - x(start), 3) if end is not None else 3
        cut = "" if end is not None else " open"
        yield f'<rect class="bar {kind_of(causes)}{cut}" x="{x(start):.1f}" y="{row[group] + 5}"'
        yield f' width="{width:.1f}" height="{lane - 10}" rx="1.5"><title>{e(text)}</title></rect>'
    yield "</svg>"


def kind_of(causes: Sequence[str]) -> str:
    """Return the class of a rebalance: the most important one of its causes."""
    kinds = {kind for kind, names in KINDS.items() if set(names) & set(causes)}
    return next((kind for kind in _IMPORTANCE if kind in kinds), "other")


def matrix(
    rows: Sequence[str | None],
    columns: Sequence[str | None],
    cells: Mapping[tuple[str | None, str | None], tuple[int, str]],
) -> str:
    """Draw a matrix from racks of replicas (`rows`) to racks of members (`columns`).

    `cells`: partitions, and the text below. Cross-rack cells are darker with more partitions.
    """
    return "\n".join(_matrix(rows, columns, cells))


def _matrix(
    rows: Sequence[str | None],
    columns: Sequence[str | None],
    cells: Mapping[tuple[str | None, str | None], tuple[int, str]],
) -> Iterator[str]:
    cell, line, left, top = 84, 46, 100, 44
    width, height = left + cell * len(columns) + 6, top + line * len(rows) + 6
    most = max((count for (a, b), (count, _) in cells.items() if a != b), default=0)
    yield f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="Partitions from rack to rack">'
    yield f'<text class="tick" x="{left}" y="14">to members in</text>'
    yield f'<text class="tick" x="8" y="{top - 8}">from replicas in</text>'
    for number, rack in enumerate(columns):
        middle = left + cell * number + cell / 2
        name = e(_short(rack or "no rack", 12))
        yield f'<text class="name" x="{middle}" y="{top - 8}" text-anchor="middle">{name}</text>'
    for place, rack in enumerate(rows):
        y = top + line * place
        yield f'<text class="name" x="8" y="{y + line / 2 + 4}">{e(_short(rack or "not known", 13))}</text>'
        for number, to in enumerate(columns):
            count, more = cells.get((rack, to), (0, ""))
            x = left + cell * number
            kind = "none" if not count else "unknown" if rack is None or to is None else "near" if rack == to else "far"
            depth = f' style="--depth: {0.25 + 0.75 * count / most:.2f}"' if kind == "far" else ""
            title = f"{rack or 'not known'} → {to or 'no rack'}: {count:,} partitions {more}"
            yield f'<g class="cell {kind}"{depth}><rect x="{x + 1}" y="{y + 1}" width="{cell - 2}"'
            yield f' height="{line - 2}" rx="4"/><title>{e(title)}</title>'
            if count:
                middle, base = x + cell / 2, y + line / 2
                at = base if more else base + 5
                yield f'<text class="count" x="{middle}" y="{at}" text-anchor="middle">{count:,}</text>'
                if more:
                    yield f'<text class="more" x="{middle}" y="{base + 15}" text-anchor="middle">{e(more)}</text>'
            yield "</g>"
    yield "</svg>"


def _time_marks(first: float, last: float, wanted: int) -> Iterator[tuple[float, str, str]]:
    """Return the marks of a time axis at round times: time, text and text anchor."""
    span = last - first
    step = next((step for step in _STEPS if span / step <= wanted), _STEPS[-1])
    at = math.ceil(first / step) * step
    while at <= last:
        place = (at - first) / span if span else 0.5
        yield at, time_text(at, span=span or 1), "start" if place < 0.06 else "end" if place > 0.94 else "middle"
        at += step


def _round_up(value: float) -> float:
    """Return the next number of 1, 2, 4, 5 or 8 times a power of ten; its half is round, too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 4, 5, 8, 10) if factor * power >= value)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
