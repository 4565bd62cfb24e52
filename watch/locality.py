"""Racks: which assigned partitions have a replica in the rack of their member."""

from collections.abc import Collection
from typing import Protocol

from quorate.codecs import Uuid
from quorate.coordinator.history import GroupView, Labels, MemberView
from quorate.coordinator.history.labels import Partition
from quorate.watch.causes import TopicsChanged

__all__ = ["TopicFacts", "cross_rack_share"]


class TopicFacts(Protocol):
    """What is known about topics. `names`: topic id → name, also learned from records."""

    names: dict[Uuid, str]

    def labels(self) -> Labels:
        """Return names for sentences."""
        ...

    def racks(self, partition: Partition) -> tuple[str | None, ...] | None:
        """Return the racks of a partition's replicas, the leader's first; `None` if unknown."""
        ...

    def passed(self, group_id: str) -> None:
        """Note a rebalance of the group, which earlier changes do not cause again."""
        ...

    def change(self, group_id: str, topics: Collection[str]) -> TopicsChanged | None:
        """Return what changed in these topics since the last call for the group."""
        ...


def is_local(member: MemberView, partition: Partition, topics: TopicFacts) -> bool | None:
    """Return whether a replica is in the member's rack; `None` if either is unknown."""
    racks = None if member.rack is None else topics.racks(partition)
    return None if not racks or not any(racks) else member.rack in racks


def cross_rack_share(view: GroupView | None, topics: TopicFacts) -> float | None:
    """Return the share of assigned partitions without a replica in their member's rack."""
    known = [
        local
        for member in (() if view is None else view.members.values())
        if member.rack is not None
        for partition in member.assigned
        if (local := is_local(member, partition, topics)) is not None
    ]
    return known.count(False) / len(known) if known else None
