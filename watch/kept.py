"""The last record of each key of a log, as chunks of columns.

A chunk has what a flush read, in the order of the log. Chunks are merged while the one before is
not larger, so that a record is copied a few times, whatever is committed how often. A restart
replays the chunks in order. Where chunks are stored is not part of this module.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.columnar.frame import Ints
from quorate.codecs.columnar.slots import binary_array
from quorate.codecs.log.raw import RawBlock

Row = tuple[bytes, bytes | None, int, int]
"""Key, value (`None` if it was deleted), offset and timestamp in ms."""

_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64()), ("ms", pa.int64())])
_LEAST_ROWS = 1_000
"""Chunks with fewer rows are merged in any case."""

_BATCH = 1 << 16
"""Rows that are unpacked together."""


def kept_rows(block: RawBlock, rows: Ints) -> pa.RecordBatch:
    """Return some rows of a block."""
    columns = [binary_array(block.keys[rows]), binary_array(block.values[rows])]
    return pa.record_batch([*columns, pa.array(block.offset[rows]), pa.array(block.timestamp_ms[rows])], schema=_SCHEMA)


def rows_of(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return single records as columns."""
    return pa.record_batch([list(column) for column in zip(*rows, strict=True)] or [[]] * 4, schema=_SCHEMA)


def block_of_kept(rows: pa.RecordBatch) -> RawBlock:
    """Return rows as a block that can be replayed."""
    return RawBlock.of(
        rows.column("key"),
        rows.column("value"),
        offset=rows.column("offset").to_numpy(),
        timestamp_ms=rows.column("ms").to_numpy(),
    )


def last_of_keys(parts: Sequence[pa.RecordBatch], *, by_offset: bool = False, drop_deleted: bool = False) -> pa.Table:
    """Return the last row of each key, in order. `by_offset`: the parts are not in order."""
    table = pa.Table.from_batches(parts, _SCHEMA)
    if by_offset:
        order = pc.sort_indices(table.column("offset")).to_numpy()
        if (order[1:] < order[:-1]).any():
            table = table.take(order)
    coded = table.column("key").dictionary_encode()
    last: Ints = np.full(len(table), -1, np.int64)
    first = 0
    for part in coded.chunks:
        last[part.indices.to_numpy()] = np.arange(first, first + len(part))
        first += len(part)
    last = np.sort(last[last >= 0])
    if len(last) < len(table):
        table = table.take(last)
    return table.filter(table.column("value").is_valid()) if drop_deleted else table


def chunks_to_merge(sizes: Sequence[int]) -> int:
    """Return how many of the newest chunks to merge. `sizes`: their rows, the newest first."""
    total, count = sizes[0], 1
    for size in sizes[1:]:
        if size > max(total, _LEAST_ROWS):
            break
        total, count = total + size, count + 1
    return count


def pack_rows(rows: pa.Table) -> bytes:
    """Return rows in Arrow's format of streams, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows, max_chunksize=_BATCH)
    return bytes(sink.getvalue())


def unpack_rows(data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield what `pack_rows` packed, in parts."""
    with pa.ipc.open_stream(data) as reader:
        yield from reader
