"""Moves of partitions during balancing, so that a move back returns the partition that came."""

from quorate.assignors import java_order
from quorate.assignors.topology import Ints


class Movements:
    """Moves of the partitions of one topic, from their first to their current owner.

    `partitions`: all partitions of the topic; methods take indexes into it.

    If a partition is to move between two members, and another partition of the topic moved in the
    opposite direction before, that one moves back instead: fewer partitions move in total. If there
    are several, Kafka takes the first of a HashSet's iteration.
    """

    def __init__(self, topic: str, partitions: Ints) -> None:
        self._hashes: list[int] = java_order.partition_hashes(java_order.string_hash(topic), partitions).tolist()
        self._pairs: dict[tuple[int, int], _HashSet] = {}
        self._moved: dict[int, tuple[int, int]] = {}

    def instead(self, partition: int, owner: int, to: int) -> int:
        """Return the partition to move in place of `partition`, from `owner` to `to`."""
        pair = self._moved.get(partition)
        came = self._pairs.get((to, owner if pair is None else pair[0]))
        return partition if came is None else came.first(self._hashes)

    def record(self, partition: int, owner: int, to: int) -> None:
        """Record the move of `partition` from `owner` to `to`."""
        pair = self._moved.pop(partition, None)
        origin = owner
        if pair is not None:
            origin = pair[0]
            came = self._pairs[pair]
            came.discard(partition)
            if not came.size:
                del self._pairs[pair]
        if origin != to:
            pair = (origin, to)
            self._moved[partition] = pair
            if pair not in self._pairs:
                self._pairs[pair] = _HashSet()
            self._pairs[pair].add(partition)


class _HashSet:
    """A HashSet of partitions that records changes and applies them when its order is needed."""

    __slots__ = ("_java", "_steps", "size")

    def __init__(self) -> None:
        self.size = 0
        self._steps: list[int] = []  # a partition added, or the complement of one removed
        self._java: java_order.JavaHashSet[int] | None = None

    def add(self, partition: int) -> None:
        self.size += 1
        self._steps.append(partition)

    def discard(self, partition: int) -> None:
        self.size -= 1
        self._steps.append(~partition)

    def first(self, hashes: list[int]) -> int:
        if self._java is None:
            self._java = java_order.JavaHashSet(hash_of=hashes.__getitem__)
        for step in self._steps:
            if step >= 0:
                self._java.add(step)
            else:
                self._java.discard(~step)
        self._steps.clear()
        return next(iter(self._java))
