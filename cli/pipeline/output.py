"""What becomes of a job's result: written by Spark, or shown as a table or JSON."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.columns import columns
from quorate.cli.errors import UserError, note
from quorate.cli.texts import brief_id, time_text
from quorate.codecs.printable import printable
from quorate.coordinator.history.words import hash_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["show", "write", "write_text"]

MOST_LETTERS = 60
"""Of a cell on the terminal; JSON has the whole text."""


def write(tables: Mapping[str, "DataFrame"], place: str, form: str, *, overwrite: bool) -> None:
    """Have Spark write the tables: one straight to `place`, several each into a folder of its name there. Says on stderr what was written.

    CSV has no nested values: they are JSON there. Raises `UserError` for a format that Spark lacks, and for places where something is.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if form == "iceberg" and "/" in place:
        raise UserError(
            f"--output {place}: Iceberg has tables in catalogs, not in folders",
            "give the namespace, or for a single table its name, such as --output lake.groups, and the catalog: --conf spark.sql.catalog.lake=…",
        )
    for name, table in tables.items():
        where = place if len(tables) == 1 else f"{place.rstrip('/')}{'.' if form == 'iceberg' else '/'}{name}"
        try:
            _save(table, where, form, overwrite=overwrite)
        except (PySparkException, Py4JError) as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise UserError(
                    f"--format {form}: this Spark has no such format",
                    f"name the package that brings {form} for this release of Spark: --conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
                ) from error
            if "already exist" in str(error):  # each format has a condition of its own
                raise UserError(
                    f"{where} already exists", "give --overwrite to replace it, or another --output"
                ) from error
            raise
        note(f"{name}: {where}")


def _save(table: "DataFrame", where: str, form: str, *, overwrite: bool) -> None:
    match form:
        case "iceberg":
            writer = table.writeTo(where).using(form)
            (writer.createOrReplace if overwrite else writer.create)()
            return
        case "csv":
            writing = _flat(table).write.option("header", "true")
        case _:
            writing = table.write
    writing.format(form).mode("overwrite" if overwrite else "errorifexists").save(where)


def _flat(table: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812  # as everybody who uses Spark calls it
    from pyspark.sql.types import ArrayType, MapType, StructType

    nested = [field.name for field in table.schema if isinstance(field.dataType, ArrayType | MapType | StructType)]
    return table.withColumns({name: F.to_json(name) for name in nested})


def write_text(path: str, text: str) -> None:
    """Raises `UserError` for a place that cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error
    note(f"report: {path}")


def show(table: "DataFrame", *, as_json: bool, limit: int) -> None:
    """The rows on the terminal. Columns that are empty in all rows are left out of the table, but not of the JSON."""
    names = table.columns
    rows = table.limit(limit + 1).toArrow().to_pylist()
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
        head, *lines = columns(
            [
                [name.upper().replace("_", "-") for name in shown],
                *([_cell(name, row[name]) for name in shown] for row in rows),
            ],
            right,
        )
        click.secho(head, bold=True)
        for line in lines:
            click.echo(line)
    else:
        note("nothing to show")
    if more:
        note(f"there is more: --limit {limit} was reached")


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
    return text if len(text) <= MOST_LETTERS or name == "sentence" else text[: MOST_LETTERS - 1] + "…"


def _plain(value: Any) -> Any:
    """For JSON: times in ISO 8601, UTC."""
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
