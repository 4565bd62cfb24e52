"""Topics as lists, for groups of which lists are faster than the arrays of `topology`.

It does not need NumPy.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from quorate.assignors.java_order import JavaHashMap, hash_map_capacity, java_hash
from quorate.assignors.java_order.few import is_crowded
from quorate.assignors.java_order.hash_map import TREE_FROM
from quorate.assignors.java_order.hashes import comparable
from quorate.codecs import Uuid


class TopicLists:
    """Topics with their partitions numbered consecutively, as in `Topology`.

    `ids`: topic ids. `first[t]`: the number of the first partition of topic `t`; one entry more
    than there are topics. `topic_of`, `partition_of`: topic and partition of each number.
    """

    __slots__ = ("_ids", "_plain", "_spread", "first", "partition_of", "topic_of")

    def __init__(
        self, ids: Sequence[Uuid], first: Sequence[int], topic_of: Sequence[int], partition_of: Sequence[int]
    ) -> None:
        self._ids = ids
        self._spread: list[int] | None = None
        self._plain: bool | None = None
        self.first = first
        self.topic_of = topic_of
        self.partition_of = partition_of

    @property
    def spread(self) -> list[int]:
        """The hash of each topic's id, as spread by HashMap."""
        if self._spread is None:
            hashes = map(java_hash, self._ids)
            self._spread = [hashed ^ hashed >> 16 for hashed in hashes]
        return self._spread

    @property
    def is_plain(self) -> bool:
        """Whether each topic has the partitions 0, 1, 2 … without gaps."""
        if self._plain is None:
            bounds = pairwise(self.first)
            self._plain = all(first == end or self.partition_of[end - 1] == end - 1 - first for first, end in bounds)
        return self._plain

    def numbers(self, target: Mapping[int, Iterable[int]]) -> list[int]:
        """Return the numbers of partitions by topic; they must exist."""
        first = self.first
        if self.is_plain:
            return [first[topic] + partition for topic, partitions in target.items() for partition in partitions]
        found: list[int] = []
        for topic, partitions in target.items():
            ids = self.partition_of[first[topic] : first[topic + 1]]
            found += [first[topic] + ids.index(partition) for partition in partitions]
        return found

    def is_crowded(self, topics: Sequence[int], capacity: int) -> bool:
        """Return whether a HashMap with `capacity` buckets may have a tree of these topics."""
        return len(topics) > TREE_FROM and is_crowded([self.spread[topic] for topic in topics], capacity)

    def ordered(self, topics: Sequence[int], capacity: int = 16) -> Sequence[int]:
        """Return the keys of a HashMap with `capacity` buckets into which these topics were put."""
        if len(topics) < 2:
            return topics
        spread = self.spread
        if self.is_crowded(topics, capacity):
            made = self.map(capacity)
            for topic in topics:
                made.put(topic, None)
            return list(made)
        mask = hash_map_capacity(len(topics), capacity) - 1
        return sorted(topics, key=lambda topic: spread[topic] & mask)

    def map(self, capacity: int) -> JavaHashMap[int, None]:
        """Create a map whose keys are topics."""
        ids = self._ids
        return JavaHashMap(
            capacity,
            hash_of=lambda topic: java_hash(ids[topic]),
            order_of=lambda topic: comparable(ids[topic]),
        )
