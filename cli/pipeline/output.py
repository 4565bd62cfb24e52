"""Print the result of a job as a table or JSON, and write pages to files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.errors import UserError, note
from quorate.cli.output import echo_lines, table_lines
from quorate.codecs.printable import brief_id, cut, hash_text, printable, time_text

if TYPE_CHECKING:
    from pyarrow import Table

MAX_CELL_LENGTH = 60
"""Longest cell on the terminal, in characters; JSON has the whole text."""


def write_text(path: str, text: str) -> None:
    """Write a report to a file, or for `-` to stdout. Raises `UserError` if that fails."""
    if path == "-":
        click.echo(text.encode("utf-8"), nl=False)  # UTF-8 in every locale
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error
    note(f"report: {path}")


def show(table: "Table", *, as_json: bool, limit: int) -> None:
    """Print at most `limit` rows.

    The table omits columns that are empty in all rows; JSON has them.
    """
    names, rows = table.schema.names, table.slice(0, limit + 1).to_pylist()
    more, rows = len(rows) > limit, rows[:limit]
    if as_json:
        click.echo(json.dumps([_plain(row) for row in rows], indent=2, ensure_ascii=False))
    elif rows:
        shown = [name for name in names if any(row[name] not in (None, [], "", {}) for row in rows)]
        right = [
            place
            for place, name in enumerate(shown)
            if isinstance(next((row[name] for row in rows if row[name] is not None), None), int | float)
        ]
        heads = [name.upper().replace("_", "-") for name in shown]
        echo_lines(table_lines([heads, *([_cell(name, row[name]) for name in shown] for row in rows)], right))
    else:
        note("nothing to show")
    if more:
        note(f"more rows exist: --limit {limit} was reached")


def _cell(name: str, value: Any) -> str:
    match value:
        case None | [] | "":
            return "-"
        case int() if name == "metadata_hash":
            return hash_text(value)
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.1f}"
        case datetime():
            return time_text(round(value.timestamp() * 1000))
        case dict():
            return _cell(name, [f"{key}={one}" for key, one in value.items()])
        case list() if value and isinstance(value[0], tuple):  # a map of Arrow
            return _cell(name, dict(value))
        case list():
            text = ",".join(_cell(name, one) for one in value)
        case str():
            text = brief_id(value) if name.endswith(("member_id", "joined", "fenced", "replaced", "away")) else value
        case _:
            text = str(value)
    text = printable(text)
    return text if name == "sentence" else cut(text, MAX_CELL_LENGTH)


def _plain(value: Any) -> Any:
    """Convert a value for JSON; times become ISO 8601 in UTC."""
    match value:
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() if value and isinstance(value[0], tuple):
            return {str(key): _plain(one) for key, one in value}
        case list():
            return [_plain(one) for one in value]
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value
