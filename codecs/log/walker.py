"""The loops over batches and records of a block, in C, if the accelerator is in use.

`batch_starts` and `blocks` do the same with NumPy otherwise, which has one call for many batches
but many for each field. Where a batch has one record, as brokers write commits, the loops in C take
0.4 of the time (2026-11). Anything irregular is left to Python.
"""

from typing import TYPE_CHECKING

import numpy as np

from quorate.codecs.batches.v2 import CRC_START
from quorate.codecs.columnar.frame import Array, Bools, Ints
from quorate.codecs.extension import extension
from quorate.codecs.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from quorate.codecs.extension import Native

FIELDS = 10
"""Header fields of a batch that `headers` returns."""


@dataclass(slots=True)
class Located:
    """Positions of keys and values, offsets and timestamps of records, and the unusual batches.

    Records of unusual batches are left out.
    """

    key_start: Ints
    key_end: Ints
    value_start: Ints
    value_end: Ints
    offset: Ints
    timestamp: Ints
    null_key: Bools
    null_value: Bools
    kept: Ints
    unusual: Bools


class Walker:
    """Arrays for the functions in C. Positions outside of the block raise `ValueError`."""

    def __init__(self, native: "type[Native]") -> None:
        self._native = native

    def starts(self, block: bytes, most_bytes: int) -> tuple[Ints, int]:
        """Return where the whole batches of a block begin, and where the last one ends."""
        starts, end = self._native.batch_starts(block, most_bytes)
        return np.frombuffer(starts, np.int64), end

    def headers(self, block: bytes, start: Ints, end: Ints) -> Ints:
        """Return a row for whether batches are of magic 2 and have whole headers, and each field.

        Of other batches only the base offset is read.
        """
        fields = np.empty((FIELDS, len(start)), np.int64)
        self._native.batch_headers(block, _int64(start), _int64(end), fields)
        return fields

    def crcs(self, block: bytes, start: Ints, end: Ints) -> Array:
        """Return the CRC of each batch that has at least a whole header."""
        crcs = np.empty(len(start), np.uint32)
        self._native.batch_crcs(block, _int64(start + CRC_START), _int64(end), crcs)
        return crcs

    def records(
        self,
        data: Array,
        body: Ints,
        body_end: Ints,
        counts: Ints,
        base_offset: Ints,
        base_timestamp: Ints,
        left_out: bytes = b"",
    ) -> Located:
        """Locate so many records in the bodies of batches.

        `left_out` is that of `some_records_of`.
        """
        total = int(counts.sum())
        bodies, ends, counts = _int64(body), _int64(body_end), _int64(counts)
        offsets, timestamps = _int64(base_offset), _int64(base_timestamp)
        facts, nulls = np.empty((6, total), np.int64), np.empty((2, total), np.bool_)
        kept, unusual = np.empty(len(counts), np.int64), np.empty(len(counts), np.bool_)
        found = self._native.batch_records(
            data, bodies, ends, counts, offsets, timestamps, kept, left_out, facts, nulls, unusual
        )
        key, key_end, value, value_end, offset, timestamp = facts[:, :found]
        null_key, null_value = nulls[:, :found]
        return Located(key, key_end, value, value_end, offset, timestamp, null_key, null_value, kept, unusual)


def _int64(numbers: Array) -> Ints:
    return np.ascontiguousarray(numbers, np.int64)


def walker() -> Walker | None:
    """Return the loops in C, or `None` without the accelerator."""
    native = extension()
    return None if native is None else Walker(native)
