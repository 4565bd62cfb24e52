"""A group before anything is assigned, wherever it was read: members, topics, what members have now, and how far they are behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from quorate.assignors import Assignment, Member, TopicPartition, Topology

__all__ = ["GroupSituation", "Owned", "Protocol"]

Protocol = Literal["classic", "consumer"]
"""Of which protocol a group is: the leader's assignor decides (`classic`), or the coordinator's
(`consumer`, KIP-848).
"""

Owned: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]
"""Member id → the partitions that it has."""


@dataclass(frozen=True, kw_only=True)
class GroupSituation:
    """A group before anything is assigned.

    `source` names where it was read. `current`: who has what now; empty if that is not known.
    `lags` in records; `None` if they are not known. `notes`: what the source could not tell, and
    what was taken instead.
    """

    source: str
    group_id: str | None
    protocol: Protocol | None
    assignor: str | None
    members: Mapping[str, Member]
    topology: Topology
    current: Owned
    lags: Mapping[TopicPartition, int] | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def current_assignment(self) -> Assignment | None:
        """`current` over this topology, with the members that it is of; without partitions that are gone."""
        if not any(self.current.values()):
            return None
        number = self.topology.number
        found = [[number(topic, partition) for topic, partition in owned] for owned in self.current.values()]
        return Assignment.from_lists(
            self.topology, tuple(self.current), [[one for one in numbers if one >= 0] for numbers in found]
        )

    @cached_property
    def racks_known(self) -> bool:
        """Whether any replica's rack is known: without, nothing can be said of locality."""
        return any(self.topology.rack_sets)

    def name_of(self, member_id: str) -> str:
        """What people call a member: the instance id of a static one, else its id."""
        member = self.members.get(member_id)
        return member.instance_id if member is not None and member.instance_id else member_id
