"""Members and topologies: rejected input, and the racks of partitions (KIP-881)."""

import pytest

from quorate.assignors import Assignment, AssignorError, Member, RangeAssignor, Topology
from quorate.assignors.sticky import StickyAssignor


def test_a_string_is_rejected_as_a_list_of_topics():
    with pytest.raises(AssignorError, match=r"^topics is 'orders': give a list of names, such as \['orders'\]$"):
        Member(topics="orders")


def test_an_assignment_keeps_its_lists_when_the_list_of_them_changes():
    lists = [[0, 1], [2]]
    made = Assignment.from_lists(Topology.of({"t": 3}), ("a", "b"), lists)
    lists[0] = []
    assert [len(made["a"]), len(made["b"])] == [2, 1]


def test_a_partition_is_in_the_racks_of_all_replicas_online_or_not():
    """Metadata lists all replicas, but has no racks of offline brokers; adapters remember them."""
    replicas = {"t": [[1, 2], [2, 3], [3, 9], [4, 4]]}
    topology = Topology.from_replicas(replicas, {1: "a", 2: "b", 3: None, 4: ""})
    assert [topology.replica_racks[one] for one in topology.replica_racks_of.tolist()] == [
        ("a", "b"),
        ("b", None),
        (None, None),
        ("", ""),
    ]
    assert [sorted(racks) for racks in topology.rack_sets[1:]] == [["a", "b"], ["b"], [], [""]]


@pytest.mark.parametrize("assignor", [RangeAssignor(), StickyAssignor()])
def test_racks_of_followers_count_like_those_of_leaders(assignor):
    topology = Topology.from_replicas({"t": [[1, 2], [1, 3]]}, {1: "a", 2: "b", 3: "c"})
    members = {"m1": Member(topics=["t"], rack="c"), "m2": Member(topics=["t"], rack="b")}
    assert dict(assignor.assign(members, topology)) == {"m1": (("t", 1),), "m2": (("t", 0),)}
