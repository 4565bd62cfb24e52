"""A group before an assignment: members, topics, owned partitions and lags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from quorate.assignors import Assignment, Member, TopicPartition, Topology

Protocol = Literal["classic", "consumer"]
"""The group protocol.

`classic`: the group leader's assignor; `consumer`: the coordinator's (KIP-848).
"""

Owned: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]
"""Member id → owned partitions."""


@dataclass(frozen=True, kw_only=True)
class GroupSituation:
    """A group before an assignment.

    `source`: where it was read from. `current`: the current assignment; empty if unknown. `lags`:
    in records; `None` if unknown. `notes`: what the source does not contain, and the value assumed
    for it.
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
        """`current` over this topology, without deleted partitions.

        Its members may differ from `members`.
        """
        if not any(self.current.values()):
            return None
        number = self.topology.number
        found = [[number(topic, partition) for topic, partition in owned] for owned in self.current.values()]
        return Assignment.from_lists(
            self.topology, tuple(self.current), [[one for one in numbers if one >= 0] for numbers in found]
        )

    @cached_property
    def racks_known(self) -> bool:
        """Whether the rack of any replica is known; locality is unknown otherwise."""
        return any(self.topology.rack_sets)

    def name_of(self, member_id: str) -> str:
        """Return the display name of a member: its instance id if static, otherwise its id."""
        member = self.members.get(member_id)
        return member.instance_id if member is not None and member.instance_id else member_id
