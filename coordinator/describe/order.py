"""The order in which assignments are described: that of the maps and sets that Kafka's coordinator makes of a record."""

from collections.abc import Iterable, Sequence

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs import Uuid

__all__ = ["in_map_order"]


def in_map_order(topics: Iterable[tuple[Uuid, Sequence[int]]]) -> list[tuple[Uuid, list[int]]]:
    """Topic ids and partitions as a HashMap of HashSets iterates them."""
    made: JavaHashMap[Uuid, list[int]] = JavaHashMap()
    for topic_id, partitions in topics:
        kept: JavaHashSet[int] = JavaHashSet.of(partitions)
        made.put(topic_id, list(kept))
    return list(made.items())
