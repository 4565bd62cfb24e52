"""Moments up to which a job replays a log, and the columns that identify a log."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from quorate.pipeline.push_down import Log, PushDown, What
from quorate.pipeline.schema import OptionError

LOG = ("topic", "partition")
"""Columns that identify the log of a record."""

NO_TIME = "a record has no timestamp, so records of one write cannot be found: fill the column `timestamp`"
NO_ORDER = "a record has no offset, so records cannot be ordered: fill the column `offset`"

AsOf = datetime | int | Mapping[int, int] | Mapping[tuple[str, int], int]
"""A moment: a time (UTC by default), ms since 1970, or the offset of the last record to include, by
partition or by topic and partition.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(timestamp: datetime) -> int:
    """Convert a time with a zone to exact milliseconds since 1970."""
    return (timestamp - _EPOCH) // timedelta(milliseconds=1)


def moment_of(as_of: object) -> datetime:
    """Convert to a time with a zone. Raises `OptionError` for an invalid value."""
    if isinstance(as_of, datetime):
        return as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    if isinstance(as_of, int) and not isinstance(as_of, bool):
        try:
            return datetime.fromtimestamp(as_of / 1000, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise OptionError(f"as_of is {as_of}, which is not a time in ms since 1970") from error
    raise OptionError(f"as_of is {as_of!r}: use a datetime, ms since 1970, or a mapping of partitions to offsets")


def last_offsets(as_of: Mapping[Any, Any]) -> list[tuple[Any, ...]]:
    """Return tuples of topic (if given), partition and offset. Raises `OptionError`."""
    ends: list[tuple[Any, ...]] = []
    for at, offset in as_of.items():
        match at, offset:
            case (bool(), _) | ((_, bool()), _) | (_, bool()):
                pass
            case int(), int():
                ends.append((at, offset))
                continue
            case (str(topic), int(partition)), int():
                ends.append((topic, partition, offset))
                continue
        raise OptionError(
            f"as_of has {at!r}: {offset!r}, which is not the offset of a partition: "
            "use {17: 4711} or {('__consumer_offsets', 17): 4711}"
        )
    if len({len(one) for one in ends}) != 1:
        raise OptionError("as_of needs partitions, either all as numbers or all with their topic")
    return ends


def push_down_of(what: What, as_of: AsOf | None) -> PushDown:
    """Return the records that a job needs up to a moment. Raises `OptionError`."""
    if as_of is None:
        return PushDown(what=what)
    if not isinstance(as_of, Mapping):
        return PushDown(what=what, until_ms=milliseconds(moment_of(as_of)))
    ends: dict[Log, int] = {
        (None if len(where) == 1 else where[0], where[-1]): offset for *where, offset in last_offsets(as_of)
    }
    return PushDown(what=what, until_offsets=ends)
