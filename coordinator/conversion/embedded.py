"""Subscriptions and assignments of the consumer protocol inside JoinGroup and SyncGroup."""

from collections.abc import Iterable, Mapping, Sequence

from quorate.codecs import DecodeError, Uuid
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.consumer_protocol import decode_assignment, decode_subscription, encode_protocol
from quorate.codecs.errors import QuorateError, Reason
from quorate.codecs.messages.consumer_group import ClassicMemberMetadata, ClassicProtocol
from quorate.codecs.messages.protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ProtocolTopicPartition,
)
from quorate.coordinator.classic.group import Protocols
from quorate.coordinator.consumer.owned import Partitions, copied_set, topics_in_order
from quorate.coordinator.image import MetadataImage

NEWEST = 3
"""The newest version of the consumer protocol."""


class CustomAssignment(QuorateError):
    """An assignment with user data of a custom assignor. Server-side assignors have none."""


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a subscription. Raises `DecodeError`."""
    found = decode_subscription(data).message
    assert isinstance(found, ConsumerProtocolSubscription)
    return found


def cut_off(error: DecodeError, data: bytes) -> bool:
    """Return whether Kafka before 4.4 throws a SchemaException for these bytes.

    It does if they end inside an integer, or have no version. For a wrong length or an unexpected
    null it throws other exceptions.
    """
    if error.reason in (Reason.TOO_SHORT, Reason.UNKNOWN_VERSION):
        return True
    name = error.field.rpartition(".")[2]
    length_bytes = 2 if name in ("topic", "rack_id") or name.startswith("topics[") else 4
    return error.reason is Reason.TRUNCATED and len(data) - error.position < length_bytes


def partitions_in(data: bytes, image: MetadataImage, jdk: int) -> Partitions:
    """Decode an assignment of the leader, without topics that do not exist.

    Empty bytes are no partitions. Raises `DecodeError` and `CustomAssignment`.
    """
    if not data:
        return {}
    found = decode_assignment(data).message
    assert isinstance(found, ConsumerProtocolAssignment)
    if found.user_data:
        raise CustomAssignment
    listed = {
        topic.id: assigned_partition.partitions
        for assigned_partition in found.assigned_partitions
        if (topic := image.topics.get(assigned_partition.topic)) is not None
    }
    # A leader may list a partition twice.
    return {topic_id: tuple(dict.fromkeys(copied_set(listed[topic_id], jdk))) for topic_id in topics_in_order(listed)}


def owned_in(subscription: ConsumerProtocolSubscription, image: MetadataImage) -> list[TopicPartitions]:
    """Return the owned partitions of a subscription (KIP-429), without topics that do not exist."""
    return [
        TopicPartitions(topic_id=topic.id, partitions=owned_partition.partitions)
        for owned_partition in subscription.owned_partitions
        if (topic := image.topics.get(owned_partition.topic)) is not None
    ]


def assignment_for(metadata: bytes, partitions: Mapping[Uuid, Iterable[int]], image: MetadataImage) -> bytes:
    """Encode an assignment in the version of the member's subscription metadata.

    Raises `DecodeError` if the metadata has no version.
    """
    version = decode_version(metadata)
    given = tuple(
        ProtocolTopicPartition(topic=topic.name, partitions=tuple(numbers))
        for topic_id, numbers in partitions.items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
    )
    return encode_protocol(ConsumerProtocolAssignment(assigned_partitions=given, user_data=None), min(version, NEWEST))


def decode_version(data: bytes) -> int:
    """Decode the version of the consumer protocol.

    Raises `DecodeError` if there is none.
    """
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        reason = Reason.TOO_SHORT if len(data) < 2 else Reason.UNKNOWN_VERSION
        raise DecodeError(reason, where="version", position=0, detail=data[:2].hex())
    return version


def classic_metadata(session_timeout_ms: int, protocols: Protocols) -> ClassicMemberMetadata:
    """Return the classic part of a member's metadata."""
    offered: Sequence[ClassicProtocol] = [
        ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in protocols
    ]
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=tuple(offered))
