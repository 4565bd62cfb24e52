"""Commits of many blocks put together, and put into a state: in the order in which their keys first came, with what was last said of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from quorate.codecs.columnar.frame import Ints
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.columnar.values import joined
from quorate.coordinator.bulk_block import Barriers, Commits, names_in, together
from quorate.coordinator.bulk_values import partitions_of, stored_of
from quorate.coordinator.state import CoordinatorState

__all__ = ["Merged", "commits_into", "merged", "put_all"]


@dataclass(slots=True)
class Merged:
    """Commits, one row for each key between two barriers, in the order of `first`: positions of the first and the last, value and offset of the last.

    `group` and `topic` number the names; `place` numbers groups' topics, between barriers: the maps
    that partitions are put into.
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
        """Of each map of partitions whose last commit replaced one: that commit's position, and a row of the map.

        Kafka's map counts such a commit as if a key were to come (`TimelineMap`), so it is not the
        same without any.
        """
        order = np.argsort(self.place, kind="stable")
        starts = _starts(self.place[order])
        last, first = (np.maximum.reduceat(of[order], starts) for of in (self.last, self.first))
        some = np.flatnonzero(last > first)
        yield from zip(last[some].tolist(), order[starts[some]].tolist(), strict=True)


def merged(parts: Sequence[Commits], barriers: Barriers, transactional: set[bytes]) -> Merged:
    """The commits of blocks in their order, at least one of them.

    `barriers`: those of all of these blocks.
    """
    keys, values = (joined(list(column)) for column in ([part.keys for part in parts], [part.values for part in parts]))
    first, last, offset = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("first", "last", "offset")
    )
    coded = keys.dictionary_encode()
    key = np.asarray(coded.indices).astype(np.int64)
    distinct = Slots.of(coded.dictionary)
    group_names, group = names_in(distinct, "group")
    topic_names, topic = names_in(distinct, "topic")
    interval = barriers.intervals(group_names, group[key], first, transactional)
    number, count = (key, len(distinct)) if interval is None else together(key, interval)
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
        place, _ = together(place, interval[begins])
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
    """A function that puts a row into the state, and one that makes its map of partitions what a commit makes it that replaces one."""
    stored = stored_of(commits.values, commits.offset)
    groups, topics = commits.groups, commits.topics
    group, topic, partition = commits.group.tolist(), commits.topic.tolist(), commits.partition
    offsets = state.offsets

    def put(row: int) -> None:
        name = groups[group[row]]
        state.need_group(name)
        offsets.put(name, topics[topic[row]], partition[row], stored[row])

    def grow(row: int) -> None:
        partitions = offsets.partitions(groups[group[row]], topics[topic[row]])
        there = next(iter(partitions))
        partitions[there] = partitions[there]

    return put, grow


def put_all(state: CoordinatorState, commits: Merged) -> None:
    """Put all rows into the state, between which nothing else is to be done: map by map, in the order in which maps begin."""
    order = np.argsort(commits.place, kind="stable")
    starts = _starts(commits.place[order])
    sizes = np.diff(np.append(starts, len(order)))
    maps = np.argsort(commits.first[order[starts]], kind="stable")
    rows = order[_ranges(starts[maps], sizes[maps])]
    stored = stored_of(commits.values[rows], commits.offset[rows])
    partition = np.array(commits.partition, np.int64)[rows].tolist()
    heads = order[starts[maps]]
    last = np.maximum.reduceat(commits.last[order], starts)[maps]
    replaced = last > np.maximum.reduceat(commits.first[order], starts)[maps]
    end = 0
    for group, topic, size, again in zip(
        commits.group[heads].tolist(),
        commits.topic[heads].tolist(),
        sizes[maps].tolist(),
        replaced.tolist(),
        strict=True,
    ):
        begin, end = end, end + size
        name = commits.groups[group]
        state.need_group(name)
        partitions = state.offsets.partitions(name, commits.topics[topic])
        if not partitions:
            partitions.put_new(partition[begin:end], stored[begin:end])
        else:
            for number, offset in zip(partition[begin:end], stored[begin:end], strict=True):
                partitions[number] = offset
        if again:
            partitions[partition[begin]] = stored[begin]


def _starts(ordered: Ints) -> Ints:
    """Where each number begins in ascending ones."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """The numbers of ranges, one range behind the other."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(int(ends[-1]))


def _texts(names: list[bytes]) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in names]
