"""Records of `__share_group_state`, and how updates change a snapshot."""

from dataclasses import replace

from quorate.codecs import SHARE_GROUP_STATE, CoordinatorRecord
from quorate.codecs.messages.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from quorate.coordinator.share_state.batches import combined
from quorate.coordinator.share_state.key import SharePartitionKey


def snapshot(key: SharePartitionKey, value: ShareSnapshotValue) -> CoordinatorRecord:
    """Return the record of a whole state."""
    return CoordinatorRecord(key=_snapshot_key(key), value=value, version=0, topic=SHARE_GROUP_STATE)


def update(key: SharePartitionKey, value: ShareUpdateValue) -> CoordinatorRecord:
    """Return the record of a change."""
    of_update = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return CoordinatorRecord(key=of_update, value=value, version=0, topic=SHARE_GROUP_STATE)


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """Return the record that deletes the state."""
    return CoordinatorRecord(key=_snapshot_key(key), value=None, version=None, topic=SHARE_GROUP_STATE)


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def merged(state: ShareSnapshotValue, change: ShareUpdateValue) -> ShareSnapshotValue:
    """Return a state after a change; -1 keeps the start offset or the leader epoch.

    Raises `ApiError` for invalid batches.
    """
    start_offset = state.start_offset if change.start_offset == -1 else change.start_offset
    return replace(
        state,
        start_offset=start_offset,
        delivery_complete_count=change.delivery_complete_count,
        leader_epoch=state.leader_epoch if change.leader_epoch == -1 else change.leader_epoch,
        state_batches=combined(state.state_batches, change.state_batches, start_offset),
    )


def only_update(change: ShareUpdateValue) -> ShareSnapshotValue:
    """Return the state after an update whose snapshot is not in the log."""
    return ShareSnapshotValue(
        snapshot_epoch=change.snapshot_epoch,
        state_epoch=0,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.delivery_complete_count,
        create_timestamp=0,
        write_timestamp=0,
        state_batches=change.state_batches,
    )
