"""What the Describe APIs have in common: each requested group, or that there is none of this kind; an error with each; and the order of assignments."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs import Uuid
from quorate.codecs.message import Message
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import RequestContext
from quorate.coordinator.shard import CoordinatorShard, Failure
from quorate.coordinator.state.groups import CoordinatorGroup

__all__ = ["each_described", "each_failed", "in_map_order"]

G = TypeVar("G", bound=CoordinatorGroup)
D = TypeVar("D")


def each_described(
    shard: CoordinatorShard,
    group_ids: Iterable[str],
    kind: type[G],
    described: Callable[[CoordinatorShard, G], D],
    unknown: Callable[..., D],
) -> tuple[D, ...]:
    """Descriptions in the order asked for; a group of another kind is not found.

    `unknown`: the API's struct for a group.
    """
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


def each_failed(response: Callable[..., Message], described: Callable[..., Any]) -> Failure:
    """The response to a request of which all fails, such as where another broker coordinates the groups: the error with each group."""

    def failed(request: Any, context: RequestContext, code: ErrorCode, message: str) -> Message:
        each = (
            described(group_id=group_id, error_code=code, error_message=message or None)
            for group_id in request.group_ids
        )
        return response(groups=tuple(each))

    return failed


def in_map_order(topics: Iterable[tuple[Uuid, Sequence[int]]]) -> list[tuple[Uuid, list[int]]]:
    """Topic ids and partitions as a HashMap of HashSets iterates them."""
    made: JavaHashMap[Uuid, list[int]] = JavaHashMap()
    for topic_id, partitions in topics:
        kept: JavaHashSet[int] = JavaHashSet.of(partitions)
        made.put(topic_id, list(kept))
    return list(made.items())
