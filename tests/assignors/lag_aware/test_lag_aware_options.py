"""The options of `lag-aware` beyond the KIP: each against its definition, and `max_moved`."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import GroupSpec, Member, Topology
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.owners import previous_owners
from tests.assignors.groups import check_valid, groups, local, moves
from tests.assignors.lag_aware.test_lag_aware import numbers

LAGS = st.lists(st.one_of(st.just(0), st.integers(0, 4), st.integers(0, 1_000)), min_size=24, max_size=24)
OPTIONS = st.fixed_dictionaries(
    {
        "max_count_skew": st.integers(1, 4),
        "spread_idle": st.booleans(),
        "locality": st.sampled_from([None, "replica", "leader"]),
        "max_moved": st.sampled_from([None, 10**6]),
    }
)


def array(topology, lags):
    return np.array(lags[: topology.first[-1]], np.int64)


def by_definition(members, topology, lags, *, max_count_skew, spread_idle, locality, max_moved, local_tolerance):
    """Follow the assignor's docstring literally: try every candidate for every partition."""
    claims = previous_owners(GroupSpec(members, topology)).tolist()
    ids = list(members)
    owner = {}
    everything = dict.fromkeys(ids, 0)
    later = []

    def give(number, candidates, count, weight, amount, tolerance):
        fewest = min(count.values())
        allowed = sorted(
            (weight[candidate], count[candidate], candidate)
            for candidate in candidates
            if count[candidate] + 1 <= fewest + max_count_skew
        )
        best = allowed[0]
        racks = topology.replica_racks[topology.replica_racks_of[number]]
        racks = [rack for rack in (racks[:1] if locality == "leader" else racks) if rack]
        near = [key for key in allowed if locality and members[key[2]].rack in racks]
        previous = ids[claims[number]] if max_moved is not None and claims[number] >= 0 else None
        if (*best[:2], previous) in allowed:
            winner = previous
        elif best not in near and near and near[0][0] <= best[0] + tolerance:
            winner = near[0][2]
        else:
            winner = best[2]
        owner[number] = winner
        count[winner] += 1
        weight[winner] += amount
        if weight is not everything:
            everything[winner] += 1

    for topic in sorted(topology.topics, key=lambda topic: topic.name):
        candidates = [member for member in ids if topic.name in members[member].topics]
        if not candidates or not topic.partitions:
            continue
        first = topology.number(topic.name, 0)
        by_lag = sorted(range(first, first + topic.partitions), key=lambda number: -lags[number])
        count = dict.fromkeys(candidates, 0)
        weight = dict.fromkeys(candidates, 0)
        tolerance = int(local_tolerance * sum(lags[number] for number in by_lag) / len(candidates))
        for number in by_lag:
            if spread_idle and not lags[number]:
                later.append((number, candidates, count))
            else:
                give(number, candidates, count, weight, lags[number], tolerance)
    for number, candidates, count in later:
        give(number, candidates, count, everything, 1, 0)
    return {member: [number for number in sorted(owner) if owner[number] == member] for member in members}


@given(groups(members=6), LAGS, OPTIONS, st.sampled_from([0.0, 0.3, 2.0]))
def test_options_follow_their_definition(group, lags, options, tolerance):
    members, topology = group
    options = {**options, "local_tolerance": tolerance if options["locality"] else 0.0}
    lags = array(topology, lags)
    assignment = LagAwareAssignor(**options).assign(members, topology, lags=lags)
    check_valid(assignment, members, topology)
    assert numbers(assignment) == by_definition(members, topology, lags.tolist(), **options)


