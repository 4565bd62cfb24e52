"""Convert batches of the columnar decoder, one per record type, to the pipeline's schema.

A batch of one record type becomes a batch with that type's struct filled and all others null.
Records that could not be decoded become rows with an `error`. A record that was decoded but has
bytes left over is one row with both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.columnar.schema import PROBLEMS
from quorate.codecs.log.columns import CONTROL_RECORDS
from quorate.codecs.log.model import LogProblem
from quorate.codecs.message import RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.wire import Uuid
from quorate.pipeline.schema import (
    BOOL,
    COMMON,
    CONTROL,
    ERROR,
    GROUP_FIELDS,
    IN_FILE,
    INT,
    LATEST_MS,
    LONG,
    RAW,
    SHORT,
    TEXT,
    TIME,
    arrow_schema,
    column_of,
)

MAX_ROWS = 1 << 16
"""Rows per batch. Spark's Python worker and its JVM hold one batch at a time."""

FEW_ROWS = 1 << 12
"""Columns of fewer equal values are built for each batch, as logs with many types have many."""

_FOR_ERRORS = frozenset({"topic", "offset", "error", *RAW})
"""Columns that are built for rows with an error, also if they were not chosen."""


class Rows:
    """Converter to the schema for `topic` and `types` (`None`: all).

    With `columns`, structs contain only the chosen fields, and `chosen` drops the columns that only
    errors need. `fields` has the fields of each record type that `decode_slots` has to decode;
    `None` for all.
    """

    def __init__(
        self, topic: str, types: Collection[str] | None = None, columns: Collection[str] | None = None
    ) -> None:
        self.topic = topic
        self.schema = self.output = arrow_schema(topic, types, columns)
        self.fields: Mapping[str, frozenset[str]] | None = None
        if columns is not None:
            chosen = _FOR_ERRORS.union(self.output.names)
            common = (field for field in COMMON if field.name in chosen)
            self.schema = pa.schema([*common, *(field for field in self.output if field.name not in COMMON.names)])
            self.fields = {found.name: self._fields(found) for found in RECORD_TYPES[topic].values()}
        self.wanted = None if types is None else frozenset(types)
        self._by_name = {found.name: found for found in RECORD_TYPES[topic].values()}
        self._names = {found.type_id: found.name for found in RECORD_TYPES[topic].values()}

    def of_batches(
        self, batches: Mapping[str, pa.RecordBatch], common: Mapping[str, pa.Scalar | pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        """Convert batches by record type, as `decode_columns` or `read_columns` return them.

        `common`: further columns by name: a scalar for all rows, or an array that the column `row`
        of the batches indexes.
        """
        problems = batches.get(PROBLEMS)
        for name, batch in batches.items():
            if name == CONTROL_RECORDS:
                if self.wanted is None or CONTROL in self.wanted:
                    yield from self._sliced(self._control(batch, common))
            elif name != PROBLEMS and (self.wanted is None or name in self.wanted):
                rows = self._records(self._by_name[name], batch, common)
                if problems is not None:
                    rows, problems = self._with_errors(rows, batch, problems)
                yield from self._sliced(rows)
        if problems is not None and problems.num_rows:
            yield from self._sliced(self._undecoded(problems, batches, common))

    def of_problems(self, problems: Iterable[LogProblem], topic: str, partition: int | None) -> pa.RecordBatch:
        """Return a row for each problem of a batch or file."""
        found = list(problems)
        errors = pa.array(
            [
                {
                    "reason": str(one.reason),
                    "where": IN_FILE,
                    "position": one.position,
                    "field": None,
                    "detail": str(one),
                }
                for one in found
            ],
            ERROR,
        )
        columns = {
            "topic": pa.scalar(topic, TEXT),
            "partition": pa.scalar(partition, INT),
            "error": errors,
        }
        return self._batch(len(found), columns)

    def chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the requested columns only."""
        return batch if self.output is self.schema else batch.select(self.output.names)

    def _fields(self, record_type: RecordType) -> frozenset[str]:
        column = column_of(record_type.name)
        found = {field.name for field in self.schema.field(column).type} if column in self.schema.names else set()
        return frozenset(found).union(GROUP_FIELDS if "group" in self.schema.names else ())

    # ---- kinds of rows

    def _records(
        self, record_type: RecordType, batch: pa.RecordBatch, common: Mapping[str, pa.Scalar | pa.Array]
    ) -> pa.RecordBatch:
        columns = self._common(batch, common)
        columns["type"] = pa.scalar(record_type.name, TEXT)
        columns["type_id"] = pa.scalar(record_type.type_id, SHORT)
        for name in ("value_version", "tombstone", "unknown_tags"):
            columns[name] = batch.column(name)
        group = next((f.name for f in record_type.key.fields if f.name in GROUP_FIELDS), None)
        if group is not None and "group" in self.schema.names:
            columns["group"] = batch.column(group)
        column = column_of(record_type.name)
        if column in self.schema.names:
            kind = self.schema.field(column).type
            arrays = [converted(batch.column(field.name), field.type) for field in kind]
            columns[column] = pa.StructArray.from_arrays(arrays, fields=list(kind))
        return self._batch(batch.num_rows, columns)

    def _control(self, batch: pa.RecordBatch, common: Mapping[str, pa.Scalar | pa.Array]) -> pa.RecordBatch:
        columns = self._common(batch, common)
        columns["type"] = pa.scalar(CONTROL, TEXT)
        columns["type_id"] = batch.column("type_id")
        column = column_of(CONTROL)
        if column in self.schema.names:
            kind = self.schema.field(column).type
            arrays = [batch.column(field.name) for field in kind]
            columns[column] = pa.StructArray.from_arrays(arrays, fields=list(kind))
        return self._batch(batch.num_rows, columns)

    def _undecoded(
        self,
        problems: pa.RecordBatch,
        batches: Mapping[str, pa.RecordBatch],
        common: Mapping[str, pa.Scalar | pa.Array],
    ) -> pa.RecordBatch:
        """Return rows of records that could not be decoded.

        Leaves out record types that were not requested, where the key contains the type.
        """
        if self.wanted is not None:
            types = [self._names.get(type_id) for type_id in problems.column("type_id").to_pylist()]
            problems = problems.filter(pa.array([name is None or name in self.wanted for name in types], BOOL))
        columns = self._common(problems, common)
        types = [self._names.get(type_id) for type_id in problems.column("type_id").to_pylist()]
        columns["type"] = pa.array(types, TEXT)
        columns["type_id"] = problems.column("type_id")
        columns["tombstone"] = pc.is_null(problems.column("value"))
        columns["error"] = _errors(problems)
        columns |= {name: problems.column(name) for name in RAW}
        return self._batch(problems.num_rows, columns)

    def _with_errors(
        self, rows: pa.RecordBatch, batch: pa.RecordBatch, problems: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Add problems of decoded records to their rows.

        Returns the rows and the remaining problems.
        """
        identity = "row" if "row" in batch.schema.names else "log_offset"
        places = pc.index_in(batch.column(identity), problems.column(identity))
        if places.null_count == len(places):
            return rows, problems
        columns = {name: rows.column(name) for name in rows.schema.names}
        columns["error"] = _errors(problems).take(places)
        for name in RAW:  # with `includeRaw`, all rows have them already
            if rows.column(name).null_count == rows.num_rows:
                columns[name] = problems.column(name).take(places)
        left = pc.invert(pc.is_in(problems.column(identity), batch.column(identity)))
        return self._batch(rows.num_rows, columns), problems.filter(left)

    # ---- building batches

    def _common(
        self, batch: pa.RecordBatch, common: Mapping[str, pa.Scalar | pa.Array]
    ) -> dict[str, pa.Scalar | pa.Array]:
        """Return the columns of a record's place: partition, offset, timestamp, producer."""
        columns: dict[str, pa.Scalar | pa.Array] = dict(common)
        arrays = [name for name, value in common.items() if isinstance(value, pa.Array)]
        if arrays and not _is_whole(batch.column("row"), len(common[arrays[0]])):
            for name in arrays:
                columns[name] = common[name].take(batch.column("row"))
        if "log_offset" in batch.schema.names:
            columns["partition"] = batch.column("log_partition")
            columns["offset"] = batch.column("log_offset")
            columns["timestamp"] = timestamps(batch.column("log_timestamp_ms"))
            columns["producer_id"] = _without_minus_one(batch.column("log_producer_id"))
            columns["transactional"] = batch.column("log_transactional")
        return columns

    def _batch(self, count: int, columns: Mapping[str, pa.Scalar | pa.Array]) -> pa.RecordBatch:
        arrays = []
        for field in self.schema:
            column = columns.get(field.name)
            if column is None:
                column = nulls(field.type, count)
            elif isinstance(column, pa.Scalar):
                column = _repeated(column, count)
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _sliced(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for first in range(0, batch.num_rows, MAX_ROWS):
            yield batch.slice(first, MAX_ROWS)


def _is_whole(rows: pa.Array, count: int) -> bool:
    """Return whether `rows` are 0 to `count` - 1: the log contains only this record type."""
    numbers = np.asarray(rows)
    return len(numbers) == count and bool((numbers[1:] > numbers[:-1]).all())


def timestamps(milliseconds: pa.Array) -> pa.Array:
    """Convert Kafka's timestamps in ms to Spark's; null for -1, and for later than `LATEST_MS`."""
    numbers = np.asarray(milliseconds, dtype=np.int64)
    missing = None
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) > LATEST_MS):
        missing = (numbers < 0) | (numbers > LATEST_MS)
    return pa.array(numbers * 1000, mask=missing).view(TIME)


def converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a decoded column to its type in Spark: see `schema`."""
    if array.type.equals(kind):
        return array
    if pa.types.is_dictionary(array.type):
        return converted(array.dictionary_decode(), kind)
    if pa.types.is_fixed_size_binary(array.type):
        return _ids(array)
    if pa.types.is_list(array.type):
        # The list offsets are reused, so the values must stay complete.
        values = converted(array.values, kind.value_type)
        validity = array.buffers()[0]
        return pa.Array.from_buffers(
            kind, len(array), [validity, array.buffers()[1]], array.null_count, array.offset, [values]
        )
    if pa.types.is_struct(array.type):
        whole = [converted(array.field(index), kind.field(index).type) for index in range(kind.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(whole, fields=list(kind), mask=mask)
    return array.cast(kind)


def _ids(array: pa.Array) -> pa.Array:
    """Convert topic ids to text, each different one only once."""
    coded = array.dictionary_encode()
    texts = pa.array([None if one is None else str(Uuid(one)) for one in coded.dictionary.to_pylist()], TEXT)
    return texts.take(coded.indices)


def _without_minus_one(numbers: pa.Array) -> pa.Array:
    found = np.asarray(numbers)
    return nulls(LONG, len(found)) if bool((found == -1).all()) else pa.array(found, mask=found == -1)


def _errors(problems: pa.RecordBatch) -> pa.Array:
    return pa.StructArray.from_arrays([problems.column(field.name) for field in ERROR], fields=list(ERROR))


@cache
def _many_nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


def nulls(kind: pa.DataType, count: int) -> pa.Array:
    """Return an array of `count` nulls; the memory is shared."""
    return _many_nulls(kind, _rounded(count)).slice(0, count)


@lru_cache(maxsize=8)
def _many(value: pa.Scalar, count: int) -> pa.Array:
    return pa.repeat(value, count)


def _repeated(value: pa.Scalar, count: int) -> pa.Array:
    """Return an array of `count` equal values; large ones share the memory of few values."""
    if count < FEW_ROWS:
        return pa.repeat(value, count)
    return _many(value, _rounded(count)).slice(0, count)


def _rounded(count: int) -> int:
    """Return a size of shared arrays, of which there are few."""
    size = MAX_ROWS
    while size < count:
        size *= 2
    return size
