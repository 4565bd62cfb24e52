"""`decode_columns`: records as Arrow columns, without a Python loop over records.

    batches = decode_columns(table["key"], table["value"])
    batches["OffsetCommit"].to_pandas()

Rows are grouped by record type and value version, and each group is decoded field by field. Other
rows (damage, trailing bytes, an unknown version, some text that is not UTF-8) are decoded one by
one with `decode_record`. The module is longer than others, because both ways fill the same columns.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from quorate.codecs.columnar.assemble import array_of, chosen, numbers_of, to_arrow
from quorate.codecs.columnar.flat import IRREGULAR, decode_flat, is_flat
from quorate.codecs.columnar.frame import Array, Bools, Ints
from quorate.codecs.columnar.rows import columns_of, problem_row
from quorate.codecs.columnar.schema import PROBLEMS, PROBLEMS_SCHEMA, message_schema, record_schema
from quorate.codecs.columnar.slots import Slots, binary_array, gathered, int16_at, read_slots, values_in
from quorate.codecs.columnar.values import decode_version, decode_versions, joined
from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.extension import extension
from quorate.codecs.message import CONSUMER_OFFSETS, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.records import CoordinatorRecord, as_kafka_reads, decode_record

SAMPLE = 1 << 15
"""Number of keys that are checked for repetition."""

JOINED_BYTES = 1 << 30
"""Chunks are joined up to this size; Arrow's binary arrays hold less than 2 GiB."""

_LARGEST_BYTES = 31 << 20


@cache
def _expect_large_arrays() -> None:
    """Make glibc keep up to some 60 MB of freed memory for the next arrays of this process.

    Otherwise it returns the memory of large arrays to the system, which clears it page by page on
    the next allocation: decoding 400,000 commits repeatedly takes 1.9 times as long (52 ms, not
    28). The threshold of glibc rises to the size of a freed array, so a large one is freed here; no
    page of it is touched.
    """
    np.empty(_LARGEST_BYTES, dtype=np.uint8)


