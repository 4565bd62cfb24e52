"""Which records of `__consumer_offsets` decide the state that replaying all of them gives.

1. Of each key the last record, unless its transaction was aborted. This alone is compaction's rule.
2. A tombstone of a type in `GROUP_TYPES` deletes its group, with all offsets.
3. A commit makes the group that it is of, also in an aborted transaction, and the group outlives
   the offset. So the last commit of each group decides, unless the group is deleted after it.
4. A tombstone of an offset counts at once, even within a transaction, and makes every open
   transaction forget the offset. So of an open transaction the last commit of each key decides, and
   the last tombstone of that key.

Replay (`CoordinatorState.replay`) needs no such rule: it takes every record. What leaves records
out follows this page, and is tested against replay: `compaction` and
`quorate.coordinator.bulk_block` on single logs, and in `quorate.pipeline` the reading of files
(`push_down`), batch jobs (`jobs.survivors`) and streams (`streaming.group_rows`), which work on
columns, in the JVM and in Spark's state store.
"""

from typing import Final

from quorate.codecs.records import CONSUMER_OFFSETS, RECORD_TYPES

__all__ = ["COMMIT_TYPES", "COMMIT_TYPE_IDS", "GROUP_TYPES"]

COMMIT_TYPES: Final = ("OffsetCommit", "LegacyOffsetCommit")
"""Committed offsets; all other types are records of groups."""

COMMIT_TYPE_IDS: Final = tuple(
    number for number, one in RECORD_TYPES[CONSUMER_OFFSETS].items() if one.name in COMMIT_TYPES
)

GROUP_TYPES: Final = ("GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata", "StreamsGroupMetadata")
"""The records whose tombstones delete a group."""
