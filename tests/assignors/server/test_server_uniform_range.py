"""The server-side `uniform` and `range`: documented results, balance, stickiness, and releases."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import Assignment, AssignorError, GroupSpec, Member, Topic, Topology
from quorate.assignors.server import KafkaServerAssignor, ServerRangeAssignor, SubscriptionType, UniformAssignor
from quorate.codecs import Uuid
from quorate.codecs.releases import KafkaVersion
from tests.assignors.groups import check_valid
from tests.assignors.server_cases import next_server_round, read_server_case, server_case
from tests.assignors.server_differential import kafka, ours
from tests.assignors.server_setup import as_case, assignments, changed_records, group
from tests.assignors.vectors import server_vector_case, server_vectors
from tests.oracle.client import Oracle

BY_NAME: dict[str, KafkaServerAssignor] = {"uniform": UniformAssignor(), "range": ServerRangeAssignor()}
VECTORS = [(name, number) for name in BY_NAME for number in range(len(server_vectors(name)))]


@pytest.mark.parametrize(("assignor", "number"), VECTORS)
def test_documented_results_of_kafka(assignor: str, number: int) -> None:
    vector = server_vectors(assignor)[number]
    made = read_server_case(server_vector_case(vector))
    target = BY_NAME[assignor].target(made)
    names = {topic.id: topic.name for topic in made.topology.topics}
    assert (made.subscription_type is SubscriptionType.HOMOGENEOUS) == vector["homogeneous"]
    for member, member_id in enumerate(made.member_ids):
        expected = {topic: sorted(partitions) for topic, partitions in vector["result"][member_id].items()}
        has = target.assignment.by_topic(member_id)
        assert {topic: sorted(partitions) for topic, partitions in has.items()} == expected
        if member in target.changed:
            record = [(names[topic], list(partitions)) for topic, partitions in target.record(member)]
            assert record == list(vector["result"][member_id].items())


# Topics, members, and their partition numbers in order.
EXAMPLES = {
    "KIP-848: a third member takes one from each of two": (
        "uniform",
        group("t1:6", m1="t1 | t1-0,1,2", m2="t1 | t1-3,4,5", m3="t1"),
        {"m1": "t1-0,1", "m2": "t1-3,4", "m3": "t1-2,5"},
    ),
    "range does not look at what members have": (
        "range",
        group("t1:6", m1="t1 | t1-0,1,2", m2="t1 | t1-3,4,5", m3="t1"),
        {"m1": "t1-0,1", "m2": "t1-2,3", "m3": "t1-4,5"},
    ),
    "range: two members, two topics": (
        "range",
        group("t1:3 t2:2", m1="t1 t2", m2="t1 t2"),
        {"m1": "t1-0,1 t2-0", "m2": "t1-2 t2-1"},
    ),
    "range: other subscriptions": (
        "range",
        group("t1:3 t2:3 t3:2", m1="t1 t2", m2="t3", m3="t2 t3"),
        {"m1": "t1-0,1,2 t2-0,1", "m2": "t3-0", "m3": "t2-2 t3-1"},
    ),
    "range: more members than partitions": (
        "range",
        group("t1:1 t2:1", m1="t1 t2", m2="t1 t2"),
        {"m1": "t1-0 t2-0", "m2": ""},
    ),
    "uniform: a topic goes to who has nothing else": (
        "uniform",
        group("t1:3 t2:3", m1="t1 t2", m2="t1"),
        {"m1": "t2-0,1,2", "m2": "t1-0,1,2"},
    ),
    "uniform: a member gives away of what only he had": (
        "uniform",
        group("t1:4 t2:4", m1="t1 t2 | t1-0,1,2,3", m2="t2 | t2-0,1,2,3", m3="t1 t2"),
        {"m1": "t2-3 t1-0,1", "m2": "t2-0,1,2", "m3": "t1-2,3"},
    ),
    "uniform: a topic that is gone is given up": (
        "uniform",
        group("t1:2", m1="t1 | t1-0 gone-0,1", m2="t1"),
        {"m1": "t1-0", "m2": "t1-1"},
    ),
    "uniform: a topic without subscribers": (
        "uniform",
        group("t1:2 t2:2", m1="t1 | t2-0,1", m2="t1"),
        {"m1": "t1-0", "m2": "t1-1"},
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    assignor, made, expected = EXAMPLES[name]
    assert assignments(BY_NAME[assignor].target(made)) == expected


@pytest.mark.oracle
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_equal_kafkas_results(oracle: Oracle, name: str) -> None:
    assignor, made, _ = EXAMPLES[name]
    case = as_case(made, assignor)
    assert ours(case) == kafka(oracle, case)


def test_only_members_whose_target_changed_get_a_record() -> None:
    target = UniformAssignor().target(group("t1:5", m1="t1 | t1-0,1", m2="t1 | t1-2", m3="t1 | t1-3"))
    assert changed_records(target) == {"m3": "t1-3,4"}
    assert assignments(target) == {"m1": "t1-0,1", "m2": "t1-2", "m3": "t1-3,4"}


@pytest.mark.parametrize("assignor", BY_NAME.values(), ids=BY_NAME)
def test_assigning_again_changes_nothing(assignor: KafkaServerAssignor) -> None:
    made = group("t1:7 t2:4", m1="t1 t2", m2="t1", m3="t2 t1")
    again = assignor.target(made.with_owned(assignor.assign_group(made)))
    assert len(again.changed) == 0
    assert dict(again.assignment) == dict(assignor.assign_group(made))


# ---- properties

seeds = st.integers(0, 1 << 40)


def _case(seed: int, assignor: str) -> GroupSpec:
    case = server_case(Random(seed), assignor, owners=(1,))
    for member in case["members"].values():
        member["topics"] = [topic for topic in member["topics"] if topic != "missing"]
    case.pop("subscriptionType", None)
    return read_server_case(case)


@pytest.mark.parametrize("assignor", BY_NAME)
@given(seed=seeds)
def test_every_partition_goes_to_one_subscriber(assignor: str, seed: int) -> None:
    made = _case(seed, assignor)
    check_valid(BY_NAME[assignor].assign_group(made), made.members, made.topology)


@given(seed=seeds)
def test_uniform_counts_differ_by_one_at_most_with_equal_subscriptions(seed: int) -> None:
    made = _case(seed, "uniform")
    if made.subscription_type is SubscriptionType.HOMOGENEOUS:
        assert np.ptp(UniformAssignor().assign_group(made).counts) <= 1


@given(seed=seeds)
def test_uniform_moves_only_what_balance_requires(seed: int) -> None:
    case = server_case(Random(seed), "uniform", owners=(1,))
    case.pop("subscriptionType", None)
    before = ours(case)
    again = next_server_round(Random(seed), case, before["assignment"])
    again["members"] = {name: again["members"][name] for name in again["members"] if name in case["members"]}
    again["topics"] = case["topics"]
    made = read_server_case(again)
    if made.subscription_type is SubscriptionType.HOMOGENEOUS and len(made):
        total, members = len(UniformAssignor().assign_group(made).partitions), len(made)
        kept = _kept(made, UniformAssignor().assign_group(made))
        wanted = {topic for one in made.members.values() for topic in one.topics}
        had = [sum(topic in wanted for topic, _ in member.owned) for member in made.members.values()]
        # All partitions below the level, and as many of those one above as there are places.
        least, extra = divmod(total, members)
        assert kept == sum(min(count, least) for count in had) + min(extra, sum(count > least for count in had))


def _kept(made: GroupSpec, assignment: Assignment) -> int:
    return sum(len(set(member.owned) & set(assignment[name])) for name, member in made.members.items())


@given(seed=seeds)
def test_range_assigns_co_partitioned_topics_alike(seed: int) -> None:
    made = _case(seed, "range")
    assignment = ServerRangeAssignor().assign_group(made)
    everybody = {topic.name for topic in made.topology.topics}
    for member in made.members.values():
        everybody &= set(member.topics)
    sizes = Counter(topic.partitions for topic in made.topology.topics if topic.name in everybody)
    for name in made.members:
        by_topic = assignment.by_topic(name)
        for size in sizes:
            alike = [
                topic.name for topic in made.topology.topics if topic.name in everybody and topic.partitions == size
            ]
            assert len({tuple(sorted(by_topic.get(topic, ()))) for topic in alike}) == 1


# ---- releases, Java releases


def test_before_4_0_1_the_first_members_got_the_extra_partitions() -> None:
    made = group("t1:3", m1="t1 | t1-0", m2="t1 | t1-1,2")
    assert assignments(UniformAssignor(version=KafkaVersion(4, 0, 0)).target(made)) == {"m1": "t1-0,2", "m2": "t1-1"}
    for version in (KafkaVersion(4, 0, 1), KafkaVersion(4, 1), KafkaVersion.NEWEST):
        assert assignments(UniformAssignor(version=version).target(made)) == {
            "m1": "t1-0",
            "m2": "t1-1,2",
        }  # KAFKA-18688


def test_a_set_of_twelve_partitions_iterates_differently_on_jdk_19() -> None:
    # Of the twelve partitions 11 to 22, 16 buckets put 16 first, 32 buckets put 11 first; a member
    # with too many loses the last ones.
    twelve = "t1-" + ",".join(map(str, range(11, 23)))
    made = group("t1:23", m1=f"t1 | {twelve}", m2="t1 | t1-0,1,2,3,4,5,6,7,8,9,10", m3="t1")
    given_up = {jdk: UniformAssignor(jdk=jdk).target(made).assignment["m3"] for jdk in (17, 19, 21)}
    assert [partition for _, partition in given_up[17]] != [partition for _, partition in given_up[19]]
    assert given_up[19] == given_up[21]
    assert {partition for _, partition in given_up[17]} >= {19, 20, 21, 22}
    assert {partition for _, partition in given_up[19]} >= {12, 13, 14, 15}


@pytest.mark.parametrize("assignor", [UniformAssignor, ServerRangeAssignor])
def test_unsupported_releases_are_rejected(assignor: type[KafkaServerAssignor]) -> None:
    made = group("t1:3", m1="t1")
    with pytest.raises(AssignorError, match=r"supports Kafka 4\.0\.0 to 4\.4\.0, not 3\.9\.2; leave `version` out"):
        assignor(version=KafkaVersion(3, 9, 2)).assign_group(made)


# ---- odd groups


@pytest.mark.parametrize("assignor", BY_NAME.values(), ids=BY_NAME)
def test_an_empty_group_has_an_empty_target(assignor: KafkaServerAssignor) -> None:
    target = assignor.target(group("t1:3"))
    assert dict(target.assignment) == {}
    assert len(target.changed) == 0


@pytest.mark.parametrize("assignor", BY_NAME.values(), ids=BY_NAME)
def test_a_topic_without_an_id_is_rejected_by_name(assignor: KafkaServerAssignor) -> None:
    for members in ({"m1": "t1 t2"}, {"m1": "t1", "m2": "t2"}):
        with pytest.raises(AssignorError, match=r"topic t1 has no id, which server-side assignors need"):
            assignor.target(group("t1:3 t2:1", ids=False, **members))


@pytest.mark.parametrize("assignor", BY_NAME.values(), ids=BY_NAME)
def test_a_topic_without_an_id_and_without_subscribers_is_accepted(assignor: KafkaServerAssignor) -> None:
    there = Topic(name="t1", partitions=2, id=Uuid(bytes(15) + b"\1"))
    topology = Topology([there, Topic(name="t2", partitions=2)])
    assert [len(given) for given in assignor.assign({"m1": Member(topics=["t1"])}, topology).values()] == [2]


@pytest.mark.parametrize("assignor", BY_NAME.values(), ids=BY_NAME)
@pytest.mark.parametrize("other", ["t1 missing", "missing", ""])
def test_topics_that_do_not_exist_are_left_out(assignor: KafkaServerAssignor, other: str) -> None:
    target = assignor.target(group("t1:4", m1="t1 missing", m2=other, m3="missing"))
    has = {member: len(given) for member, given in target.assignment.items()}
    assert has == {"m1": 2 if "t1" in other else 4, "m2": 2 if "t1" in other else 0, "m3": 0}


def test_a_partition_with_two_owners_is_rejected_if_partitions_were_left_over() -> None:
    with pytest.raises(AssignorError, match="has several owners; give it one"):
        UniformAssignor().assign_group(group("t1:4", m1="t1 | t1-0,1", m2="t1 | t1-0,2", m3="t1 | t1-1,2"))


def test_the_subscription_type_can_be_given() -> None:
    made = group("t1:4 t2:1", m1="t1 t2 | t1-0,1,2,3", m2="t1 t2")
    balanced, by_topic = (
        UniformAssignor(subscription_type=one).assign_group(made) for one in (SubscriptionType.HOMOGENEOUS, None)
    )
    assert dict(balanced) == dict(by_topic)
    assignment = UniformAssignor(subscription_type=SubscriptionType.HETEROGENEOUS).assign_group(made)
    assert sorted(map(len, assignment.values())) == [2, 3]


def test_static_members_come_first_in_range() -> None:
    made = group("t1:4", m1="t1", m2="t1", m3="t1")
    static = made.members | {"m3": Member(topics=["t1"], instance_id="z"), "m2": Member(topics=["t1"], instance_id="a")}
    assignment = ServerRangeAssignor().assign(static, made.topology)
    assert {name: [number for _, number in given] for name, given in assignment.items()} == {
        "m2": [0, 1],
        "m3": [2],
        "m1": [3],
    }


@pytest.mark.parametrize("assignor", sorted(BY_NAME))
@pytest.mark.parametrize("kind", list(SubscriptionType))
def test_targets_are_empty_when_all_topics_were_deleted(assignor: str, kind: SubscriptionType) -> None:
    members = {"m1": Member(topics=["gone"], owned=[("gone", 0)]), "m2": Member(topics=["gone"])}
    target = type(BY_NAME[assignor])(subscription_type=kind).target(GroupSpec(members, Topology([])))
    assert [target.group.member_ids[number] for number in target.changed] == ["m1"]
    assert target.record(0) == ()
