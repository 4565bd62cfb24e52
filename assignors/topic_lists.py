"""Topics as lists, for groups of which lists are faster than the arrays of `topology`.

It does not need NumPy.
"""

from collections.abc import Sequence

from quorate.assignors.java_order import JavaHashMap, java_hash
from quorate.assignors.java_order.few import few_in_order
from quorate.assignors.java_order.hashes import comparable
from quorate.codecs import Uuid

__all__ = ["TopicLists"]


class TopicLists:
    """Topics with their partitions numbered consecutively, as in `Topology`.

    `ids`: topic ids. `first[t]`: the number of the first partition of topic `t`; one entry more
    than there are topics. `topic_of`, `partition_of`: topic and partition of each number.
    """

    __slots__ = ("_ids", "_spread", "first", "partition_of", "topic_of")

    def __init__(
        self, ids: Sequence[Uuid], first: Sequence[int], topic_of: Sequence[int], partition_of: Sequence[int]
    ) -> None:
        self._ids = ids
        self._spread: list[int] | None = None
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

    def numbers(self, topic: int, partitions: Sequence[int]) -> list[int]:
        """Return the numbers of partitions, which must exist."""
        first, last = self.first[topic], self.first[topic + 1] - 1
        if self.partition_of[last] == last - first:  # partitions 0, 1, 2 …
            return [first + partition for partition in partitions]
        ids = self.partition_of[first : last + 1]
        return [first + ids.index(partition) for partition in partitions]

    def ordered(self, topics: Sequence[int]) -> Sequence[int]:
        """Return the keys of a `new HashMap()` into which these topics were put."""
        if len(topics) < 2:
            return topics
        number_of = {self._ids[topic]: topic for topic in topics}
        return [number_of[topic_id] for topic_id in few_in_order(list(number_of))]

    def map(self, capacity: int) -> JavaHashMap[int, None]:
        """Create a map whose keys are topics."""
        ids = self._ids
        return JavaHashMap(
            capacity,
            hash_of=lambda topic: java_hash(ids[topic]),
            order_of=lambda topic: comparable(ids[topic]),
        )
