"""Where the classic protocol meets groups of another kind (KIP-848, "Migration").

A request about a consumer group that has members is handled by the shard's handler for its type
(`on_consumer_groups`). For groups of other kinds, JoinGroup is refused, and for the other requests
nobody is a member. An empty consumer group gives way to a classic one.
"""

from collections.abc import Callable
from typing import Any

from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import JoinGroupRequest
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.offsets.groups import group_tombstones
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state import ConsumerGroup, CoordinatorGroup, StreamsGroup

__all__ = ["gives_way", "handle_on_consumer_group", "replace_empty_group"]


def handle_on_consumer_group(
    shard: CoordinatorShard, group: CoordinatorGroup, request: Message, context: RequestContext
) -> Result[Any]:
    """Answer a request of the classic protocol about a group that is not classic.

    Raises `ApiError`.
    """
    if isinstance(group, ConsumerGroup):
        return shard.on_consumer_groups[type(request)](shard, group, request, context)
    refused = isinstance(request, JoinGroupRequest)
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if refused else ErrorCode.UNKNOWN_MEMBER_ID
    raise ApiError(code, f"group {group.group_id} is a {group.kind.lower()} group")


def gives_way(group: CoordinatorGroup) -> bool:
    """Whether a classic group may take this group's place: empty consumer and streams groups are replaced, share groups never."""
    return isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty


def replace_empty_group(shard: CoordinatorShard, group_id: str) -> tuple[list[CoordinatorRecord], Callable[[], object]]:
    """Remove an empty consumer or streams group at once: the records that delete it, and what brings it back if they cannot be written."""
    group = shard.state.groups.get(group_id)
    if group is None or not gives_way(group):
        return [], lambda: None
    shard.state.remove_unwritten(group_id)
    return group_tombstones(group), lambda: shard.state.restore(group)
