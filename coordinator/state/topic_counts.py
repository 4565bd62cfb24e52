"""Subscriber counts per topic, updated without a Python step for each of up to 100,000 topics."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Generic, NamedTuple, TypeVar

from quorate.assignors.java_order import TimelineMap

C = TypeVar("C")


def recounted(counts: Mapping[str, C], topics: Collection[str], nothing: C, change: Callable[[C], C]) -> dict[str, C]:
    """Return the new counts of distinct topics, in the order given.

    `nothing`: the count of a topic that is not in `counts`. `change`: called once for each distinct
    count.
    """
    found = list(map(counts.get, topics, repeat(nothing)))
    becomes = {count: change(count) for count in set(found)}
    if len(becomes) == 1:  # the usual case
        return dict.fromkeys(topics, *becomes.values())
    return dict(zip(topics, map(becomes.__getitem__, found), strict=True))


class Down(NamedTuple, Generic[C]):
    """Topics that are counted down: new counts of the remaining ones, and the removed ones.

    `gone_first`: number of topics removed before the first remaining one.
    """

    fewer: dict[str, C]
    gone: list[str]
    gone_first: int

    def apply(self, counts: TimelineMap[str, C]) -> None:
        """Change the counts one by one, as the size of Kafka's map depends on the order."""
        for name in self.gone[: self.gone_first]:
            del counts[name]
        counts.put_all(self.fewer)
        for name in self.gone[self.gone_first :]:
            del counts[name]


def counted_down(counts: Mapping[str, C], topics: Sequence[str], nothing: C, change: Callable[[C], C]) -> Down[C]:
    """Count distinct topics of `counts` down; those that reach `nothing` are removed."""
    if not topics:
        return Down({}, [], 0)
    found = recounted(counts, topics, nothing, change)
    fewer = {name: count for name, count in found.items() if count != nothing}
    gone = [name for name in found if name not in fewer]
    return Down(fewer, gone, topics.index(next(iter(fewer))) if fewer else 0)


class Recount(NamedTuple):
    """Changes of topic counts: those counted down, and new counts of those counted up.

    `new`: topics that had no count.
    """

    down: Down[tuple[int, int]]
    more: dict[str, tuple[int, int]]
    new: list[str]


def recount(counts: Mapping[str, tuple[int, int]], old: Iterable[str], new: Iterable[str], *, regex: bool) -> Recount:
    """Return the changes of counts when subscribed or matched topics change from `old` to `new`."""
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
    """Return a topic's counts of members and regexes after one of them changes; never below 0."""
    by_name, by_regex = count
    return (by_name, max(by_regex + change, 0)) if regex else (max(by_name + change, 0), by_regex)
