"""A mkdocs hook that draws a module's `TRANSITIONS` in place of `<!-- states: MODULE -->`.

States are in a row, with forward arrows above and backward arrows below, in the colours of the
page.
"""

import importlib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from html import escape
from typing import Any

_STATES = re.compile(r"<!-- states: ([\w.]+) -->")

CHARACTER, HEIGHT, GAP, LEVEL = 8, 30, 46, 24
"""Pixels: width of a character, height of a state, space between states, and additional distance of
an arrow for each state that it skips.
"""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with state diagrams; mkdocs calls this for every page."""
    return _STATES.sub(lambda match: _picture(match[1]), markdown)


def _picture(module: str) -> str:
    transitions: Mapping[Enum, Iterable[Enum]] = importlib.import_module(f"quorate.coordinator.{module}").TRANSITIONS
    names = {state: state.value if isinstance(state.value, str) else state.name for state in transitions}
    return f"<div>\n{state_diagram(transitions, names)}\n</div>"


def state_diagram(transitions: Mapping[Enum, Iterable[Enum]], named: Mapping[Enum, str]) -> str:
    """Return an SVG with one arrow per transition; `named` has the label of each state."""
    lefts: dict[Enum, int] = {}
    width = GAP // 2
    for state, name in named.items():
        lefts[state] = width
        width += len(name) * CHARACTER + 24 + GAP
    middles = {state: lefts[state] + (len(name) * CHARACTER + 24) // 2 for state, name in named.items()}
    order = list(named)
    top = (len(order) - 1) * LEVEL + 20
    arrows = []
    for old, news in transitions.items():
        for new in sorted(news, key=order.index):
            path = _path(order.index(old), order.index(new), middles[old], middles[new], top)
            title = escape(f"{named[old]} → {named[new]}")
            arrows.append(f'<path d="{path}" marker-end="url(#arrow)"><title>{title}</title></path>')
    boxes = [
        f'<rect x="{lefts[state]}" y="{top}" width="{len(name) * CHARACTER + 24}" height="{HEIGHT}" rx="8"/>'
        f'<text x="{middles[state]}" y="{top + 20}" text-anchor="middle" stroke="none" fill="currentColor">'
        f"{escape(name)}</text>"
        for state, name in named.items()
    ]
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width} {2 * top + HEIGHT}" role="img" style="max-width: {width}px" fill="none" '
            'stroke="currentColor" font-family="monospace" font-size="13">',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor" stroke="none"/></marker></defs>',
            *arrows,
            *boxes,
            "</svg>",
        ]
    )


def _path(old: int, new: int, start: int, end: int, top: int) -> str:
    bottom = top + HEIGHT
    if old == new:
        return f"M{start - 12} {bottom} C{start - 26} {bottom + 34} {start + 26} {bottom + 34} {start + 12} {bottom}"
    out = abs(new - old) * LEVEL
    if new > old:
        return f"M{start + 8} {top} C{start + 20} {top - out} {end - 20} {top - out} {end - 8} {top}"
    return f"M{start - 8} {bottom} C{start - 20} {bottom + out} {end + 20} {bottom + out} {end + 8} {bottom}"
