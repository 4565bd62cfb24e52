"""Lags now and before: what the last sample read, recent ones, and copies in the store.

Reading lags from a cluster is not part of this module.
"""

import time
import zlib
from collections import deque
from collections.abc import Iterator
from typing import Any

from quorate.watch.collector import Collector
from quorate.watch.lags import Ends, Lags
from quorate.watch.limits import WatchLimits
from quorate.watch.model import EventKind, Place, WatchEvent
from quorate.watch.states import pack
from quorate.watch.store import WatchStore

SPARK = 60
"""Recent lag samples in a summary."""

OFFSETS_EVERY_MS = 5 * 60_000
"""Time between two kept copies of the committed offsets of a group."""

RETAIN_EVERY_MS = 10 * 60_000


class LagHistory:
    """The lags of groups. `ends`: end offsets. `lag_ms`: by group and partition; as far as known.

    `of_groups`: group id → lag in records and in time. `sparks`: recent lags of each group.
    `keep_ms`, `keep_bytes`: how much history is kept.
    """

    def __init__(
        self, collector: Collector, store: WatchStore, limits: WatchLimits, keep_ms: int | None, keep_bytes: int | None
    ) -> None:
        self.ends: dict[Place, int] = {}
        self.lag_ms: dict[tuple[str, Place], int] = {}
        self.of_groups: dict[str, tuple[int | None, int | None]] = {}
        self.sparks: dict[str, deque[int]] = {}
        self._collector = collector
        self._store = store
        self._limits = limits
        self._keep_ms = keep_ms
        self._keep_bytes = keep_bytes
        self._changed: set[str] = set()
        self._kept: dict[str, tuple[int, int]] = {}
        self._retained_ms = 0
        self._over: set[str] = set()
        kinds = (EventKind.LAG_OVER, EventKind.LAG_UNDER)
        for one in store.events(kinds=kinds, newest_first=False, limit=1 << 30):
            (self._over.add if one.kind is EventKind.LAG_OVER else self._over.discard)(one.group_id)

    def wanted(self) -> set[tuple[Place, int]]:
        """Return the committed offsets whose lags to read."""
        return {(place, one.offset) for group in self._collector.groups() for place, one in group.committed.items()}

    def take(self, ends: Ends, lags: Lags) -> None:
        """Take a sample: keep it, report lags over the limit, and delete what is too old."""
        now_ms = time.time_ns() // 1_000_000
        lag_ms: dict[tuple[str, Place], int] = {}
        of_groups: dict[str, tuple[int | None, int | None]] = {}
        for group in self._collector.groups():
            by_partition = [
                max(0, ends.end[place] - one.offset) for place, one in group.committed.items() if place in ends.end
            ]
            times = []
            for place, one in group.committed.items():
                found = lags.of.get((place, one.offset))
                if found is None and lags.missing:
                    found = self.lag_ms.get((group.group_id, place))
                if found is not None:
                    lag_ms[group.group_id, place] = found
                    times.append(found)
            total, most = sum(by_partition) if by_partition else None, max(times, default=None)
            if total is not None or most is not None:
                of_groups[group.group_id] = total, most
                self.sparks.setdefault(group.group_id, deque(maxlen=SPARK)).append(total or 0 if most is None else most)
        self._changed |= {one for one, lag in of_groups.items() if lag != self.of_groups.get(one)}
        self.ends, self.lag_ms, self.of_groups = dict(ends.end), lag_ms, of_groups
        events = list(self._events(now_ms))
        with self._store.transaction():
            self._store.put_lags(now_ms, [(group_id, records, ms) for group_id, (records, ms) in of_groups.items()])
        self.keep_offsets(now_ms)
        if now_ms - self._retained_ms >= RETAIN_EVERY_MS:
            self._retained_ms = now_ms
            self._store.retain(None if self._keep_ms is None else now_ms - self._keep_ms, self._keep_bytes)
        self._collector.add_events(events)
        self._collector.flush(now_ms, is_live=True)

    def _events(self, now_ms: int) -> Iterator[WatchEvent]:
        limit = self._limits.lag_ms
        for group_id, (records, ms) in self.of_groups.items():
            if limit is None or ms is None or (ms > limit) == (group_id in self._over):
                continue
            is_over = ms > limit
            (self._over.add if is_over else self._over.discard)(group_id)
            yield WatchEvent(
                at_ms=now_ms,
                seen_ms=now_ms,
                group_id=group_id,
                kind=EventKind.LAG_OVER if is_over else EventKind.LAG_UNDER,
                sentence=f"the lag is {ms / 1000:,.1f} s, {'over' if is_over else 'not over'} {limit / 1000:g} s",
                facts=() if records is None else (f"lag in records: {records:,}",),
            )

    def keep_offsets(self, now_ms: int, *, at_end: bool = False) -> None:
        """Copy the offsets of groups that have committed, at most every five minutes of a group.

        `now_ms`: the clock, or the time of the last record that was read from files. `at_end`:
        copies all groups that have committed since their last copy.
        """
        self._changed |= self._collector.take_committed()
        since_ms = now_ms + 1 if at_end else now_ms - OFFSETS_EVERY_MS
        due = [one for one in self._changed if one not in self._kept or self._kept[one][0] <= since_ms]
        self._changed.difference_update(due)
        bodies = []
        for group_id in due:
            body = pack(self._body(group_id))
            checksum = zlib.crc32(body)
            if self._kept.get(group_id, (0, None))[1] != checksum:
                bodies.append((group_id, body))
            self._kept[group_id] = now_ms, checksum
        if bodies:
            with self._store.transaction():
                self._store.put_offsets(now_ms, bodies)

    def _body(self, group_id: str) -> dict[str, list[Any]]:
        """Return topic → partitions, offsets, times of commits, ends and lags in time.

        The last two are `None` where none is known.
        """
        return {
            topic: [numbers, *columns, *self._known(group_id, topic, numbers)]
            for topic, numbers, *columns in self._collector.offset_columns(group_id)
        }

    def _known(self, group_id: str, topic: str, numbers: list[int]) -> Iterator[list[int | None] | None]:
        places = [(topic, number) for number in numbers] if self.ends or self.lag_ms else []
        for column in (
            [self.ends.get(place) for place in places],
            [self.lag_ms.get((group_id, place)) for place in places],
        ):
            yield None if column.count(None) == len(column) else column
