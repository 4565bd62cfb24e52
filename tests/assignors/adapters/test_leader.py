"""The leader's fallback for any assignor: `keep_and_spread` and `hold_back`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import Assignment, Assignor, AssignorError, GroupSpec, Member, Topology
from quorate.assignors.adapters import leader

TOPOLOGY = Topology.of({"t": 4, "u": 3})
PARTITIONS = [("t", number) for number in range(5)] + [("u", number) for number in range(3)] + [("gone", 0)]


@st.composite
def groups(draw):
    """Draw up to five members with conflicting claims."""
    members = {
        f"m{number}": Member(
            topics=draw(st.lists(st.sampled_from(["t", "u", "nowhere"]), unique=True)),
            owned=draw(st.lists(st.sampled_from(PARTITIONS), unique=True)),
            generation=draw(st.integers(-1, 2)),
        )
        for number in range(draw(st.integers(0, 5)))
    }
    return GroupSpec(members, TOPOLOGY)


def newest_claims(group):
    """Return partition → members with the claim of the highest generation, computed plainly."""
    claims = {}
    for member_id, member in group.members.items():
        for at in member.owned:
            if group.topology.number(*at) >= 0:
                claims.setdefault(at, []).append((member.generation, member_id))
    return {at: [who for generation, who in found if generation == max(found)[0]] for at, found in claims.items()}


def owners(assignment):
    found = {}
    for member_id, partitions in assignment.items():
        for at in partitions:
            assert tuple(at) not in found, "given twice"
            found[tuple(at)] = member_id
    return found


@given(groups())
def test_kept_partitions_stay_and_others_go_to_subscribers(group):
    given_to = owners(leader.keep_and_spread(group))
    claims = newest_claims(group)
    for number in range(int(TOPOLOGY.first[-1])):
        [at] = TOPOLOGY.topic_partitions(np.array([number]))
        wanted = [who for who, member in group.members.items() if at.topic in member.topics]
        match claims.get(at, []):
            case []:
                assert (given_to.get(at) in wanted) if wanted else at not in given_to
            case [one]:
                assert given_to.get(at) == (one if one in wanted else None)
            case _:
                assert at not in given_to, "two have it: both have to give it up first"


@given(groups())
def test_free_partitions_are_spread_evenly(group):
    fresh = GroupSpec(
        {who: Member(topics=member.topics) for who, member in group.members.items() if member.topics == ["t"]}, TOPOLOGY
    )
    counts = leader.keep_and_spread(fresh).counts
    assert len(counts) == 0 or counts.max() - counts.min() <= 1


@given(groups(), st.data())
def test_no_partition_is_assigned_while_another_member_owns_it(group, data):
    if not len(group):
        return
    numbers = data.draw(st.lists(st.integers(0, 6), unique=True))
    to = [data.draw(st.integers(0, len(group) - 1)) for _ in numbers]
    result = Assignment.from_owners(TOPOLOGY, group.member_ids, np.array(numbers, np.int64), np.array(to, np.int64))
    before, after, claims = owners(result), owners(leader.hold_back(result, group)), newest_claims(group)
    assert after == {at: who for at, who in before.items() if claims.get(at, [who]) == [who]}


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_failing_assignor_leaves_kept_partitions_where_they_are(cooperative):
    class Fails(Assignor):
        name = "fails"

        def assign_group(self, group):
            raise ValueError

    members = {
        "m1": Member(topics=["t"], owned=[("t", 0), ("t", 1), ("t", 2)], generation=3),
        "m2": Member(topics=["t"]),
    }
    result = leader.assign(Fails(), members, TOPOLOGY, group="g", cooperative=cooperative)
    assert {who: [at.partition for at in result[who]] for who in result} == {"m1": [0, 1, 2], "m2": [3]}


def test_an_assignor_error_is_logged_in_one_line(caplog):
    class Fails(Assignor):
        name = "fails"

        def assign_group(self, group):
            raise AssignorError("topic t has no id: give it one")

    result = leader.assign(Fails(), {"m": Member(topics=["t"])}, TOPOLOGY, group="g")
    assert len(result["m"]) == 4
    [record] = caplog.records
    assert "group g: assignor fails" in record.message
    assert "failed: topic t has no id: give it one." in record.message
    assert record.exc_info is None


@pytest.mark.parametrize(
    ("lists", "fault"),
    [
        ([[0, 1], [1, 2]], "t-1 is assigned to more than one member"),
        ([[0, 99], []], "it has a partition that does not exist"),
        ([[0, -1], []], "it has a partition that does not exist"),
        ([[0], [4]], "u-0 is assigned to m2, which does not subscribe to it"),
        ([[0]], "it is for other members or another topology"),
    ],
)
def test_invalid_assignments_are_logged(lists, fault, caplog):
    class Fixed(Assignor):
        name = "answers"

        def assign_group(self, group):
            return Assignment.from_lists(group.topology, group.member_ids[: len(lists)], lists)

    members = {"m1": Member(topics=["t", "u"]), "m2": Member(topics=["t"])}
    result = leader.assign(Fixed(), members, TOPOLOGY, group="g")
    assert sorted(result.partitions.tolist()) == list(range(7))
    assert f"is not valid: {fault}" in caplog.text


def test_a_result_that_is_no_assignment_is_logged(caplog):
    class Plain(Assignor):
        name = "plain"

        def assign_group(self, group):
            return {"m1": [("t", 0)]}

    result = leader.assign(Plain(), {"m1": Member(topics=["t", "u"])}, TOPOLOGY, group="g")
    assert sorted(result.partitions.tolist()) == list(range(7))
    assert "is not valid: it is a dict; assign_group returns an Assignment" in caplog.text


def test_large_groups_are_spread_fast():
    members = {f"m{number}": Member(topics=["t"]) for number in range(2_000)}
    group = GroupSpec(members, Topology.of({"t": 40_000}))
    assert set(leader.keep_and_spread(group).counts.tolist()) == {20}
