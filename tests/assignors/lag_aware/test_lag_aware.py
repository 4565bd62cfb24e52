"""`lag-aware` follows KIP-169: its example, its literal algorithm, and the sources of lags."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import AssignorError, GroupSpec, Member, Topology
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.registry import client_assignor
from tests.assignors.groups import check_valid, groups, reordered


def literal(members, topology, lags):
    """Run the algorithm of the KIP step by step. `lags`: per partition number."""
    owner = {}
    for topic in topology.topics:
        candidates = sorted(member for member, one in members.items() if topic.name in one.topics)
        if not candidates:
            continue
        total_partitions = dict.fromkeys(candidates, 0)
        total_lag = dict.fromkeys(candidates, 0)
        first = topology.number(topic.name, 0)
        for number in sorted(range(first, first + topic.partitions), key=lambda number: -lags[number]):
            winner = min(candidates, key=lambda member: (total_partitions[member], total_lag[member], member))
            total_partitions[winner] += 1
            total_lag[winner] += lags[number]
            owner[number] = winner
    return {member: [number for number in sorted(owner) if owner[number] == member] for member in members}


def numbers(assignment):
    return {member: assignment.numbers(member).tolist() for member in assignment}


def two(*partitions):
    """Return members C0 and C1 of topic t0, and its lags."""
    members = {"C0": Member(topics=["t0"]), "C1": Member(topics=["t0"])}
    return members, Topology.of({"t0": len(partitions)}), {("t0", at): lag for at, lag in enumerate(partitions)}


def test_the_example_of_the_kip():
    members, topology, lags = two(100_000, 60_000, 50_000)
    assignment = LagAwareAssignor().assign(members, topology, lags=lags)
    assert assignment == {"C0": (("t0", 0),), "C1": (("t0", 1), ("t0", 2))}
    assert [sum(lags[at] for at in assignment[member]) for member in ("C0", "C1")] == [100_000, 110_000]


def test_partition_counts_take_precedence_over_lags():
    members, topology, lags = two(1_000, 1, 1, 1)
    assert numbers(LagAwareAssignor(lags=lags).assign(members, topology)) == {"C0": [0, 3], "C1": [1, 2]}


def test_without_lags_only_partition_counts_matter():
    members, topology, _ = two(0, 0, 0, 0, 0)
    assert numbers(client_assignor("lag-aware").assign(members, topology)) == {"C0": [0, 2, 4], "C1": [1, 3]}


@given(
    groups(members=6, most=20),
    st.lists(
        st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 10**6), st.integers(0, 1 << 56)),
        min_size=60,
        max_size=60,
    ),
)
def test_the_result_is_that_of_the_kips_algorithm(group, lags):
    members, topology = group
    lags = lags[: topology.first[-1]]
    assignment = LagAwareAssignor().assign(members, topology, lags=np.array(lags, np.int64))
    assert numbers(assignment) == literal(members, topology, lags)
    check_valid(assignment, members, topology)


@pytest.mark.parametrize(
    ("number", "sizes"), [(3, (400, 7, 2)), (40, (400, 333, 90, 41, 40, 39)), (150, (1_000, 149, 1))]
)
@pytest.mark.parametrize("zeros", [0.0, 0.6])
def test_larger_groups_get_the_result_of_the_kip(number, sizes, zeros):
    """Covers the algorithms for few and for many members."""
    rng = np.random.default_rng(number)
    topology = Topology.of({f"t{at}": size for at, size in enumerate(sizes)})
    lags = (rng.pareto(1, sum(sizes)) * 100).astype(np.int64) * (rng.random(sum(sizes)) >= zeros)
    members = {f"m{at:03}": Member(topics=list(topology.index)) for at in range(number)}
    assert numbers(LagAwareAssignor().assign(members, topology, lags=lags)) == literal(members, topology, lags.tolist())
    some = {
        member: Member(topics=["t0", f"t{at % len(sizes)}"] if at % 3 else ["t1", "t2"])
        for at, member in enumerate(members)
    }
    assert numbers(LagAwareAssignor().assign(some, topology, lags=lags)) == literal(some, topology, lags.tolist())


@given(
    groups(),
    st.dictionaries(st.tuples(st.sampled_from(["orders", "refunds", "stock"]), st.integers(0, 7)), st.integers(0, 9)),
    st.booleans(),
)
def test_the_order_of_members_and_topics_does_not_matter(group, lags, shuffle):
    members, topology = group
    assignor = LagAwareAssignor(lags=lags, shuffle=shuffle)
    one, other = assignor.assign(members, topology), assignor.assign(*reordered(members, topology))
    assert {member: set(one[member]) for member in one} == {member: set(other[member]) for member in other}


def test_member_ids_sort_as_in_java():
    members = {"\uff5e": Member(topics=["t"]), "\U0001f680": Member(topics=["t"])}
    assert numbers(LagAwareAssignor().assign(members, Topology.of({"t": 1}))) == {"\uff5e": [], "\U0001f680": [0]}


def test_partition_ids_with_gaps():
    from quorate.assignors import Topic

    topology = Topology([Topic(name="t", partitions=3, numbers=[0, 4, 9])])
    members = {"a": Member(topics=["t"]), "b": Member(topics=["t"])}
    assignment = LagAwareAssignor(lags={("t", 0): 1, ("t", 4): 2, ("t", 9): 50}).assign(members, topology)
    assert assignment == {"a": (("t", 9),), "b": (("t", 0), ("t", 4))}


# ---- lags


def test_unknown_lags_count_as_zero_or_as_the_median_of_the_topic():
    members, topology, lags = two(10, 30, 20, 0, 0)
    lags |= {("t0", 3): None}
    del lags["t0", 4]
    zero = LagAwareAssignor(lags=lags).assign(members, topology)
    assert zero == LagAwareAssignor().assign(members, topology, lags=np.array([10, 30, 20, 0, 0]))
    median = LagAwareAssignor(lags=lags, missing="median").assign(members, topology)
    assert median == LagAwareAssignor().assign(members, topology, lags=[10, 30, 20, 20, 20])
    assert median != zero
    assert median == LagAwareAssignor(missing="median").assign(members, topology, lags=[10, 30, 20, -1, -1])
    assert LagAwareAssignor(missing="median").assign(members, topology) == LagAwareAssignor().assign(members, topology)


def test_lags_of_a_call_replace_those_of_the_source():
    members, topology, lags = two(1, 2, 3)

    def ask(_):
        raise AssertionError("the source was called")

    assert LagAwareAssignor(lags=ask).assign(members, topology, lags=lags)["C0"] == (("t0", 2),)


def test_the_source_is_called_with_the_subscribed_partitions():
    requested = []

    def ask(partitions):
        requested.append(partitions)
        return {}

    topology = Topology.of({"mine": 2, "nobodys": 2, "yours": 1})
    members = {"a": Member(topics=["mine", "gone"]), "b": Member(topics=["yours"])}
    LagAwareAssignor(lags=ask).assign(members, topology)
    assert requested == [(("mine", 0), ("mine", 1), ("yours", 0))]


def test_lags_that_cannot_be_summed_in_64_bits_do_not_overflow():
    members, topology, _ = two(*range(6))
    lags = {("t0", at): (1 << 70) + at for at in range(6)} | {("t0", 5): -3}
    assert numbers(LagAwareAssignor(lags=lags).assign(members, topology)) == {"C0": [0, 2, 4], "C1": [1, 3, 5]}
    assert LagAwareAssignor(lags=lags, max_count_skew=2).assign(members, topology).counts.tolist() == [3, 3]


@pytest.mark.parametrize("lags", [[1, 2], [[1, 2, 3]], [1.0, 2.0, 3.0]])
def test_lags_that_do_not_match_the_topology_are_rejected(lags):
    members, topology, _ = two(1, 2, 3)
    with pytest.raises(AssignorError, match=r"the topology has 3 partitions; give one integer per partition"):
        LagAwareAssignor().assign(members, topology, lags=lags)


def test_groups_without_members_or_partitions():
    assert LagAwareAssignor().assign({}, Topology.of({"t": 3})) == {}
    assert LagAwareAssignor().assign({"a": Member()}, Topology.of({"t": 3})) == {"a": ()}
    assert LagAwareAssignor().assign({"a": Member(topics=["t"])}, Topology([])) == {"a": ()}
    assert LagAwareAssignor(max_moved=0).assign({"a": Member(topics=["t"])}, Topology.of({"t": 0})) == {"a": ()}


def test_a_prepared_group_is_assigned_with_its_owned_partitions():
    members, topology, lags = two(5, 4, 3, 2, 1)
    group = GroupSpec(members, topology)
    before = LagAwareAssignor().assign_group(group)
    again = LagAwareAssignor(max_moved=0).assign_group(group.with_owned(before), lags=lags)
    assert again == before
