"""Topics, their partitions, and the racks in which each partition has replicas.

Rack rules (KIP-881): a partition is in the racks of all its replicas, including those that are
offline or out of sync. A broker that is unknown or has no rack contributes none.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from quorate.assignors.topic_lists import TopicLists
from quorate.codecs import Uuid
from quorate.codecs.lazy_dataclass import dataclass

K = TypeVar("K")

Ints = npt.NDArray[np.int64]
"""An array of numbers: of members, topics or partitions."""

Racks = tuple[str | None, ...]
"""Racks of one partition's replicas, the leader's first; `None` where unknown."""


BLOCK = 10_000
"""So many numbers are less than the 128 kB from which malloc maps memory."""


def runs(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers `starts[i]` to `starts[i] + counts[i] - 1`, concatenated for all `i`."""
    numbers: Ints = np.repeat(starts - np.cumsum(counts) + counts, counts)
    # In blocks: an array of a size that malloc maps costs more in page faults than in additions.
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        block += np.arange(start, start + len(block))
    return numbers


def concatenated(parts: Sequence[Ints]) -> Ints:
    """Return the parts as one array, which is a part itself if the others are empty."""
    full = [part for part in parts if len(part)]
    return full[0] if len(full) == 1 else np.concatenate([np.empty(0, np.int64), *full])


def stable_order(numbers: npt.NDArray[np.signedinteger], count: int) -> Ints:
    """Return the order that sorts numbers from 0 to `count - 1`; equal numbers keep their order."""
    # NumPy's stable sort takes linear time for 16-bit numbers.
    return np.argsort(numbers.astype(np.uint16) if count <= 1 << 16 else numbers, kind="stable")


def sorted_by(keys: npt.NDArray[np.signedinteger], numbers: Ints, count: int) -> Ints:
    """Return the numbers in the order of their keys, from 0 to `count - 1`; see `stable_order`."""
    order = stable_order(keys, count)
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        block[:] = numbers[block]
    return order


