"""Output of commands: tables, JSON, suggested commands, HTML pages, and colour."""

import json
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

import click


def colour_choice() -> bool | None:
    """Return whether the environment forces or forbids colour (https://no-color.org).

    `None`: only terminals have colour.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def stdout_has_colour() -> bool:
    """Return whether to colour output to stdout."""
    forced = colour_choice()
    return sys.stdout.isatty() if forced is None else forced


def terminal_width() -> int | None:
    """Return the number of columns of the terminal; `None` if stdout is not a terminal."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return a line for each row, with two spaces between columns.

    Columns in `right` are aligned to the right. All rows must have the same number of cells.
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
    """Return the same as `columns`, with the first row as a heading."""
    head, *lines = columns(rows, right)
    return [click.style(head, bold=True), *lines]


def next_steps(commands: Sequence[tuple[str, str]], width: int | None = None) -> list[str]:
    """Return a list of commands to try, with remarks next to them, or above if lines are too long.

    A command without a remark may have any length.
    """
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
    """Return JSON, indented if stdout is a terminal."""
    return json.dumps(plain, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)


def echo_lines(lines: Iterable[str]) -> None:
    """Print each line."""
    for line in lines:
        click.echo(line)


def html_page(title: str, style: str, body: Iterable[str]) -> str:
    """Return a self-contained HTML page; its policy forbids scripts and external resources.

    `body` is HTML, `title` is text.
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
