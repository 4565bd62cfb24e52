"""Committed offsets: record types 0 and 1 of `__consumer_offsets`."""

from quorate.codecs.message import Message, field, key, tagged, value
from quorate.codecs.wire import Int32, Int64, String, Uuid


@key(0, since="0.9", note="up to 4.0 it shared the schema of type 1; read only")
class LegacyOffsetCommitKey(Message):
    """The group, topic and partition of an offset, as written before Kafka 0.9."""

    group: String
    topic: String
    partition: Int32


@value(LegacyOffsetCommitKey, versions=range(0, 1), written=None)
class LegacyOffsetCommitValue(Message):
    """A committed offset, as written before Kafka 0.9."""

    offset: Int64
    metadata: String
    commit_timestamp: Int64


@key(1, since="0.9")
class OffsetCommitKey(Message):
    """Group, topic and partition of a committed offset."""

    group: String
    topic: String
    partition: Int32


@value(OffsetCommitKey, versions=range(0, 5), flexible_since=4)
class OffsetCommitValue(Message):
    """A committed offset.

    Kafka writes version 1 if it expires at a time of its own, else 4 (3 before Kafka 4.1).
    """

    offset: Int64
    leader_epoch: Int32 = field(since=3, default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(since=1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = tagged(0, since=4, default=Uuid.ZERO, ignorable=True, release="4.1")  # KAFKA-14690
