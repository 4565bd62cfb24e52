"""Parse times and log positions given as options."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from quorate.cli.errors import UserError

if TYPE_CHECKING:
    from quorate.coordinator.history import Moment

_RELATIVE = re.compile(r"(\d+)(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def read_time(option: str, text: str, now: datetime) -> int:
    """Parse a time into milliseconds since 1970.

    Accepts an ISO time (UTC by default), milliseconds since 1970, or an age before `now`, such as
    `2h`. Raises `UserError`.
    """
    relative = _RELATIVE.fullmatch(text)
    try:
        if relative:
            moment = now - timedelta(**{_UNITS[relative[2]]: int(relative[1])})
        elif re.fullmatch(r"-?\d{9,18}", text):
            return int(text)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UserError(
            f"{option} {text!r} is not a time",
            "use an ISO time (2026-11-21T10:17, UTC unless it ends in an offset), milliseconds since 1970, "
            "or an age such as 90s, 15m, 2h, 7d, 2w",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def read_moment(text: str | None, option: str = "--at") -> "Moment":
    """Parse a moment in a log.

    Accepts a time as `read_time` does, PARTITION:OFFSET (several separated by commas), or an offset
    alone for a single partition. Raises `UserError`.
    """
    from quorate.coordinator.history import Moment

    if text is None:
        return Moment()
    places = [re.fullmatch(r"(\d{1,10}):(\d{1,18})", one.strip()) for one in text.split(",")]
    if all(places):
        offsets: dict[int | None, int] = {}
        for place in filter(None, places):
            if int(place[1]) in offsets:
                raise UserError(f"{option} {text}: partition {int(place[1])} is given twice")
            offsets[int(place[1])] = int(place[2])
        return Moment(offsets=offsets)
    if any(places):
        raise UserError(
            f"{option} {text}: neither a time nor offsets of partitions", "give offsets as in 17:4711,18:42"
        )
    if re.fullmatch(r"\d{1,10}", text):
        return Moment(offset=int(text))
    return Moment(timestamp_ms=read_time(option, text, datetime.now(UTC)))
