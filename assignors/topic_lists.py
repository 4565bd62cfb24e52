"""Topics as lists, for groups of which lists are faster than the arrays of `topology`.

It does not need NumPy.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise

from quorate.assignors.java_order import JavaHashMap, hash_map_capacity, java_hash
from quorate.assignors.java_order.few import is_crowded, may_be_crowded
from quorate.assignors.java_order.hash_map import TREE_FROM
from quorate.assignors.java_order.hashes import comparable
from quorate.codecs import Uuid


class TopicLists:
    """Topics with their partitions numbered consecutively, as in `Topology`.

    `ids`: topic ids. `first[t]`: the number of the first partition of topic `t`; one entry more
    than there are topics. `topic_of`, `partition_of`: topic and partition of each number.
    """

    __slots__ = ("_buckets", "_crowded", "_ids", "_packed", "_plain", "_spread", "first", "partition_of", "topic_of")

    def __init__(
        self, ids: Sequence[Uuid], first: Sequence[int], topic_of: Sequence[int], partition_of: Sequence[int]
    ) -> None:
        self._ids = ids
        self._spread: list[int] | None = None
        self._plain: bool | None = None
        self._packed: bytes | None = None
        self._buckets: dict[int, list[int]] = {}
        self._crowded: dict[int, bool] = {}
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

    @property
    def packed(self) -> bytes | None:
        """`first` and `spread` for functions in C, in 32 bits each; `None` if topics have gaps."""
        if self._packed is None and self.is_plain:
            self._packed = array("i", self.first).tobytes() + array("I", self.spread).tobytes()
        return self._packed

    def numbers(self, topic: int, partitions: Iterable[int]) -> list[int]:
        """Return the numbers of partitions of a topic; they must exist."""
        first = self.first[topic]
        if self.is_plain:
            return [first + partition for partition in partitions]
        ids = self.partition_of[first : self.first[topic + 1]]
        return [first + ids.index(partition) for partition in partitions]

    def by_topic(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """Return topics with their partitions, in order of first appearance."""
        if len(self._ids) == 1 and self.is_plain:
            return {0: [*numbers]} if numbers else {}
        topic_of, partition_of = self.topic_of, self.partition_of
        found: dict[int, list[int]] = {}
        for number in numbers:
            topic = topic_of[number]
            if topic in found:
                found[topic].append(partition_of[number])
            else:
                found[topic] = [partition_of[number]]
        return found

    def places_by_partition(self, topics: Sequence[int]) -> list[int]:
        """Return a sort key of each number: by partition, then by place among `topics`."""
        first, step, is_plain = self.first, len(topics), self.is_plain
        places = [0] * first[-1]
        for place, topic in enumerate(topics):
            start, end = first[topic], first[topic + 1]
            if is_plain:
                places[start:end] = range(place, place + (end - start) * step, step)
            else:
                places[start:end] = [place + partition * step for partition in self.partition_of[start:end]]
        return places

    def sorted_by_bucket(self, numbers: Iterable[int], buckets: int) -> list[int]:
        """Return partition numbers in the order of a HashMap whose keys are their topics.

        Topics in the same bucket, and partitions of the same topic, keep their order.
        """
        bucket_of = self._buckets.get(buckets)
        if bucket_of is None:
            bucket_of = self._buckets[buckets] = []
            for (first, end), spread in zip(pairwise(self.first), self.spread, strict=True):
                bucket_of += [spread & (buckets - 1)] * (end - first)
        return sorted(numbers, key=bucket_of.__getitem__)

    def may_be_crowded(self, first: int) -> bool:
        """Return whether a HashMap with any of these topics may have a tree.

        `first`: its buckets when it was empty.
        """
        crowded = self._crowded.get(first)
        if crowded is None:
            crowded = self._crowded[first] = may_be_crowded(self.spread, first)
        return crowded

    def is_crowded(self, topics: Sequence[int], capacity: int) -> bool:
        """Return whether a HashMap with `capacity` buckets may have a tree of these topics."""
        if len(topics) <= TREE_FROM or not self.may_be_crowded(capacity):
            return False
        spread = self.spread
        return is_crowded([spread[topic] for topic in topics], capacity)

    def ordered(self, topics: Sequence[int], capacity: int = 16, *, others: int = 0) -> Sequence[int]:
        """Return the keys of a HashMap with `capacity` buckets into which these topics were put.

        `others`: how many keys it has that are no topics here, and only make it grow.
        """
        if len(topics) < 2:
            return topics
        spread = self.spread
        if self.is_crowded(topics, capacity):
            made = self.map(capacity)
            for topic in topics:
                made.put(topic, None)
            return list(made)
        mask = hash_map_capacity(len(topics) + others, capacity) - 1
        buckets = [spread[topic] & mask for topic in topics]
        return [topics[place] for place in sorted(range(len(topics)), key=buckets.__getitem__)]

    def map(self, capacity: int) -> JavaHashMap[int, None]:
        """Create a map whose keys are topics."""
        ids = self._ids
        return JavaHashMap(
            capacity,
            hash_of=lambda topic: java_hash(ids[topic]),
            order_of=lambda topic: comparable(ids[topic]),
        )
