"""Plain commits of a block, by columns: the last record of each key, and offsets that went back.

What a lower offset means is not part of this module.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from quorate.codecs.columnar.frame import Buffer, Ints
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.log.raw import RawBlock
from quorate.coordinator.bulk_block import FoundCommits, names_in
from quorate.coordinator.bulk_values import partitions_of
from quorate.watch.packed_offsets import PackedOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Lower:
    """A commit in `row` of a block whose offset is lower than the one before."""

    row: int
    group_id: str
    topic: str
    partition: int
    before: int
    after: int


class BlockCommits:
    """The plain commits of a block, of which there is at least one.

    `last`: the row of the last commit of each key. `counts`: group id → number of commits.
    """

    def __init__(self, block: RawBlock, found: FoundCommits) -> None:
        distinct, code, rows = found
        key = rows if code is None else code[rows]
        order = np.argsort(key, kind="stable")
        self._key, self._row = key[order], rows[order]
        starts = np.flatnonzero(np.append(True, self._key[1:] != self._key[:-1]))
        ends = np.append(starts[1:], len(order)) - 1
        self._first = starts
        self.last: Ints = self._row[ends]
        keys = distinct[self._key[starts]]
        groups, self._group = names_in(keys, "group")
        topics, self._topic = names_in(keys, "topic")
        self._groups, self._topics = _texts(groups), _texts(topics)
        self._partition = np.array(partitions_of(keys), np.int64)
        self._offset = _offsets(block.values[self._row])
        self._of_key = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        sizes = np.bincount(self._group, weights=np.diff(np.append(starts, len(order))), minlength=len(groups))
        self.counts: dict[str, int] = dict(zip(self._groups, sizes.astype(np.int64).tolist(), strict=True))

    def first_of(self, groups: Collection[str]) -> dict[str, int]:
        """Return the first row of each of these groups."""
        found: dict[str, int] = {}
        for group, row in zip(self._group.tolist(), self._row[self._first].tolist(), strict=True) if groups else ():
            name = self._groups[group]
            if name in groups:
                found[name] = min(row, found.get(name, row))
        return found

    def lower(self, offsets: PackedOffsets) -> Iterator[Lower]:
        """Yield commits below the one before, which for the first of a key is that of `offsets`."""
        offset = self._offset
        back = np.flatnonzero((offset[1:] < offset[:-1]) & (self._of_key[1:] == self._of_key[:-1])) + 1
        for place in back.tolist():
            yield self._lower(place, int(offset[place - 1]))
        of_map = self._group * len(self._topics) + self._topic
        order = np.argsort(of_map, kind="stable")
        starts = np.flatnonzero(np.append(True, of_map[order][1:] != of_map[order][:-1]))
        first = offset[self._first]
        for keys in np.split(order, starts[1:]):
            topics = offsets.committed.get(self._groups[int(self._group[keys[0]])])
            partitions: Any = None if topics is None else topics.get(self._topics[int(self._topic[keys[0]])])
            if partitions is not None:
                stored = partitions.offsets_at(self._partition[keys])
                for place in np.flatnonzero(first[keys] < stored).tolist():
                    yield self._lower(int(self._first[keys[place]]), int(stored[place]))

    def _lower(self, place: int, before: int) -> Lower:
        key = int(self._of_key[place])
        return Lower(
            row=int(self._row[place]),
            group_id=self._groups[int(self._group[key])],
            topic=self._topics[int(self._topic[key])],
            partition=int(self._partition[key]),
            before=before,
            after=int(self._offset[place]),
        )


def _offsets(values: Slots) -> Ints:
    """Return the committed offsets, the first field of a value of each version."""
    windows = Buffer(values.data, values.end).window(10)
    raw = np.ascontiguousarray(windows[values.start]).view(np.uint8).reshape(len(values), 10)
    return np.ascontiguousarray(raw[:, 2:]).view(">i8").astype(np.int64).reshape(-1)


def _texts(names: list[bytes]) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in names]
