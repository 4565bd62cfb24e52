"""Read a piece of a segment into Arrow batches of the pipeline's schema."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import BytesIO
from os import fstat
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.batches.v2 import TRANSACTIONAL
from quorate.codecs.columnar.columns import decode_slots
from quorate.codecs.columnar.frame import Ints
from quorate.codecs.columnar.schema import PROBLEMS
from quorate.codecs.columnar.slots import binary_array
from quorate.codecs.log.blocks import Batches, Records
from quorate.codecs.log.columns import CONTROL_RECORDS, FoundRecords, PartitionColumns
from quorate.codecs.log.files import PartitionFiles, Segment, find_partitions
from quorate.codecs.log.model import LogError, LogProblem, is_damage
from quorate.pipeline.files import Piece, check_offset
from quorate.pipeline.filters import RecordBounds
from quorate.pipeline.options import Mode, Options
from quorate.pipeline.push_down import PushDown, is_later
from quorate.pipeline.rows import MAX_ROWS, Rows, timestamps
from quorate.pipeline.schema import INT, TEXT

BLOCK_BYTES = 16 << 20
"""The jobs keep the last record of each key in a block, so larger blocks leave fewer records.
With all record types, larger blocks make fewer batches, each of which costs time in the JVM.

With 4 MB, `quorate pipeline state` takes 1.3 times, and `report` 1.4 times the CPU (2026-11-27).
"""

SINGLE_TYPE_BLOCK_BYTES = 2 << 20
"""Arrays of larger blocks do not fit into the processor's cache: with 16 MB, reading commits takes
1.3 times the CPU (2026-11-28).
"""

_ROUNDS = 8
"""Attempts to find the last decodable record of each key; after these, all records are decoded. A
future release of Kafka may have written all of them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Parameters that all tasks of a query share.

    `on_damage` is called for each problem that lost records, except in mode DROPMALFORMED.
    """

    rows: Rows
    wanted: RecordBounds
    read_committed: bool
    mode: Mode
    include_raw: bool = False
    fail_on_data_loss: bool = True
    push_down: PushDown | None = None
    on_damage: Callable[[LogProblem], None] | None = None


def wanted_by(options: Options) -> RecordBounds:
    """Return the bounds of types, partitions and times in the options."""
    return RecordBounds(
        types=None if options.types is None else frozenset(options.types),
        partitions=options.partitions,
        times=(options.starting_timestamp, options.ending_timestamp),
    )


def reading_of(options: Options, wanted: RecordBounds) -> Reading:
    """Return the parameters that all tasks share."""
    rows = Rows(options.topic, options.types, options.columns)
    rows.wanted = wanted.types
    return Reading(
        rows=rows,
        wanted=wanted,
        read_committed=options.read_committed,
        mode=options.mode,
        include_raw=options.include_raw,
        fail_on_data_loss=options.fail_on_data_loss,
        push_down=options.push_down,
    )


def read_piece(piece: Piece, reading: Reading, file: BinaryIO | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece, read from `file` if it is given.

    If the broker has cleaned or deleted the segment since the piece was planned, find the segments
    that have its offsets now. Raises `LogError` for the first damage if the mode is FAILFAST, and
    `DataLoss` if the offsets are gone.
    """
    pieces = [piece]
    try:
        with ExitStack() as stack:
            if file is None and piece.end > piece.begin:
                file = stack.enter_context(piece.path.open("rb", buffering=0))
                size = fstat(file.fileno()).st_size
                # Only the last segment grows, and no segment is modified in place.
                if size == piece.size_bytes or (piece.last and size > piece.size_bytes):
                    pieces = []
                    yield from _rows_of(piece, reading, file)
            else:
                pieces = []
                yield from _rows_of(piece, reading, file or BytesIO())
    except FileNotFoundError:
        pass  # the offsets may be in other segments now
    except OSError as error:
        reader = _PieceReader(piece, reading)
        yield from _rows(piece, FoundRecords([reader.unreadable(error)]), reader, reading)
        return
    for one in pieces:
        for found in relocated(one, reading.fail_on_data_loss):
            with found.path.open("rb", buffering=0) as opened:
                yield from _rows_of(found, reading, opened)


