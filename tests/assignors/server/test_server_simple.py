"""`simple` shares partitions as Kafka's share groups do, with Kafka's peculiarities."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import AssignorError, GroupSpec, Member
from quorate.assignors.server import SimpleAssignor, SubscriptionType, dealing
from quorate.codecs.releases import KafkaVersion
from tests.assignors.server_cases import read_server_case, server_case
from tests.assignors.server_differential import kafka, ours
from tests.assignors.server_setup import as_case, assignments, changed_records, group
from tests.oracle.client import Oracle

# Members, and the records of those whose target changes; "t1-" is a topic without partitions.
EXAMPLES = {
    "as many members as partitions": (
        group("t1:3", m1="t1", m2="t1", m3="t1"),
        {"m1": "t1-1", "m2": "t1-2", "m3": "t1-0"},
    ),
    "more partitions than members: each to one": (
        group("t1:5", m1="t1", m2="t1"),
        {"m1": "t1-0,1,4", "m2": "t1-2,3"},
    ),
    "more members than partitions: each to several": (
        group("t1:2", m1="t1", m2="t1", m3="t1", m4="t1", m5="t1"),
        {"m1": "t1-0,1", "m2": "t1-1", "m3": "t1-1", "m4": "t1-0", "m5": "t1-0"},
    ),
    "where subscriptions differ, topic by topic": (
        group("t1:3 t2:2", m1="t1 t2", m2="t1", m3="t2"),
        {"m1": "t2-0 t1-0,2", "m2": "t1-1", "m3": "t2-1"},
    ),
    "nothing changes": (group("t1:4", m1="t1 | t1-0,3", m2="t1 | t1-1,2"), {}),
    "who has too much gives some up": (
        group("t1:4", m1="t1 | t1-0,1,2,3", m2="t1"),
        {"m1": "t1-0,3", "m2": "t1-1,2"},
    ),
    "what too many have is given up": (
        group("t1:2", m1="t1 | t1-0", m2="t1 | t1-0"),
        {"m1": "t1-1"},
    ),
    "a topic of which nothing is left stays in the record": (
        group("t1:2 t2:2", m1="t1 t2 | t1-0,1 t2-0,1", m2="t1 t2"),
        {"m1": "t1-0,1 t2-", "m2": "t2-0,1"},
    ),
    "a topic without partitions alone is no change": (
        group("t1:2 t2:2", m1="t1 t2 | t1-0,1 t2-", m2="t1 t2 | t2-0,1"),
        {},
    ),
    "unsubscribed: the topic goes from the record where all subscribe alike": (
        group("t1:2 t2:2", m1="t1 | t1-0,1 t2-0", m2="t1"),
        {"m1": "t1-0", "m2": "t1-1"},
    ),
    "unsubscribed: the topic stays in the record where others subscribe to it": (
        group("t1:2 t2:2", m1="t1 | t1-0 t2-0,1", m2="t1 t2 | t1-1"),
        {"m1": "t1-0 t2-", "m2": "t2-0,1 t1-1"},
    ),
    "a topic that is gone goes where all subscribe alike": (
        group("t1:2", m1="t1 | t1-0 gone-0", m2="t1 | t1-1"),
        {"m1": "t1-0"},
    ),
    "a topic that is gone stays where subscriptions differ": (
        group("t1:2 t2:2", m1="t1 | t1-0,1 gone-0", m2="t1 t2"),
        {"m1": "t1-1 gone-0", "m2": "t2-0,1 t1-0"},
    ),
    "a topic without subscribers stays with different subscriptions": (
        group("t1:2 t2:2 t3:1", m1="t1 | t1-0 t3-0", m2="t1 t2 | t1-1 t2-0,1"),
        {},
    ),
    "empty subscriptions": (group("t1:2", m1=" | t1-0", m2=" | gone-"), {"m1": "", "m2": ""}),
    "only topics that do not exist": (group("t1:2", m1="missing | t1-0", m2="missing"), {"m1": ""}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    made, expected = EXAMPLES[name]
    assert changed_records(SimpleAssignor().target(made)) == expected


@pytest.mark.oracle
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_equal_kafkas_results(oracle: Oracle, name: str) -> None:
    case = as_case(EXAMPLES[name][0], "simple")
    assert ours(case) == kafka(oracle, case)


def test_the_assignment_has_only_partitions_that_exist() -> None:
    made = group("t1:2 t2:2", m1="t1 | t1-0 gone-0 t2-", m2="t1 t2 | t1-1", m3="t2 | t2-0,1 gone-1")
    target = SimpleAssignor().target(made)
    assert assignments(target) == {"m1": "t1-0", "m2": "t2-0 t1-1", "m3": "t2-1"}
    assert target.assignment.partitions.tolist() == [0, 2, 1, 3]
    assert target.assignment.offsets.tolist() == [0, 1, 3, 4]


# ---- assignable partitions


def test_only_assignable_partitions_are_assigned() -> None:
    made = group("t1:4 t2:2 t3:1", m1="t1 t2", m2="t1 t2 t3", m3="t3")
    assignment = SimpleAssignor(assignable={"t1": [0, 2], "t3": {0}, "other": [1]}).assign_group(made)
    assert {tuple(at) for given in assignment.values() for at in given} == {("t1", 0), ("t1", 2), ("t3", 0)}


def test_owned_partitions_that_are_no_longer_assignable_stay() -> None:
    made = group("t1:4", m1="t1 | t1-3", m2="t1", m3="t1")
    assert assignments(SimpleAssignor(assignable={"t1": [0, 1, 2]}).target(made)) == {
        "m1": "t1-3",
        "m2": "t1-1",
        "m3": "t1-2",
    }
    assert assignments(SimpleAssignor(assignable={"t1": [0]}).target(made)) == {
        "m1": "t1-3",
        "m2": "t1-3",
        "m3": "t1-3",
    }


def test_where_kafkas_assignor_fails_the_error_names_the_cause() -> None:
    made = group("t1:4", m1="t1 | t1-3", m2="t1", m3="t1")
    with pytest.raises(
        AssignorError, match="some own partitions that cannot be assigned; remove these from their owned partitions"
    ):
        SimpleAssignor(assignable={"t1": [0, 1]}).assign_group(made)


@pytest.mark.oracle
def test_assignable_partitions_are_treated_as_in_kafka(oracle: Oracle) -> None:
    case = as_case(group("t1:4", m1="t1 | t1-3", m2="t1", m3="t1"), "simple")
    for assignable in ([0, 1, 2], [0], []):
        request = case | {"assignable": {"t1": assignable}}
        assert ours(request) == kafka(oracle, request)
    failing = kafka(oracle, case | {"assignable": {"t1": [0, 1]}})
    assert failing["error"]["class"] == "NoSuchElementException"


@pytest.mark.parametrize("wrong", [3, "t1", ["t1"]])
def test_assignable_must_be_a_mapping(wrong: object) -> None:
    with pytest.raises(AssignorError, match="`assignable` must map topics to partitions, not be"):
        SimpleAssignor(assignable=wrong)  # type: ignore[arg-type]


# ---- properties

seeds = st.integers(0, 1 << 40)


def _made(seed: int, *, fresh: bool = False) -> GroupSpec:
    case = server_case(Random(seed), "simple")
    for field in ("assignable", "subscriptionType"):
        case.pop(field, None)
    for member in case["members"].values():
        if fresh:
            member.pop("target", None)
    return read_server_case(case)


@given(seed=seeds)
def test_every_partition_goes_to_the_required_number_of_subscribers(seed: int) -> None:
    made = _made(seed)
    assignment = SimpleAssignor().assign_group(made)
    alike = made.subscription_type is SubscriptionType.HOMOGENEOUS
    wanted = {topic for member in made.members.values() for topic in member.topics}
    holders = Counter(at for given in assignment.values() for at in given if at.topic in wanted)
    total = sum(topic.partitions for topic in made.topology.topics if topic.name in wanted)
    for topic in made.topology.topics:
        subscribers = sum(topic.name in member.topics for member in made.members.values())
        if subscribers and topic.partitions:
            most = -(-subscribers // (total if alike else topic.partitions))
            counts = [holders[topic.name, partition] for partition in range(topic.partitions)]
            assert max(counts) <= most
            assert min(counts) >= 1
    for name, member in made.members.items():
        assert {at.topic for at in assignment[name]} & wanted <= set(member.topics)
        assert len(set(assignment[name])) == len(assignment[name])


@given(seed=seeds)
def test_with_equal_subscriptions_counts_differ_by_one_at_most(seed: int) -> None:
    made = _made(seed, fresh=True)
    if made.subscription_type is SubscriptionType.HOMOGENEOUS and not _crowded(made):
        assert np.ptp(SimpleAssignor().assign_group(made).counts) <= 1


@given(seed=seeds)
def test_assigning_again_changes_nothing(seed: int) -> None:
    made = _made(seed, fresh=True)
    if not _crowded(made):
        first = SimpleAssignor().assign_group(made)
        again = SimpleAssignor().target(made.with_owned(first))
        assert len(again.changed) == 0
        assert dict(again.assignment) == dict(first)


def _crowded(made: GroupSpec) -> bool:
    """Return whether a topic has fewer partitions than members, so one may be dealt twice."""
    return any(len(made) > topic.partitions for topic in made.topology.topics)


# ---- dealing


def deal(needs: dict[int, int], left: dict[int, int], held: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return (place, partition) pairs in time order; `held` has such pairs too."""
    holders, numbers = (np.array([pair[side] for pair in held], np.int64) for side in (0, 1))
    arrays = [np.array(list(one), np.int64) for one in (needs, needs.values(), left, left.values())]
    places, partitions = dealing.deal(*arrays, holders, numbers, 10)
    return list(zip(places.tolist(), partitions.tolist(), strict=True))


