"""Write tables in formats that Spark's writers also have: a folder per table, with one file."""

import json
import os
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from quorate.codecs.errors import InputError

FORMATS: Final = ("parquet", "json", "csv")
"""Formats that need no Spark."""


Order = str | tuple[str, str]
"""A column to sort by, or the column and "descending"."""


def ordered(table: pa.Table, *order: Order) -> pa.Table:
    """Sort rows by columns. Null is smaller than all values, as in Spark."""
    rows = list(range(table.num_rows))
    for one in reversed(order):
        name, direction = (one, "ascending") if isinstance(one, str) else one
        keys = [(value is not None, value) for value in table.column(name).to_pylist()]
        rows.sort(key=keys.__getitem__, reverse=direction == "descending")
    return table.take(pa.array(rows, pa.int64()))


def write(tables: Mapping[str, pa.Table], place: str, form: str, *, overwrite: bool) -> dict[str, str]:
    """Write a single table to the folder `place`, or several to folders of their names in it.

    Returns the place of each. Nested values become JSON in CSV files. Raises `InputError` for
    places that exist unless `overwrite` is set, and if a file cannot be written.
    """
    place = place.removeprefix("file://")
    places = {name: place if len(tables) == 1 else f"{place.rstrip('/')}/{name}" for name in tables}
    for where in places.values():
        if Path(where).exists() and not overwrite:
            raise InputError(f"{where} already exists", "give --overwrite to replace it, or another --output")
        _check_replaced(Path(where))
    for name, where in places.items():
        try:
            _save(tables[name], Path(where), form)
        except OSError as error:
            raise InputError(f"{where}: {error.strerror or error}") from error
    return places


def _check_replaced(folder: Path) -> None:
    """Raise `InputError` for a folder that is replaced, and has other files than a table's."""
    if not folder.exists():
        return
    others = [folder] if not folder.is_dir() else [one for one in folder.iterdir() if not _is_output(one)]
    if others:
        raise InputError(f"{others[0]}: is not part of a table and would be deleted", "give another --output")


def _is_output(file: Path) -> bool:
    return file.is_file() and file.name.startswith(("part-", "_SUCCESS", ".part-", "._SUCCESS"))


def _save(table: pa.Table, folder: Path, form: str) -> None:
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    unfinished.mkdir(parents=True)
    try:
        file = unfinished / f"part-00000.{form}"
        match form:
            case "parquet":
                pq.write_table(table, file)
            case "json":
                with file.open("w", encoding="utf-8") as stream:
                    stream.writelines(f"{_json(row)}\n" for row in _rows(table))
            case _:
                _save_csv(table, file)
        (unfinished / "_SUCCESS").touch()
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _save_csv(table: pa.Table, file: Path) -> None:
    nested = {field.name for field in table.schema if pa.types.is_nested(field.type)}
    with file.open("w", encoding="utf-8", newline="") as stream:
        stream.write(",".join(table.schema.names) + "\n")
        for row in _rows(table):
            cells = (_json(value) if name in nested and value is not None else value for name, value in row.items())
            stream.write(",".join(map(_cell, cells)) + "\n")


def _rows(table: pa.Table) -> Any:
    for batch in table.to_batches(max_chunksize=1 << 14):
        yield from batch.to_pylist(maps_as_pydicts="strict")


def _cell(value: Any) -> str:
    """Return a value as Spark writes it, which escapes quotes by a backslash."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case datetime():
            return _time(value)
    text = str(value)
    if text and not any(character in text for character in ',"\n\r'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), default=_time)


def _plain(value: Any) -> Any:
    """Omit fields that are null, as Spark does."""
    match value:
        case dict():
            return {name: _plain(one) for name, one in value.items() if one is not None}
        case list():
            return [_plain(one) for one in value]
    return value


def _time(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
