"""Merges the commits of several blocks, and puts them into a state.

Keys are in the order of their first commit, with the value of the last one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from quorate.codecs.columnar.assemble import numbers_of
from quorate.codecs.columnar.frame import Ints
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.columnar.values import joined
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.bulk_block import Barriers, Commits, names_in, pair_numbers
from quorate.coordinator.bulk_values import partitions_of, stored_of
from quorate.coordinator.state import CoordinatorState

_ROWS_PER_STEP = 4_000
"""Commits whose values are created in one step."""


@dataclass(slots=True)
class Merged:
    """Commits, one row per key between two barriers, in the order of `first`.

    `first`, `last`: positions of the first and last commit. `values`, `offset`: of the last.
    `group` and `topic` are indexes of names. `place`: number of the map of partitions of a group's
    topic, between barriers.
    """

    first: Ints
    last: Ints
    values: Slots
    offset: Ints
    groups: list[str]
    topics: list[str]
    group: Ints
    topic: Ints
    partition: list[int]
    place: Ints

    def replacing(self) -> Iterator[tuple[int, int]]:
        """Yield position and row of each map's last commit, if it replaced an earlier commit.

        Kafka's map counts such a commit as if it added a key (`TimelineMap`), so it affects the
        map's size.
        """
        order = np.argsort(self.place, kind="stable")
        starts = _starts(self.place[order])
        last, first = (np.maximum.reduceat(of[order], starts) for of in (self.last, self.first))
        some = np.flatnonzero(last > first)
        yield from zip(last[some].tolist(), order[starts[some]].tolist(), strict=True)


def merged(parts: Sequence[Commits], barriers: Barriers, transactional: set[bytes]) -> Merged:
    """Merge the commits of blocks in order; at least one block.

    `barriers`: those of all of these blocks.
    """
    keys, values = (joined(list(column)) for column in ([part.keys for part in parts], [part.values for part in parts]))
    first, last, offset = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("first", "last", "offset")
    )
    coded = keys.dictionary_encode()
    key = numbers_of(coded.indices).astype(np.int64)
    distinct = Slots.of(coded.dictionary)
    group_names, group = names_in(distinct, "group")
    topic_names, topic = names_in(distinct, "topic")
    interval = barriers.intervals(group_names, group[key], first, transactional)
    number, count = (key, len(distinct)) if interval is None else pair_numbers(key, interval)
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    rows = np.arange(len(key))
    begins[number[::-1]] = rows[::-1]
    ends[number] = rows
    order = np.argsort(first[begins], kind="stable")
    begins, ends = begins[order], ends[order]
    key = key[begins]
    group, topic = group[key], topic[key]
    place = group * len(topic_names) + topic
    if interval is not None:
        place, _ = pair_numbers(place, interval[begins])
    partition = np.array(partitions_of(distinct), np.int64)[key]
    return Merged(
        first=first[begins],
        last=last[ends],
        values=Slots.of(values)[ends],
        offset=offset[ends],
        groups=_texts(group_names),
        topics=_texts(topic_names),
        group=group,
        topic=topic,
        partition=partition.tolist(),
        place=place,
    )


def commits_into(state: CoordinatorState, commits: Merged) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return functions that put a row into the state, and that repeat a put in its map.

    The latter makes the map as large as a commit that replaces another one.
    """
    groups, topics = commits.groups, commits.topics
    group, topic, partition = commits.group.tolist(), commits.topic.tolist(), commits.partition
    offsets = state.offsets
    stored: list[Any] = []
    first = 0

    def put(row: int) -> None:
        nonlocal stored, first
        if not first <= row < first + len(stored):
            first = row - row % _ROWS_PER_STEP
            some = slice(first, first + _ROWS_PER_STEP)
            stored = stored_of(commits.values[some], commits.offset[some])
        name = groups[group[row]]
        state.need_group(name)
        offsets.put(name, topics[topic[row]], partition[row], stored[row - first])

    def grow(row: int) -> None:
        partitions = offsets.partitions(groups[group[row]], topics[topic[row]])
        existing = next(iter(partitions))
        partitions[existing] = partitions[existing]

    return put, grow


def put_all(state: CoordinatorState, commits: Merged) -> Iterator[None]:
    """Put all rows into the state, map by map, in the order in which the maps were created.

    No other record may lie between these commits. Yields after each of several steps.
    """
    order = np.argsort(commits.place, kind="stable")
    starts = _starts(commits.place[order])
    sizes = np.diff(np.append(starts, len(order)))
    maps = np.argsort(commits.first[order[starts]], kind="stable")
    rows = order[_ranges(starts[maps], sizes[maps])]
    partition = np.array(commits.partition, np.int64)[rows].tolist()
    heads = order[starts[maps]]
    last = np.maximum.reduceat(commits.last[order], starts)[maps]
    replaced = last > np.maximum.reduceat(commits.first[order], starts)[maps]
    ends = np.cumsum(sizes[maps])
    end = first = until = 0
    stored: list[Any] = []
    for group, topic, size, again in zip(
        commits.group[heads].tolist(),
        commits.topic[heads].tolist(),
        sizes[maps].tolist(),
        replaced.tolist(),
        strict=True,
    ):
        begin, end = end, end + size
        if end > until:
            yield
            first, until = begin, int(ends[np.searchsorted(ends, min(begin + _ROWS_PER_STEP, int(ends[-1])))])
            stored = stored_of(commits.values[rows[first:until]], commits.offset[rows[first:until]])
        name = commits.groups[group]
        state.need_group(name)
        partitions = state.offsets.partitions(name, commits.topics[topic])
        values = stored[begin - first : end - first]
        if not partitions:
            partitions.put_new(partition[begin:end], values)
        else:
            for number, offset in zip(partition[begin:end], values, strict=True):
                partitions[number] = offset
        if again:
            partitions[partition[begin]] = values[0]


def _starts(ordered: Ints) -> Ints:
    """Return the index of the first of each number in an ascending array."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return the numbers of all ranges, one after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(int(ends[-1]))


def _texts(names: list[bytes]) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in names]