def relocated(piece: Piece, fail_on_data_loss: bool) -> Iterator[Piece]:
    """Yield the segments that now have the offsets of a piece, as pieces.

    Raises `DataLoss` if its first offsets are gone.
    """
    (files,) = find_partitions(piece.path.parent, topic=piece.topic, partition=piece.partition)
    stems = [segment.base_offset for segment in files.segments]
    start = max(piece.first_offset, -1 if piece.start_offset is None else piece.start_offset)
    end = min(one for one in (piece.next_offset, piece.end_offset) if one is not None)
    if stems[0] > start and fail_on_data_loss:
        place = f"{piece.topic}-{piece.partition}"
        check_offset(place, "this task, whose segment has been deleted,", start, stems[0], stems[-1])
    for index, segment in enumerate(files.segments):
        following = stems[index + 1] if index + 1 < len(stems) else None
        if stems[index] < end and (following is None or following > start):
            yield replace(
                piece,
                path=segment.path,
                begin=0,
                end=segment.size_bytes,
                size_bytes=segment.size_bytes,
                expected_offset=0,
                start_offset=start,
                end_offset=end,
                last=following is None,
            )


def _rows_of(piece: Piece, reading: Reading, file: BinaryIO) -> Iterator[pa.RecordBatch]:
    reader = _PieceReader(piece, reading)
    for found in reader.found_in(file):
        yield from _rows(piece, found, reader, reading)


class _PieceReader:
    """Reads one piece.

    `end_offset` is the offset of the first transaction marker so far that is later than the end of
    the job. Records from there on are not needed.
    """

    def __init__(self, piece: Piece, reading: Reading) -> None:
        self.piece = piece
        self.end_offset: int | None = None
        self._segment = Segment(piece.path, piece.size_bytes, piece.begin, piece.end)
        single_type = reading.wanted.single_type is not None and reading.push_down is None
        # An empty segment stands for those that follow.
        segments = (self._segment,) if piece.last else (self._segment, Segment(piece.path, 0))
        self.columns = PartitionColumns(
            PartitionFiles(piece.topic, piece.partition, segments, piece.problems),
            read_committed=reading.read_committed,
            skip_corrupt=True,
            dictionary=False,
            limit_bytes=MAX_BATCH_BYTES,
            block_bytes=SINGLE_TYPE_BLOCK_BYTES if single_type else BLOCK_BYTES,
            transactions=piece.transactions,
            next_offset=piece.expected_offset,
            left_out=reading.wanted.left_out(piece.topic),
        )

    def found_in(self, file: BinaryIO) -> Iterator[FoundRecords]:
        """Yield the blocks of the piece."""
        if self.piece.problems:
            yield FoundRecords(list(self.piece.problems))
        if self.piece.end > self.piece.begin:
            yield from self.columns.found_in(file, self._segment)

    def unreadable(self, error: OSError) -> LogProblem:
        """Return the problem for a file that cannot be read."""
        return self.columns.files.unreadable(self._segment, error)


