"""What the server-side assignors have in common (KIP-848, KIP-932): the kind of subscription, and a target that tells who has to be written.

**Order of members.** The broker puts the group's members into a HashMap before it assigns, so a
`GroupSpec` has to hold them in the order in which the coordinator goes through its own members. A
real group keeps these in a TimelineHashMap: `java_order.timeline_order` of the hashes of their ids,
in the order in which they came into the map.

**What members own** is their previous target, in the order of its record (`Member.owned`); a
partition number of -1 stands for a topic that the record names without partitions, which only
`simple` ever writes.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from operator import itemgetter

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, AssignorError
from quorate.assignors.topology import Ints
from quorate.codecs import Uuid
from quorate.codecs.releases import KafkaVersion

__all__ = ["Record", "ServerAssignor", "SubscriptionType", "TargetAssignment"]

Record = tuple[tuple[Uuid, tuple[int, ...]], ...]
"""A member's target assignment as the coordinator writes it: topic ids with partitions, in order."""


class SubscriptionType(Enum):
    """What the coordinator found out about the group's subscriptions.

    It decides how `uniform` and `simple` go about it.
    """

    HOMOGENEOUS = "HOMOGENEOUS"
    """All members subscribe to the same topics."""

    HETEROGENEOUS = "HETEROGENEOUS"

    @classmethod
    def of(cls, group: GroupSpec) -> "SubscriptionType":
        """As the coordinator tells it for a group without regular expressions (names that do not exist count as well)."""
        return cls.HOMOGENEOUS if len(group.subscriptions) <= 1 else cls.HETEROGENEOUS


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """A new target assignment: `assignment` of all members, and `changed`, the numbers of those whose content is another than before.

    `changed` is in the order in which the coordinator writes the records; for a member that has had
    no target at all it also writes an empty one. A changed member's partitions are in the order of
    its record; the others' are as they were given.
    """

    group: GroupSpec
    assignment: Assignment
    changed: Ints
    told: Mapping[int, Record] = field(default_factory=dict)
    """The records that `assignment` cannot tell: those with topics that are gone or without
    partitions.
    """

    def record(self, member: int) -> Record:
        """A changed member's record; `member` is its number in the group."""
        if member in self.told:
            return self.told[member]
        topology = self.group.topology
        numbers = self.assignment.partitions[self.assignment.offsets[member] : self.assignment.offsets[member + 1]]
        pairs = zip(topology.topic_of[numbers].tolist(), topology.partition_of[numbers].tolist(), strict=True)
        return tuple(
            (_known(topology.topics[topic].id), tuple(partition for _, partition in partitions))
            for topic, partitions in groupby(pairs, key=itemgetter(0))
        )


def _known(topic_id: Uuid | None) -> Uuid:
    assert topic_id is not None  # what is assigned has an id
    return topic_id


class ServerAssignor(Assignor):
    """A server-side assignor.

    `version`: the release to answer like. `jdk`: the broker's Java; in rare cases Kafka's answer
    depends on it (a HashSet that is a copy has other buckets since 19). `subscription_type`: what
    the coordinator found out; by default it is derived from the group.
    """

    def __init__(
        self,
        *,
        version: KafkaVersion = KafkaVersion.NEWEST,
        jdk: int = 17,
        subscription_type: SubscriptionType | None = None,
    ) -> None:
        self.version = version
        self.jdk = jdk
        self.subscription_type = subscription_type

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`. Raises `AssignorError`."""
        return self.target(group).assignment

    @abstractmethod
    def target(self, group: GroupSpec) -> TargetAssignment:
        """The same, with what the coordinator needs to write its records.

        Raises `AssignorError`, for one if a subscribed topic has no id.
        """

    def _type_of(self, group: GroupSpec) -> SubscriptionType:
        return self.subscription_type or SubscriptionType.of(group)

    def _need_at_least(self, *needed: KafkaVersion) -> None:
        """Refuse a release whose answers are not known here."""
        oldest = min(needed)
        if self.version < oldest:
            raise AssignorError(
                f"{self.name} answers like Kafka {oldest} to {KafkaVersion.NEWEST}, not like {self.version}: leave `version` out, or give a later one"
            )