def test_partitions_are_dealt_in_rounds_to_members_below_their_share() -> None:
    assert deal({7: 1, 5: 2, 6: 1}, {0: 1, 1: 3}) == [(0, 7), (1, 5), (1, 5), (1, 6)]
    assert deal({7: 1, 5: 2, 6: 1}, {0: 2, 1: 1, 3: 1}) == [(0, 7), (1, 5), (3, 5), (0, 6)]


def test_members_that_own_a_partition_are_skipped() -> None:
    assert deal({7: 1, 5: 1}, {0: 1, 1: 1}, [(0, 7)]) == [(1, 7), (0, 5)]


def test_dealing_ends_when_no_member_takes_a_partition_in_a_round() -> None:
    assert deal({7: 1, 5: 1}, {0: 1, 1: 1}, [(0, 7), (1, 7)]) == []
    assert deal({5: 1, 7: 1, 6: 1}, {0: 2}, [(0, 7)]) == [(0, 5)]


def test_a_partition_dealt_twice_to_a_member_counts_twice() -> None:
    assert deal({7: 2, 5: 1}, {0: 2}) == [(0, 7), (0, 7), (0, 5)]


def test_more_owners_needed_than_shares_left_is_an_error() -> None:
    with pytest.raises(AssignorError, match="have their share before all partitions have enough owners"):
        deal({7: 2}, {0: 1})
    assert deal({7: 1, 5: 1}, {0: 1}) == [(0, 7)]  # between two partitions there is no error


