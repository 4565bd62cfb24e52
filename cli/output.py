"""What commands print: small tables, JSON, what to try next, pages in HTML; and whether in colour."""

import json
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

import click

__all__ = [
    "colour_asked_for",
    "columns",
    "echo_lines",
    "html_page",
    "json_text",
    "next_steps",
    "stdout_has_colour",
    "table_lines",
    "terminal_width",
]


def colour_asked_for() -> bool | None:
    """What the environment asks for (https://no-color.org); `None` leaves it to each stream: terminals have colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def stdout_has_colour() -> bool:
    """Whether to colour what goes to stdout."""
    asked = colour_asked_for()
    return sys.stdout.isatty() if asked is None else asked


def terminal_width() -> int | None:
    """The columns of the terminal; `None` where stdout is none."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """A line for each row, two spaces between columns.

    Columns in `right` are set to the right; rows have equally many cells.
    """
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """The same with the first row as a heading."""
    head, *lines = columns(rows, right)
    return [click.style(head, bold=True), *lines]


def next_steps(commands: Sequence[tuple[str, str]], width: int | None = None) -> list[str]:
    """Commands to try, each with a remark next to it, or above where not all lines fit; a command without a remark may be of any length."""
    longest = max(len(command) for command, remark in commands if remark)
    fits = width is None or longest + max(len(remark) for _, remark in commands) + 6 <= width
    lines = [click.style("To try next", bold=True)]
    for command, remark in commands:
        said = click.style(f"# {remark}", dim=True)
        if not remark:
            lines.append(f"  {command}")
        elif fits:
            lines.append(f"  {command.ljust(longest)}  {said}")
        else:
            lines += [f"  {said}", f"  {command}"]
    return lines


def json_text(plain: Any) -> str:
    """JSON, on a terminal over several lines."""
    return json.dumps(plain, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)


def echo_lines(lines: Iterable[str]) -> None:
    """Print each."""
    for line in lines:
        click.echo(line)


def html_page(title: str, style: str, body: Iterable[str]) -> str:
    """A page in one file: no scripts, and nothing is fetched, which its policy forbids.

    `body` is HTML; `title` is text.
    """
    head = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">""",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{style}</style></head><body>",
    ]
    return "\n".join([*head, *body, "</body></html>"]) + "\n"
