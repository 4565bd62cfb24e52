"""Rows of logs for the local engine: read from files or a cluster, or given as a table.

The rows are those that the Spark source returns, with the same options.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.errors import InputError
from quorate.codecs.log.model import LogProblem
from quorate.codecs.message import RecordType
from quorate.codecs.records import CoordinatorRecord
from quorate.pipeline.files import find_files, has_copies, plan
from quorate.pipeline.files_read import Reading, read_piece, reading_of, wanted_by
from quorate.pipeline.jobs.moments import LOG, NO_ORDER, AsOf, last_offsets, milliseconds, moment_of, push_down_of
from quorate.pipeline.jobs.record_columns import check_isolation_level, present_in
from quorate.pipeline.jobs.records import COMMON, TWO_RECORDS, TYPES, Row, record_of
from quorate.pipeline.live import BYTES_PER_OFFSET, OffsetRange, TopicConnection, ranges_of, read_ranges
from quorate.pipeline.options import Options, parse_options
from quorate.pipeline.push_down import What
from quorate.pipeline.schema import CONTROL, OptionError, arrow_schema, column_of


class LocalRows:
    """The rows of logs in files, or of a running cluster.

    `options`: those of the Spark source by name, such as `path` or `kafka.bootstrap.servers`.
    Nothing is read until a job or `table` needs it. `damage` has the damaged batches and files that
    were read so far, whose records are missing from all results. Raises `OptionError`.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options: Options = parse_options(options)
        self._damage: dict[LogProblem, None] = {}
        self.schema: pa.Schema = arrow_schema(self.options.topic, self.options.types, self.options.columns)

    @property
    def damage(self) -> tuple[LogProblem, ...]:
        """Damage that was found so far, each once; empty in mode DROPMALFORMED."""
        return tuple(self._damage)

    def size_bytes(self) -> int:
        """Return the size of the logs; for a cluster, an estimate from their offsets.

        Raises `LogError` and `LiveError` if they cannot be read.
        """
        if self.options.kafka:
            return sum(one.end - one.start for one in self._ranges()) * BYTES_PER_OFFSET
        return sum(segment.size_bytes for files in find_files(self.options) for segment in files.segments)

    def partitions(self) -> set[int | None]:
        """Return the partitions of the logs; `None` for a file whose partition is unknown.

        Raises `LogError` and `LiveError`.
        """
        if self.options.kafka:
            return {one.partition for one in self._ranges()}
        return {files.partition for files in find_files(self.options)}

    def open_transactions(self) -> dict[str, int]:
        """Return where each partition's first open transaction begins, by the partition's name.

        A `read_committed` reader gets no later records. Only batch headers of files are read; the
        result is empty with `read_uncommitted`, and for a cluster.
        """
        if self.options.kafka or not self.options.read_committed:
            return {}
        found = {}
        for piece in plan(self.options, find_files(self.options)):
            stable = piece.transactions.last_stable_offset
            if stable is not None:
                found[piece.topic if piece.partition is None else f"{piece.topic}-{piece.partition}"] = stable
        return found

    def table(self) -> pa.Table:
        """Return all rows, in the columns of `arrow_schema`."""
        return pa.Table.from_batches((batch for log in self._batches(self.options) for batch in log), self.schema)

    def logs(self, what: What, as_of: AsOf | None, times_ms: tuple[int, ...] = ()) -> Iterator[pa.Table]:
        """Yield at least those rows of each log that a job needs up to a moment, one log at a time.

        `times_ms`: see `PushDown`. Raises `OptionError` for an invalid moment.
        """
        options = self.options
        push_down = replace(push_down_of(what, as_of), times_ms=times_ms)
        # The other modes drop rows or fail the job, which depends on all rows.
        if options.mode == "PERMISSIVE" and (options.kafka or not has_copies(find_files(options))):
            options = replace(options, push_down=push_down)
        for log in self._batches(options):
            yield pa.Table.from_batches(log, self.schema)

    def has_markers(self) -> bool:
        """Return whether the logs have a transaction marker, unless these are resolved."""
        if self.options.read_committed:
            return False
        options = replace(self.options, types=(CONTROL,), columns=None)
        return any(_has_markers(batch) for log in self._batches(options) for batch in log)

    def _ranges(self) -> list[OffsetRange]:
        with TopicConnection(self.options) as cluster:
            found = ranges_of(self.options, cluster)
        return [one for one in found if self.options.wants(one.partition)]

    def _note(self, problem: LogProblem) -> None:
        self._damage[problem] = None

    def _batches(self, options: Options) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the batches of each log."""
        wanted = wanted_by(options)
        reading = replace(reading_of(options, wanted), on_damage=self._note)
        if options.kafka:
            for one in self._ranges():
                yield read_ranges([one], options, reading)
            return
        for _, of_log in groupby(find_files(options), key=lambda files: (files.topic, files.partition)):
            yield _read(of_log, options, reading, wanted.offsets)


def _read(of_log: Iterable[Any], options: Options, reading: Reading, within: Any) -> Iterator[pa.RecordBatch]:
    for piece in plan(options, of_log, within=within):
        yield from read_piece(piece, reading)


Source: TypeAlias = LocalRows | pa.Table
"""The rows of a job: `LocalRows`, or a table with the columns of `arrow_schema`."""


def logs(
    rows: Source, what: What, as_of: AsOf | None, types: Iterable[str], times_ms: tuple[int, ...] = ()
) -> Iterator[pa.Table]:
    """Yield each log up to a moment: its rows of some record types with a group, by offset.

    Raises `OptionError` for an invalid moment, and `InputError` for rows without an offset.
    """
    wanted = pa.array(list(types), pa.string())
    push_down_of(what, as_of)
    found = rows.logs(what, as_of, times_ms) if isinstance(rows, LocalRows) else _split(rows)
    for log in found:
        whole = _until(log, as_of)
        kept = pc.and_(
            pc.is_in(whole.column("type"), wanted),
            pc.or_(pc.is_valid(whole.column("group")), pc.equal(whole.column("type"), CONTROL)),
        )
        yield _in_order(whole.filter(kept))


def _split(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of each log in a table of several."""
    keys = table.select(LOG).append_column("row", pa.array(np.arange(table.num_rows)))
    groups = keys.group_by(list(LOG)).aggregate([("row", "list")]).sort_by([(name, "ascending") for name in LOG])
    for rows in groups.column("row_list"):
        yield table.take(rows.values)


