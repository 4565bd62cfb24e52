"""Requests of the classic protocol for groups of other types (KIP-848, "Migration").

Requests for a consumer group with members go to the shard's `on_consumer_groups` handlers. For
other types, JoinGroup fails with INCONSISTENT_GROUP_PROTOCOL, and other requests with
UNKNOWN_MEMBER_ID. A classic group can replace an empty consumer or streams group.
"""

from collections.abc import Callable
from typing import Any

from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import JoinGroupRequest
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.offsets.groups import deleted_group
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state import ConsumerGroup, CoordinatorGroup, StreamsGroup


def handle_on_consumer_group(
    shard: CoordinatorShard, group: CoordinatorGroup, request: Message, context: RequestContext
) -> Result[Any]:
    """Handle a classic protocol request for a group that is not classic. Raises `ApiError`."""
    if isinstance(group, ConsumerGroup):
        return shard.on_consumer_groups[type(request)](shard, group, request, context)
    refused = isinstance(request, JoinGroupRequest)
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if refused else ErrorCode.UNKNOWN_MEMBER_ID
    raise ApiError(code, f"group {group.group_id} is a {group.kind.lower()} group")


def is_replaceable(group: CoordinatorGroup) -> bool:
    """Return whether a classic group may replace this group: an empty consumer or streams group."""
    return isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty


def replace_empty_group(shard: CoordinatorShard, group_id: str) -> tuple[list[CoordinatorRecord], Callable[[], object]]:
    """Remove an empty consumer or streams group.

    Returns its tombstones, and a function that restores it if they cannot be written.
    """
    group = shard.state.groups.get(group_id)
    if group is None or not is_replaceable(group):
        return [], lambda: None
    shard.state.remove_unwritten(group_id)
    return deleted_group(shard, group), lambda: shard.state.restore(group)
