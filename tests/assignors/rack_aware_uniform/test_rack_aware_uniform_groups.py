"""`rack-aware-uniform` in larger groups with known optima, and in scenarios."""

import numpy as np
import pytest

from quorate.assignors import GroupSpec, Member, Topology
from quorate.assignors.rack_aware_uniform import RackAwareUniformAssignor
from quorate.assignors.registry import server_assignor
from tests.assignors.groups import check_valid, local, moves


def spread(topics, partitions, replicas, racks="abc"):
    """Create topics with leaders in alternating racks, and followers in the next racks."""
    return Topology.of(
        {
            f"t{topic:02}": [
                [racks[(topic + partition + replica) % len(racks)] for replica in range(replicas)]
                for partition in range(partitions)
            ]
            for topic in range(topics)
        }
    )


def crew(count, topics, racks="abc"):
    return {f"m{at:03}": Member(topics=topics, rack=racks[at % len(racks)]) for at in range(count)}


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_all_partitions_are_local_with_balanced_racks(replicas):
    topology = spread(4, 30, replicas)
    members = crew(12, list(topology.index))
    assignment = server_assignor("rack-aware-uniform").assign(members, topology)
    check_valid(assignment, members, topology)
    assert set(assignment.counts.tolist()) == {10}
    assert local(assignment, members) == 120


def test_a_new_member_takes_only_its_share():
    topology = spread(4, 30, 3)
    members = crew(11, list(topology.index))
    group = GroupSpec(members, topology)
    before = RackAwareUniformAssignor().assign_group(group)
    after_join = {
        member: Member(topics=one.topics, rack=one.rack, owned=before[member]) for member, one in members.items()
    } | {"new": Member(topics=list(topology.index), rack="c")}
    assignment = RackAwareUniformAssignor().assign(after_join, topology)
    assert local(assignment, after_join) == 120
    assert assignment.counts.tolist() == [10] * 12
    assert moves(assignment, after_join, topology) == 10


def test_partitions_of_a_topic_are_spread_over_members():
    topology = spread(5, 12, 3)
    members = crew(6, list(topology.index))
    assignment = RackAwareUniformAssignor().assign(members, topology)
    for member in members:
        assert sorted(map(len, assignment.by_topic(member).values())) == [2, 2, 2, 2, 2]


def test_locality_takes_the_fewest_moves():
    topology = Topology.of({"t": [["a"], ["b"], ["a"], ["b"], ["a"], ["b"]]})
    owned = {"m0": [1, 3, 4], "m1": [0, 2, 5]}  # m0 in rack a has 1 of 3 local, m1 in rack b likewise
    members = {
        member: Member(topics=["t"], rack=rack, owned=[("t", at) for at in owned[member]])
        for member, rack in (("m0", "a"), ("m1", "b"))
    }
    found = []
    for bound in range(6):
        assignment = RackAwareUniformAssignor(max_moved=bound).assign(members, topology)
        found.append((moves(assignment, members, topology), local(assignment, members)))
    assert found == [(0, 2), (0, 2), (2, 4), (2, 4), (4, 6), (4, 6)]
    assert moves(RackAwareUniformAssignor(prefer="stickiness").assign(members, topology), members, topology) == 0


def test_max_moved_holds_in_a_large_group_and_more_moves_bring_more_locality():
    topology = spread(6, 50, 1)
    members = crew(17, list(topology.index))
    rng = np.random.default_rng(1)
    owner = rng.permutation(np.arange(300) % 17)
    at = topology.topic_partitions(np.arange(300))
    members = {
        member: Member(topics=one.topics, rack=one.rack, owned=[at[which] for which in np.flatnonzero(owner == number)])
        for number, (member, one) in enumerate(members.items())
    }
    found = []
    for bound in (0, 1, 7, 50, 51, 120, 300):
        assignment = RackAwareUniformAssignor(max_moved=bound).assign(members, topology)
        check_valid(assignment, members, topology)
        assert np.ptp(assignment.counts) == 1
        assert moves(assignment, members, topology) <= bound
        found.append(local(assignment, members))
    assert found == sorted(found)
    assert found[0] < found[2] < found[3] < found[5] < found[6]
    assert found[6] == local(RackAwareUniformAssignor().assign(members, topology), members)


def test_different_subscriptions_are_as_balanced_as_possible():
    """`big` has one subscriber more than `small`; the others must leave all of `big` to it."""
    topology = Topology.of({"big": 30, "small": 4, "alone": 7})
    members = {
        "a": Member(topics=["big", "small"]),
        "b": Member(topics=["small"]),
        "c": Member(topics=["small", "alone"]),
        "d": Member(topics=["alone"]),
    }
    assignment = RackAwareUniformAssignor().assign(members, topology)
    check_valid(assignment, members, topology)
    assert assignment.counts.tolist()[0] == 30
    assert sorted(assignment.counts.tolist()[1:]) == [3, 4, 4]


def test_balance_may_need_a_chain_of_moves():
    """No single move helps: m0 (2) can give only to m1 (1), which can give to m2 (0)."""
    topology = Topology.of({"t": 2, "u": 1})
    members = {
        "m0": Member(topics=["t"], owned=[("t", 0), ("t", 1)]),
        "m1": Member(topics=["t", "u"], owned=[("u", 0)]),
        "m2": Member(topics=["u"]),
    }
    assert RackAwareUniformAssignor().assign(members, topology).counts.tolist() == [1, 1, 1]


def test_unknown_topics_racks_and_members_without_topics():
    topology = Topology.of({"t": [[None, "a"], [], ["z"]]})
    members = {
        "idle": Member(rack="a"),
        "m": Member(topics=["t", "gone"], rack="a"),
        "n": Member(topics=["t"], rack=""),
    }
    assignment = RackAwareUniformAssignor().assign(members, topology)
    check_valid(assignment, members, topology)
    assert ("t", 0) in assignment["m"]
    assert RackAwareUniformAssignor().assign({}, topology) == {}
    assert RackAwareUniformAssignor().assign({"m": Member()}, topology) == {"m": ()}
    assert RackAwareUniformAssignor().assign({"m": Member(topics=["t"])}, Topology([])) == {"m": ()}


def test_locality_of_the_leader():
    topology = Topology.of({"t": [["b", "a"], ["a", "b"]]})
    members = {"m": Member(topics=["t"], rack="a"), "n": Member(topics=["t"], rack="b")}
    assert RackAwareUniformAssignor(locality="leader").assign(members, topology) == {"m": (("t", 1),), "n": (("t", 0),)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"locality": "rack"}, "unknown locality 'rack'; use replica or leader"),
        ({"prefer": "balance"}, "unknown value 'balance' of prefer; use locality or stickiness"),
        ({"max_moved": -1}, "max_moved is -1; give the number"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        RackAwareUniformAssignor(**options)