@given(
    needs=st.dictionaries(st.integers(0, 9), st.integers(1, 3), min_size=1, max_size=6),
    left=st.dictionaries(st.integers(0, 5), st.integers(1, 3), min_size=1, max_size=5),
    held=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), unique=True, max_size=6),
)
def test_dealing_equals_dealing_step_by_step(
    needs: dict[int, int], left: dict[int, int], held: list[tuple[int, int]]
) -> None:
    held = [pair for pair in held if pair[1] in needs]
    try:
        found = deal(needs, left, held)
    except AssignorError:
        found = None
    assert found == _slowly(needs, left, held)


def _slowly(needs: dict[int, int], left: dict[int, int], held: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Deal as the broker does, step by step; `None` where it fails."""
    unfilled, taken = dict(left), set()
    found: list[tuple[int, int]] = []
    walk, some = iter(list(unfilled)), False
    for number, need in needs.items():
        while need:
            place = next(walk, None)
            if place is None:
                if not some:
                    break
                if not unfilled:
                    return None
                walk, some = iter(list(unfilled)), False
            elif (place, number) not in held:
                found.append((place, number))
                need, some = need - 1, True
                if (place, number) not in taken:
                    taken.add((place, number))
                    unfilled[place] -= 1
                if not unfilled[place]:
                    del unfilled[place]
        if not unfilled:
            break
    return found


# ---- releases, odd groups


def test_releases_before_4_2_are_rejected() -> None:
    with pytest.raises(AssignorError, match=r"simple supports Kafka 4\.2\.0 to 4\.4\.0, not 4\.1\.0"):
        SimpleAssignor(version=KafkaVersion(4, 1)).assign_group(group("t1:3", m1="t1"))
    assert len(SimpleAssignor(version=KafkaVersion(4, 2)).assign_group(group("t1:3", m1="t1"))["m1"]) == 3


def test_an_empty_group_has_an_empty_target() -> None:
    assert dict(SimpleAssignor().target(group("t1:3")).assignment) == {}


@pytest.mark.parametrize("members", [{"m1": "t1"}, {"m1": "t1", "m2": ""}])
def test_a_topic_without_an_id_is_rejected_by_name(members: dict[str, str]) -> None:
    with pytest.raises(AssignorError, match="topic t1 has no id, which server-side assignors need"):
        SimpleAssignor().target(group("t1:3", ids=False, **members))


def test_a_deleted_topic_with_an_unknown_id_is_left_out_of_the_record() -> None:
    made = group("t1:2 t2:2", m1="t1", m2="t1 t2")
    members = {"m1": Member(topics=["t1"], owned=[("t1", 0), ("t1", 1), ("deleted", 0)]), "m2": made.members["m2"]}
    target = SimpleAssignor().target(GroupSpec(members, made.topology))
    assert changed_records(target)["m1"] == "t1-1"
