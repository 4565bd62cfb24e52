"""What the Describe APIs of the new kinds of groups have in common: each requested group, or that there is none of this kind; and the order of assignments."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs import Uuid
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.groups import CoordinatorGroup

__all__ = ["each_described", "in_map_order"]

G = TypeVar("G", bound=CoordinatorGroup)
D = TypeVar("D")


def each_described(
    shard: CoordinatorShard,
    group_ids: Iterable[str],
    kind: type[G],
    described: Callable[[CoordinatorShard, G], D],
    unknown: Callable[..., D],
) -> tuple[D, ...]:
    """Descriptions in the order asked for; a group of another kind is not found. `unknown`: the API's struct for a group."""
    asked = list(group_ids)
    # Kafka's service answers for empty ids before it asks a coordinator.
    found = [unknown(group_id="", error_code=ErrorCode.INVALID_GROUP_ID) for group_id in asked if not group_id]
    for group_id in filter(None, asked):
        group = shard.state.readable(group_id)
        if isinstance(group, kind):
            found.append(described(shard, group))
        else:
            message = f"there is no {kind.kind.lower()} group {group_id}"
            found.append(unknown(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message))
    return tuple(found)


def in_map_order(topics: Iterable[tuple[Uuid, Sequence[int]]]) -> list[tuple[Uuid, list[int]]]:
    """Topic ids and partitions as a HashMap of HashSets iterates them."""
    made: JavaHashMap[Uuid, list[int]] = JavaHashMap()
    for topic_id, partitions in topics:
        kept: JavaHashSet[int] = JavaHashSet.of(partitions)
        made.put(topic_id, list(kept))
    return list(made.items())