def _rows(piece: Piece, found: FoundRecords, reader: _PieceReader, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Return the rows of a block, with the selected columns."""
    return map(reading.rows.chosen, _whole_rows(piece, found, reader, reading))


def _whole_rows(piece: Piece, found: FoundRecords, reader: _PieceReader, reading: Reading) -> Iterator[pa.RecordBatch]:
    rows, wanted = reading.rows, reading.wanted
    if found.problems:
        if reading.mode == "FAILFAST":
            for problem in found.problems:
                if is_damage(problem):
                    raise LogError(f"{problem}; mode PERMISSIVE returns damage as rows with `error`", problem)
        if reading.mode != "DROPMALFORMED":
            if reading.on_damage is not None:
                for problem in filter(is_damage, found.problems):
                    reading.on_damage(problem)
            yield rows.of_problems(found.problems, piece.topic, piece.partition)
    if found.control is not None and wanted.control:
        control = _bounded(reader.columns.control_columns(found.control), piece, wanted)
        if control.num_rows:
            _note_end(control, reader, reading)
            yield from rows.of_batches({CONTROL_RECORDS: control}, {"topic": pa.scalar(piece.topic, TEXT)})
    if found.records is None or found.data is None:
        return
    records = wanted.of_records(found.records, piece.topic, piece.start_offset, piece.end_offset)
    if not len(records):
        return
    records, batches = _decoded(records, found.data, reader, reading)
    common = columns_of(records, found.data, piece.topic, piece.partition, rows.schema.names)
    if reading.include_raw:
        common |= {"key": binary_array(records.keys), "value": binary_array(records.values)}
    whole = checked(rows.of_batches(batches, common), reading.mode)
    yield from whole if reading.push_down is None else _joined(whole)


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches of many types into one, as each batch costs time in the JVM."""
    together = list(batches)
    if sum(batch.num_rows for batch in together) > MAX_ROWS:
        yield from together
    elif together:
        yield from pa.Table.from_batches(together).combine_chunks().to_batches()


def _note_end(control: pa.RecordBatch, reader: _PieceReader, reading: Reading) -> None:
    """Record the first marker after the job's end time, as the log ends there for the job."""
    if reading.push_down is None or reading.push_down.until_ms is None:
        return
    later = np.asarray(control.column("log_offset"))[
        is_later(np.asarray(control.column("log_timestamp_ms")), reading.push_down.until_ms)
    ]
    if len(later):
        first = int(later.min())
        reader.end_offset = first if reader.end_offset is None else min(reader.end_offset, first)


def _decoded(
    records: Records, data: Batches, reader: _PieceReader, reading: Reading
) -> tuple[Records, dict[str, pa.RecordBatch]]:
    """Return the needed records and their decoded batches.

    All records are needed if the offsets of the partition do not increase.
    """
    piece, push_down = reader.piece, reading.push_down
    if push_down is not None and piece.ordered:
        choice = push_down.choice(
            records,
            data,
            piece.topic,
            piece.partition,
            read_committed=reading.read_committed,
            end_offset=reader.end_offset,
        )
        for _ in range(_ROUNDS):
            places = choice.places()
            needed = choice.of_places(places)
            batches = _decode_slots(needed, piece, reading)
            # A record that cannot be decoded does not count, so an earlier one may be needed.
            if not choice.leave_out(places[_undecoded(batches)]):
                return needed, batches
        records = choice.records
    return records, _decode_slots(records, piece, reading)


def _decode_slots(records: Records, piece: Piece, reading: Reading) -> dict[str, pa.RecordBatch]:
    if not len(records):
        return {}
    return decode_slots(
        records.keys, records.values, topic=piece.topic, fields=reading.rows.fields, expected=reading.wanted.single_type
    )


def _undecoded(batches: Mapping[str, pa.RecordBatch]) -> Ints:
    """Return the rows that have a problem and no decoded record."""
    if PROBLEMS not in batches:
        return np.empty(0, np.int64)
    rows = [np.asarray(batch.column("row")) for name, batch in batches.items() if name != PROBLEMS]
    return np.setdiff1d(np.asarray(batches[PROBLEMS].column("row")), np.concatenate(rows) if rows else [])


def columns_of(
    records: Records, data: Batches, topic: str, partition: int | None, names: Collection[str]
) -> dict[str, pa.Scalar | pa.Array]:
    """Return the columns that all record types share, by name; those in `names`."""
    common: dict[str, Any] = {"topic": pa.scalar(topic, TEXT), "partition": pa.scalar(partition, INT)}
    if "offset" in names:
        common["offset"] = pa.array(records.offset)
    if "timestamp" in names:
        common["timestamp"] = timestamps(records.timestamp)
    if "transactional" in names:
        common["transactional"] = pa.array((data.attributes[records.batch] & TRANSACTIONAL) != 0)
    if "producer_id" in names and bool((data.producer_id != -1).any()):
        producer = data.producer_id[records.batch]
        common["producer_id"] = pa.array(producer, mask=producer == -1)
    return common


def _bounded(control: pa.RecordBatch, piece: Piece, wanted: RecordBounds) -> pa.RecordBatch:
    offset = np.asarray(control.column("log_offset"))
    return control.filter(
        pa.array(
            wanted.places(offset, np.asarray(control.column("log_timestamp_ms")), piece.start_offset, piece.end_offset)
        )
    )


def checked(batches: Iterator[pa.RecordBatch], mode: Mode) -> Iterator[pa.RecordBatch]:
    """Apply the mode to rows with an error: keep them, drop them, or raise `LogError`."""
    for batch in batches:
        if mode == "PERMISSIVE" or batch.column("error").null_count == batch.num_rows:
            yield batch
            continue
        damaged = batch.column("error").is_valid()
        if mode == "FAILFAST":
            raise LogError(_text_of(batch.filter(damaged).slice(0, 1).to_pylist()[0]))
        kept = batch.filter(pc.invert(damaged))
        if kept.num_rows:
            yield kept


def _text_of(row: Mapping[str, Any]) -> str:
    error = row["error"]
    place = (
        f"{row['topic']}-{row['partition']}, offset {row['offset']:,}"
        if row["offset"] is not None
        else str(row["topic"])
    )
    inside = f" in {error['field']}" if error["field"] else ""
    detail = f": {error['detail']}" if error["detail"] else ""
    return (
        f"{place}: {error['reason']}{inside} at byte {error['position']} of the {error['where']}{detail}; "
        "mode PERMISSIVE returns such records as rows with `error`"
    )
