"""Filters on records, from options and from filters that Spark pushes down.

They cover types, groups, partitions, offsets and times. They only skip records early: Spark applies
its filters again, so rows whose type or group is unknown are kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.columnar.frame import Array, Bools, Buffer, Frame
from quorate.codecs.columnar.slots import Slots, binary_array, int16_at
from quorate.codecs.log.blocks import Records
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.wire import StringType
from quorate.pipeline.schema import CONTROL, GROUP_FIELDS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPE_BYTES: Final = 2
_LENGTH_BYTES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBounds:
    """Conditions that a record must meet; `None` is no condition.

    Ranges of offsets and times (in ms) include the first and exclude the second value.
    """

    types: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    group_prefixes: tuple[str, ...] = ()
    partitions: frozenset[int] | None = None
    offsets: tuple[int | None, int | None] = (None, None)
    times: tuple[int | None, int | None] = (None, None)

    @property
    def control(self) -> bool:
        """Whether transaction markers are included; they belong to no group."""
        return (self.types is None or CONTROL in self.types) and self.groups is None and not self.group_prefixes

    @property
    def single_type(self) -> str | None:
        """The wanted record type if it is only one; records of unknown types are read, too."""
        types = (self.types or frozenset()) - {CONTROL}
        return next(iter(types)) if len(types) == 1 else None

    def places(self, offset: Array, timestamp: Array, start: int | None, end: int | None) -> Bools:
        """Return which of the offsets and times are in range.

        `start` and `end` limit the offsets further.
        """
        good = np.ones(len(offset), dtype=np.bool_)
        for values, low, high in ((offset, start, end), (offset, *self.offsets), (timestamp, *self.times)):
            if low is not None:
                good &= values >= low
            if high is not None:
                good &= values < high
        return good

    def left_out(self, topic: str) -> bytes:
        """Return the known types that are not wanted, as `some_records_of` expects them."""
        types = RECORD_TYPES[topic]
        if self.types is None:
            return b""
        return bytes(n in types and types[n].name not in self.types for n in range(max(types) + 1))

    def of_records(self, records: Records, topic: str, start: int | None, end: int | None) -> Records:
        """Return the records that may meet the conditions, of those without `left_out`."""
        bounded = (start, end) != (None, None) or self.offsets != (None, None) or self.times != (None, None)
        good = self.places(records.offset, records.timestamp, start, end) if bounded else None
        if self.groups is not None or self.group_prefixes:
            found = self._of_keys(records.keys, topic)
            good = found if good is None else good & found
        if good is None or bool(good.all()):
            return records
        return records[np.flatnonzero(good)]

    def _of_keys(self, keys: Slots, topic: str) -> Bools:
        ids = int16_at(keys)
        good = ~np.isin(ids, list(RECORD_TYPES[topic]))
        rows = np.flatnonzero(np.isin(ids, with_group(topic)))
        if len(rows):
            good[rows] = self._of_groups(keys[rows])
        return good

    def _of_groups(self, keys: Slots) -> Bools:
        """Return which keys match, of those that have a group after the int16 of the type."""
        start = keys.start + _TYPE_BYTES
        short = keys.end - start < _LENGTH_BYTES
        if bool(short.any()):
            return short | ~short & self._of_groups_where(keys, ~short)
        (length,) = Frame(Buffer(keys.data, keys.end), start.copy()).fetch([">i2"])
        first = start + _LENGTH_BYTES
        text = binary_array(Slots(keys.data, first, np.clip(first + length, first, keys.end)))
        good = np.ones(len(keys), dtype=np.bool_)
        if self.groups is not None:
            known = pa.array([group.encode("utf-8", "surrogatepass") for group in self.groups], pa.binary())
            good &= np.asarray(pc.is_in(text, known))
        for prefix in self.group_prefixes:
            good &= np.asarray(pc.starts_with(text, prefix.encode("utf-8", "surrogatepass")))
        return good

    def _of_groups_where(self, keys: Slots, long: Bools) -> Bools:
        good = np.zeros(len(keys), dtype=np.bool_)
        rows = np.flatnonzero(long)
        if len(rows):
            good[rows] = self._of_groups(keys[rows])
        return good


@cache
def with_group(topic: str) -> tuple[int, ...]:
    """Return the ids of a topic's record types whose key begins with a group."""
    found = []
    for type_id, record_type in RECORD_TYPES[topic].items():
        first = record_type.key.fields[0]
        if first.name in GROUP_FIELDS and isinstance(first.type, StringType) and not record_type.key.is_flexible(0):
            found.append(type_id)
    return tuple(found)


