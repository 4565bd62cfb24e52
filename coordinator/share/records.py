"""Records of share groups."""

from collections.abc import Iterable, Mapping, Sequence

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.messages.share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from quorate.coordinator.consumer.owned import Partitions, as_recorded
from quorate.coordinator.records import tombstone, written
from quorate.coordinator.state.share import ShareMember


def member_metadata(group_id: str, member_id: str, metadata: ShareGroupMemberMetadataValue) -> CoordinatorRecord:
    """Return the record of a member's metadata."""
    return written(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), metadata)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group epoch and the metadata hash (KIP-1101)."""
    return written(
        ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def target_assignment(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """Return the record of a member's target assignment, in the order given."""
    return written(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(topic_partitions=as_recorded(target)),
    )


def target_epoch(group_id: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    """Return the record of the target epoch, and when the target was computed (KIP-1263)."""
    return written(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms),
    )


def current_assignment(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member's current assignment, in the order given."""
    return written(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=member.assigned,
        ),
    )


def state_partitions(
    group_id: str,
    *,
    initializing: Mapping[Uuid, tuple[str, Sequence[int]]],
    initialized: Mapping[Uuid, tuple[str, Sequence[int]]],
    deleting: Iterable[tuple[Uuid, str]],
) -> CoordinatorRecord:
    """Return the record of partitions that have share state, are initializing, or lose it.

    Maps are topic id → name and partitions, in the order given.
    """
    return written(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_listed(initializing),
            initialized_topics=_listed(initialized),
            deleting_topics=tuple(TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in deleting),
        ),
    )


def _listed(topics: Mapping[Uuid, tuple[str, Sequence[int]]]) -> tuple[TopicPartitionsInfo, ...]:
    return tuple(
        TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=tuple(partitions))
        for topic_id, (name, partitions) in topics.items()
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones that remove a member; the order matters to replay."""
    return [
        tombstone(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a group without members."""
    return [
        tombstone(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        tombstone(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        tombstone(ShareGroupMetadataKey(group_id=group_id)),
    ]
