"""Run stateful processors without Spark: a store in memory, and packed rows."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline.jobs.moments import milliseconds
from quorate.pipeline.schema import GROUP_FIELDS, column_of
from quorate.pipeline.streaming.group_rows import Packed

TYPES = {one.name: one for one in RECORD_TYPES[CONSUMER_OFFSETS].values()}
Key = tuple[Any, ...]


class Value:
    def __init__(self) -> None:
        self.value: Any = None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = tuple(value)

    def clear(self) -> None:
        self.value = None


class Map:
    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def iterator(self) -> Iterator[Any]:
        return iter(list(self.values.items()))

    def getValue(self, key: Any) -> Any:  # noqa: N802  # Spark's name
        return self.values.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802  # Spark's name
        self.values[key] = tuple(value)

    def removeKey(self, key: Any) -> None:  # noqa: N802  # Spark's name
        del self.values[key]

    def clear(self) -> None:
        self.values.clear()


class Handle:
    """The state handle that Spark passes to a processor for one key."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}

    def getValueState(self, name: str, schema: str) -> Value:  # noqa: N802  # Spark's name
        found: Value = self.states.setdefault(name, Value())
        return found

    def getMapState(self, name: str, key: str, value: str) -> Map:  # noqa: N802  # Spark's name
        found: Map = self.states.setdefault(name, Map())
        return found

    @property
    def is_empty(self) -> bool:
        return all(
            state.value is None if isinstance(state, Value) else not state.values for state in self.states.values()
        )


class Driver:
    """Calls a processor like Spark, and collects its rows in `output`."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.handles: dict[Key, Handle] = {}
        self.output: list[dict[str, Any]] = []

    def batch(self, key: Key, rows: list[Any], columns: tuple[str, ...] = Packed._fields) -> list[dict[str, Any]]:
        """Run a micro-batch of one key, in two frames, and return its rows."""
        handle = self.handles.setdefault(key, Handle())
        processor = self.make()
        processor.init(handle)
        half = len(rows) // 2
        frames = [pd.DataFrame(part, columns=list(columns)) for part in (rows[half:], rows[:half])]
        as_in_4_0 = tuple(np.int32(one) if isinstance(one, int) else one for one in key)
        found = processor.handleInputRows(as_in_4_0, iter(frames), None)
        output = [json.loads(row) for frame in found for row in frame["row"]]
        processor.close()
        self.output += output
        return output


def grouped(table: pa.Table) -> dict[tuple[str, int, str], list[Packed]]:
    """Return the packed records of a table by log and group, in the order of their offsets."""
    found: dict[tuple[str, int, str], list[Packed]] = {}
    for row in table.sort_by("offset").to_pylist():
        if row["type"] in TYPES and row["group"] is not None:
            found.setdefault((row["topic"], row["partition"], row["group"]), []).append(_packed(row))
    return found


def _packed(row: dict[str, Any]) -> Packed:
    kind, struct = TYPES[row["type"]], row[column_of(row["type"])]
    about = [struct[field.name] for field in kind.key.fields if field.name not in GROUP_FIELDS]
    return Packed(
        type=row["type"],
        text=next((one for one in about if isinstance(one, str)), ""),
        number=next((one for one in about if isinstance(one, int)), -1),
        offset=row["offset"],
        ms=-1 if row["timestamp"] is None else milliseconds(row["timestamp"]),
        version=-1 if row["value_version"] is None else row["value_version"],
        tombstone=row["tombstone"],
        packed=json.dumps(_without_nulls(struct), default=lambda one: b64encode(one).decode()),
    )


def _without_nulls(value: Any) -> Any:
    """Remove nulls like Spark's to_json."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
