"""Records of consumer groups."""

from collections.abc import Iterable, Sequence

from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)
from quorate.codecs.tags import Tags
from quorate.coordinator.consumer.owned import Partitions, as_recorded
from quorate.coordinator.records import tombstone, written
from quorate.coordinator.state.consumer_member import ConsumerMember


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group epoch and metadata hash (KIP-1101; 0 before 4.1)."""
    return written(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def partition_metadata(group_id: str, value: ConsumerGroupPartitionMetadataValue) -> CoordinatorRecord:
    """Return the topic metadata record of brokers before KIP-1101 (type 4)."""
    return CoordinatorRecord(key=ConsumerGroupPartitionMetadataKey(group_id=group_id), value=value, version=0)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of the topic metadata record (type 4)."""
    return tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_metadata(group_id: str, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> CoordinatorRecord:
    """Return the record of a member's metadata."""
    return written(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), metadata)


def target_assignment(group_id: str, member_id: str, target: Partitions, tags: Tags = ()) -> CoordinatorRecord:
    """Return the record of a member's target assignment, in the order given.

    `tags`: a plug-in's tagged fields.
    """
    return written(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=as_recorded(target), unknown_tags=tags),
    )


def target_epoch(group_id: str, epoch: int, now_ms: int, tags: Tags = ()) -> CoordinatorRecord:
    """Return the record of the target epoch, and when the target was computed (KIP-1263).

    `tags`: a plug-in's tagged fields.
    """
    return written(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=now_ms, unknown_tags=tags
        ),
    )


def current_assignment(group_id: str, member: ConsumerMember, *, epochs: bool = True) -> CoordinatorRecord:
    """Return the record of a member's current assignment, in the order given.

    `epochs`: with assignment epochs (since 4.3, KIP-1251).
    """
    assigned, pending = member.assigned_partitions, member.partitions_pending_revocation
    return written(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state.value,
            assigned_partitions=assigned if epochs else _without_epochs(assigned),
            partitions_pending_revocation=pending if epochs else _without_epochs(pending),
        ),
    )


def _without_epochs(topics: Iterable[TopicPartitions]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions) for topic in topics)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones that remove a member; the order matters to replay."""
    return [
        tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def resolved_regex(
    group_id: str, regex: str, *, topics: Sequence[str], version: int, timestamp_ms: int
) -> CoordinatorRecord:
    """Return the record of the topics that a regex matches, in the image of that version."""
    return written(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(topics=tuple(topics), version=version, timestamp=timestamp_ms),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Return the tombstone of a regex without subscribers."""
    return tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))
