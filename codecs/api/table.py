"""The APIs of group coordination by key."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from quorate.codecs.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from quorate.codecs.api.consumer_group_describe import ConsumerGroupDescribeRequest
from quorate.codecs.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.consumer_group_install_assignment import ConsumerGroupInstallAssignmentRequest
from quorate.codecs.api.consumer_group_prepare_assignment import ConsumerGroupPrepareAssignmentRequest
from quorate.codecs.api.declare import Api
from quorate.codecs.api.delete_groups import DeleteGroupsRequest
from quorate.codecs.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from quorate.codecs.api.delete_share_group_state import DeleteShareGroupStateRequest
from quorate.codecs.api.describe_groups import DescribeGroupsRequest
from quorate.codecs.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from quorate.codecs.api.heartbeat import HeartbeatRequest
from quorate.codecs.api.initialize_share_group_state import InitializeShareGroupStateRequest
from quorate.codecs.api.join_group import JoinGroupRequest
from quorate.codecs.api.leave_group import LeaveGroupRequest
from quorate.codecs.api.list_groups import ListGroupsRequest
from quorate.codecs.api.offset_commit import OffsetCommitRequest
from quorate.codecs.api.offset_delete import OffsetDeleteRequest
from quorate.codecs.api.offset_fetch import OffsetFetchRequest
from quorate.codecs.api.read_share_group_state import ReadShareGroupStateRequest
from quorate.codecs.api.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from quorate.codecs.api.share_group_describe import ShareGroupDescribeRequest
from quorate.codecs.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from quorate.codecs.api.streams_group_describe import StreamsGroupDescribeRequest
from quorate.codecs.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from quorate.codecs.api.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from quorate.codecs.api.sync_group import SyncGroupRequest
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequest
from quorate.codecs.api.write_share_group_state import WriteShareGroupStateRequest
from quorate.codecs.message import Message


def by_key(requests: Iterable[type[Message]]) -> Mapping[int, Api]:
    """Return API key → API, in the order of the keys."""
    return MappingProxyType(
        {api.key: api for api in sorted((request.api for request in requests), key=lambda api: api.key)}
    )


APIS: Mapping[int, Api] = by_key(
    (
        OffsetCommitRequest,
        OffsetFetchRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        TxnOffsetCommitRequest,
        DeleteGroupsRequest,
        OffsetDeleteRequest,
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupDescribeRequest,
        ShareGroupHeartbeatRequest,
        ShareGroupDescribeRequest,
        StreamsGroupHeartbeatRequest,
        StreamsGroupDescribeRequest,
        StreamsGroupTopologyDescriptionUpdateRequest,
        AlterShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupStateRequest,
        DescribeShareGroupOffsetsRequest,
        InitializeShareGroupStateRequest,
        ReadShareGroupStateRequest,
        ReadShareGroupStateSummaryRequest,
        WriteShareGroupStateRequest,
        ConsumerGroupPrepareAssignmentRequest,
        ConsumerGroupInstallAssignmentRequest,
    )
)
"""API key → API, of group coordination; `quorate.codecs.api.broker.APIS` has all of them."""
