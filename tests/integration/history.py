"""A group's history from its records in `__consumer_offsets`: the coordinator's view."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from quorate.codecs import CoordinatorRecord, LogEntry
from quorate.codecs.consumer_protocol import decode_assignment
from quorate.codecs.messages import classic_group, consumer_group, offsets
from quorate.integration import Cluster
from tests.integration.groups import log_of


@dataclass
class History:
    """What the records of a group say, classic or KIP-848."""

    generations: list[int] = field(default_factory=list)
    """Each generation, or group epoch, in the order written, without repeats of the one before."""
    owners: dict[Any, str] = field(default_factory=dict)
    """Partition (topic or its id, number) → member id, by the newest records."""
    owned_twice: list[str] = field(default_factory=list)
    """What no coordinator may ever write: a partition with two owners."""
    commits: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """Committed offsets of each partition, in the order written."""
    instances: dict[str, str | None] = field(default_factory=dict)
    """Member id → instance id."""
    pending: bool = False
    """A member of a KIP-848 group has something to give up or to wait for."""
    records: int = 0

    @property
    def generation(self) -> int:
        """The newest."""
        return self.generations[-1]

    def steps_back(self) -> list[str]:
        """Return commits of a lower offset than the one before, which repeat messages."""
        return [
            f"{topic}-{number}: {before} then {after}"
            for (topic, number), written in self.commits.items()
            for before, after in pairwise(written)
            if after < before
        ]


def history(cluster: Cluster, group: str) -> History:
    """Read it from a live cluster."""
    return replay(log_of(cluster, group), group)


def replay(entries: Iterable[LogEntry], group: str) -> History:
    """Replay entries of a log."""
    found = History()
    members: dict[str, set[Any]] = {}
    unstable: set[str] = set()
    for entry in entries:
        record = entry.record
        if not isinstance(record, CoordinatorRecord):
            continue
        key, value = record.key, record.value
        if group not in (getattr(key, "group_id", None), getattr(key, "group", None)):
            continue
        found.records += 1
        at = f"offset {entry.offset}"
        if isinstance(key, offsets.OffsetCommitKey):
            if isinstance(value, offsets.OffsetCommitValue):
                found.commits.setdefault((key.topic, key.partition), []).append(value.offset)
        elif isinstance(key, classic_group.GroupMetadataKey):
            members.clear()
            if isinstance(value, classic_group.GroupMetadataValue):
                _note(found, value.generation)
                for one in value.members:
                    members[one.member_id] = _assigned(one.assignment)
                    found.instances[one.member_id] = one.group_instance_id
                _check(found, members, f"{at}, generation {value.generation}")
        elif isinstance(key, consumer_group.ConsumerGroupMetadataKey):
            if isinstance(value, consumer_group.ConsumerGroupMetadataValue):
                _note(found, value.epoch)
        elif isinstance(key, consumer_group.ConsumerGroupMemberMetadataKey):
            if isinstance(value, consumer_group.ConsumerGroupMemberMetadataValue):
                found.instances[key.member_id] = value.instance_id
        elif isinstance(key, consumer_group.ConsumerGroupCurrentMemberAssignmentKey):
            members.pop(key.member_id, None)
            unstable.discard(key.member_id)
            if isinstance(value, consumer_group.ConsumerGroupCurrentMemberAssignmentValue):
                # What a member has yet to give up is its own until it says that it has.
                both = (*value.assigned_partitions, *value.partitions_pending_revocation)
                members[key.member_id] = {(one.topic_id, number) for one in both for number in one.partitions}
                if value.state != 0:
                    unstable.add(key.member_id)
            _check(found, members, at)
    found.owners = {partition: member for member, those in members.items() for partition in those}
    found.pending = bool(unstable)
    return found


def _assigned(assignment: bytes) -> set[Any]:
    if not assignment:
        return set()
    message: Any = decode_assignment(assignment).message
    return {
        (assigned_partition.topic, number)
        for assigned_partition in message.assigned_partitions
        for number in assigned_partition.partitions
    }


def _note(found: History, generation: int) -> None:
    if generation not in found.generations[-1:]:
        found.generations.append(generation)


def _check(found: History, members: dict[str, set[Any]], at: str) -> None:
    owner: dict[Any, str] = {}
    for member, those in members.items():
        for partition in those:
            if partition in owner:
                found.owned_twice.append(f"{partition} of {owner[partition]} and {member} at {at}")
            owner[partition] = member
