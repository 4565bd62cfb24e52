"""Tables that users give to jobs, such as end offsets, in CSV, JSON lines or Parquet."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quorate.codecs.errors import InputError

_FORMS = {"csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}


def check_table(option: str, path: str | None) -> None:
    """Raise `InputError` for another suffix than those of tables."""
    if path is not None and _suffix(path) not in _FORMS:
        raise InputError(f"{option} {path}: is not a .csv, .jsonl or .parquet file")


def form_of(path: str) -> str:
    """Return the format of a table: csv, json or parquet."""
    return _FORMS[_suffix(path)]


def _suffix(path: str) -> str:
    return Path(path).suffix.removeprefix(".").lower()


def read_table(path: str) -> pa.Table:
    """Read a table, or all files of a folder as Spark writes it. Raises `InputError`.

    Columns of CSV files are text, except for a `timestamp` of digits only.
    """
    form, place = form_of(path), Path(path.removeprefix("file://"))
    try:
        if form == "parquet":
            return pq.read_table(place)
        folder = sorted(one for one in place.iterdir() if one.name[0] not in "._") if place.is_dir() else [place]
        tables = [_of_csv(file) if form == "csv" else _of_json(file) for file in folder]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path}: {error}") from error
    return pa.concat_tables(tables, promote_options="permissive")


def _of_csv(file: Path) -> pa.Table:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.reader(stream)
        names = next(rows, [])
        found = [dict(zip(names, (cell or None for cell in row), strict=False)) for row in rows if row]
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in found] for name in names}
    times = columns.get("timestamp", [""])
    if all(text is None or text.isdecimal() for text in times):
        columns["timestamp"] = [None if text is None else int(text) for text in times]
    return pa.table({name: _column(values) for name, values in columns.items()})


def _of_json(file: Path) -> pa.Table:
    rows = list(_json_rows(file))
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _json_rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number} is not JSON") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not a JSON object")
            yield row


def _column(values: list[Any]) -> pa.Array:
    """Return the values of a column; as text, if they are of several types, or too large."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    try:
        return pa.array(values) if kinds else pa.array(values, pa.string())
    except OverflowError:  # a whole number of more than 64 bits
        return pa.array([None if value is None else str(value) for value in values])
