"""`roundrobin` assigns partitions in turn and skips members that do not subscribe."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import GroupSpec, Member, Topic, Topology
from quorate.assignors.roundrobin import RoundRobinAssignor
from tests.assignors.cases import client_case
from tests.assignors.client_differential import ours
from tests.assignors.groups import lists
from tests.assignors.read_cases import read_case
from tests.assignors.vectors import client_vectors, vector_case

cases = st.randoms(use_true_random=False).map(lambda rng: client_case(rng, "roundrobin"))


def test_equal_subscriptions_get_equal_shares():
    topology = Topology.of({"t1": 3, "t0": 3})
    members = {"C1": Member(topics=["t0", "t1"]), "C0": Member(topics=["t1", "t0"])}
    assert lists(RoundRobinAssignor().assign(members, topology)) == {
        "C1": ["t0-1", "t1-0", "t1-2"],
        "C0": ["t0-0", "t0-2", "t1-1"],
    }


def test_members_that_do_not_subscribe_are_skipped():
    topology = Topology.of({"t0": 1, "t1": 2, "t2": 3})
    members = {"C0": Member(topics=["t0"]), "C1": Member(topics=["t0", "t1"]), "C2": Member(topics=["t0", "t1", "t2"])}
    assert lists(RoundRobinAssignor().assign(members, topology)) == {
        "C0": ["t0-0"],
        "C1": ["t1-0"],
        "C2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


def test_static_members_come_first():
    topology = Topology.of({"t": 3})
    members = {
        "a": Member(topics=["t"]),
        "b": Member(topics=["t"], instance_id="2"),
        "c": Member(topics=["t"], instance_id="1"),
    }
    assert lists(RoundRobinAssignor().assign(members, topology)) == {"a": ["t-2"], "b": ["t-1"], "c": ["t-0"]}


@pytest.mark.parametrize("vector", client_vectors("roundrobin"), ids=lambda vector: vector["members"][0]["id"])
def test_recorded_results_of_kafka(vector):
    assert ours(vector_case(vector)) == {"assignment": vector["result"]}


@given(case=cases, seed=st.integers())
def test_every_partition_has_one_subscribed_owner_in_any_order_of_members(case, seed):
    members, topology = read_case(case)
    result = RoundRobinAssignor().assign(members, topology)
    given_out = [one for member in result for one in result[member]]
    subscribed = {topic for member in members.values() for topic in member.topics}
    assert len(given_out) == len(set(given_out)) == sum(t.partitions for t in topology.topics if t.name in subscribed)
    assert all(one.topic in members[member].topics for member in result for one in result[member])
    shuffled = list(members.items())
    random.Random(seed).shuffle(shuffled)
    assert lists(RoundRobinAssignor().assign(dict(shuffled), topology)) == lists(result)


@given(case=cases)
def test_with_equal_subscriptions_counts_differ_by_one_at_most(case):
    members, topology = read_case(case)
    topics = [topic.name for topic in topology.topics]
    alike = {name: Member(topics=topics, instance_id=member.instance_id) for name, member in members.items()}
    counts = RoundRobinAssignor().assign(alike, topology).counts
    assert max(counts) - min(counts) <= 1


def test_the_result_does_not_depend_on_owned_partitions():
    topology = Topology.of({"t": 5})
    prepared = GroupSpec({"a": Member(topics=["t"]), "b": Member(topics=["t"])}, topology)
    first = RoundRobinAssignor().assign_group(prepared)
    assert lists(RoundRobinAssignor().assign_group(prepared.with_owned(first))) == lists(first)


def test_a_group_without_members_or_topics_is_assigned_nothing():
    topology = Topology.of({"t": 3, "empty": 0})
    assert dict(RoundRobinAssignor().assign({}, topology)) == {}
    assert dict(RoundRobinAssignor().assign({"m": Member(topics=["gone", "empty"])}, topology)) == {"m": ()}
    assert dict(RoundRobinAssignor().assign({"m": Member(topics=["t"])}, Topology([]))) == {"m": ()}


def test_only_existing_partitions_of_a_topic_with_gaps_are_assigned():
    topology = Topology([Topic(name="t", partitions=2, numbers=[3, 7])])
    assert lists(RoundRobinAssignor().assign({"m": Member(topics=["t"])}, topology)) == {"m": ["t-3", "t-7"]}
