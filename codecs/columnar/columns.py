"""`decode_columns`: records as Arrow columns, without a Python loop over records.

    batches = decode_columns(table["key"], table["value"])
    batches["OffsetCommit"].to_pandas()

Rows are sorted by record type and value version, and each such set is decoded field by field. What
the columns cannot settle (damage, bytes left over, an unknown version, text that is not UTF-8 in a
place where it matters) is decoded record by record, by the same code as `decode_record`: one truth.
"""

from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from quorate.codecs.columnar.assemble import to_arrow
from quorate.codecs.columnar.frame import Array, Bools, Ints
from quorate.codecs.columnar.rows import columns_of, problem_row
from quorate.codecs.columnar.schema import PROBLEMS, PROBLEMS_SCHEMA, message_schema, record_schema
from quorate.codecs.columnar.slots import Slots, binary_array, int16_at, moved_together, read_slots, values_in
from quorate.codecs.columnar.values import decode_version, decode_versions, is_flat, joined
from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.message import CONSUMER_OFFSETS, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.records import CoordinatorRecord, as_kafka_reads, decode_record

__all__ = ["decode_columns", "decode_slots", "distinct_keys"]

SAMPLE = 1 << 15
"""As many keys are looked at to find out whether keys repeat."""

JOINED_BYTES = 1 << 30
"""Chunks are put together up to this size; Arrow's binary arrays hold less than 2 GiB."""

_LARGEST_BYTES = 31 << 20


@cache
def _expect_large_arrays() -> None:
    """Have glibc keep up to some 60 MB of freed memory for the next arrays of this process, from the first decoding on.

    Else it hands memory of large arrays back to the system when they are freed, and the system
    clears it page by page when it hands it out again: decoding 400,000 commits over and over takes
    1.9 times as long (52 ms, not 28). Its threshold rises to the size of a large array that was
    freed, so one is; no page of it is touched.
    """
    np.empty(_LARGEST_BYTES, dtype=np.uint8)


