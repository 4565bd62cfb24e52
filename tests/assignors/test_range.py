"""`range` gives Kafka's documented results, is balanced, and uses racks without harm to balance."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import GroupSpec, Member, Topic, Topology
from quorate.assignors.range import RangeAssignor
from tests.assignors.cases import client_case
from tests.assignors.client_differential import ours
from tests.assignors.groups import lists
from tests.assignors.rack_setup import assigned, group, mismatches, read
from tests.assignors.read_cases import read_case
from tests.assignors.vectors import client_vectors, vector_case

ALL = "t1 t2 t3"
UNEVEN = {"t1": 6, "t2": 7, "t3": 2}
EQUAL = {"t1": 5, "t2": 5, "t3": 5}
PAIRS = {"t1": 6, "t2": 6, "t3": 2, "t4": 2}
SAME = [(ALL, "a"), (ALL, "b"), (ALL, "c")]
OTHER = [(ALL, "a"), (ALL, "b"), ("t1 t3", "c")]
NO_RACK = [(ALL, None)] * 3

cases = st.randoms(use_true_random=False).map(lambda rng: client_case(rng, "range"))


# ---- Kafka's documented results

PLAIN = "t1-0,1 t2-0..2 t3-0 ; t1-2,3 t2-3,4 t3-1 ; t1-4,5 t2-5,6"
PLAIN_OTHER = "t1-0,1 t2-0..3 t3-0 ; t1-2,3 t2-4..6 t3-1 ; t1-4,5"
PLAIN_EQUAL = "t1-0,1 t2-0,1 t3-0,1 ; t1-2,3 t2-2,3 t3-2,3 ; t1-4 t2-4 t3-4"
TABLE = {
    "no racks": (UNEVEN, 3, 0, NO_RACK, PLAIN, None),
    "only members have racks": (UNEVEN, 3, 0, SAME, PLAIN, None),
    "only brokers have racks": (UNEVEN, 1, 3, NO_RACK, PLAIN, None),
    "every partition in every rack": (UNEVEN, 3, 3, SAME, PLAIN, 0),
    "one replica": (UNEVEN, 1, 3, SAME, "t1-0,3 t2-0,3,6 ; t1-1,4 t2-1,4 t3-0 ; t1-2,5 t2-2,5 t3-1", 0),
    "two replicas": (UNEVEN, 2, 3, SAME, "t1-0,2 t2-0,2,3 t3-1 ; t1-1,3 t2-1,4 t3-0 ; t1-4,5 t2-5,6", 1),
    "a rack without replicas": (UNEVEN, 3, 2, SAME, PLAIN, 4),
    "unequal, no racks": (UNEVEN, 3, 0, OTHER, PLAIN_OTHER, None),
    "unequal, one replica": (UNEVEN, 1, 3, OTHER, "t1-0,3 t2-0,2,3,6 ; t1-1,4 t2-1,4,5 t3-0 ; t1-2,5 t3-1", 2),
    "unequal, two replicas": (UNEVEN, 2, 3, OTHER, "t1-0,2 t2-0,2,3,5 t3-1 ; t1-1,3 t2-1,4,6 t3-0 ; t1-4,5", 0),
    "unequal, a rack without replicas": (UNEVEN, 3, 2, OTHER, PLAIN_OTHER, 2),
    "co-partitioned, one replica": (EQUAL, 1, 3, SAME, PLAIN_EQUAL, 10),
    "co-partitioned, two replicas": (EQUAL, 2, 3, SAME, PLAIN_EQUAL, 5),
    "co-partitioned, a rack without replicas": (EQUAL, 3, 2, SAME, PLAIN_EQUAL, 3),
    "co-partitioned, unequal, one replica": (
        EQUAL, 1, 3, OTHER, "t1-0,1 t2-0,1,4 t3-0,1 ; t1-2,3 t2-2,3 t3-2,3 ; t1-4 t3-4", 9),
    "co-partitioned, unequal, two replicas": (
        EQUAL, 2, 3, OTHER, "t1-2 t2-0,1,3 t3-2 ; t1-0,3 t2-2,4 t3-0,3 ; t1-1,4 t3-1,4", 0),
    "two pairs, members of one each": (
        PAIRS, 1, 2, [("t1 t2", "a"), ("t1 t2", "b"), ("t3 t4", "b"), ("t3 t4", "a")],
        "t1-0,2,4 t2-0,2,4 ; t1-1,3,5 t2-1,3,5 ; t3-1 t4-1 ; t3-0 t4-0", 0),
    "two pairs, members of both": (
        PAIRS, 1, 2, [("t1 t2 t3 t4", rack) for rack in "abba"],
        "t1-0,2 t2-0,2 t3-0 t4-0 ; t1-1,3 t2-1,3 t3-1 t4-1 ; t1-5 t2-5 ; t1-4 t2-4", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_the_rack_tables_of_kafkas_tests(case):
    topics, factor, brokers, subscriptions, expected, remote = TABLE[case]
    members, topology = group(topics, factor, brokers, subscriptions)
    result = RangeAssignor().assign(members, topology)
    assert assigned(result) == read(expected)
    if remote is not None:
        assert mismatches(result, members) == remote


@pytest.mark.parametrize("vector", client_vectors("range"), ids=lambda vector: vector["members"][0]["id"])
def test_recorded_results_of_kafka(vector):
    assert ours(vector_case(vector)) == {"assignment": vector["result"]}


def test_static_members_come_first_sorted_by_instance_id():
    topology = Topology.of({"t1": 5, "t2": 4})
    for last in ("consumer4", "consumer5"):
        members = {
            "consumer9": Member(topics=["t1", "t2"], instance_id="instance1"),
            last: Member(topics=["t1", "t2"]),
            "consumer1": Member(topics=["t1", "t2"], instance_id="instance3"),
            "consumer3": Member(topics=["t1", "t2"], instance_id="instance2"),
        }
        result = RangeAssignor().assign(members, topology)
        assert {member: set(given) for member, given in lists(result).items()} == {
            "consumer9": {"t1-0", "t1-1", "t2-0"},
            "consumer3": {"t1-2", "t2-1"},
            "consumer1": {"t1-3", "t2-2"},
            last: {"t1-4", "t2-3"},
        }


# ---- invariants


@given(case=cases)
def test_each_topic_is_divided_evenly_among_its_subscribers(case):
    members, topology = read_case(case)
    result = RangeAssignor().assign(members, topology)
    for topic in topology.topics:
        shares = [
            {number for name, number in result[member] if name == topic.name}
            for member, one in members.items()
            if topic.name in one.topics
        ]
        assert not shares or max(map(len, shares)) - min(map(len, shares)) <= 1
        assert sum(map(len, shares)) == (topic.partitions if shares else 0) == len(set().union(*shares))
        assert all(
            topic.name in members[member].topics
            for member in result
            for name, _ in result[member]
            if name == topic.name
        )


@given(case=cases, seed=st.integers())
def test_the_order_of_joins_does_not_matter(case, seed):
    members, topology = read_case(case)
    shuffled = list(members.items())
    random.Random(seed).shuffle(shuffled)
    before, after = (lists(RangeAssignor().assign(one, topology)) for one in (members, dict(shuffled)))
    assert {member: set(given) for member, given in before.items()} == {
        member: set(given) for member, given in after.items()
    }


@given(case=cases)
def test_owned_partitions_do_not_matter(case):
    members, topology = read_case(case)
    prepared = GroupSpec(members, topology)
    first = RangeAssignor().assign_group(prepared)
    again = RangeAssignor().assign_group(prepared.with_owned(first, generation=3))
    assert lists(first) == lists(again) == lists(RangeAssignor().assign(members, topology))


@given(case=cases, rack=st.sampled_from(["a", "b"]))
def test_racks_do_not_matter_if_all_partitions_are_in_the_same_racks(case, rack):
    members, topology = read_case(case)
    alike, without = (
        Topology(
            Topic(name=topic.name, partitions=topic.partitions, numbers=topic.numbers, racks=racks * topic.partitions)
            for topic in topology.topics
        )
        for racks in ([(rack, "c")], [()])
    )
    assert lists(RangeAssignor().assign(members, alike)) == lists(RangeAssignor().assign(members, without))


@given(case=cases)
def test_topics_with_equal_subscribers_and_partition_counts_stay_co_partitioned(case):
    members, topology = read_case(case)
    result = RangeAssignor().assign(members, topology)
    for one, other in pairwise(topology.topics):
        subscribers = [{m for m, member in members.items() if topic.name in member.topics} for topic in (one, other)]
        if (
            subscribers[0] == subscribers[1]
            and one.partitions == other.partitions
            and not (one.numbers or other.numbers)
        ):
            for member in members:
                by_topic = result.by_topic(member)
                assert set(by_topic.get(one.name, ())) == set(by_topic.get(other.name, ()))


# ---- edges


def test_a_group_without_members_or_topics_is_assigned_nothing():
    topology = Topology.of({"t": 3, "empty": 0})
    assert dict(RangeAssignor().assign({}, topology)) == {}
    assert dict(RangeAssignor().assign({"m": Member()}, topology)) == {"m": ()}
    assert dict(RangeAssignor().assign({"m": Member(topics=["gone", "empty"], rack="a")}, topology)) == {"m": ()}
    assert dict(RangeAssignor().assign({"m": Member(topics=["t"])}, Topology([]))) == {"m": ()}


def test_a_duplicate_topic_counts_once():
    topology = Topology.of({"t": 4})
    members = {"a": Member(topics=["t", "t"]), "b": Member(topics=["t"])}
    assert lists(RangeAssignor().assign(members, topology)) == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}


def test_only_existing_partitions_of_a_topic_with_gaps_are_assigned():
    # Kafka counts from 0 here, and assigns t1-0 and t2-0 to the member without a rack.
    topology = Topology(Topic(name=name, partitions=2, numbers=[1, 2], racks=[("a",), ("b",)]) for name in ("t1", "t2"))
    members = {"m1": Member(topics=["t1", "t2"]), "m2": Member(topics=["t1", "t2"], rack="a")}
    assert lists(RangeAssignor().assign(members, topology)) == {"m1": ["t1-1", "t2-1"], "m2": ["t1-2", "t2-2"]}