@pytest.mark.parametrize("seed", range(6))
def test_options_follow_their_definition_with_more_members_than_partitions(seed):
    """The assignor looks at as many candidates as there are partitions."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, 12).tolist()
    topology = Topology.of(
        {f"t{at:02}": [["abc"[rng.integers(3)]] for _ in range(size)] for at, size in enumerate(sizes)}
    )
    names = np.array(list(topology.index))
    owner = rng.integers(-20, 40, sum(sizes))
    at = topology.topic_partitions(np.arange(sum(sizes)))
    members = {
        f"m{number:02}": Member(
            topics=names.tolist() if seed % 2 else names[rng.random(12) < 0.7].tolist(),
            rack="abcd"[rng.integers(4)],
            owned=[at[place] for place in np.flatnonzero(owner == number)],
        )
        for number in range(40)
    }
    lags = (rng.random(sum(sizes)) < 0.6) * rng.integers(1, 6, sum(sizes))
    for spread_idle, max_moved, locality, skew in product((False, True), (None, 10**6), (None, "replica"), (1, 3)):
        options = {
            "max_count_skew": skew,
            "spread_idle": spread_idle,
            "locality": locality,
            "max_moved": max_moved,
            "local_tolerance": 0.1 if locality else 0.0,
        }
        assignment = LagAwareAssignor(**options).assign(members, topology, lags=lags)
        assert numbers(assignment) == by_definition(members, topology, lags.tolist(), **options), options


@given(
    groups(members=6),
    LAGS,
    st.sampled_from([{"max_moved": 10**6}, {"spread_idle": True}, {"locality": "replica"}, {"shuffle": True}]),
)
def test_tie_breaking_options_keep_the_balance_of_the_kip(group, lags, options):
    members, topology = group
    lags = array(topology, lags)
    shapes = []
    for assignor in (LagAwareAssignor(), LagAwareAssignor(**options)):
        assignment = assignor.assign(members, topology, lags=lags)
        shape = Counter()
        for member in assignment:
            mine = assignment.numbers(member)
            for topic in np.unique(topology.topic_of[mine]).tolist():
                part = mine[topology.topic_of[mine] == topic]
                count, lag = len(part), int(lags[part].sum())
                # Idle partitions go to other members than in the KIP, which changes which members
                # have both many partitions and much lag.
                shape.update([(topic, count), (topic, -lag - 1)] if "spread_idle" in options else [(topic, count, lag)])
        shapes.append(shape)
    assert shapes[0] == shapes[1]


# ---- max_moved


@given(groups(members=5), LAGS, OPTIONS, st.integers(0, 12), st.booleans())
def test_max_moved_is_never_exceeded(group, lags, options, bound, shuffle):
    members, topology = group
    options = {**options, "max_moved": bound, "shuffle": shuffle}
    assignment = LagAwareAssignor(**options).assign(members, topology, lags=array(topology, lags))
    check_valid(assignment, members, topology)
    assert moves(assignment, members, topology) <= bound


def gaps(assignment, members, lags):
    """Return for each topic the differences of its subscribers, in count and in lag."""
    topology = assignment.topology
    found = {}
    for index, topic in enumerate(topology.topics):
        mine = [assignment.numbers(member) for member in members if topic.name in members[member].topics]
        mine = [part[topology.topic_of[part] == index] for part in mine]
        if mine:
            found[topic.name] = (
                int(np.ptp([len(part) for part in mine])),
                int(np.ptp([lags[part].sum() for part in mine])),
            )
    return found


@given(groups(members=5), LAGS, st.integers(0, 12), st.integers(1, 3))
def test_more_moves_never_make_a_topic_less_balanced(group, lags, bound, skew):
    members, topology = group
    lags = array(topology, lags)
    kept, repaired = (
        gaps(LagAwareAssignor(max_moved=moved, max_count_skew=skew).assign(members, topology, lags=lags), members, lags)
        for moved in (0, bound)
    )
    for topic, (count, _) in repaired.items():
        assert count <= max(skew, kept[topic][0])


def owning(*parts, lags):
    """Create members m0, m1, … that own these numbers of partitions of one topic, in this order."""
    ends = np.cumsum(parts).tolist()
    topology = Topology.of({"t": len(lags)})
    members = {
        f"m{at}": Member(topics=["t"], owned=[("t", number) for number in range(end - size, end)])
        for at, (size, end) in enumerate(zip(parts, ends, strict=True))
    }
    return members, topology, np.array(lags, np.int64)


def test_a_new_member_gets_up_to_max_moved_partitions():
    members, topology, lags = owning(4, 4, 4, 0, lags=[1, 2, 3, 9] * 3)
    for bound, counts in [(0, [4, 4, 4, 0]), (1, [3, 4, 4, 1]), (2, [3, 3, 4, 2]), (3, [3, 3, 3, 3])]:
        assignment = LagAwareAssignor(max_moved=bound).assign(members, topology, lags=lags)
        assert sorted(assignment.counts) == sorted(counts)
        assert moves(assignment, members, topology) == bound
    # It gets the partition that balances it and the giver best: 9 of 15 records.
    assert [
        lags[number] for number in LagAwareAssignor(max_moved=1).assign(members, topology, lags=lags).numbers("m3")
    ] == [9]


def test_partitions_of_members_that_left_do_not_count():
    members, topology, lags = owning(3, 3, 3, lags=[9, 9, 9, 5, 5, 5, 1, 1, 1])
    del members["m1"]
    assignment = LagAwareAssignor(max_moved=0).assign(members, topology, lags=lags)
    assert sorted(assignment.counts) == [4, 5]
    assert set(range(3)) <= set(assignment.numbers("m0").tolist())
    assert set(range(6, 9)) <= set(assignment.numbers("m2").tolist())


def test_partitions_claimed_twice_in_one_generation_do_not_count():
    members = {
        "a": Member(topics=["t"], owned=[("t", 0), ("t", 1)], generation=5),
        "b": Member(topics=["t"], owned=[("t", 0)], generation=5),
        "c": Member(topics=["t"], owned=[("t", 1)], generation=4),
    }
    assignment = LagAwareAssignor(max_moved=0).assign(members, Topology.of({"t": 2}))
    assert numbers(assignment) == {"a": [1], "b": [0], "c": []}


def test_a_swap_balances_lags_when_counts_are_balanced():
    members, topology, lags = owning(3, 3, lags=[50, 40, 30, 5, 3, 1])
    keep = LagAwareAssignor(max_moved=1).assign(members, topology, lags=lags)
    assert moves(keep, members, topology) == 0
    exchanged = LagAwareAssignor(max_moved=2).assign(members, topology, lags=lags)
    assert moves(exchanged, members, topology) == 2
    totals = [int(lags[exchanged.numbers(member)].sum()) for member in members]
    assert sum(totals) == 129
    assert max(totals) - min(totals) <= 30
    assert exchanged.counts.tolist() == [3, 3]


def test_one_move_balances_lags_where_counts_may_differ():
    members, topology, lags = owning(3, 3, lags=[50, 40, 30, 5, 3, 1])
    assignment = LagAwareAssignor(max_moved=1, max_count_skew=2).assign(members, topology, lags=lags)
    assert assignment.counts.tolist() == [2, 4]
    assert [int(lags[assignment.numbers(member)].sum()) for member in members] == [70, 59]


def test_the_most_uneven_topic_is_repaired_first():
    topology = Topology.of({"big": 6, "small": 3})
    owned = [(topic.name, at) for topic in topology.topics for at in range(topic.partitions)]
    members = {"a": Member(topics=["big", "small"], owned=owned), "b": Member(topics=["big", "small"])}
    given_away = LagAwareAssignor(max_moved=2).assign(members, topology)["b"]
    assert [at.topic for at in given_away] == ["big", "big"]


def test_max_moved_is_fast_in_a_large_group():
    rng = np.random.default_rng(7)
    topology = Topology.of({f"t{at}": 1_000 for at in range(5)})
    members = {f"m{at:03}": Member(topics=list(topology.index)) for at in range(50)}
    group = GroupSpec(members, topology)
    group = group.with_owned(LagAwareAssignor().assign_group(group))
    lags = (rng.pareto(1, 5_000) * 1_000).astype(np.int64)
    before = LagAwareAssignor(max_moved=0).assign_group(group, lags=lags)
    after = LagAwareAssignor(max_moved=400).assign_group(group, lags=lags)
    uneven = [
        [sum(total**2 for total in totals(result, topic, lags)) for topic in range(5)] for result in (before, after)
    ]
    assert all(now <= then for then, now in zip(*uneven, strict=True))
    assert sum(uneven[1]) < sum(uneven[0])
    changed = np.count_nonzero(holders(before) != holders(after))
    assert 300 < changed <= 400
    for topic, (count, lag) in gaps(after, members, lags).items():
        assert count <= 1, topic
        assert lag <= gaps(before, members, lags)[topic][1]


def totals(assignment, topic, lags):
    """Return the lag of each member in one topic."""
    mine = [assignment.numbers(member) for member in assignment]
    return [int(lags[part[assignment.topology.topic_of[part] == topic]].sum()) for part in mine]


def holders(assignment):
    """Return the member number of each partition."""
    found = np.empty(len(assignment.partitions), np.int64)
    found[assignment.partitions] = np.repeat(np.arange(len(assignment)), assignment.counts)
    return found


# ---- other options


def test_within_a_larger_skew_the_smallest_lag_decides():
    topology = Topology.of({"t": 5})
    members = {"a": Member(topics=["t"]), "b": Member(topics=["t"])}
    lags = {("t", 0): 100, **{("t", at): 10 for at in range(1, 5)}}
    counts = [
        LagAwareAssignor(lags=lags, max_count_skew=skew).assign(members, topology).counts.tolist() for skew in (1, 2, 3)
    ]
    assert counts == [[2, 3], [2, 3], [1, 4]]


@given(groups(members=6, same=True), st.integers(1, 4))
def test_idle_partitions_are_balanced_over_all_topics(group, skew):
    members, topology = group
    assignment = LagAwareAssignor(spread_idle=True, max_count_skew=skew).assign(members, topology)
    assert np.ptp(assignment.counts) <= 1


def test_many_topics_with_one_partition_are_spread_over_members():
    topology = Topology.of({f"t{at}": 1 for at in range(9)})
    members = {name: Member(topics=list(topology.index)) for name in "abc"}
    assert LagAwareAssignor().assign(members, topology).counts.tolist() == [9, 0, 0]
    assert LagAwareAssignor(spread_idle=True).assign(members, topology).counts.tolist() == [3, 3, 3]
    assert sorted(LagAwareAssignor(shuffle=True).assign(members, topology).counts.tolist()) != [0, 0, 9]


def test_shuffle_is_deterministic_and_survives_the_restart_of_a_static_member():
    topology = Topology.of({f"t{at}": 1 for at in range(12)})
    members = {name: Member(topics=list(topology.index), instance_id=f"i-{name}") for name in "abc"}
    assignment = LagAwareAssignor(shuffle=True).assign(members, topology)
    assert {member: [int(at.topic[1:]) for at in assignment[member]] for member in assignment} == GOLDEN
    again = LagAwareAssignor(shuffle=True).assign(
        {f"new-{name}": member for name, member in reversed(members.items())}, topology
    )
    assert {member: again[f"new-{member}"] for member in members} == assignment


GOLDEN = {"a": [0, 1, 2, 8, 9], "b": [3], "c": [4, 5, 6, 7, 10, 11]}


def test_shuffle_applies_with_more_partitions_than_members():
    topology = Topology.of({f"t{at}": 7 for at in range(4)})
    members = {name: Member(topics=list(topology.index)) for name in "abc"}
    more = {
        member
        for topic in range(4)
        for member, count in per_topic(LagAwareAssignor(shuffle=True).assign(members, topology), topic).items()
        if count == 3
    }
    assert len(more) > 1


@pytest.mark.parametrize("options", [{}, {"spread_idle": True}, {"max_count_skew": 2}])
def test_shuffle_does_not_depend_on_members_without_partitions(options):
    """Only few of many members are candidates; the result equals that with these alone."""
    topology = Topology.of({f"t{at:02}": 1 + at % 9 for at in range(60)})
    members = {f"m{at:03}": Member(topics=list(topology.index)) for at in range(400)}
    assignor = LagAwareAssignor(shuffle=True, **options)
    assignment = assignor.assign(members, topology)
    few = {member: one for member, one in members.items() if assignment[member]}
    assert 100 < len(few) < len(members)
    assert dict(assignor.assign(few, topology)) == {member: assignment[member] for member in few}
    for at in (3, 17):
        only = Topology.of({f"t{at:02}": 1 + at % 9})
        assigned = assignor.assign(members, only)
        winners = {member: one for member, one in members.items() if assigned[member]}
        assert len(winners) == 1 + at % 9
        assert dict(assignor.assign(winners, only)) == {member: assigned[member] for member in winners}


def per_topic(assignment, topic):
    return {member: sum(at.topic == f"t{topic}" for at in assignment[member]) for member in assignment}


def test_a_local_member_wins_a_tie():
    topology = Topology.of({"t": [["b", "a"], ["a", "b"]]})
    members = {"m1": Member(topics=["t"], rack="a"), "m2": Member(topics=["t"], rack="b")}
    lags = [9, 8]
    assert numbers(LagAwareAssignor().assign(members, topology, lags=lags)) == {"m1": [0], "m2": [1]}
    assert numbers(LagAwareAssignor(locality="leader").assign(members, topology, lags=lags)) == {"m1": [1], "m2": [0]}
    assert numbers(LagAwareAssignor(locality="replica").assign(members, topology, lags=lags)) == {"m1": [0], "m2": [1]}


def test_tolerance_trades_lag_for_locality():
    rng = np.random.default_rng(3)
    topology = Topology.of({"t": [["abc"[at % 3]] for at in range(90)]})
    members = {f"m{at}": Member(topics=["t"], rack="abc"[at % 3]) for at in range(6)}
    lags = rng.integers(1, 1_000, 90)
    kip = LagAwareAssignor().assign(members, topology, lags=lags)
    results = [
        LagAwareAssignor(locality="replica", local_tolerance=tolerance).assign(members, topology, lags=lags)
        for tolerance in (0.001, 0.5)
    ]
    assert local(kip, members) < local(results[0], members) < local(results[1], members)
    assert [result.counts.tolist() for result in results] == [[15] * 6] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_count_skew": 0}, "max_count_skew is 0; give 1"),
        ({"max_moved": -1}, "max_moved is -1; give the number"),
        ({"locality": "rack"}, "unknown locality 'rack'; use replica, leader or None"),
        ({"locality": "leader", "local_tolerance": -0.1}, "local_tolerance is -0.1; give 0 or more"),
        ({"local_tolerance": 0.1}, "local_tolerance has no effect without locality"),
        ({"missing": "mean"}, "unknown value 'mean' of missing; use zero or median"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        LagAwareAssignor(**options)
