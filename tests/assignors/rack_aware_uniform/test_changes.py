"""`rack-aware-uniform` after changes of racks: most local, by the fewest moves."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.assignors import Member, Topology
from quorate.assignors.rack_aware_uniform import RackAwareUniformAssignor
from tests.assignors.groups import RACKS, check_valid, local
from tests.assignors.optimum import all_worths, worth
from tests.extent import portion


class Group:
    """A group whose members own what they were assigned last, on brokers with racks."""

    def __init__(self, replicas, broker_racks, members):
        self.replicas, self.broker_racks, self.members = replicas, broker_racks, members
        self.rebalance()

    @property
    def topology(self):
        return Topology.from_replicas(self.replicas, self.broker_racks)

    def rebalance(self):
        """Assign, check that no assignment is better, and return the worth."""
        assignment = RackAwareUniformAssignor().assign(self.members, self.topology)
        check_valid(assignment, self.members, self.topology)
        found = worth(assignment, self.members, self.topology)
        assert found == min(all_worths(self.members, self.topology))
        self.members = {
            member: replace(self.members[member], owned=partitions) for member, partitions in assignment.items()
        }
        return found


@st.composite
def small_groups(draw):
    """Draw three brokers in racks, up to 6 partitions, and up to 4 members."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2).filter(lambda sizes: sum(sizes) <= 6))
    brokers = st.permutations((0, 1, 2)).map(lambda order: order[: draw(st.integers(1, 2))])
    replicas = {f"t{topic}": [draw(brokers) for _ in range(size)] for topic, size in enumerate(sizes)}
    names = list(replicas)
    topics = st.just(names) if draw(st.booleans()) else st.lists(st.sampled_from(names), max_size=2)
    members = {
        f"m{number}": Member(topics=draw(topics), rack=draw(st.sampled_from(RACKS)))
        for number in range(draw(st.integers(1, 4)))
    }
    return Group(replicas, dict(enumerate(draw(st.lists(st.sampled_from(RACKS), min_size=3, max_size=3)))), members)


@settings(max_examples=portion(100))
@given(small_groups(), st.integers(0, 2), st.sampled_from(RACKS))
def test_a_broker_that_changes_rack_and_back_moves_the_fewest_partitions(group, broker, rack):
    counts, remote, _ = group.rebalance()
    before = group.broker_racks[broker]
    group.broker_racks[broker] = rack
    group.rebalance()
    group.broker_racks[broker] = before
    assert group.rebalance()[:2] == (counts, remote)
    assert group.rebalance() == (counts, remote, 0)


@settings(max_examples=portion(100))
@given(small_groups(), st.integers(0, 3), st.sampled_from(RACKS))
def test_a_member_that_changes_rack_and_back_moves_the_fewest_partitions(group, number, rack):
    counts, remote, _ = group.rebalance()
    member = f"m{number % len(group.members)}"
    before = group.members[member].rack
    group.members[member] = replace(group.members[member], rack=rack)
    group.rebalance()
    group.members[member] = replace(group.members[member], rack=before)
    assert group.rebalance()[:2] == (counts, remote)
    assert group.rebalance() == (counts, remote, 0)


@pytest.mark.parametrize("partitions", [6, 18, 60])
def test_brokers_that_swap_racks_move_only_their_partitions(partitions):
    topics = {"t": [[number % 6] for number in range(partitions)]}
    racks = dict(enumerate("aabbcc"))
    members = {f"m{rack}": Member(topics=["t"], rack=rack) for rack in RACKS}
    for changed in ({}, {0: "b", 2: "a"}, {0: "a", 2: "b"}):
        racks |= changed
        assignment = RackAwareUniformAssignor().assign(members, Topology.from_replicas(topics, racks))
        assert local(assignment, members) == partitions
        if changed:
            moved = {at.partition for member in members for at in set(members[member].owned) - set(assignment[member])}
            assert moved == {number for number in range(partitions) if number % 6 in changed}
        members = {member: replace(members[member], owned=owned) for member, owned in assignment.items()}
