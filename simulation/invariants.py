"""Invariants of Kafka's groups, checked on what a cluster has written.

They know no client: the log of `__consumer_offsets` has every commit and every assignment.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from quorate.cluster.core import ClusterCore
from quorate.codecs import CONSUMER_OFFSETS, decode_record
from quorate.codecs.batches import read_batches
from quorate.codecs.batches.reader import Batch
from quorate.codecs.consumer_protocol import decode_assignment
from quorate.codecs.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from quorate.codecs.record_model import CoordinatorRecord
from quorate.simulation.errors import InvariantBroken


def check_records(acknowledged: "Counter[Any]", consumed: "Counter[Any]") -> None:
    """Raise `InvariantBroken` unless every acknowledged record was consumed."""
    lost = [record for record in acknowledged if record not in consumed]
    if lost:
        shown = ", ".join(map(repr, lost[:5])) + (", …" if len(lost) > 5 else "")
        raise InvariantBroken(
            "acknowledged records are consumed", f"{len(lost)} of {len(acknowledged)} were not: {shown}"
        )


def check_memory(samples: Sequence[int]) -> None:
    """Raise `InvariantBroken` if the memory at equal moments of a schedule keeps growing.

    The first sample is left out, as clients fill caches until then. Growth is more than a fifth and
    64 KiB from the first to the last third of the others, and in most steps between.
    """
    steady = samples[1:]
    if len(steady) < 4:
        return
    third = max(1, len(steady) // 3)
    before, after = median(steady[:third]), median(steady[-third:])
    grows = sum(b > a for a, b in pairwise(steady))
    if after > 1.2 * before and after - before > 64 << 10 and grows > 0.7 * (len(steady) - 1):
        shown = ", ".join(f"{one >> 10:,}" for one in samples)
        raise InvariantBroken("memory does not grow", f"{shown} KiB")


def check_groups(core: ClusterCore, acknowledged: Mapping[tuple[str, str, int], int]) -> None:
    """Raise `InvariantBroken` if a committed offset went back, or a partition had two owners.

    `acknowledged`: offsets whose commit a broker has acknowledged, by group, topic and partition;
    the log must have them, or later ones.

    Classic groups have owners by generation; groups of the consumer protocol have them at any time,
    and a partition that its member has yet to revoke is still that member's. So it is with active
    tasks of streams groups.
    """
    topic = core.topics.get(CONSUMER_OFFSETS)
    highest: dict[tuple[str, str, int], int] = {}
    for partition in () if topic is None else topic.partitions:
        committed: dict[OffsetCommitKey, int] = {}
        owners: dict[str, dict[str, set[tuple[Any, int]]]] = {}
        for record in _records(b"".join(batch.data for batch in partition.log)):
            key, value = record.key, record.value
            if isinstance(key, OffsetCommitKey):
                _check_commit(committed, key, value)  # type: ignore[arg-type]
                if isinstance(value, OffsetCommitValue):
                    highest[key.group, key.topic, key.partition] = value.offset
            elif isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
                _check_generation(key.group, value)
            elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey | StreamsGroupCurrentMemberAssignmentKey):
                _check_owners(owners.setdefault(key.group_id, {}), key, value)  # type: ignore[arg-type]
    for where, offset in acknowledged.items():
        if highest.get(where, -1) < offset:
            group, name, index = where
            found = f"the log has {highest[where]}" if where in highest else "the log has none"
            raise InvariantBroken(
                "acknowledged commits are kept", f"{offset} of {name}-{index} by group {group}, but {found}"
            )


def _records(data: bytes) -> Iterator[CoordinatorRecord]:
    for batch in read_batches(data):
        assert isinstance(batch, Batch)
        if batch.header.control:
            continue
        for record in batch.records():
            found = decode_record(record.key, record.value)  # type: ignore[union-attr]
            if isinstance(found, CoordinatorRecord):
                yield found


def _check_commit(committed: dict[OffsetCommitKey, int], key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    if value is None:
        committed.pop(key, None)
        return
    before = committed.get(key, -1)
    if value.offset < before:
        where = f"{key.topic}-{key.partition} of group {key.group}"
        raise InvariantBroken("committed offsets never go back", f"{where}: {value.offset} after {before}")
    committed[key] = value.offset


def _check_generation(group: str, value: GroupMetadataValue) -> None:
    owner: dict[tuple[str, int], str] = {}
    for member in value.members:
        if value.protocol_type != "consumer" or not member.assignment:
            continue
        assigned: Any = decode_assignment(member.assignment).message
        for topic in assigned.assigned_partitions:
            for partition in topic.partitions:
                other = owner.setdefault((topic.topic, partition), member.member_id)
                if other != member.member_id:
                    raise InvariantBroken(
                        "a partition has one owner",
                        f"{topic.topic}-{partition} belongs to {other} and {member.member_id} "
                        f"in generation {value.generation} of group {group}",
                    )


def _check_owners(
    owners: dict[str, set[tuple[Any, int]]],
    key: ConsumerGroupCurrentMemberAssignmentKey | StreamsGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is None:
        owners.pop(key.member_id, None)
        return
    owned: set[tuple[Any, int]]
    if isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
        kind = "subtopology"
        owned = {
            (tasks.subtopology_id, partition)
            for tasks in (*value.active_tasks, *value.active_tasks_pending_revocation)
            for partition in tasks.partitions
        }
    else:
        kind = "topic"
        owned = {
            (topic.topic_id, partition)
            for topic in (*value.assigned_partitions, *value.partitions_pending_revocation)
            for partition in topic.partitions
        }
    for member, others in owners.items():
        if member != key.member_id and owned & others:
            which, partition = min(owned & others, key=str)
            raise InvariantBroken(
                "a partition has one owner",
                f"partition {partition} of {kind} {which} belongs to {member} and {key.member_id} "
                f"at epoch {value.member_epoch} of group {key.group_id}",
            )
    owners[key.member_id] = owned
