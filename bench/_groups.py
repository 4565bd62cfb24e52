"""The groups of Kafka's JMH benchmarks for quorate's assignors.

These are ClientSideAssignorBenchmark and ServerSideAssignorBenchmark. tests/oracle's Bench.java
generates the same groups.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from quorate.assignors import Assignment, Assignor, GroupSpec, Member, Topic, Topology
from quorate.assignors.server import homogeneous
from quorate.assignors.server.ids import few_in_broker_order, subscribed_in_order
from quorate.codecs import Uuid
from quorate.codecs.messages import ProtocolTopicPartition, StickyAssignorUserData
from quorate.codecs.sticky_user_data import encode_sticky_user_data

BUCKETS = 5
RACKS = ("rack0", "rack1", "rack2")


@dataclass(frozen=True)
class Cell:
    """A point of the grid.

    `ratio`: partitions per member; `racks`: none, rf3 (every partition in every rack), or rf1 (each
    in one). `own_topics`: if not 0, each member subscribes to so many topics that it chooses for
    itself, which Java's benchmark does not have.
    """

    members: int
    ratio: int
    topics: int
    homogeneous: bool = True
    incremental: bool = False
    racks: str = "none"
    own_topics: int = 0

    @property
    def partitions(self) -> int:
        """Partitions of all topics."""
        return self.members * self.ratio // self.topics * self.topics

    @property
    def argument(self) -> str:
        """The argument of Bench.java for this cell."""
        kind = "homogeneous" if self.homogeneous else "heterogeneous"
        change = "incremental" if self.incremental else "full"
        return f"{self.members}/{self.ratio}/{self.topics}/{kind}/{change}/{self.racks}"

    def __str__(self) -> str:
        kind = "" if self.homogeneous else ", heterogeneous"
        if self.own_topics:
            kind = f", {self.own_topics} topics of its own each"
        return (
            f"{self.members:,} members, {self.ratio} each, {self.topics:,} topics{kind}"
            f"{', incremental' if self.incremental else ''}{'' if self.racks == 'none' else ', racks ' + self.racks}"
        )


def grid() -> Iterator[tuple[int, int, int]]:
    """Yield members, ratio and topics of Kafka's grid, if each topic has a partition."""
    for members in (100, 500, 1000, 5000, 10_000):
        for ratio in (5, 10, 50):
            for topics in (10, 100, 1000):
                if members * ratio >= topics:
                    yield members, ratio, topics


@cache
def topology_of(members: int, ratio: int, topics: int, racks: str) -> Topology:
    """Return topics of equal size on three brokers."""
    count = members * ratio // topics
    rng = random.Random(42)
    placed = {
        "none": (),
        "rf3": tuple(tuple(RACKS[(p + k) % 3] for k in range(3)) for p in range(count)),
        "rf1": tuple((RACKS[p % 3],) for p in range(count)),
    }[racks]
    return Topology(
        Topic(name=f"topic{number}", partitions=count, racks=placed, id=Uuid(rng.randbytes(16)))
        for number in range(topics)
    )


def _topics_of(cell: Cell, number: int, members: int) -> Sequence[int]:
    """Return the topics of a member: all, its own choice, or those of its bucket."""
    if cell.own_topics:
        return tuple(sorted(random.Random(number).sample(range(cell.topics), cell.own_topics)))
    if cell.homogeneous:
        return range(cell.topics)
    buckets = min(BUCKETS, members)
    per_bucket = math.ceil(cell.topics / buckets)
    bucket = min(number // math.ceil(members / buckets), buckets - 1)
    return range(min(bucket * per_bucket, cell.topics), min((bucket + 1) * per_bucket, cell.topics))


def members_of(cell: Cell, assignor: Assignor, *, user_data: bool = False) -> dict[str, Member]:
    """Return the members of a cell.

    In an incremental cell, all but the last own the partitions of an assignment by `assignor`, and
    the last one is new. `user_data`: owned partitions are also in the user data, as for `sticky`.
    """
    count = cell.members - 1 if cell.incremental else cell.members
    aware = cell.racks != "none"
    lists: dict[Sequence[int], tuple[str, ...]] = {}
    members = {}
    for number in range(count):
        topics = _topics_of(cell, number, count)
        names = lists.setdefault(topics, tuple(f"topic{topic}" for topic in topics))
        members[f"member{number}"] = Member(topics=names, rack=RACKS[number % 3] if aware else None)
    if not cell.incremental:
        return members
    first = assignor.assign(members, topology_of(cell.members, cell.ratio, cell.topics, cell.racks))
    new = Member(topics=members[f"member{count - 1}"].topics, rack=RACKS[count % 3] if aware else None)
    return {name: _owning(member, first, name, user_data) for name, member in members.items()} | {"newMember": new}


def _owning(member: Member, assignment: Assignment, name: str, user_data: bool) -> Member:
    owned = assignment[name]
    data = None
    if user_data:
        previous = tuple(
            ProtocolTopicPartition(topic=topic, partitions=tuple(partitions))
            for topic, partitions in assignment.by_topic(name).items()
        )
        data = encode_sticky_user_data(StickyAssignorUserData(previous_assignment=previous, generation=1))
    return Member(topics=member.topics, rack=member.rack, owned=owned, generation=1, user_data=data)


def group(members: dict[str, Member], cell: Cell) -> GroupSpec:
    """Prepare a group with what Java's benchmark prepares, too.

    These are hash maps and sets: of members, names in subscriptions, owned partitions, and owners;
    and racks.
    """
    made = GroupSpec(members, topology_of(cell.members, cell.ratio, cell.topics, cell.racks))
    for name in _GIVEN:
        getattr(made, name)
    for listing in range(len(made.listings)):
        subscribed_in_order(made, listing, _JDK)
    if made.size <= homogeneous.FEW:
        for listing in range(len(made.listings)):
            few_in_broker_order(made, listing, _JDK)
        homogeneous.taken_partitions(made)
        for member in range(len(made)):
            homogeneous.previous_of(made, _JDK, member)
    return made


_JDK = 17
_GIVEN = (
    "owned",
    "owned_offsets",
    "owned_lists",
    "generations",
    "user_data",
    "hash_order",
    "hash_places",
    "racks",
    "rack_of",
)
_COMPUTED = {name for name, each in vars(GroupSpec).items() if isinstance(each, cached_property)} - set(_GIVEN)


def fresh(prepared: GroupSpec) -> GroupSpec:
    """Return a copy without the values that assignors compute and cache.

    Sorting members, for example, is part of the assignment, as it is in Java.
    """
    copy = GroupSpec.__new__(GroupSpec)
    copy.__dict__.update({name: prepared.__dict__[name] for name in prepared.__dict__.keys() - _COMPUTED})
    copy.from_subscriptions = prepared.from_subscriptions.copy()
    copy.from_owned = prepared.from_owned.copy()
    return copy