class _Collector:
    """Gathers what the pieces of one call yield: Arrow arrays per record type, and the rows that need a closer look."""

    def __init__(self, topic: str, dictionary: bool) -> None:
        self.topic = topic
        self.dictionary = dictionary
        self.pieces: dict[int, list[tuple[Ints, list[pa.Array]]]] = {}
        self.problems: list[dict[str, Any]] = []
        # Of the part that is being decoded: its first row, rows to look at closely, and where the
        # bytes begin that rows have left over.
        self.first = 0
        self.closer: list[Ints] = []
        self.leftover: dict[int, tuple[str, int]] = {}

    def add(self, type_id: int, rows: Ints, columns: list[pa.Array]) -> None:
        """Columns behind `row` for some rows of the part."""
        rows = rows + self.first
        self.pieces.setdefault(type_id, []).append((rows, [pa.array(rows), *columns]))

    def left_over(self, rows: Ints, where: str, positions: Ints) -> None:
        """Rows with bytes behind their key or value, and where these begin.

        What is said of the key counts.
        """
        for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
            self.leftover.setdefault(row, (where, position))

    def batches(self) -> Iterator[tuple[RecordType, pa.RecordBatch]]:
        """One batch per record type, its rows in their order."""
        for type_id in sorted(self.pieces):
            record_type = RECORD_TYPES[self.topic][type_id]
            schema = record_schema(record_type, dictionary=self.dictionary)
            pieces = self.pieces[type_id]
            if len(pieces) == 1:
                yield record_type, pa.RecordBatch.from_arrays(pieces[0][1], schema=schema)
                continue
            arrays = [joined(list(column)) for column in zip(*(arrays for _, arrays in pieces), strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            rows = np.concatenate([rows for rows, _ in pieces])
            yield (
                record_type,
                batch if bool((rows[1:] > rows[:-1]).all()) else batch.take(pa.array(np.argsort(rows, kind="stable"))),
            )


def decode_columns(
    keys: Any, values: Any, *, topic: str = CONSUMER_OFFSETS, dictionary: bool = False
) -> dict[str, pa.RecordBatch]:
    """Decode records given as two Arrow arrays of equal length: `{"OffsetCommit": RecordBatch, …}`, only what occurs.

    `keys` and `values` are binary arrays (or chunked, large, dictionary ones, or columns of a
    pandas table); a null value is a tombstone. The columns are those of `record_schema`; `row` is
    the place in `keys`. `dictionary=True` leaves the keys' text dictionary-encoded (categories in
    pandas), which is faster and smaller. What cannot be decoded is in the batch `"problems"` with
    reason, position and bytes. A record with trailing bytes, or with damage that Kafka ignores, is
    there and is decoded as well. Raises `ValueError` for arrays of different lengths, `KeyError`
    for a topic without records.
    """
    keys, values = (
        a if isinstance(a, pa.Array | pa.ChunkedArray) else pa.array(a, pa.binary()) for a in (keys, values)
    )
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys and {len(values)} values")
    out = _Collector(topic, dictionary)
    for first, last in _parts(keys, values):
        out.first = first
        key_part, value_part = (_one_array(a.slice(first, last - first)) for a in (keys, values))
        _decode_part(Slots.of(key_part), Slots.of(value_part), key_part, out)
    return _finished(out)


def _parts(keys: Any, values: Any) -> Iterator[tuple[int, int]]:
    """Ranges of rows that can be put into one array each: all rows, or, where that would be too large for Arrow's offsets, those between borders of chunks."""
    total = len(keys)
    if keys.nbytes < JOINED_BYTES and values.nbytes < JOINED_BYTES:
        borders = {total}
    else:
        borders = {total}
        for array in (keys, values):
            place = 0
            for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else []:
                place += len(chunk)
                borders.add(place)
    first = 0
    for last in sorted(borders - {0}):
        yield first, last
        first = last


def _one_array(array: Any) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    return array if isinstance(array, pa.Array) else pa.array(array, pa.binary())


def decode_slots(
    keys: Slots,
    values: Slots,
    *,
    topic: str = CONSUMER_OFFSETS,
    dictionary: bool = False,
    keys_array: pa.Array | None = None,
) -> dict[str, pa.RecordBatch]:
    """`decode_columns` for records that lie somewhere in a buffer."""
    out = _Collector(topic, dictionary)
    _decode_part(keys, moved_together(values), keys_array, out)
    return _finished(out)


def _decode_part(keys: Slots, values: Slots, keys_array: pa.Array | None, out: _Collector) -> None:
    out.closer, out.leftover = [], {}
    if len(keys):
        _decode_all(keys, values, keys_array, out)
        _report_leftover(keys, values, out)
        _look_closer(keys, values, out)


def _finished(out: _Collector) -> dict[str, pa.RecordBatch]:
    batches = {record_type.name: batch for record_type, batch in out.batches()}
    if out.problems:
        problems = sorted(out.problems, key=itemgetter("row"))
        batches[PROBLEMS] = pa.RecordBatch.from_pylist(problems, schema=PROBLEMS_SCHEMA)
    return batches


def _decode_all(keys: Slots, values: Slots, keys_array: pa.Array | None, out: _Collector) -> None:
    """Keys first, each different one once; then, type by type, the values."""
    distinct, code = distinct_keys(keys, keys_array)
    type_ids = int16_at(distinct)
    types = RECORD_TYPES[out.topic]
    present = values_in(type_ids)
    known = [type_id for type_id in present if type_id in types]
    if len(known) < len(present):  # `NO_INT16` among them: shorter than two bytes, or null
        strange = ~np.isin(type_ids, known)
        out.closer.append(np.flatnonzero(strange if code is None else strange[code]))
    for type_id in known:
        which = None if len(present) == 1 else np.flatnonzero(type_ids == type_id)
        slots = distinct if which is None else distinct[which]
        columns, sound, ends, _ = read_slots(types[type_id].key, 0, slots)
        rows, entry = _rows_with(which, code, len(distinct), len(keys))
        if not bool(sound.all()):
            good = sound if entry is None else sound[entry]
            out.closer.append(rows[~good])
            rows = rows[good]
            entry = np.flatnonzero(good) if entry is None else entry[good]
        longer = ends < slots.end
        if bool(longer.any()):
            of = np.arange(len(rows)) if entry is None else entry
            has = np.flatnonzero(longer[of])
            out.left_over(rows[has], "key", (ends - slots.start)[of[has]])
        if len(rows):
            schema = message_schema(types[type_id].key)
            arrays = [to_arrow(columns.fields[field.name], field.type, distinct.data) for field in schema]
            _decode_values(
                types[type_id],
                _Keys(arrays, entry, out.dictionary),
                rows,
                values if len(rows) == len(values) else values[rows],
                out,
            )


def _rows_with(which: Ints | None, code: Ints | None, distinct: int, count: int) -> tuple[Ints, Ints | None]:
    """The rows whose key is one of `which` of the distinct keys, and the place in `which` for each; `None` if that is the row itself."""
    if which is None:
        return np.arange(count, dtype=np.int64), code
    if code is None:
        return which, None
    place = np.full(distinct, -1, dtype=np.int64)
    place[which] = np.arange(len(which))
    entry = place[code]
    rows = np.flatnonzero(entry >= 0)
    return rows, entry[rows]


class _Keys:
    """Decoded keys, and which of them each row has; `None` if row i has key i."""

    __slots__ = ("arrays", "dictionary", "entry")

    def __init__(self, arrays: list[pa.Array], entry: Ints | None, dictionary: bool) -> None:
        self.arrays = arrays
        self.entry = entry
        self.dictionary = dictionary

    def at(self, places: Ints | None) -> list[pa.Array]:
        """One array per key field, for some of the rows, or for all."""
        entry = self.entry if places is None else (places if self.entry is None else self.entry[places])
        return [self._column(array, entry) for array in self.arrays]

    def _column(self, array: pa.Array, entry: Ints | None) -> pa.Array:
        if not self.dictionary or not pa.types.is_string(array.type):
            return array if entry is None else array.take(pa.array(entry))
        coded = array.dictionary_encode()
        if entry is None:
            return coded
        return pa.DictionaryArray.from_arrays(pa.array(np.asarray(coded.indices)[entry]), coded.dictionary)


def distinct_keys(keys: Slots, array: pa.Array | None, *, try_first: bool = True) -> tuple[Slots, Ints | None]:
    """The keys without repetition, and for each row which of them it has; all keys and `None` if repetition is too rare to be worth it.

    In real logs few keys are written again and again. Finding that out costs a fifth of decoding
    them; it is taken for granted without `try_first`.
    """
    _expect_large_arrays()
    if array is None:
        array = binary_array(keys)
    if pa.types.is_dictionary(array.type):
        coded = array if not array.null_count else array.dictionary_decode().dictionary_encode(null_encoding="encode")
    else:
        if try_first and len(array) > SAMPLE and len(array.slice(0, SAMPLE).unique()) > SAMPLE * 3 // 4:
            return keys, None
        coded = array.dictionary_encode(null_encoding="encode")
    return Slots.of(coded.dictionary), np.asarray(coded.indices)


def _decode_values(record_type: RecordType, keys: _Keys, rows: Ints, values: Slots, out: _Collector) -> None:
    """Decode the values of the rows of one record type, those of each version together."""
    places: Ints | None = None
    null = values.null if values.null is not None and bool(values.null.any()) else None
    flat = is_flat(record_type.value)
    if null is not None and (not flat or bool(null.all())):
        dead = np.flatnonzero(null)
        nothing = [pa.nulls(len(dead), field.type) for field in message_schema(record_type.value)]
        no_version, no_tags = pa.nulls(len(dead), pa.int16()), np.zeros(len(dead), dtype=np.int32)
        _emit(record_type, keys.at(dead), rows[dead], null[dead], no_version, nothing, no_tags, out)
        places = np.flatnonzero(~null)
        values = values[places]
        if not len(places):
            return
    versions = int16_at(values)
    present = values_in(versions)
    together = flat and len(present) > 1  # tombstones count as a version here
    for version in present[:1] if together else present:
        same = None if together or len(present) == 1 else np.flatnonzero(versions == version)
        here = _within(places, same)
        slots = values if same is None else values[same]
        if together:
            decoded = decode_versions(record_type, versions, slots)
        elif version in record_type.versions:
            decoded = decode_version(record_type.value, version, slots)
        else:
            out.closer.append(rows if here is None else rows[here])
            continue
        if decoded.good is not None:
            bad = np.ones(len(slots), dtype=np.bool_)
            bad[decoded.good] = False
            out.closer.append((rows if here is None else rows[here])[bad])
            here, slots = _within(here, decoded.good), slots[decoded.good]
            if not len(decoded.good):
                continue
        of = rows if here is None else rows[here]
        longer = decoded.ends < slots.end
        if bool(longer.any()):
            out.left_over(of[longer], "value", (decoded.ends - slots.start)[longer])
        versions_here = pa.array(decoded.versions, mask=slots.null)
        _emit(record_type, keys.at(here), of, slots.null, versions_here, decoded.columns, decoded.unknown, out)


def _within(outer: Ints | None, inner: Ints | None) -> Ints | None:
    """Places among places; `None` stands for all."""
    if inner is None or outer is None:
        return outer if inner is None else inner
    return outer[inner]


def _emit(
    record_type: RecordType,
    keys: list[pa.Array],
    rows: Ints,
    dead: Bools | None,
    versions: pa.Array,
    values: list[pa.Array],
    unknown: Array,
    out: _Collector,
) -> None:
    """Hand on the columns of some rows, of which those that are `dead` are tombstones (`None`: none is)."""
    tombstone = pa.array(np.zeros(len(rows), dtype=np.bool_) if dead is None else dead)
    out.add(record_type.type_id, rows, [*keys, tombstone, versions, *values, pa.array(unknown)])


# ---- rows that are not, or not only, what columns can settle


def _report_leftover(keys: Slots, values: Slots, out: _Collector) -> None:
    """Say which rows have bytes left over, unless they are looked at closely anyway."""
    closer = set(np.concatenate(out.closer).tolist()) if out.closer else set()
    for row, (where, position) in out.leftover.items():
        if row in closer:
            continue
        key, value = keys.bytes_at(row), values.bytes_at(row)
        found = key if where == "key" else value
        assert key is not None
        assert found is not None
        problem = DecodeError(Reason.TRAILING, where=where, position=position, detail=found[position:].hex())
        type_id = int.from_bytes(key[:2], "big", signed=True)
        out.problems.append(problem_row(problem, type_id, row + out.first, key, value))


def _look_closer(keys: Slots, values: Slots, out: _Collector) -> None:
    """Decode doubtful rows one by one: into their type's columns if Kafka reads them, into problems if it does not, or ignores damage."""
    understood: dict[int, list[tuple[int, CoordinatorRecord]]] = {}
    for row in np.sort(np.concatenate(out.closer)).tolist() if out.closer else []:
        key, value = keys.bytes_at(row), values.bytes_at(row)
        record = decode_record(key, value, topic=out.topic)
        readable = as_kafka_reads(record)
        if readable is not None:
            understood.setdefault(readable.type_id, []).append((row, readable))
        if record.problem is not None:
            out.problems.append(problem_row(record.problem, record.type_id, row + out.first, key, value))
    for type_id, found in understood.items():
        columns = columns_of([record for _, record in found], dictionary=out.dictionary)
        out.add(type_id, np.array([row for row, _ in found]), columns)