# ---- Spark's filters


def narrowed(wanted: RecordBounds, filters: Iterable[Any]) -> RecordBounds:
    """Return the conditions combined with Spark's filters.

    Filters that cannot be applied to records are ignored.
    """
    for found in filters:
        name = type(found).__name__
        if name == "Not":
            child = found.child
            if type(child).__name__ == "EqualTo" and child.attribute == ("type",) and wanted.types is not None:
                wanted = replace(wanted, types=wanted.types - {child.value})
            continue
        if len(found.attribute) != 1:
            continue
        wanted = _narrowed(wanted, name, found.attribute[0], getattr(found, "value", None))
    return wanted


def _narrowed(wanted: RecordBounds, name: str, column: str, value: Any) -> RecordBounds:
    match name, column:
        case "IsNull", "type":
            return replace(wanted, types=frozenset())
        case "EqualTo" | "EqualNullSafe" | "In", "type" | "group" | "partition":
            values = frozenset(value) if name == "In" else frozenset([value])
            if name == "EqualNullSafe" and value is None:
                return wanted
            values -= {None}
            if column == "type":
                return replace(wanted, types=_both(wanted.types, values))
            if column == "group":
                return replace(wanted, groups=_both(wanted.groups, values))
            return replace(wanted, partitions=_both(wanted.partitions, values))
        case "StringStartsWith", "group":
            return replace(wanted, group_prefixes=(*wanted.group_prefixes, value))
        case _, "offset" if isinstance(value, int) or name == "In":
            return replace(wanted, offsets=_range(wanted.offsets, name, value, value))
        case _, "timestamp":
            return _narrowed_time(wanted, name, value)
    return wanted


T = TypeVar("T")


def _both(before: frozenset[T] | None, values: frozenset[T]) -> frozenset[T]:
    return values if before is None else before & values


def _narrowed_time(wanted: RecordBounds, name: str, value: Any) -> RecordBounds:
    if name == "In":
        times = [one for one in value if isinstance(one, datetime) and one.tzinfo is not None]
        if not times or len(times) < len(value):
            return wanted
        wanted = _narrowed_time(wanted, "GreaterThanOrEqual", min(times))
        return _narrowed_time(wanted, "LessThanOrEqual", max(times))
    if not isinstance(value, datetime) or value.tzinfo is None:
        return wanted
    microseconds = (value - _EPOCH) // timedelta(microseconds=1)
    # Kafka's times are whole milliseconds.
    return replace(wanted, times=_range(wanted.times, name, microseconds // 1000, -(-microseconds // 1000)))


def _range(before: tuple[int | None, int | None], name: str, floor: Any, ceiling: Any) -> tuple[int | None, int | None]:
    """Narrow a range by a comparison with a number between `floor` and `ceiling`.

    Both are equal for whole numbers.
    """
    low: int | None = None
    high: int | None = None
    match name:
        case "EqualTo" | "EqualNullSafe":
            low, high = ceiling, floor + 1
        case "In":
            numbers = [one for one in floor if isinstance(one, int)]
            if len(numbers) == len(floor) and numbers:
                low, high = min(numbers), max(numbers) + 1
        case "GreaterThan":
            low = floor + 1
        case "GreaterThanOrEqual":
            low = ceiling
        case "LessThan":
            high = ceiling
        case "LessThanOrEqual":
            high = floor + 1
    lows = [one for one in (before[0], low) if one is not None]
    highs = [one for one in (before[1], high) if one is not None]
    return max(lows, default=None), min(highs, default=None)
