"""The base class of all assignors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, Member
from quorate.assignors.topology import Topology


class Assignor(ABC):
    """A partition assignor: a pure function of members and topology, without state.

    `name` is the assignor's name in the group protocol: in `partition.assignment.strategy` for
    client-side assignors, in `group.consumer.assignors` for server-side ones.
    """

    name: ClassVar[str]

    def assign(self, members: Mapping[str, Member], topology: Topology) -> Assignment:
        """Assign the partitions of the subscribed topics.

        `members`: member id → member, in the order in which the members joined. Kafka depends on
        that order only where the hashes of two member ids collide, and so does this method.

        Raises `AssignorError`.
        """
        return self.assign_group(GroupSpec(members, topology))

    @abstractmethod
    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; saves time if the same group is assigned repeatedly."""
