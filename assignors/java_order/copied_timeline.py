"""The order of a HashMap that is a copy of a TimelineMap, updated as that map grows.

A member that joins a group needs the order of all members. With hundreds of them, sorting took
longer than the assignment.
"""

from bisect import bisect_left, insort
from typing import Any

from quorate.assignors.java_order.few import is_crowded, map_of_timeline, spread_of
from quorate.assignors.java_order.hash_map import TREE_FROM, hash_map_capacity
from quorate.assignors.java_order.timeline_map import TimelineMap, timeline_number

_AGE_BITS = 40


class CopiedTimeline:
    """The texts of a TimelineMap in the order of `map_of_timeline`.

    `added` must be called for each text that the map gets, and `sort_again` if it loses one.

    Texts are sorted by bucket of the HashMap, slot of the TimelineMap, and age, newest first. These
    are one number: `_keys`. Two checks find buckets that may become trees, as in `is_crowded`.
    `_is_full`: a bucket has too many keys although all are in a table of the size of `_counts`.
    `_is_early`: one had while the table grew to that size. `_early` has the keys and hashes of at
    least the texts that were put before it did.
    """

    __slots__ = ("_age", "_buckets", "_counts", "_early", "_is_early", "_is_full", "_keys", "_map", "_slots", "_texts")

    def __init__(self, of: TimelineMap[str, Any]) -> None:
        self._map = of
        self.sort_again()

    def sort_again(self) -> None:
        """Forget the order, until it is used the next time."""
        self._buckets = 0
        self._texts: list[str] = []
        self._keys: list[int] = []
        self._early: list[tuple[int, int]] = []

    def with_last(self, last: str) -> list[str]:
        """Return the order, with `last` put after all others unless it is one of them."""
        is_new = last not in self._map
        buckets = hash_map_capacity(len(self._map) + is_new)
        if buckets != self._buckets or self._map.slots != self._slots:
            self._sort(buckets)
        spread = spread_of(last)
        if self._is_full or self._is_early or (is_new and self._counts[spread & len(self._counts) - 1] == TREE_FROM):
            return [*map_of_timeline(self._map, last)]
        found = self._texts.copy()
        if is_new:
            next_bucket = (spread & buckets - 1) + 1
            found.insert(bisect_left(self._keys, next_bucket * self._slots << _AGE_BITS), last)
        return found

    def added(self, text: str) -> None:
        """Add the newest text of the map."""
        if not self._buckets:
            return
        self._age -= 1
        spread, key = spread_of(text), self._timeline_key(text, self._age)
        if self._early and key < self._early[-1][0]:
            insort(self._early, (key, spread))
            self._check_early()
        key += self._start(spread)
        place = bisect_left(self._keys, key)
        self._keys.insert(place, key)
        self._texts.insert(place, text)
        self._count(spread)

    def _sort(self, buckets: int) -> None:
        """Sort all texts for a HashMap of this size."""
        self._buckets, self._slots = buckets, self._map.slots
        self._age = first = (1 << _AGE_BITS) - len(self._map)
        timeline = [(self._timeline_key(text, first + place), text) for place, text in enumerate(reversed(self._map))]
        texts = {key + self._start(spread_of(text)): text for key, text in timeline}
        self._keys = sorted(texts)
        self._texts = [texts[key] for key in self._keys]
        self._counts, self._is_full = [0] * max(buckets // 4, 16), False
        for text in self._texts:
            self._count(spread_of(text))
        self._early = [(key, spread_of(text)) for key, text in sorted(timeline)[: self._early_count]]
        self._check_early()

    def _timeline_key(self, text: str, age: int) -> int:
        return (timeline_number(text) >> 65 - self._slots.bit_length() << _AGE_BITS) + age

    def _start(self, spread: int) -> int:
        """Return the least key of a bucket."""
        return (spread & self._buckets - 1) * self._slots << _AGE_BITS

    def _count(self, spread: int) -> None:
        bucket = spread & len(self._counts) - 1
        self._counts[bucket] += 1
        if self._counts[bucket] > TREE_FROM:
            self._is_full = True

    @property
    def _early_count(self) -> int:
        """After so many texts, the table has the size of `_counts`."""
        return 0 if len(self._counts) == 16 else len(self._counts) * 3 // 8 + 1

    def _check_early(self) -> None:
        self._is_early = is_crowded([spread for _, spread in self._early[: self._early_count]])
