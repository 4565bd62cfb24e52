"""Committed offsets in columns, in a tenth of the memory of `Offsets`.

An observer needs no metadata of commits, and no order of Kafka's maps: neither is kept. A partition
takes 36 bytes, and its offsets are replaced, compared and copied by columns.
"""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np
import numpy.typing as npt

from quorate.assignors.java_order import TimelineMap
from quorate.codecs import Uuid
from quorate.codecs.columnar.frame import Ints
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.messages.offsets import OffsetCommitValue
from quorate.coordinator.bulk_commits import Merged
from quorate.coordinator.bulk_values import commit_columns
from quorate.coordinator.state import CoordinatorState
from quorate.coordinator.state.offsets import CommittedOffset, Offsets

Rows = npt.NDArray[np.void]

_ROW = np.dtype(
    [("offset", np.int64), ("ms", np.int64), ("record", np.int64), ("leader_epoch", np.int32), ("id", np.int32)]
)


class PackedPartitions(MutableMapping[int, CommittedOffset]):
    """The committed offsets of a group in one topic, by partition. `ids`: topic ids by number.

    `numbers`: the partitions, ascending; `rows` belong to them.
    """

    __slots__ = ("_ids", "numbers", "rows")

    def __init__(self, ids: "TopicIds") -> None:
        self._ids = ids
        self.numbers: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self.rows: Rows = np.empty(0, _ROW)

    def _find(self, number: int) -> int:
        """Return the row of a partition. Raises `KeyError`."""
        row = int(self.numbers.searchsorted(number))
        if row == len(self.numbers) or self.numbers[row] != number:
            raise KeyError(number)
        return row

    def __getitem__(self, number: int) -> CommittedOffset:
        offset, ms, record, leader_epoch, topic_id = self.rows[self._find(number)].item()
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata="",
            commit_timestamp=ms,
            topic_id=self._ids.of[topic_id],
        )
        return CommittedOffset(value, record)

    def __setitem__(self, number: int, stored: CommittedOffset) -> None:
        value = stored.value
        topic_id = self._ids.number(stored.topic_id)
        self.put(number, (value.offset, value.commit_timestamp, stored.record_offset, stored.leader_epoch, topic_id))

    def put(self, number: int, row: tuple[int, ...]) -> None:
        """Set one row."""
        at = int(self.numbers.searchsorted(number))
        if at == len(self.numbers) or self.numbers[at] != number:
            self.numbers = np.insert(self.numbers, at, number)
            self.rows = np.insert(self.rows, at, np.zeros((), _ROW))
        self.rows[at] = row

    def put_rows(self, numbers: Ints, rows: Rows) -> None:
        """Set the rows of several partitions, each of which occurs once."""
        at = self.numbers.searchsorted(numbers)
        known = self._known(numbers, at)
        self.rows[at[known]] = rows[known]
        if not known.all():
            new = ~known
            all_numbers = np.concatenate([self.numbers, numbers[new].astype(np.int32)])
            order = np.argsort(all_numbers, kind="stable")
            self.numbers, self.rows = all_numbers[order], np.concatenate([self.rows, rows[new]])[order]

    def _known(self, numbers: Ints, at: Any) -> npt.NDArray[np.bool_]:
        if not len(self.numbers):
            return np.zeros(len(numbers), np.bool_)
        found: npt.NDArray[np.bool_] = self.numbers[np.minimum(at, len(self.numbers) - 1)] == numbers
        return found

    def offsets_at(self, numbers: Ints) -> Ints:
        """Return the committed offsets of partitions, -1 where there is none."""
        at = self.numbers.searchsorted(numbers)
        known = self._known(numbers, at)
        found = np.full(len(numbers), -1, np.int64)
        found[known] = self.rows["offset"][at[known]]
        return found

    def columns(self) -> tuple[list[int], list[int], list[int]]:
        """Return partitions, offsets and times of commits."""
        return self.numbers.tolist(), self.rows["offset"].tolist(), self.rows["ms"].tolist()

    def __delitem__(self, number: int) -> None:
        row = self._find(number)
        self.numbers, self.rows = np.delete(self.numbers, row), np.delete(self.rows, row)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __len__(self) -> int:
        return len(self.numbers)


class TopicIds:
    """Topic ids, each of which has a number. `of`: the ids by number."""

    def __init__(self) -> None:
        self.of: list[Uuid] = []
        self._numbers: dict[Uuid, int] = {}

    def number(self, topic_id: Uuid) -> int:
        """Return the number of an id, a new one for a new id."""
        found = self._numbers.get(topic_id)
        if found is None:
            found = self._numbers[topic_id] = len(self.of)
            self.of.append(topic_id)
        return found


class PackedOffsets(Offsets):
    """`Offsets` whose `committed` has `PackedPartitions`. Open transactions are as usual."""

    __slots__ = ("ids",)

    def __init__(self) -> None:
        super().__init__()
        self.ids = TopicIds()

    def partitions(self, group: str, topic: str) -> Any:
        """Return the map of a topic's partitions; a new one must get an entry."""
        topics: Any = self.committed.get(group)
        if topics is None:
            topics = self.committed[group] = TimelineMap()
        found = topics.get(topic)
        if found is None:
            found = topics[topic] = PackedPartitions(self.ids)
        return found

    def topics(self, group: str) -> Iterator[tuple[str, PackedPartitions]]:
        """Yield the topics of a group with their partitions."""
        yield from self.committed.get(group, {}).items()  # type: ignore[misc]  # see `partitions`


class PackedCommits:
    """Puts commits of a load into a state with `PackedOffsets`; implements `CommitWriter`."""

    def put_all(self, state: CoordinatorState, commits: Merged) -> Iterator[None]:
        """See `CommitWriter`."""
        rows = _rows(state.offsets, commits.values, commits.offset)
        partition = np.array(commits.partition, np.int64)
        order = np.argsort(commits.place, kind="stable")
        place = commits.place[order]
        starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
        for some in np.split(order, starts[1:]):
            group = commits.groups[int(commits.group[some[0]])]
            state.need_group(group)
            topic = commits.topics[int(commits.topic[some[0]])]
            state.offsets.partitions(group, topic).put_rows(partition[some], rows[some])  # type: ignore[attr-defined]
        yield

    def commits_into(
        self, state: CoordinatorState, commits: Merged
    ) -> tuple[Callable[[int], None], Callable[[int], None]]:
        """See `CommitWriter`."""
        rows = _rows(state.offsets, commits.values, commits.offset).tolist()
        group, topic, partition = commits.group.tolist(), commits.topic.tolist(), commits.partition

        def put(row: int) -> None:
            name = commits.groups[group[row]]
            state.need_group(name)
            partitions: Any = state.offsets.partitions(name, commits.topics[topic[row]])
            partitions.put(partition[row], rows[row])

        return put, lambda _: None


def _rows(offsets: Offsets, values: Slots, records: Ints) -> Rows:
    """Return commits as rows. `records`: their offsets in the log."""
    assert isinstance(offsets, PackedOffsets)
    found = np.empty(len(values), _ROW)
    found["record"] = records
    for which, columns in commit_columns(values):
        found["offset"][which] = columns.offset
        found["ms"][which] = columns.commit_timestamp
        found["leader_epoch"][which] = columns.leader_epoch
        found["id"][which] = np.array([offsets.ids.number(one) for one in columns.topic_ids], np.int32)[columns.topic]
    return found
