"""Common parts of the Describe APIs: groups of a type, errors per group, order of assignments."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs import Uuid
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.shard import CoordinatorShard, why_not
from quorate.coordinator.state.groups import CoordinatorGroup

G = TypeVar("G", bound=CoordinatorGroup)
D = TypeVar("D")


def describe_each(
    shard: CoordinatorShard,
    group_ids: Iterable[str],
    kind: type[G],
    described: Callable[[CoordinatorShard, G], D],
    unknown: Callable[..., D],
) -> tuple[D, ...]:
    """Describe groups in the requested order; groups of other types are unknown.

    `unknown`: the API's struct of a group.
    """
    requested = list(group_ids)
    # Kafka's service responds for empty ids before it calls a coordinator.
    found = [unknown(group_id="", error_code=ErrorCode.INVALID_GROUP_ID) for group_id in requested if not group_id]
    for group_id in filter(None, requested):
        group = shard.state.readable(group_id)
        if isinstance(group, kind):
            found.append(described(shard, group))
        else:
            message = why_not(kind, group_id, group)
            found.append(unknown(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message))
    return tuple(found)


def in_map_order(topics: Iterable[tuple[Uuid, Sequence[int]]]) -> list[tuple[Uuid, list[int]]]:
    """Return topic ids and partitions in the order of a HashMap of HashSets."""
    made: JavaHashMap[Uuid, list[int]] = JavaHashMap()
    for topic_id, partitions in topics:
        kept: JavaHashSet[int] = JavaHashSet.of(partitions)
        made.put(topic_id, list(kept))
    return list(made.items())
