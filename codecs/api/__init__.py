"""Requests and responses of Kafka's group coordination: every version of Kafka 4.3, one module per API, named by it; and two that KIP-848 has, but no Kafka.

    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)      # what is not said has Kafka's default
    body = encode_api(request, version=1)                                 # byte for byte as Kafka writes it
    decode_api(ConsumerGroupHeartbeatRequest, body, version=1)            # or decode_api(68, ...): the request with that API key
    APIS[68].request_header_version(1)                                    # 2; bodies only, the headers are the caller's

Messages are declared as the records of `quorate.codecs.messages` are, with all that is derived from
that: `to_kafka_json`, `to_json` and `from_json` of `quorate.codecs` take them, too. Structs inside
messages are in the modules of their APIs, under Kafka's names.
"""

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
from quorate.codecs.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from quorate.codecs.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from quorate.codecs.api.join_group import JoinGroupRequest, JoinGroupResponse
from quorate.codecs.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from quorate.codecs.api.list_groups import ListGroupsRequest, ListGroupsResponse
from quorate.codecs.api.lookup import api_of
from quorate.codecs.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from quorate.codecs.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from quorate.codecs.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from quorate.codecs.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from quorate.codecs.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from quorate.codecs.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from quorate.codecs.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from quorate.codecs.api.sync_group import SyncGroupRequest, SyncGroupResponse
from quorate.codecs.api.table import APIS
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

__all__ = [
    "APIS",
    "OWN_KEYS",
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
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
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
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "api_of",
    "decode_api",
    "encode_api",
]
