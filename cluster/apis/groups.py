"""The APIs of group coordination, which `quorate.coordinator` answers: here each only finds the coordinator of its group.

JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups (all
versions), those of KIP-848 (ConsumerGroupHeartbeat, ConsumerGroupDescribe), of share groups
(KIP-932: heartbeat and description) and of streams groups (description).
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context
from quorate.cluster.authorizer import GROUP_OPERATIONS, GROUP_OPERATIONS_BEFORE_4_0
from quorate.cluster.turns import Work
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    SyncGroupRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__ = [
    "about_groups",
    "about_one_group",
    "heartbeat_with_topics",
    "lacks_feature",
    "lacks_protocol",
    "list_groups",
    "share_member_id_is_too_long",
]


_SYNC_SAYS_PROTOCOL = 5
_LONGEST_SHARE_MEMBER_ID = 36
"""Characters, those of a UUID. A broker looks at this before its coordinator sees the request
(KIP-932).
"""
_MOST_NAMES = 100_000
"""A subscription of more topics is looked at in turns before its coordinator is. Repeats among
fewer are left: the order of Kafka's sets depends on them.
"""
_NEED_NAMES = (ConsumerGroupDescribeRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest)
"""Where a group without a name is an error, and not just one that is not there."""
_FEATURES: dict[type[Message], str] = {
    ConsumerGroupHeartbeatRequest: "group.version",
    ConsumerGroupDescribeRequest: "group.version",
    ShareGroupHeartbeatRequest: "share.version",
    ShareGroupDescribeRequest: "share.version",
    StreamsGroupDescribeRequest: "streams.version",
}
"""What is refused with UNSUPPORTED_VERSION until the cluster has agreed on a feature, as in 3.9, or
after an upgrade from there.
"""


def about_one_group(broker: "Broker", request: Any, context: Context) -> Message | Pending[Any]:
    """Hand a request about one group to its coordinator."""
    if lacks_feature(broker, request):
        return broker.cluster.groups.failed(request, context, ErrorCode.UNSUPPORTED_VERSION)
    if isinstance(request, SyncGroupRequest) and lacks_protocol(request, context.api_version):
        return broker.cluster.groups.failed(request, context, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if share_member_id_is_too_long(request):
        return broker.cluster.groups.failed(request, context, ErrorCode.INVALID_REQUEST)
    return broker.cluster.groups.request(broker.id, request.group_id, request, context)


def heartbeat_with_topics(broker: "Broker", request: Any, context: Context) -> "Message | Pending[Any] | Work[Any]":
    """Hand a heartbeat, which may name many topics, to its group's coordinator."""
    names = request.subscribed_topic_names
    if names is None or len(names) <= _MOST_NAMES:
        return about_one_group(broker, request, context)
    return _bounded(broker, request, context)


def _bounded(broker: "Broker", request: Any, context: Context) -> Work[Any]:
    names = yield from broker.cluster.groups.bounded(request.group_id, request.subscribed_topic_names)
    return about_one_group(broker, replace(request, subscribed_topic_names=names), context)


def about_groups(broker: "Broker", request: Any, context: Context) -> Work[Message]:
    """Hand a request about several groups to their coordinators."""
    if lacks_feature(broker, request):
        return broker.cluster.groups.failed(request, context, ErrorCode.UNSUPPORTED_VERSION)
    if type(request) in _NEED_NAMES and "" in request.group_ids:
        named = replace(request, group_ids=tuple(one for one in request.group_ids if one))
        rest: Any = yield from about_groups(broker, named, context)
        without = replace(request, group_ids=tuple(one for one in request.group_ids if not one))
        nameless = broker.cluster.groups.failed(without, context, ErrorCode.INVALID_GROUP_ID)
        found: Message = replace(rest, groups=nameless.groups + rest.groups)  # type: ignore[attr-defined]
        return found
    answer = yield from broker.cluster.groups.request_many(broker.id, request, context)
    if not getattr(request, "include_authorized_operations", False):
        return answer
    has_configs = broker.cluster.broker_configs.behaviour.group_operations
    return _with_operations(answer, GROUP_OPERATIONS if has_configs else GROUP_OPERATIONS_BEFORE_4_0)


def _with_operations(response: Any, operations: int) -> Message:
    """What one may do with each group: everything, as far as it could be described."""
    described: Message = replace(
        response,
        groups=tuple(
            one if one.error_code else replace(one, authorized_operations=operations) for one in response.groups
        ),
    )
    return described


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Whether a request does not say what it has to: the group's protocol, since version 5."""
    return version >= _SYNC_SAYS_PROTOCOL and None in (request.protocol_type, request.protocol_name)


def share_member_id_is_too_long(request: Message) -> bool:
    """Whether a broker refuses a heartbeat of a share group before its coordinator sees it."""
    return isinstance(request, ShareGroupHeartbeatRequest) and len(request.member_id) > _LONGEST_SHARE_MEMBER_ID


def lacks_feature(broker: "Broker", request: Message) -> bool:
    """Whether the cluster has not agreed on the feature that a request is part of."""
    feature = _FEATURES.get(type(request))
    return feature is not None and feature not in broker.cluster.features


def list_groups(broker: "Broker", request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """The groups that this broker coordinates."""
    return broker.cluster.groups.list_groups(broker.id, request, context)