class _Collector:
    """Collects the results of one call: Arrow arrays per record type, and rows to decode singly."""

    def __init__(self, topic: str, dictionary: bool, fields: Mapping[str, frozenset[str]] | None = None) -> None:
        self.topic = topic
        self.dictionary = dictionary
        self._fields = fields
        self.expected: RecordType | None = None
        self.pieces: dict[int, list[tuple[Ints, list[pa.Array]]]] = {}
        self.problems: list[dict[str, Any]] = []
        # Of the current part: its first row, the rows to decode singly, and the start of trailing
        # bytes per row.
        self.first = 0
        self.doubtful: list[Ints] = []
        self.trailing: dict[int, tuple[str, int]] = {}

    def fields(self, record_type: RecordType) -> frozenset[str] | None:
        """Return the fields of key and value that become columns; `None` for all."""
        return None if self._fields is None else self._fields[record_type.name]

    def add(self, type_id: int, rows: Ints, columns: list[pa.Array]) -> None:
        """Add the columns of some rows of the part, without `row`."""
        rows = rows + self.first
        self.pieces.setdefault(type_id, []).append((rows, [array_of(rows), *columns]))

    def add_trailing(self, rows: Ints, where: str, positions: Ints) -> None:
        """Add rows with trailing bytes in their key or value, and where these begin.

        Those of the key take precedence.
        """
        for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
            self.trailing.setdefault(row, (where, position))

    def batches(self) -> Iterator[tuple[RecordType, pa.RecordBatch]]:
        """Yield one batch per record type, with its rows in order."""
        for type_id in sorted(self.pieces):
            record_type = RECORD_TYPES[self.topic][type_id]
            schema = record_schema(record_type, dictionary=self.dictionary, fields=self.fields(record_type))
            pieces = self.pieces[type_id]
            if len(pieces) == 1:
                yield record_type, pa.RecordBatch.from_arrays(pieces[0][1], schema=schema)
                continue
            arrays = [joined(list(column)) for column in zip(*(arrays for _, arrays in pieces), strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            rows = np.concatenate([rows for rows, _ in pieces])
            yield (
                record_type,
                batch if bool((rows[1:] > rows[:-1]).all()) else batch.take(array_of(np.argsort(rows, kind="stable"))),
            )


def decode_columns(
    keys: Any, values: Any, *, topic: str = CONSUMER_OFFSETS, dictionary: bool = False
) -> dict[str, pa.RecordBatch]:
    """Decode records in two Arrow arrays of equal length to one RecordBatch per record type.

    The result is `{"OffsetCommit": RecordBatch, …}`, with the record types that occur. `keys` and
    `values` are binary arrays (or chunked, large or dictionary ones, or columns of a pandas table);
    a null value is a tombstone. The columns are those of `record_schema`; `row` is the index in
    `keys`. With `dictionary=True` the text of keys stays dictionary-encoded (categories in pandas),
    which is faster and smaller.

    Records that cannot be decoded are in the batch `"problems"` with reason, position and bytes.
    Those with trailing bytes, or damage that Kafka ignores, are in both batches. Raises
    `ValueError` for arrays of different lengths, `KeyError` for a topic without records.
    """
    keys, values = (
        a if isinstance(a, pa.Array | pa.ChunkedArray) else pa.array(a, pa.binary()) for a in (keys, values)
    )
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys and {len(values)} values")
    if topic not in RECORD_TYPES:
        raise KeyError(f"topic={topic!r} is not a coordinator topic; use one of {', '.join(RECORD_TYPES)}")
    out = _Collector(topic, dictionary)
    for first, last in _parts(keys, values):
        out.first = first
        key_part, value_part = (_one_array(a.slice(first, last - first)) for a in (keys, values))
        _decode_part(Slots.of(key_part), Slots.of(value_part), key_part, out)
    return _finished(out)


def _parts(keys: Any, values: Any) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that fit into one array each.

    This is all rows, or those between chunk borders if they are too large for Arrow's offsets.
    """
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
    fields: Mapping[str, frozenset[str]] | None = None,
    expected: str | None = None,
) -> dict[str, pa.RecordBatch]:
    """Decode like `decode_columns`, for records at given positions in a buffer.

    `fields`: by the name of each record type, the fields of key and value that become columns.
    `expected`: the type of nearly all records; decoding is faster then, the result is the same.
    """
    out = _Collector(topic, dictionary, fields)
    out.expected = next((kind for kind in RECORD_TYPES[topic].values() if kind.name == expected), None)
    _decode_part(keys, values, None, out)
    return _finished(out)


def _decode_part(keys: Slots, values: Slots, keys_array: pa.Array | None, out: _Collector) -> None:
    out.doubtful, out.trailing = [], {}
    if len(keys):
        _decode_all(keys, values, keys_array, out)
        _report_trailing(keys, values, out)
        _decode_doubtful(keys, values, out)


def _finished(out: _Collector) -> dict[str, pa.RecordBatch]:
    batches = {record_type.name: batch for record_type, batch in out.batches()}
    if out.problems:
        problems = sorted(out.problems, key=itemgetter("row"))
        batches[PROBLEMS] = pa.RecordBatch.from_pylist(problems, schema=PROBLEMS_SCHEMA)
    return batches


def _decode_all(keys: Slots, values: Slots, keys_array: pa.Array | None, out: _Collector) -> None:
    """Decode the keys, then the values type by type.

    With NumPy, or to categories, each distinct key is decoded once.
    """
    plain = keys_array is None or pa.types.is_binary(keys_array.type)
    one_by_one = extension() is not None and plain and not out.dictionary
    distinct, code = (keys, None) if one_by_one else distinct_keys(keys, keys_array)
    types = RECORD_TYPES[out.topic]
    kind = out.expected if one_by_one and keys.null is None else None
    whole = None
    if kind is not None:
        whole = decode_flat(kind.key, keys, versioned=False, fields=out.fields(kind), type_id=kind.type_id)
    if kind is not None and whole is not None:
        present = [kind.type_id]
    else:
        type_ids = int16_at(distinct)
        present = values_in(type_ids)
    known = [type_id for type_id in present if type_id in types]
    if len(known) < len(present):  # `NO_INT16` among them: shorter than two bytes, or null
        unknown = ~np.isin(type_ids, known)
        out.doubtful.append(np.flatnonzero(unknown if code is None else unknown[code]))
    for type_id in known:
        which = None if len(present) == 1 else np.flatnonzero(type_ids == type_id)
        slots = distinct if which is None else distinct[which]
        rows, entry = _rows_with(which, code, len(distinct), len(keys))
        fields = out.fields(types[type_id])
        flat = whole or decode_flat(types[type_id].key, slots, versioned=False, fields=fields)
        if flat is not None:
            arrays, sound = flat.columns, flat.sound
        else:
            columns, read, ends, _ = read_slots(types[type_id].key, 0, slots)
            longer = read & (ends < slots.end)
            if np.count_nonzero(longer) <= len(slots) // IRREGULAR:  # decoded singly, as `decode_flat` leaves them
                read = read & ~longer
            else:
                of = np.arange(len(rows)) if entry is None else entry
                has = np.flatnonzero(longer[of])
                out.add_trailing(rows[has], "key", (ends - slots.start)[of[has]])
            schema = message_schema(types[type_id].key, fields)
            arrays = [to_arrow(columns.fields[field.name], field.type, distinct.data) for field in schema]
            sound = None if bool(read.all()) else np.flatnonzero(read)
        if sound is not None:
            kept, entry = _rows_with(sound, entry, len(slots), len(rows))
            out.doubtful.append(np.delete(rows, kept))
            # Text of other keys, which may be arbitrary, would be a category otherwise.
            rows, arrays = rows[kept], chosen(arrays, sound)
        if len(rows):
            _decode_values(
                types[type_id],
                _Keys(arrays, entry, out.dictionary),
                rows,
                values if len(rows) == len(values) else values[rows],
                out,
            )


def _rows_with(which: Ints | None, code: Ints | None, distinct: int, count: int) -> tuple[Ints, Ints | None]:
    """Return the rows with one of the distinct keys in `which`, and the index of each in `which`.

    The indexes are `None` if they are those of the rows.
    """
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
    """Decoded keys, and the index of each row's key; `None` if row i has key i."""

    __slots__ = ("arrays", "dictionary", "entry")

    def __init__(self, arrays: list[pa.Array], entry: Ints | None, dictionary: bool) -> None:
        self.arrays = arrays
        self.entry = entry
        self.dictionary = dictionary

    def at(self, places: Ints | None) -> list[pa.Array]:
        """Return one array per key field, for some of the rows, or for all."""
        entry = self.entry if places is None else (places if self.entry is None else self.entry[places])
        if not self.dictionary:
            return self.arrays if entry is None else chosen(self.arrays, entry)
        return [self._column(array, entry) for array in self.arrays]

    def _column(self, array: pa.Array, entry: Ints | None) -> pa.Array:
        if not pa.types.is_string(array.type):
            return array if entry is None else array.take(array_of(entry))
        coded = array.dictionary_encode()
        if entry is None:
            return coded
        return pa.DictionaryArray.from_arrays(array_of(numbers_of(coded.indices)[entry]), coded.dictionary)


def distinct_keys(keys: Slots, array: pa.Array | None, *, try_first: bool = True) -> tuple[Slots, Ints | None]:
    """Return the distinct keys, and the index of each row's key.

    If keys rarely repeat, all keys and `None` are returned. Real logs repeat few keys many times.
    The check costs a fifth of decoding; without `try_first` it is skipped and keys are expected to
    repeat.
    """
    if extension() is None:
        _expect_large_arrays()
    if array is None:
        array = binary_array(keys)
    if pa.types.is_dictionary(array.type):
        coded = array if not array.null_count else array.dictionary_decode().dictionary_encode(null_encoding="encode")
    else:
        if try_first and len(array) > SAMPLE and len(array.slice(0, SAMPLE).unique()) > SAMPLE * 3 // 4:
            return keys, None
        coded = array.dictionary_encode(null_encoding="encode")
    return Slots.of(coded.dictionary), numbers_of(coded.indices)


def _decode_values(record_type: RecordType, keys: _Keys, rows: Ints, values: Slots, out: _Collector) -> None:
    """Decode the values of the rows of one record type, grouped by version."""
    places: Ints | None = None
    null = values.null if values.null is not None and bool(values.null.any()) else None
    flat, fields = is_flat(record_type.value), out.fields(record_type)
    if null is not None and (not flat or bool(null.all())):
        dead = np.flatnonzero(null)
        nothing = [pa.nulls(len(dead), field.type) for field in message_schema(record_type.value, fields)]
        no_version, no_tags = pa.nulls(len(dead), pa.int16()), np.zeros(len(dead), dtype=np.int32)
        _emit(record_type, keys.at(dead), rows[dead], null[dead], no_version, nothing, no_tags, out)
        places = np.flatnonzero(~null)
        values = values[places]
        if not len(places):
            return
    found = decode_flat(record_type.value, values, versioned=True, fields=fields) if flat else None
    if found is not None:
        versions, columns = found.numbers, found.columns
        if found.sound is not None:
            bad = np.ones(len(values), dtype=np.bool_)
            bad[found.sound] = False
            out.doubtful.append((rows if places is None else rows[places])[bad])
            if not len(found.sound):
                return
            places, values = _within(places, found.sound), values[found.sound]
            versions, columns = versions[found.sound], chosen(columns, found.sound)
        of = rows if places is None else rows[places]
        none = np.zeros(len(of), dtype=np.int32)
        _emit(record_type, keys.at(places), of, values.null, array_of(versions, values.null), columns, none, out)
        return
    values = gathered(values)
    versions = int16_at(values)
    present = values_in(versions)
    together = flat and len(present) > 1  # tombstones count as a version here
    for version in present[:1] if together else present:
        same = None if together or len(present) == 1 else np.flatnonzero(versions == version)
        here = _within(places, same)
        slots = values if same is None else values[same]
        if together:
            decoded = decode_versions(record_type, versions, slots, fields)
        elif version in record_type.versions:
            decoded = decode_version(record_type.value, version, slots, fields)
        else:
            out.doubtful.append(rows if here is None else rows[here])
            continue
        if decoded.good is not None:
            bad = np.ones(len(slots), dtype=np.bool_)
            bad[decoded.good] = False
            out.doubtful.append((rows if here is None else rows[here])[bad])
            here, slots = _within(here, decoded.good), slots[decoded.good]
            if not len(decoded.good):
                continue
        of = rows if here is None else rows[here]
        longer = decoded.ends < slots.end
        if bool(longer.any()):
            out.add_trailing(of[longer], "value", (decoded.ends - slots.start)[longer])
        versions_here = array_of(decoded.versions, slots.null)
        _emit(record_type, keys.at(here), of, slots.null, versions_here, decoded.columns, decoded.unknown, out)


def _within(outer: Ints | None, inner: Ints | None) -> Ints | None:
    """Return `outer[inner]`; `None` means all."""
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
    """Add the columns of some rows; `dead` marks tombstones, `None` means none."""
    tombstone = array_of(np.zeros(len(rows), dtype=np.bool_) if dead is None else dead)
    out.add(record_type.type_id, rows, [*keys, tombstone, versions, *values, array_of(unknown)])


# ---- rows that columns cannot decode, or not fully


def _report_trailing(keys: Slots, values: Slots, out: _Collector) -> None:
    """Report rows with trailing bytes, except those that are decoded singly."""
    doubtful = set(np.concatenate(out.doubtful).tolist()) if out.doubtful else set()
    for row, (where, position) in out.trailing.items():
        if row in doubtful:
            continue
        key, value = keys.bytes_at(row), values.bytes_at(row)
        found = key if where == "key" else value
        assert key is not None
        assert found is not None
        problem = DecodeError(Reason.TRAILING, where=where, position=position, detail=found[position:].hex())
        type_id = int.from_bytes(key[:2], "big", signed=True)
        out.problems.append(problem_row(problem, type_id, row + out.first, key, value))


def _decode_doubtful(keys: Slots, values: Slots, out: _Collector) -> None:
    """Decode doubtful rows one by one.

    Rows that Kafka reads become columns of their type. All damaged rows become problems, also if
    Kafka ignores the damage.
    """
    decoded: dict[int, list[tuple[int, CoordinatorRecord]]] = {}
    for row in np.sort(np.concatenate(out.doubtful)).tolist() if out.doubtful else []:
        key, value = keys.bytes_at(row), values.bytes_at(row)
        record = decode_record(key, value, topic=out.topic)
        readable = as_kafka_reads(record)
        if readable is not None:
            decoded.setdefault(readable.type_id, []).append((row, readable))
        if record.problem is not None:
            out.problems.append(problem_row(record.problem, record.type_id, row + out.first, key, value))
    for type_id, found in decoded.items():
        fields = out.fields(RECORD_TYPES[out.topic][type_id])
        columns = columns_of([record for _, record in found], dictionary=out.dictionary, fields=fields)
        out.add(type_id, np.array([row for row, _ in found]), columns)
