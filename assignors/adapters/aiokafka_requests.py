"""Requests of static members that aiokafka 0.14 lacks.

They have `group_instance_id` (KIP-345), and a JoinGroup version whose response notifies a restarted
leader (KIP-814). aiokafka's own requests are converted to these, or sent unchanged to brokers that
are too old. Field names are those that aiokafka's code reads.
"""

from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetCommitRequest_v3, OffsetCommitResponse_v3
from aiokafka.protocol.group import (
    HeartbeatRequest,
    HeartbeatRequest_v1,
    HeartbeatResponse_v1,
    JoinGroupRequest,
    JoinGroupRequest_v5,
)
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)

TEXT = String("utf-8")
COMPACT = CompactString("utf-8")


class _HeartbeatResponseV3(HeartbeatResponse_v1):  # type: ignore[misc]  # aiokafka has no types
    API_VERSION = 3


class _HeartbeatRequestV3(RequestStruct):  # type: ignore[misc]
    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = _HeartbeatResponseV3
    SCHEMA = Schema(
        ("group", TEXT),
        ("generation_id", Int32),
        ("member_id", TEXT),
        ("group_instance_id", TEXT),
    )


class StaticHeartbeat(Request[HeartbeatRequest_v1 | _HeartbeatRequestV3]):  # type: ignore[misc]
    """A heartbeat with `group_instance_id`: version 3, for brokers from 2.3."""

    API_KEY = 12

    def __init__(self, plain: HeartbeatRequest, instance: str) -> None:
        self._plain = plain
        self._instance = instance

    def build(self, struct: Any) -> Any:
        """Return the request in the version that the broker supports."""
        plain = self._plain.build(struct if struct is HeartbeatRequest_v1 else HeartbeatRequest_v1)
        if struct is HeartbeatRequest_v1:
            return plain
        return struct(plain.group, plain.generation_id, plain.member_id, self._instance)


class _OffsetCommitResponseV7(OffsetCommitResponse_v3):  # type: ignore[misc]
    API_VERSION = 7


class _OffsetCommitRequestV7(RequestStruct):  # type: ignore[misc]
    API_KEY = 8
    API_VERSION = 7
    RESPONSE_TYPE = _OffsetCommitResponseV7
    SCHEMA = Schema(
        ("consumer_group", TEXT),
        ("consumer_group_generation_id", Int32),
        ("consumer_id", TEXT),
        ("group_instance_id", TEXT),
        (
            "topics",
            Array(
                ("topic", TEXT),
                (
                    "partitions",
                    Array(("partition", Int32), ("offset", Int64), ("leader_epoch", Int32), ("metadata", TEXT)),
                ),
            ),
        ),
    )


class StaticOffsetCommit(Request[OffsetCommitRequest_v3 | _OffsetCommitRequestV7]):  # type: ignore[misc]
    """An OffsetCommit with `group_instance_id`: version 7, for brokers from 2.3.

    Leader epochs are unknown here (-1).
    """

    API_KEY = 8

    def __init__(self, plain: OffsetCommitRequest, instance: str) -> None:
        self._plain = plain
        self._instance = instance

    def build(self, struct: Any) -> Any:
        """Return the request in the version that the broker supports."""
        plain = self._plain.build(OffsetCommitRequest_v3)
        if struct is OffsetCommitRequest_v3:
            return plain
        topics = [
            (topic, [(number, offset, -1, metadata) for number, offset, metadata in partitions])
            for topic, partitions in plain.topics
        ]
        return struct(
            plain.consumer_group, plain.consumer_group_generation_id, plain.consumer_id, self._instance, topics
        )


class _JoinGroupResponseV9(Response):  # type: ignore[misc]
    API_KEY = 11
    API_VERSION = 9
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("generation_id", Int32),
        ("protocol_type", COMPACT),
        ("group_protocol", COMPACT),
        ("leader_id", COMPACT),
        ("skip_assignment", Boolean),
        ("member_id", COMPACT),
        (
            "members",
            CompactArray(
                ("member_id", COMPACT),
                ("group_instance_id", COMPACT),
                ("member_metadata", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _JoinGroupRequestV9(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 11
    API_VERSION = 9
    RESPONSE_TYPE = _JoinGroupResponseV9
    SCHEMA = Schema(
        ("group", COMPACT),
        ("session_timeout", Int32),
        ("rebalance_timeout", Int32),
        ("member_id", COMPACT),
        ("group_instance_id", COMPACT),
        ("protocol_type", COMPACT),
        (
            "group_protocols",
            CompactArray(("protocol_name", COMPACT), ("protocol_metadata", CompactBytes), ("tags", TaggedFields)),
        ),
        ("reason", COMPACT),
        ("tags", TaggedFields),
    )


class StaticJoinGroup(Request[JoinGroupRequest_v5 | _JoinGroupRequestV9]):  # type: ignore[misc]
    """A JoinGroup for brokers from 3.2, version 9.

    Its response notifies a restarted leader that it leads and must skip the assignment.
    """

    API_KEY = 11

    def __init__(self, plain: JoinGroupRequest) -> None:
        self._plain = plain

    def build(self, struct: Any) -> Any:
        """Return the request in the version that the broker supports."""
        plain = self._plain.build(JoinGroupRequest_v5)
        if struct is JoinGroupRequest_v5:
            return plain
        return struct(
            plain.group,
            plain.session_timeout,
            plain.rebalance_timeout,
            plain.member_id,
            plain.group_instance_id,
            plain.protocol_type,
            [(name, metadata, {}) for name, metadata in plain.group_protocols],
            None,
            {},
        )
