"""What all assignors have in common: a name, and `assign`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, Member
from quorate.assignors.topology import Topology

__all__ = ["Assignor"]


class Assignor(ABC):
    """Members + topology → assignment, as a pure function: the same input gives the same answer, and nothing is remembered.

    `name` is what the group protocol calls it: `partition.assignment.strategy` on the client side,
    `group.consumer.assignors` on the server side.
    """

    name: ClassVar[str]

    def assign(self, members: Mapping[str, Member], topology: Topology) -> Assignment:
        """Assign the partitions of the subscribed topics.

        `members`: member id → member, in the order in which they joined.

        The order counts only where Kafka's does: where the hashes of two member ids meet. Raises
        `AssignorError`.
        """
        return self.assign_group(GroupSpec(members, topology))

    @abstractmethod
    def assign_group(self, group: GroupSpec) -> Assignment:
        """The same for a group that is prepared, for those who assign the same group more than once."""