def grouped(partitions: Iterable[tuple[K, int]]) -> dict[K, list[int]]:
    """Group partitions by topic; topics and partitions keep the order of first appearance."""
    found: dict[K, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


_partition = tuple.__new__  # half the time of calling the class


class TopicPartition(NamedTuple):
    """A partition of a topic.

    Equal to kafka-python's and aiokafka's `TopicPartition` of the same topic and number.
    """

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic.

    - `partitions`: the number of its partitions.
    - `racks`: for each partition the racks of its replicas; empty if unknown.
    - `id`: required by server-side assignors, whose order follows topic ids.
    - `numbers`: the ids of the partitions, ascending, if they are not 0, 1, 2 … (metadata can lack
      some).

    Raises `ValueError` if `racks` or `numbers` has another length than `partitions`.
    """

    name: str
    partitions: int
    racks: Sequence[Racks] = ()
    id: Uuid | None = None
    numbers: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.racks and len(self.racks) != self.partitions:
            raise ValueError(f"topic {self.name}: {self.partitions} partitions, but racks of {len(self.racks)}")
        if self.numbers is not None and len(self.numbers) != self.partitions:
            raise ValueError(f"topic {self.name}: {self.partitions} partitions, but {len(self.numbers)} numbers")


class Topology:
    """Topics in a fixed order, with all their partitions numbered consecutively.

    Topic `t` has the numbers `first[t]` to `first[t + 1] - 1`, ascending by partition. Immutable;
    derived values are computed once. Raises `ValueError` for duplicate topic names.
    """

    def __init__(self, topics: Iterable[Topic]) -> None:
        self.topics: tuple[Topic, ...] = tuple(topics)
        self.index: dict[str, int] = {topic.name: number for number, topic in enumerate(self.topics)}
        if len(self.index) != len(self.topics):
            raise ValueError("duplicate topic name")
        self.first: Ints = np.zeros(len(self.topics) + 1, np.int64)
        np.cumsum([topic.partitions for topic in self.topics], out=self.first[1:])
        self.starts: list[int] = self.first.tolist()  # the same as a list, which is read in half the time
        self.partition_count = self.starts[-1]

    @classmethod
    def of(
        cls, topics: Mapping[str, int | Sequence[Sequence[str | None]]], *, ids: Mapping[str, Uuid] | None = None
    ) -> "Topology":
        """Create a topology from topic names.

        `topics`: topic → number of partitions, or topic → for each partition the racks of its
        replicas, the leader's first.
        """
        ids = ids or {}
        return cls(
            Topic(name=name, partitions=given, id=ids.get(name))
            if isinstance(given, int)
            else Topic(name=name, partitions=len(given), racks=tuple(map(tuple, given)), id=ids.get(name))
            for name, given in topics.items()
        )

    @classmethod
    def from_replicas(
        cls,
        topics: Mapping[str, Sequence[Sequence[int]]],
        broker_racks: Mapping[int, str | None],
        *,
        ids: Mapping[str, Uuid] | None = None,
    ) -> "Topology":
        """Create a topology from the broker ids of each partition's replicas, the leader's first.

        `broker_racks`: broker id → rack.
        """
        return cls.of(
            {
                name: [[broker_racks.get(broker) for broker in replicas] for replicas in partitions]
                for name, partitions in topics.items()
            },
            ids=ids,
        )

    def __len__(self) -> int:
        return len(self.topics)

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def __repr__(self) -> str:
        return f"Topology({len(self.topics)} topics, {int(self.first[-1])} partitions)"

    @cached_property
    def sizes(self) -> Ints:
        """The number of partitions of each topic."""
        return np.diff(self.first)

    @cached_property
    def topic_of(self) -> Ints:
        """The topic of each partition number."""
        return np.repeat(np.arange(len(self.topics)), self.sizes)

    def partitions_of(self, topics: Ints) -> Ints:
        """Return the partition numbers of topics, topic after topic, ascending in each."""
        return runs(self.first[topics], self.sizes[topics])

    @cached_property
    def partition_of(self) -> Ints:
        """The partition id within its topic, for each partition number."""
        partitions: Ints = np.arange(self.first[-1]) - self.first[self.topic_of]
        for index, topic in enumerate(self.topics):
            if topic.numbers is not None:
                partitions[self.first[index] : self.first[index + 1]] = topic.numbers
        return partitions

    @cached_property
    def has_short_ranges(self) -> bool:
        """Whether the partitions of each topic are 0, 1, 2 … up to 65,535 at most."""
        return not self._position and int(self.sizes.max(initial=0)) <= 1 << 16

    @cached_property
    def is_plain(self) -> bool:
        """Whether the partitions of each topic are 0, 1, 2 …, and its name is no subclass of `str`.

        The accelerator assigns only such topics.
        """
        return not self._position and all(type(topic.name) is str for topic in self.topics)

    @cached_property
    def lists(self) -> TopicLists:
        """The same as lists, for small groups."""
        ids = [topic.id or Uuid.ZERO for topic in self.topics]
        return TopicLists(ids, self.first.tolist(), self.topic_of.tolist(), self.partition_of.tolist())

    @cached_property
    def ranges(self) -> dict[str, range]:
        """The numbers of each topic's partitions, for topics without gaps between them."""
        bounds = zip(self.topics, pairwise(self.lists.first), strict=True)
        return {topic.name: range(first, end) for topic, (first, end) in bounds if topic.numbers is None}

    @cached_property
    def _position(self) -> dict[int, dict[int, int]]:
        """For topics whose partitions are not 0, 1, 2 …: partition id → number."""
        return {
            index: {partition: int(self.first[index]) + place for place, partition in enumerate(topic.numbers)}
            for index, topic in enumerate(self.topics)
            if topic.numbers is not None
        }

    def number(self, topic: str, partition: int) -> int:
        """Return the number of a partition; -1 if the topic or the partition does not exist."""
        index = self.index.get(topic)
        if index is None:
            return -1
        if index in self._position:
            return self._position[index].get(partition, -1)
        return self.starts[index] + partition if 0 <= partition < self.topics[index].partitions else -1

    @cached_property
    def index_by_id(self) -> dict[Uuid, int]:
        """The index of each topic that has an id."""
        return {topic.id: index for index, topic in enumerate(self.topics) if topic.id is not None}

    @cached_property
    def id_halves(self) -> tuple[Ints, Ints]:
        """The upper and lower half of each topic id, as signed numbers; zeros without an id."""
        halves = np.frombuffer(b"".join(topic.id or bytes(16) for topic in self.topics), ">i8").astype(np.int64)
        return halves[0::2].copy(), halves[1::2].copy()

    @cached_property
    def without_id(self) -> Ints:
        """The topics without an id."""
        return np.flatnonzero([topic.id is None for topic in self.topics])

    def topic_partitions(self, numbers: Ints) -> tuple[TopicPartition, ...]:
        """Convert partition numbers to topics and partitions."""
        topics = self.topics
        return tuple(
            TopicPartition(topics[topic].name, partition)
            for topic, partition in zip(
                self.topic_of[numbers].tolist(), self.partition_of[numbers].tolist(), strict=True
            )
        )

    def few_partitions(self, numbers: Iterable[int]) -> tuple[TopicPartition, ...]:
        """Return the same for a list of numbers; faster for few of them."""
        topics, topic_of, partition_of = self.topics, self.lists.topic_of, self.lists.partition_of
        return tuple(
            [_partition(TopicPartition, (topics[topic_of[number]].name, partition_of[number])) for number in numbers]
        )

    # Racks. There are few different sets of racks, however many partitions there are, so algorithms
    # work on the number of the set.

    @cached_property
    def _replica_racks(self) -> tuple[list[Racks], Ints]:
        seen: dict[Racks, int] = {(): 0}
        set_of: Ints = np.zeros(self.first[-1], np.int64)
        for index, topic in enumerate(self.topics):
            if topic.racks:
                start, end = self.first[index], self.first[index + 1]
                set_of[start:end] = [seen.setdefault(racks, len(seen)) for racks in topic.racks]
        return list(seen), set_of

    @property
    def replica_racks(self) -> list[Racks]:
        """The distinct lists of replica racks, the leader's rack first; the first list is empty."""
        return self._replica_racks[0]

    @property
    def replica_racks_of(self) -> Ints:
        """For each partition number its index in `replica_racks`."""
        return self._replica_racks[1]

    @cached_property
    def rack_sets(self) -> list[frozenset[str]]:
        """`replica_racks` as sets, without unknown racks: the racks in which reading is local."""
        return [frozenset(rack for rack in racks if rack is not None) for racks in self.replica_racks]
