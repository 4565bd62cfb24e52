"""Racks: which assigned partitions have a replica in the rack of their member."""

from quorate.coordinator.history import GroupView, MemberView
from quorate.coordinator.history.labels import Partition
from quorate.watch.topics import KnownTopics


def is_local(member: MemberView, partition: Partition, topics: KnownTopics) -> bool | None:
    """Return whether a replica is in the member's rack; `None` if either is unknown."""
    racks = None if member.rack is None else topics.racks(partition)
    return None if not racks or not any(racks) else member.rack in racks


def cross_rack_share(view: GroupView | None, topics: KnownTopics) -> float | None:
    """Return the share of assigned partitions without a replica in their member's rack."""
    known = [
        local
        for member in (() if view is None else view.members.values())
        if member.rack is not None
        for partition in member.assigned
        if (local := is_local(member, partition, topics)) is not None
    ]
    return known.count(False) / len(known) if known else None
