"""Requests and responses of Kafka's group coordination APIs, in all versions of Kafka 4.4.

    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    body = encode_api(request, version=1)                       # the same bytes as Kafka writes
    decode_api(ConsumerGroupHeartbeatRequest, body, version=1)  # or decode_api(68, ...)
    APIS[68].request_header_version(1)                          # 2; the caller handles headers

One module per API has its messages, and the structs inside them under Kafka's names. Fields that
are not given have Kafka's defaults. Two APIs are described by KIP-848 but are in no release.
Messages are declared like the records of `quorate.codecs.messages`: `to_kafka_json`, `to_json` and
`from_json` of `quorate.codecs` accept them too.
"""

from quorate.codecs.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from quorate.codecs.api.body import decode_api, encode_api
from quorate.codecs.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from quorate.codecs.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from quorate.codecs.api.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from quorate.codecs.api.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from quorate.codecs.api.declare import OWN_KEYS, Api
from quorate.codecs.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from quorate.codecs.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from quorate.codecs.api.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from quorate.codecs.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from quorate.codecs.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from quorate.codecs.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from quorate.codecs.api.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from quorate.codecs.api.join_group import JoinGroupRequest, JoinGroupResponse
from quorate.codecs.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from quorate.codecs.api.list_groups import ListGroupsRequest, ListGroupsResponse
from quorate.codecs.api.lookup import api_of
from quorate.codecs.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from quorate.codecs.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from quorate.codecs.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from quorate.codecs.api.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from quorate.codecs.api.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from quorate.codecs.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from quorate.codecs.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from quorate.codecs.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from quorate.codecs.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from quorate.codecs.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from quorate.codecs.api.sync_group import SyncGroupRequest, SyncGroupResponse
from quorate.codecs.api.table import APIS
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from quorate.codecs.api.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse

__all__ = [
    "APIS",
    "OWN_KEYS",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "Api",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerGroupInstallAssignmentRequest",
    "ConsumerGroupInstallAssignmentResponse",
    "ConsumerGroupPrepareAssignmentRequest",
    "ConsumerGroupPrepareAssignmentResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "ReadShareGroupStateRequest",
    "ReadShareGroupStateResponse",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateResponse",
    "api_of",
    "decode_api",
    "encode_api",
]
