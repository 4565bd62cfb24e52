"""Strategies and checks for the assignors that Kafka lacks, with small groups."""

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from quorate.assignors import Assignment, GroupSpec, Member, Topology
from quorate.assignors.owners import previous_owners

RACKS = ("a", "b", "c")
TOPICS = ("orders", "refunds", "stock")


@st.composite
def topologies(draw: st.DrawFn, *, most: int = 8, topics: int = 3) -> Topology:
    """Draw topics whose replica racks are known or unknown."""
    replicas = st.lists(st.sampled_from((*RACKS, "z", None)), min_size=0, max_size=3)
    return Topology.of(
        {
            name: draw(st.lists(replicas, min_size=0, max_size=most))
            for name in draw(st.permutations(TOPICS[: draw(st.integers(1, topics))]))
        }
    )


@st.composite
def groups(
    draw: st.DrawFn, *, members: int = 5, most: int = 8, topics: int = 3, claims: bool = True, same: bool = False
) -> tuple[dict[str, Member], Topology]:
    """Draw members and a topology.

    `claims`: also conflicting claims and stale generations; `same`: equal subscriptions.
    """
    topology = draw(topologies(most=most, topics=topics))
    everything = [(topic.name, partition) for topic in topology.topics for partition in range(topic.partitions)]
    ids = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=members, unique=True))
    owned: dict[str, list[tuple[str, int]]] = {member: [] for member in ids}
    for at in everything:
        for member in draw(st.lists(st.sampled_from([*ids, None]), min_size=1, max_size=2 if claims else 1)):
            if member is not None:
                owned[member].append(at)
    names = list(topology.index)
    return {
        member: Member(
            topics=names if same else draw(st.lists(st.sampled_from([*names, "gone"]), max_size=4)),
            rack=draw(st.sampled_from((*RACKS, None, "", "elsewhere"))),
            instance_id=draw(st.sampled_from((None, f"i-{member}"))),
            owned=[*owned[member], *draw(st.sampled_from(([], [("gone", 1)], [(names[0], 99)])))],
            generation=draw(st.sampled_from((-1, 4, 5) if claims else (-1,))),
        )
        for member in ids
    }, topology


def check_valid(assignment: Assignment, members: Mapping[str, Member], topology: Topology) -> None:
    """Check that each subscribed partition has one subscribed owner, and all members are listed."""
    assert list(assignment) == list(members)
    wanted = {topic for member in members.values() for topic in member.topics}
    given = sorted(at for member in assignment for at in assignment[member])
    assert given == sorted(
        (topic.name, partition)
        for topic in topology.topics
        if topic.name in wanted
        for partition in range(topic.partitions)
    )
    for member, partitions in assignment.items():
        assert {at.topic for at in partitions} <= set(members[member].topics)


def moves(assignment: Assignment, members: Mapping[str, Member], topology: Topology) -> int:
    """Count partitions that a subscriber owned and another member gets."""
    owners = previous_owners(GroupSpec(members, topology))
    now = np.full(len(owners), -1)
    now[assignment.partitions] = np.repeat(np.arange(len(assignment)), assignment.counts)
    return int(np.count_nonzero((owners >= 0) & (owners != now)))


def local(assignment: Assignment, members: Mapping[str, Member], *, leader: bool = False) -> int:
    """Count partitions that are local by replica, or by leader."""
    topology = assignment.topology
    found = 0
    for member in assignment:
        for number in assignment.numbers(member).tolist():
            racks = topology.replica_racks[topology.replica_racks_of[number]]
            found += bool(members[member].rack) and members[member].rack in (racks[:1] if leader else racks)
    return found


def reordered(members: Mapping[str, Member], topology: Topology) -> tuple[dict[str, Member], Topology]:
    """Return the same group in reverse order."""
    return dict(reversed(members.items())), Topology(reversed(topology.topics))


def lists(assignment: Assignment) -> dict[str, list[str]]:
    """Return the partitions of each member as texts such as "orders-0"."""
    return {member: [f"{topic}-{number}" for topic, number in given] for member, given in assignment.items()}
