"""`RedundantOffsets`: below which offset no record of a partition of `__share_group_state` matters.

In Kafka: ShareCoordinatorOffsetsManager. All records of a share-partition before its last snapshot
are redundant, so those before the oldest of all last snapshots can be deleted.
"""

from collections import OrderedDict

from quorate.coordinator.share_state.key import SharePartitionKey


class RedundantOffsets:
    """Offsets of the last snapshots. They only grow, so the first entry is the oldest."""

    def __init__(self) -> None:
        self._offsets: OrderedDict[SharePartitionKey, int] = OrderedDict()
        self._last = -1

    def snapshot_at(self, key: SharePartitionKey, offset: int, *, deleted: bool) -> None:
        """Take note of a snapshot or tombstone.

        A tombstone counts until the next record, so that it is kept meanwhile.
        """
        self._offsets[key] = offset
        self._offsets.move_to_end(key)
        self._last = next(iter(self._offsets.values()))
        if deleted:
            del self._offsets[key]

    @property
    def last(self) -> int | None:
        """The offset before which all records can be deleted; `None` if there are none."""
        return self._last if self._last > 0 else None
