"""`rack-aware-uniform` against all possible assignments: none is better."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.assignors import GroupSpec, Member, Topology
from quorate.assignors.owners import previous_owners
from quorate.assignors.rack_aware_uniform import RackAwareUniformAssignor, kinds
from quorate.assignors.rack_aware_uniform.flow import Network
from tests.assignors.groups import check_valid, groups, reordered
from tests.assignors.optimum import all_worths, worth
from tests.extent import portion

SMALL = groups(members=4, most=6, topics=2).filter(lambda group: group[1].first[-1] <= 6)
SMALL_EQUAL = groups(members=4, most=6, topics=2, same=True).filter(lambda group: group[1].first[-1] <= 6)


@settings(max_examples=portion(250))
@given(st.one_of(SMALL, SMALL_EQUAL), st.booleans())
def test_no_assignment_is_better(group, leader):
    members, topology = group
    locality = "leader" if leader else "replica"
    everything = set(all_worths(members, topology, leader=leader))
    assignment = RackAwareUniformAssignor(locality=locality).assign(members, topology)
    check_valid(assignment, members, topology)
    assert worth(assignment, members, topology, leader=leader) == min(everything)
    assignment = RackAwareUniformAssignor(locality=locality, prefer="stickiness").assign(members, topology)
    check_valid(assignment, members, topology)
    found = worth(assignment, members, topology, leader=leader)
    assert found == min(everything, key=lambda one: (one[0], one[2], one[1]))


@settings(max_examples=portion(150))
@given(st.one_of(SMALL, SMALL_EQUAL), st.integers(0, 5))
def test_max_moved_is_exceeded_only_as_far_as_balance_needs(group, bound):
    members, topology = group
    everything = set(all_worths(members, topology))
    even = min(everything)[0]
    needed = min(moved for counts, _, moved in everything if counts == even)
    assignment = RackAwareUniformAssignor(max_moved=bound).assign(members, topology)
    check_valid(assignment, members, topology)
    counts, remote, moved = worth(assignment, members, topology)
    assert counts == even
    assert moved <= max(bound, needed)
    sticky = worth(RackAwareUniformAssignor(prefer="stickiness").assign(members, topology), members, topology)
    assert remote <= sticky[1]


@given(groups(members=5, most=6, topics=2).filter(lambda group: group[1].first[-1] <= 5))
def test_members_with_equal_hashes_are_not_taken_for_each_other(group):
    """Kinds of members are found by hashes, which may collide; here all of them do."""
    members, topology = group
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "_hashed", lambda numbers: np.zeros(len(numbers), np.uint64))
        assignment = RackAwareUniformAssignor().assign(members, topology)
    check_valid(assignment, members, topology)
    assert worth(assignment, members, topology) == min(all_worths(members, topology))


def test_all_small_groups_of_one_shape():
    """A sample of all racks, subscriptions and owners of two topics and three members."""
    rng = np.random.default_rng(4)
    subscriptions = (["t"], ["u"], ["t", "u"])
    every = list(product(product(subscriptions, repeat=3), product("ab", repeat=4), product((-1, 0, 1, 2), repeat=4)))
    for place in rng.choice(len(every), portion(1_500), replace=False).tolist():
        topics_of, leaders, owners = every[place]
        topology = Topology.of({"t": [[rack] for rack in leaders[:2]], "u": [[rack] for rack in leaders[2:]]})
        at = topology.topic_partitions(np.arange(4))
        members = {
            f"m{number}": Member(
                topics=topics, rack="aab"[number], owned=[at[which] for which in range(4) if owners[which] == number]
            )
            for number, topics in enumerate(topics_of)
        }
        assignment = RackAwareUniformAssignor().assign(members, topology)
        assert worth(assignment, members, topology) == min(all_worths(members, topology)), (
            topics_of,
            leaders,
            owners,
        )


@given(groups(members=7, most=12), st.sampled_from([{}, {"prefer": "stickiness"}, {"max_moved": 2}]))
def test_the_order_of_members_and_topics_does_not_matter(group, options):
    members, topology = group
    assignor = RackAwareUniformAssignor(**options)
    one, other = assignor.assign(members, topology), assignor.assign(*reordered(members, topology))
    check_valid(one, members, topology)
    assert {member: set(one[member]) for member in one} == {member: set(other[member]) for member in other}


@given(groups(members=7, most=12))
def test_assigning_again_moves_nothing(group):
    members, topology = group
    assignor = RackAwareUniformAssignor()
    prepared = GroupSpec(members, topology)
    first = assignor.assign_group(prepared)
    again = assignor.assign_group(prepared.with_owned(first))
    assert [set(first[member]) for member in first] == [set(again[member]) for member in again]


@settings(max_examples=portion(60))
@given(groups(members=8, most=30), st.sampled_from(["locality", "stickiness"]))
def test_the_reduction_to_kinds_keeps_the_optimum(group, prefer):
    """Solve the problem without kinds and regions: a node per partition and member."""
    members, topology = group
    ids = list(members)
    owners = previous_owners(GroupSpec(members, topology)).tolist()
    at = topology.topic_partitions(np.arange(int(topology.first[-1])))
    size = len(at)
    source, sink = size + len(ids), size + len(ids) + 1
    tails, heads, costs = [], [], []

    def add(tail, head, cost):
        tails.append(tail)
        heads.append(head)
        costs.append(cost)

    dear, cheap = (size + 1, 1) if prefer == "locality" else (1, size + 1)
    for number, (topic, _) in enumerate(at):
        racks = topology.replica_racks[topology.replica_racks_of[number]]
        add(source, number, 0)
        for place, member in enumerate(members.values()):
            if topic in member.topics:
                remote = not (member.rack and member.rack in racks)
                add(number, size + place, dear * remote + cheap * (owners[number] not in (-1, place)))
    for place in range(len(ids)):
        for level in range(size):
            add(size + place, sink, level * (size + 1) ** 3)
    costs = np.array(costs, np.int64)
    network = Network(sink + 1, np.array(tails, np.int64), np.array(heads, np.int64), np.ones(len(costs), np.int64))
    flows, _ = network.largest(source, sink, costs)
    cost = int(costs @ flows)

    counts, remote, moved = worth(RackAwareUniformAssignor(prefer=prefer).assign(members, topology), members, topology)
    evenness = sum(count * (count - 1) // 2 for count in counts) * (size + 1) ** 3
    assert evenness + dear * remote + cheap * moved == cost


def test_with_max_moved_at_most_two_partitions_more_than_optimal_are_remote():
    """The largest loss by whole exchanges (see the class) in small groups, where it is largest."""
    rng = np.random.default_rng(1)
    lost = []
    for _ in range(portion(300)):
        size, number, racks = int(rng.integers(3, 7)), int(rng.integers(2, 5)), "abc"[: int(rng.integers(2, 4))]
        topology = Topology.of({"t": [[racks[rng.integers(len(racks))]] for _ in range(size)]})
        owner = rng.integers(number, size=size)
        members = {
            f"m{place}": Member(
                topics=["t"],
                rack=racks[rng.integers(len(racks))],
                owned=[("t", which) for which in np.flatnonzero(owner == place).tolist()],
            )
            for place in range(number)
        }
        everything = set(all_worths(members, topology))
        even = min(everything)[0]
        for bound in range(min(moved for counts, _, moved in everything if counts == even), size):
            assignment = RackAwareUniformAssignor(max_moved=bound).assign(members, topology)
            least = min(remote for counts, remote, moved in everything if counts == even and moved <= bound)
            lost.append(worth(assignment, members, topology)[1] - least)
    assert max(lost) <= 2
    assert lost.count(0) > 0.95 * len(lost)
