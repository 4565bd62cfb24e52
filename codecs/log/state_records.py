"""The records of `__consumer_offsets` that decide the state after replaying all of them.

1. Of each key the last record, unless its transaction was aborted. Compaction uses only this rule.
2. A tombstone of a type in `GROUP_TYPES` deletes its group, with all offsets.
3. A commit creates its group, also in an aborted transaction, and the group outlives the offset. So
   the last commit of each group decides, unless the group is deleted after it.
4. A tombstone of an offset counts at once, even within a transaction, and removes the offset from
   every open transaction. So for an open transaction the last commit and the last tombstone of each
   key decide.

Replay (`CoordinatorState.replay`) takes every record and needs no such rules. Code that leaves
records out follows these rules, and is tested against replay: `compaction` and
`quorate.coordinator.bulk_block` on single logs, and in `quorate.pipeline` the file reader
(`push_down`), batch jobs (`jobs.survivors`) and streams (`streaming.group_rows`), which work on
columns, in the JVM and in Spark's state store.
"""

from typing import Final

from quorate.codecs.records import CONSUMER_OFFSETS, RECORD_TYPES

COMMIT_TYPES: Final = ("OffsetCommit", "LegacyOffsetCommit")
"""Committed offsets; all other types are records of groups."""

COMMIT_TYPE_IDS: Final = tuple(
    number for number, one in RECORD_TYPES[CONSUMER_OFFSETS].items() if one.name in COMMIT_TYPES
)

GROUP_TYPES: Final = ("GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata", "StreamsGroupMetadata")
"""The records whose tombstones delete a group."""
