"""`explain`: counts are correct, and reasons are those of the situation."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.assignors import Assignment, GroupSpec, Member, TopicPartition, Topology
from quorate.assignors.explanations import WHY, RemoteReason, Spread, explain


def assigned(topology, given):
    """Create an assignment from member → "topic-partition …"."""
    lists = [
        [topology.number(*split(one)) for one in (text.split() if isinstance(text, str) else text)]
        for text in given.values()
    ]
    return Assignment.from_lists(topology, tuple(given), lists)


def split(text):
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def reasons(members, topology, given):
    """Return remote partition → reason."""
    facts = explain(members, topology, assigned(topology, given))
    return {f"{one.topic}-{one.partition}": one.reason for one in facts.remote}


ORDERS = Topology.of({"orders": [["a", "b"], ["b", "c"], ["c", "a"], ["a", "b"]]})


def test_members_racks_and_balance_are_counted():
    members = {
        "m1": Member(topics=["orders"], rack="b", instance_id="one"),
        "m2": Member(topics=["orders"], rack="a"),
        "m3": Member(topics=["orders"]),
        "m4": Member(topics=["orders"], rack="b"),
    }
    facts = explain(
        members, ORDERS, assigned(ORDERS, {"m1": "orders-0 orders-2", "m2": "orders-3", "m3": "", "m4": ""})
    )
    assert list(facts.members) == ["m1", "m2", "m3", "m4"]
    assert (facts.members["m1"].partitions, facts.members["m1"].local, facts.members["m1"].local_share) == (2, 1, 0.5)
    assert (facts.members["m1"].instance_id, facts.members["m1"].topics) == ("one", {"orders": 2})
    assert (facts.members["m3"].rack, facts.members["m3"].local_share, facts.members["m3"].topics) == (None, None, {})
    assert [(r.rack, r.members, r.partitions, r.local, r.local_share) for r in facts.racks] == [
        ("a", 1, 1, 1, 1.0),
        ("b", 2, 2, 1, 0.5),
        (None, 1, 0, 0, None),
    ]
    assert (facts.partitions, facts.unassigned, facts.local, facts.local_share) == (3, 1, 2, pytest.approx(2 / 3))
    assert (facts.balance, facts.balance.difference) == (Spread(min=0, max=2), 2)
    assert (facts.lag, facts.lag_balance, facts.moved, facts.first_assigned) == (None, None, None, None)


def test_lag_is_summed_where_it_is_known():
    members = {"m1": Member(topics=["orders"]), "m2": Member(topics=["orders"])}
    lags = {TopicPartition("orders", 0): 2**62, ("orders", 1): 7, ("orders", 2): 5, ("gone", 0): 1}
    facts = explain(
        members, ORDERS, assigned(ORDERS, {"m1": "orders-0 orders-3", "m2": "orders-1 orders-2"}), lags=lags
    )
    assert [member.lag for member in facts.members.values()] == [2**62, 12]
    assert (facts.lag, facts.lag_balance, facts.lag_unknown) == (2**62 + 12, Spread(min=12, max=2**62), 1)
    assert [rack.lag for rack in facts.racks] == [2**62 + 12]


def test_moves_are_counted_against_owned_partitions():
    members = {
        "m1": Member(topics=["orders"], owned=[("orders", 0), ("orders", 1), ("gone", 5)]),
        "m2": Member(topics=["orders"], owned=[("orders", 2)]),
    }
    facts = explain(members, ORDERS, assigned(ORDERS, {"m1": "orders-0", "m2": "orders-1 orders-2 orders-3"}))
    assert [(member.moved_in, member.moved_out) for member in facts.members.values()] == [(0, 1), (1, 0)]
    assert (facts.moved, facts.first_assigned) == (1, 1)


def test_partitions_that_became_unassigned_did_not_move():
    members = {"m1": Member(topics=["orders"], owned=[("orders", 0), ("orders", 1)])}
    facts = explain(members, ORDERS, assigned(ORDERS, {"m1": "orders-0"}))
    assert (facts.moved, facts.members["m1"].moved_out, facts.unassigned) == (0, 0, 3)


def test_partitions_of_a_member_that_left_count_as_moved():
    members = {"m2": Member(topics=["orders"]), "m3": Member(topics=["orders"])}
    before = assigned(ORDERS, {"m1": "orders-0 orders-1", "m2": "orders-2 orders-3"})
    after = assigned(ORDERS, {"m2": "orders-0 orders-2", "m3": "orders-1 orders-3"})
    facts = explain(members, ORDERS, after, previous=before)
    assert [(member.moved_in, member.moved_out) for member in facts.members.values()] == [(1, 1), (2, 0)]
    assert (facts.moved, facts.first_assigned) == (3, 0)


def test_the_previous_assignment_may_have_another_topology():
    before_topics = Topology.of({"gone": 3, "orders": 2})
    before = assigned(before_topics, {"m1": "gone-0 orders-0 orders-1"})
    members = {"m1": Member(topics=["orders"]), "m2": Member(topics=["orders"])}
    facts = explain(
        members, ORDERS, assigned(ORDERS, {"m1": "orders-0 orders-2", "m2": "orders-1 orders-3"}), previous=before
    )
    assert (facts.moved, facts.first_assigned, facts.members["m1"].moved_out) == (1, 2, 1)


@pytest.mark.parametrize(
    ("racks", "members", "given", "expected"),
    [
        pytest.param(
            [["a"], ["b"]],
            {"m1": (["t"], None), "m2": (["t"], "")},
            {"m1": "t-0", "m2": "t-1"},
            {"t-0": RemoteReason.MEMBER_WITHOUT_RACK, "t-1": RemoteReason.MEMBER_WITHOUT_RACK},
            id="no rack",
        ),
        pytest.param(
            [[None], ["a"]],
            {"m1": (["t"], "a")},
            {"m1": "t-0 t-1"},
            {"t-0": RemoteReason.RACKS_UNKNOWN},
            id="racks of replicas not known",
        ),
        pytest.param(
            [["a"], ["b"]],
            {"m1": (["t"], "a"), "m2": (["u"], "b")},
            {"m1": "t-0 t-1", "m2": ""},
            {"t-1": RemoteReason.NO_SUBSCRIBER_IN_ITS_RACKS},
            id="its rack has only members of another topic",
        ),
        pytest.param(
            [["a"], ["b"], ["c"]],
            {"m1": (["t"], "a"), "m2": (["t"], "b")},
            {"m1": "t-0 t-2", "m2": "t-1"},
            {"t-2": RemoteReason.NO_SUBSCRIBER_IN_ITS_RACKS},
            id="its rack has no member",
        ),
        pytest.param(
            [["a"], ["b"], ["b"]],
            {"m1": (["t"], "a"), "m2": (["t"], "b")},
            {"m1": "t-0 t-1", "m2": "t-2"},
            {"t-1": RemoteReason.LOCAL_MEMBER_HAD_ROOM},
            id="a local member has fewer",
        ),
        pytest.param(
            [["b"], ["b"], ["b"]],
            {"m1": (["t"], "a"), "m2": (["t"], "b")},
            {"m1": "t-0", "m2": "t-1 t-2"},
            {"t-0": RemoteReason.NO_REPLICA_IN_MEMBERS_RACK},
            id="nothing in the member's rack",
        ),
        pytest.param(
            [["a"], ["b"]],
            {"m1": (["t"], "a"), "m2": (["t"], "b")},
            {"m1": "t-1", "m2": "t-0"},
            {"t-0": RemoteReason.SWAP_POSSIBLE, "t-1": RemoteReason.SWAP_POSSIBLE},
            id="a swap would help both",
        ),
        pytest.param(
            [["a"], ["b"], ["b"], ["b"]],
            {"m1": (["t"], "a"), "m2": (["t"], "b")},
            {"m1": "t-0 t-1", "m2": "t-2 t-3"},
            {"t-1": RemoteReason.LOCAL_MEMBERS_FULL},
            id="balance",
        ),
    ],
)
def test_each_reason_is_found(racks, members, given, expected):
    topology = Topology.of({"t": racks, "u": [["b"]]})
    group = {name: Member(topics=topics, rack=rack) for name, (topics, rack) in members.items()}
    assert reasons(group, topology, given) == expected
    assert set(WHY) == set(RemoteReason)


def test_a_swap_counts_only_if_both_subscribe():
    """m2 could swap t-0 for u-0, but does not subscribe to u."""
    topology = Topology.of({"t": [["a"]], "u": [["b"], ["a"]]})
    members = {"m1": Member(topics=["t", "u"], rack="a"), "m2": Member(topics=["t"], rack="b")}
    assert reasons(members, topology, {"m1": "u-0 u-1", "m2": "t-0"}) == {
        "u-0": RemoteReason.NO_SUBSCRIBER_IN_ITS_RACKS,
        "t-0": RemoteReason.NO_REPLICA_IN_MEMBERS_RACK,
    }


RACKS = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=3)
MEMBERS = st.lists(
    st.tuples(
        st.sets(st.sampled_from(["t", "u", "v", "unknown"]), min_size=1), st.sampled_from(["a", "b", "c", "", None])
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {"t": st.lists(RACKS, max_size=5), "u": st.lists(RACKS, max_size=3), "v": st.lists(RACKS, max_size=2)}
    ),
    MEMBERS,
    st.data(),
)
def test_reasons_equal_those_of_an_exhaustive_search(racks, drawn, data):
    topology = Topology.of(racks)
    members = {f"m{i}": Member(topics=sorted(topics), rack=rack) for i, (topics, rack) in enumerate(drawn)}
    owner = {}
    for number in range(int(topology.first[-1])):
        (at,) = topology.topic_partitions(np.array([number]))
        subscribers = [name for name, member in members.items() if at.topic in member.topics]
        if subscribers:
            owner[at] = data.draw(st.sampled_from(subscribers))
    assignment = assigned(
        topology, {name: [f"{at.topic}-{at.partition}" for at, who in owner.items() if who == name] for name in members}
    )
    facts = explain(members, topology, assignment)
    found = {TopicPartition(one.topic, one.partition): one.reason for one in facts.remote}
    assert found == searched(members, racks, owner)
    assert facts.local == len(owner) - len(found)
    assert sum(facts.reasons.values()) == len(found)


def searched(members, racks, owner):
    """Compute reasons by their definition, without the optimisations of `explain`."""

    def local(at, name):
        return bool(members[name].rack) and members[name].rack in racks[at.topic][at.partition]

    def load(name):
        return list(owner.values()).count(name)

    def reason(at, name):
        if not members[name].rack:
            return RemoteReason.MEMBER_WITHOUT_RACK
        if not any(racks[at.topic][at.partition]):
            return RemoteReason.RACKS_UNKNOWN
        near = [other for other in members if local(at, other) and at.topic in members[other].topics]
        if not near:
            return RemoteReason.NO_SUBSCRIBER_IN_ITS_RACKS
        if any(load(other) < load(name) for other in near):
            return RemoteReason.LOCAL_MEMBER_HAD_ROOM
        if not any(
            members[name].rack in replicas for topic in members[name].topics for replicas in racks.get(topic, ())
        ):
            return RemoteReason.NO_REPLICA_IN_MEMBERS_RACK
        for swapped, other in product(owner, near):
            if owner[swapped] == other and swapped.topic in members[name].topics:
                before = local(at, name) + local(swapped, other)
                if local(at, other) + local(swapped, name) > before:
                    return RemoteReason.SWAP_POSSIBLE
        return RemoteReason.LOCAL_MEMBERS_FULL

    return {at: reason(at, name) for at, name in owner.items() if not local(at, name)}


def test_json_equals_the_objects():
    members = {
        "m1": Member(topics=["orders"], rack="a", owned=[("orders", 1)]),
        "m2": Member(topics=["orders"], rack="b"),
    }
    facts = explain(
        members,
        ORDERS,
        assigned(ORDERS, {"m1": "orders-0 orders-1", "m2": "orders-2 orders-3"}),
        lags={("orders", 0): 3},
    )
    found = json.loads(json.dumps(facts.to_json()))
    assert found["members"]["m1"] == {
        "instance_id": None,
        "rack": "a",
        "partitions": 2,
        "topics": {"orders": 2},
        "local": 1,
        "local_share": 0.5,
        "lag": 3,
        "moved_in": 0,
        "moved_out": 0,
    }
    assert found["remote"][0] == {
        "topic": "orders",
        "partition": 1,
        "member": "m1",
        "rack": "a",
        "replica_racks": ["b", "c"],
        "reason": "swap_possible",
    }
    assert found["balance"] == {"min": 2, "max": 2, "spread": 0}
    assert found["reasons"] == {"swap_possible": 2}
    assert [rack["rack"] for rack in found["racks"]] == ["a", "b"]
    without = facts.to_json(remote=False)
    assert "remote" not in without
    assert without == {key: value for key, value in facts.to_json().items() if key != "remote"}


def test_an_assignment_of_other_members_is_rejected():
    members = {"m1": Member(topics=["orders"])}
    assignment = assigned(ORDERS, {"m1": "orders-0"})
    with pytest.raises(ValueError, match="other members"):
        explain({"m2": Member(topics=["orders"])}, ORDERS, assignment)
    with pytest.raises(ValueError, match="another topology"):
        explain(members, Topology.of({"orders": 4}), assignment)
    assert explain(GroupSpec(members, ORDERS), ORDERS, assignment) == explain(members, ORDERS, assignment)


def test_empty_groups_and_topologies_are_explained():
    empty = explain({}, ORDERS, assigned(ORDERS, {}))
    assert (empty.partitions, empty.balance, empty.racks, empty.local_share) == (0, Spread(min=0, max=0), (), None)
    nothing = Topology.of({})
    alone = explain({"m1": Member(topics=["t"], rack="a")}, nothing, assigned(nothing, {"m1": ""}))
    assert (alone.partitions, alone.remote, alone.members["m1"].partitions) == (0, (), 0)


def test_shared_partitions_are_counted_for_each_member():
    members = {"m1": Member(topics=["orders"], owned=[("orders", 0)]), "m2": Member(topics=["orders"])}
    facts = explain(members, ORDERS, assigned(ORDERS, {"m1": "orders-0", "m2": "orders-0 orders-1"}))
    assert [(member.partitions, member.moved_in) for member in facts.members.values()] == [(1, 0), (2, 1)]
