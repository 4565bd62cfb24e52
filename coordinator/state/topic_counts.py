"""Counting a member's topics up or down, of which it may name 100,000: no step of Python's is taken for each."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Generic, NamedTuple, TypeVar

from quorate.assignors.java_order import TimelineMap

__all__ = ["Down", "Recount", "changed", "counted_down", "recount", "recounted"]

C = TypeVar("C")


def recounted(counts: Mapping[str, C], topics: Collection[str], nothing: C, change: Callable[[C], C]) -> dict[str, C]:
    """The new counts of different topics, in the order given.

    `nothing`: the count of a topic that is not in `counts`; `change`: is called for each count that
    occurs.
    """
    found = list(map(counts.get, topics, repeat(nothing)))
    becomes = {count: change(count) for count in set(found)}
    if len(becomes) == 1:  # as most often
        return dict.fromkeys(topics, *becomes.values())
    return dict(zip(topics, map(becomes.__getitem__, found), strict=True))


class Down(NamedTuple, Generic[C]):
    """Topics that are counted down: the new counts of those that stay, and those that are gone.

    `gone_first`: how many are gone before the first that stays.
    """

    fewer: dict[str, C]
    gone: list[str]
    gone_first: int

    def apply(self, counts: TimelineMap[str, C]) -> None:
        """Change the counts one after the other, as the size of Kafka's map depends on the order."""
        for name in self.gone[: self.gone_first]:
            del counts[name]
        counts.put_all(self.fewer)
        for name in self.gone[self.gone_first :]:
            del counts[name]


def counted_down(counts: Mapping[str, C], topics: Sequence[str], nothing: C, change: Callable[[C], C]) -> Down[C]:
    """Count different topics down, each of which is in `counts`; one that comes to `nothing` is gone."""
    found = recounted(counts, topics, nothing, change)
    fewer = {name: count for name, count in found.items() if count != nothing}
    gone = [name for name in found if name not in fewer]
    return Down(fewer, gone, topics.index(next(iter(fewer))) if fewer else 0)


class Recount(NamedTuple):
    """What becomes of the counts of topics: of those that are counted down, and the new counts of those that are counted up.

    `new`: those that are there for the first time.
    """

    down: Down[tuple[int, int]]
    more: dict[str, tuple[int, int]]
    new: list[str]


def recount(counts: Mapping[str, tuple[int, int]], old: Iterable[str], new: Iterable[str], *, regex: bool) -> Recount:
    """What becomes of the counts when the `new` topics are named, or matched, in the place of the `old` ones."""
    before, after = dict.fromkeys(old), dict.fromkeys(new)
    left = [name for name in before if name not in after and name in counts]
    came = [name for name in after if name not in before]
    down = counted_down(counts, left, (0, 0), lambda count: changed(count, -1, regex=regex))
    return Recount(
        down=down,
        more=recounted(counts, came, (0, 0), lambda count: changed(count, 1, regex=regex)),
        new=[name for name in came if name not in counts],
    )


def changed(count: tuple[int, int], change: int, *, regex: bool) -> tuple[int, int]:
    """How many members name a topic, and how many resolved expressions match it, after one of these more or less; never below 0."""
    by_name, by_regex = count
    return (by_name, max(by_regex + change, 0)) if regex else (max(by_name + change, 0), by_regex)
