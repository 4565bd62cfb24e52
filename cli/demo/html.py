"""The timeline of the demo as a self-contained HTML page.

A row for each partition, coloured by its owner, and hatched while it is read from another rack.
"""

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from quorate.cli.output import html_page

if TYPE_CHECKING:
    from quorate.integration.play import Play

WIDTH = 1000
LEFT = 90
ROW = 26
TOP = 34
COLOURS = ("#2f6fb0", "#c8662b", "#3c8d5a", "#8a5bb0", "#b0902f")

STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --dim: #5c6470; --page: #fff; --line: #c9ced6; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8eb; --dim: #9aa3af; --page: #16181c; --line: #3a3f47; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); }
body { max-width: 1060px; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--text); font-size: 13px; }
svg .dim { fill: var(--dim); font-size: 12px; } svg .mark { stroke: var(--line); } .dim { color: var(--dim); }
td, th { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top; }
.name { white-space: nowrap; } .key { display: inline-block; width: 1.1em; height: .8em; margin: 0 .3em 0 1em; }
"""


def page(play: "Play", summary: str) -> str:
    """Return the whole page."""
    members = list(play.snapshots[-1].member_racks) if play.snapshots else []
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(members)}
    racks = play.snapshots[-1].member_racks if play.snapshots else {}
    keys = "".join(
        f'<span class="name"><span class="key" style="background:{colours[name]}"></span>'
        f"{escape(name)} (rack {escape(racks[name])})</span> "
        for name in members
    )
    rows = "".join(
        f"<tr><td>{number}</td><td>{chapter.began_s:.1f} s</td>"
        f"<td>{escape(chapter.title)}</td><td>{escape(chapter.said)}</td></tr>"
        for number, chapter in enumerate(play.chapters, 1)
    )
    body = (
        "<h1>Owners of partitions, and the racks they read from</h1>",
        f"<p>{escape(summary)}</p>",
        '<p class="dim">A row is a partition, its colour the consumer that owns it; '
        f"hatched: read from another rack than the consumer's.{keys}</p>",
        _picture(play, colours),
        f"<table><tr><th></th><th>from</th><th>event</th><th>result</th></tr>{rows}</table>",
    )
    return html_page("quorate demo", STYLE, body)


def _picture(play: "Play", colours: dict[str, str]) -> str:
    partitions = sorted({partition for snapshot in play.snapshots for partition in snapshot.replicas})
    height = TOP + ROW * len(partitions) + 24
    until = max((snapshot.at_s for snapshot in play.snapshots), default=1.0)
    scale = (WIDTH - LEFT - 10) / until
    out = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="owners of partitions over time">',
        '<defs><pattern id="remote" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="3" height="7" fill="#ffffff" fill-opacity="0.55"/></pattern></defs>',
    ]
    for number, chapter in enumerate(play.chapters, 1):
        x = LEFT + chapter.began_s * scale
        out.append(f'<line class="mark" x1="{x:.1f}" y1="14" x2="{x:.1f}" y2="{height - 20}"/>')
        out.append(f'<text x="{x + 4:.1f}" y="24">{number}<title>{escape(chapter.title)}</title></text>')
    for index, partition in enumerate(partitions):
        y = TOP + index * ROW
        out.append(f'<text x="0" y="{y + 16}">partition {partition}</text>')
        for begin, end, owner, source, local in _spans(play, partition):
            x, width = LEFT + begin * scale, max(1.0, (end - begin) * scale)
            box = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 6}"'
            said = escape(f"{owner}, read from rack {source}, {begin:.1f} to {end:.1f} s")
            out.append(f'<rect {box} fill="{colours[owner]}"><title>{said}</title></rect>')
            if not local:
                out.append(f'<rect {box} fill="url(#remote)"><title>{said}</title></rect>')
    out += [
        f'<text class="dim" x="{LEFT + second * scale:.1f}" y="{height - 4}">{second} s</text>'
        for second in range(int(until) + 1)
    ]
    return "\n".join([*out, "</svg>"])


def _spans(play: "Play", partition: int) -> Iterator[tuple[float, float, str, str, bool]]:
    """Yield periods with the same owner and source: from, to, owner, source rack, whether local.

    Times without an owner, or before the owner has read, are omitted.
    """
    times = [snapshot.at_s for snapshot in play.snapshots]
    states = [
        (snapshot.owners.get(partition), snapshot.rack_of_source(partition), snapshot.local(partition))
        for snapshot in play.snapshots
    ]
    for (owner, source, local), group in groupby(range(len(states)), key=lambda index: states[index]):
        those = list(group)
        if owner is not None and source is not None:
            yield times[those[0]], times[min(those[-1] + 1, len(times) - 1)], owner, source, local