def _in_order(table: pa.Table) -> pa.Table:
    offset = table.column("offset")
    if offset.null_count:
        raise InputError(NO_ORDER)
    numbers = offset.to_numpy()
    if not bool((numbers[1:] > numbers[:-1]).all()):
        table = table.take(pa.array(np.argsort(numbers, kind="stable")))
        numbers = np.sort(numbers)
        again = np.flatnonzero(numbers[1:] == numbers[:-1]) + 1
        if len(again):
            _check_same(table, again)
            table = table.take(pa.array(np.setdiff1d(np.arange(len(numbers)), again)))
    return table


def _check_same(table: pa.Table, again: Any) -> None:
    """Raise `InputError` for a row that differs from the row before it, which has its offset."""
    fields = [name for name in table.schema.names if name in ("type", "group", *map(column_of, TYPES))]
    rows = table.select(fields)
    before, after = (rows.take(pa.array(places)).to_pylist() for places in (again - 1, again))
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            row = table.select([*LOG, "offset"]).slice(int(again[number]), 1).to_pylist()[0]
            raise InputError(f"{row['topic']}-{row['partition']}, offset {row['offset']}: {TWO_RECORDS}")


def _until(table: pa.Table, as_of: AsOf | None) -> pa.Table:
    """Return the rows of one log up to a moment; a time ends it before its first later record."""
    if as_of is None or not table.num_rows:
        return table
    if isinstance(as_of, Mapping):
        topic, partition = (table.column(name)[0].as_py() for name in LOG)
        ends = [end for *log, end in last_offsets(as_of) if log in ([partition], [topic, partition])]
        return table.filter(pc.less_equal(table.column("offset"), ends[0])) if ends else table.slice(0, 0)
    moment = pa.scalar(milliseconds(moment_of(as_of)) * 1000, pa.int64()).cast(table.schema.field("timestamp").type)
    first = pc.min(table.column("offset").filter(pc.greater(table.column("timestamp"), moment)))
    return table.filter(pc.less(table.column("offset"), first)) if first.is_valid else table


def records_of(table: pa.Table, *also: str) -> Iterator[tuple[Row, CoordinatorRecord]]:
    """Yield the records of the rows of `logs`, with their common columns and `also`.

    Rows without a decoded record are omitted.
    """
    found: list[tuple[Row, CoordinatorRecord] | None] = [None] * table.num_rows
    types = table.column("type")
    names = [name for name in (*COMMON, "timestamp", *also) if name in table.schema.names]
    for name in pc.unique(types).to_pylist():
        if name not in TYPES or column_of(name) not in table.schema.names:
            continue
        places = np.flatnonzero(pc.equal(types, name).to_numpy())
        of_type = table.take(pa.array(places))
        structs = of_type.column(column_of(name)).to_pylist()
        for place, row, struct in zip(places.tolist(), of_type.select(names).to_pylist(), structs, strict=True):
            if struct is not None:
                found[place] = row, record_of(TYPES[name], row, struct)
    return (one for one in found if one is not None)


def present(
    rows: Source, wanted: Collection[str] | None = None, fields: Collection[str] | None = None
) -> list[RecordType]:
    """Return the record types that rows have columns for. Raises `OptionError`."""
    schema = getattr(rows, "schema", None)
    if not isinstance(schema, pa.Schema):
        raise OptionError(f"rows are of type {type(rows).__name__}; use read(path), or a table of Arrow")

    def fields_of(name: str) -> list[str]:
        kind = schema.field(name).type
        return [field.name for field in kind] if pa.types.is_struct(kind) else []

    return present_in(schema.names, fields_of, wanted, fields)


def uses_markers(rows: Source, isolation_level: str | None) -> bool:
    """Return whether transaction markers decide on transactional commits.

    As in Spark, the rows of a table have markers or are committed. Raises `OptionError`.
    """
    has_control = column_of(CONTROL) in rows.schema.names
    check_isolation_level(isolation_level, has_control)
    if isolation_level is not None or not has_control:
        return isolation_level == "read_uncommitted"
    return rows.has_markers() if isinstance(rows, LocalRows) else _has_markers(rows)


def _has_markers(rows: pa.Table | pa.RecordBatch) -> bool:
    return bool(pc.any(pc.equal(rows.column("type"), CONTROL)).as_py())
