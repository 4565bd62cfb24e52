"""The APIs of group coordination: hand each request to the coordinator of its group.

JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups and DeleteGroups (all
versions); ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848); ShareGroupHeartbeat and
ShareGroupDescribe, DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets
(KIP-932); StreamsGroupDescribe and StreamsGroupTopologyDescriptionUpdate (KIP-1071, KIP-1331).
`quorate.coordinator` handles them.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context
from quorate.cluster.authorizer import GROUP_OPERATIONS, GROUP_OPERATIONS_BEFORE_4_0
from quorate.cluster.turns import Work
from quorate.codecs.api import (
    AlterShareGroupOffsetsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    SyncGroupRequest,
)
from quorate.codecs.api.broker import ShareAcknowledgeRequest, ShareFetchRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending
from quorate.coordinator.streams.topology_description import NO_PLUG_IN

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

_SYNC_HAS_PROTOCOL = 5
_MAX_SHARE_MEMBER_ID = 36
"""Characters: the length of a UUID. A broker checks it before its coordinator (KIP-932)."""
_MAX_NAMES = 100_000
"""A subscription with more topics is reduced to existing ones, in turns, before the coordinator
runs. Smaller ones keep duplicates, because the order of Kafka's sets depends on them.
"""
_NEED_NAMES = (ConsumerGroupDescribeRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest)
"""APIs for which an empty group id is an error, not a group that does not exist."""
_FEATURES: dict[type[Message], str] = {
    ConsumerGroupHeartbeatRequest: "group.version",
    ConsumerGroupDescribeRequest: "group.version",
    ShareGroupHeartbeatRequest: "share.version",
    ShareGroupDescribeRequest: "share.version",
    ShareFetchRequest: "share.version",
    ShareAcknowledgeRequest: "share.version",
    StreamsGroupHeartbeatRequest: "streams.version",
    StreamsGroupDescribeRequest: "streams.version",
    StreamsGroupTopologyDescriptionUpdateRequest: "streams.version",
    DescribeShareGroupOffsetsRequest: "share.version",
    AlterShareGroupOffsetsRequest: "share.version",
    DeleteShareGroupOffsetsRequest: "share.version",
}
"""Requests that are rejected with UNSUPPORTED_VERSION until the cluster enables their feature.

That is so in release 3.9, and after an upgrade from there.
"""


def about_one_group(broker: "Broker", request: Any, context: Context) -> Message | Pending[Any]:
    """Hand a request about one group to its coordinator."""
    if lacks_feature(broker, request):
        return broker.cluster.groups.failed(request, context, ErrorCode.UNSUPPORTED_VERSION)
    return broker.cluster.groups.request(broker.id, request.group_id, request, context)


def sync_group(broker: "Broker", request: SyncGroupRequest, context: Context) -> Message | Pending[Any]:
    """Hand the request to the group's coordinator, if it has the protocol."""
    if lacks_protocol(request, context.api_version):
        return broker.cluster.groups.failed(request, context, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return about_one_group(broker, request, context)


def update_topology_description(broker: "Broker", request: Any, context: Context) -> Message:
    """Reject a description of a topology, which needs a plug-in of the broker."""
    refused: Any = broker.cluster.groups.failed(request, context, ErrorCode.UNSUPPORTED_VERSION)
    rejected: Message = replace(refused, error_message=NO_PLUG_IN)
    return rejected


def alter_share_group_offsets(
    broker: "Broker", request: AlterShareGroupOffsetsRequest, context: Context
) -> Message | Pending[Any]:
    """Hand the request to the group's coordinator.

    As Kafka's broker collects errors by partition, the response has unknown topics first, and none
    of those that the request names without partitions.
    """
    known = broker.cluster.topics
    named = (topic for topic in request.topics if topic.partitions or topic.topic_name in known)
    topics = tuple(sorted(named, key=lambda topic: topic.topic_name in known))
    return about_one_group(broker, replace(request, topics=topics), context)


def share_group_heartbeat(broker: "Broker", request: Any, context: Context) -> "Message | Pending[Any] | Work[Any]":
    """Hand the heartbeat to the group's coordinator, if the member id is not too long."""
    if share_member_id_is_too_long(request) and not lacks_feature(broker, request):
        return broker.cluster.groups.failed(request, context, ErrorCode.INVALID_REQUEST)
    return heartbeat_with_topics(broker, request, context)


def heartbeat_with_topics(broker: "Broker", request: Any, context: Context) -> "Message | Pending[Any] | Work[Any]":
    """Hand a heartbeat, which can name many topics, to the coordinator of its group."""
    names = request.subscribed_topic_names
    if names is None or len(names) <= _MAX_NAMES:
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
        with_ids = replace(request, group_ids=tuple(group_id for group_id in request.group_ids if group_id))
        rest: Any = yield from about_groups(broker, with_ids, context)
        without_ids = replace(request, group_ids=tuple(group_id for group_id in request.group_ids if not group_id))
        invalid = broker.cluster.groups.failed(without_ids, context, ErrorCode.INVALID_GROUP_ID)
        merged: Message = replace(rest, groups=invalid.groups + rest.groups)  # type: ignore[attr-defined]
        return merged
    response = yield from broker.cluster.groups.request_many(broker.id, request, context)
    if not getattr(request, "include_authorized_operations", False):
        return response
    has_configs = broker.cluster.broker_configs.behaviour.group_operations
    return _with_operations(response, GROUP_OPERATIONS if has_configs else GROUP_OPERATIONS_BEFORE_4_0)


def _with_operations(response: Any, operations: int) -> Message:
    """Set the authorized operations of each group that was described without an error."""
    described: Message = replace(
        response,
        groups=tuple(
            group if group.error_code else replace(group, authorized_operations=operations) for group in response.groups
        ),
    )
    return described


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Return whether the protocol type or name is missing, which version 5 made required."""
    return version >= _SYNC_HAS_PROTOCOL and None in (request.protocol_type, request.protocol_name)


def share_member_id_is_too_long(request: Message) -> bool:
    """Return whether a share group's heartbeat has too long a member id for a broker."""
    return isinstance(request, ShareGroupHeartbeatRequest) and len(request.member_id) > _MAX_SHARE_MEMBER_ID


def lacks_feature(broker: "Broker", request: Message) -> bool:
    """Return whether the cluster has not enabled the feature that a request belongs to."""
    feature = _FEATURES.get(type(request))
    return feature is not None and feature not in broker.cluster.state.features


def list_groups(broker: "Broker", request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """Return the groups that this broker coordinates."""
    return broker.cluster.groups.list_groups(broker.id, request, context)
