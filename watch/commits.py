"""Plain commits of a block, by columns: the last record of each key, and offsets that went back.

What a lower offset means is not part of this module.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from quorate.codecs.columnar.frame import Buffer, Ints
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.log.raw import RawBlock
from quorate.coordinator.bulk_block import FoundCommits, names_in
from quorate.coordinator.bulk_values import partitions_of
from quorate.coordinator.state import CoordinatorState

__all__ = ["BlockCommits", "Lower"]


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

    def lower(self, state: CoordinatorState) -> Iterator[Lower]:
        """Yield commits below the one before, which for the first of a key is that of the state."""
        offset = self._offset
        back = np.flatnonzero((offset[1:] < offset[:-1]) & (self._of_key[1:] == self._of_key[:-1])) + 1
        for place in back.tolist():
            yield self._lower(place, int(offset[place - 1]))
        for place, group, topic, partition, after in zip(
            self._first.tolist(),
            self._group.tolist(),
            self._topic.tolist(),
            self._partition.tolist(),
            offset[self._first].tolist(),
            strict=True,
        ):
            stored = state.offsets.get(self._groups[group], self._topics[topic], partition)
            if stored is not None and stored.value.offset > after:
                yield self._lower(place, stored.value.offset)

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
