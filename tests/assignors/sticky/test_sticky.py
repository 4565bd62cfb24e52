"""`sticky` and `cooperative-sticky` give Kafka's documented results and follow its rules."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import GroupSpec, Member, Topology
from quorate.assignors.sticky import CooperativeStickyAssignor, StickyAssignor, balance
from quorate.codecs.messages import ProtocolTopicPartition, StickyAssignorUserData
from quorate.codecs.releases import KafkaVersion
from quorate.codecs.sticky_user_data import encode_sticky_user_data
from tests.assignors.cases import Size, client_case, concentrate
from tests.assignors.client_differential import kafka, ours, verdict
from tests.assignors.groups import check_valid, groups, lists
from tests.assignors.rack_setup import assigned, group, mismatches, read
from tests.assignors.read_cases import read_case
from tests.assignors.vectors import client_vectors, vector_case

BOTH = {"sticky": StickyAssignor, "cooperative-sticky": CooperativeStickyAssignor}
ALL = "t1 t2 t3"
UNEVEN = {"t1": 6, "t2": 7, "t3": 2}
SAME = [(ALL, "a"), (ALL, "b"), (ALL, "c")]
OTHER = [(ALL, "a"), (ALL, "b"), ("t1 t3", "c")]
WITHOUT = [(topics, None) for topics, _ in SAME]
WITHOUT_OTHER = [(topics, None) for topics, _ in OTHER]


def owning(text, generation=1, **fields):
    """Read "t1 t2: t1-0 t2-1" as a member that subscribes to t1 and t2 and owns the rest."""
    topics, _, owned = text.partition(":")
    pairs = [(one.rpartition("-")[0], int(one.rpartition("-")[2])) for one in owned.split()]
    return Member(topics=topics.split(), owned=pairs, generation=generation if pairs else -1, **fields)


# ---- Kafka's documented results

TABLE = {
    "nothing owned": (
        {"t1": 3, "t2": 3}, {"consumer1": "t1 t2", "consumer2": "t1 t2"},
        {"consumer1": "t1-0 t1-2 t2-1", "consumer2": "t1-1 t2-0 t2-2"}),
    "a third member": (
        {"t1": 2, "t2": 2},
        {"consumer1": "t1 t2: t1-0 t2-0", "consumer2": "t1 t2: t1-1 t2-1", "consumer3": "t1 t2"},
        {"consumer1": "t1-0", "consumer2": "t1-1 t2-1", "consumer3": "t2-0"}),
    "the third one left": (
        {"t1": 2, "t2": 3}, {"consumer1": "t1 t2: t1-0 t2-1", "consumer2": "t1 t2: t1-1 t2-2"},
        {"consumer1": "t1-0 t2-1 t2-0", "consumer2": "t1-1 t2-2"}),
    "two new partitions for two": (
        {"t1": 2, "t2": 3}, {"consumer1": "t1 t2: t1-0", "consumer2": "t1 t2: t1-1", "consumer3": "t1 t2"},
        {"consumer1": "t1-0 t2-1", "consumer2": "t1-1 t2-2", "consumer3": "t2-0"}),
    "different subscriptions": (
        {"t1": 3, "t2": 2}, {"consumer1": "t1", "consumer2": "t1 t2", "consumer3": "t1"},
        {"consumer1": "t1-0 t1-2", "consumer2": "t2-0 t2-1", "consumer3": "t1-1"}),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_the_tables_of_kafkas_tests(case):
    topics, members, expected = TABLE[case]
    members = {name: owning(text) for name, text in members.items()}
    result = StickyAssignor().assign(members, Topology.of(topics))
    assert lists(result) == {name: text.split() for name, text in expected.items()}


def test_cooperative_withholds_partitions_that_move():
    topics, members, _ = TABLE["a third member"]
    topology = Topology.of(topics)
    assignor = CooperativeStickyAssignor()
    first = assignor.assign({name: owning(text) for name, text in members.items()}, topology)
    assert lists(first) == {"consumer1": ["t1-0"], "consumer2": ["t1-1", "t2-1"], "consumer3": []}
    then = assignor.assign(
        {name: Member(topics=["t1", "t2"], owned=first[name], generation=2) for name in first}, topology
    )
    assert lists(then) == {"consumer1": ["t1-0"], "consumer2": ["t1-1", "t2-1"], "consumer3": ["t2-0"]}


PLAIN = "t1-0,3 t2-0,3,6 ; t1-1,4 t2-1,4 t3-0 ; t1-2,5 t2-2,5 t3-1"
PLAIN_OTHER = "t1-5 t2-0,2,4,6 ; t1-3 t2-1,3,5 t3-0 ; t1-0..2,4 t3-1"
LOCAL_OTHER = "t1-3 t2-0,2,3,6 ; t1-4 t2-1,4,5 t3-0 ; t1-0..2,5 t3-1"
RACKS = {
    "no racks": (3, 0, WITHOUT, PLAIN, None),
    "one replica": (1, 3, SAME, PLAIN, 0),
    "two replicas": (2, 3, SAME, PLAIN, 0),
    "a rack without replicas": (3, 2, SAME, PLAIN, 5),
    "unequal, no racks": (3, 0, WITHOUT_OTHER, PLAIN_OTHER, None),
    "unequal, a rack without replicas": (3, 2, OTHER, PLAIN_OTHER, 5),
    "unequal, one replica": (1, 3, OTHER, LOCAL_OTHER, 4),
    "unequal, two replicas": (2, 3, OTHER, "t1-3 t2-0,2,5,6 ; t1-0 t2-1,3,4 t3-0 ; t1-1,2,4,5 t3-1", 0),
}


@pytest.mark.parametrize("assignor", BOTH.values())
@pytest.mark.parametrize("case", RACKS)
def test_the_rack_tables_of_kafkas_tests(case, assignor):
    factor, brokers, subscriptions, expected, remote = RACKS[case]
    members, topology = group(UNEVEN, factor, brokers, subscriptions)
    result = assignor().assign(members, topology)
    assert assigned(result) == read(expected)
    if remote is not None:
        assert mismatches(result, members) == remote
    owned = {name: replace(member, owned=result[name], generation=1) for name, member in members.items()}
    assert assigned(assignor().assign(owned, topology)) == read(expected)


BEFORE = read("t1-0..4 ; t1-5 t2-0..3 ; t2-4..6 t3-0,1")
PLAIN_OWNED = "t1-2..4 t2-4,5 ; t2-0..3,6 ; t1-0,1,5 t3-0,1"
OWNED = {
    "one replica": (1, SAME, "t1-0,3 ; t2-1 ; t2-5 t3-1", PLAIN),
    "unequal, one replica": (1, OTHER, "t1-3 ; t2-1 ; t3-1", LOCAL_OTHER),
    "unequal, all in all racks": (3, OTHER, "t1-2..4 ; t2-0..3 ; t3-0,1", PLAIN_OWNED),
}


@pytest.mark.parametrize("case", OWNED)
def test_partitions_owned_in_other_racks_move_to_local_members(case):
    factor, subscriptions, at_first, finally_ = OWNED[case]
    members, topology = group(UNEVEN, factor, 3, subscriptions)
    owned = {
        name: replace(member, owned=sorted((one[:2], int(one[3:])) for one in has), generation=1)
        for (name, member), has in zip(members.items(), BEFORE, strict=True)
    }
    if case != "unequal, all in all racks":  # where `sticky` ignores owned partitions
        assert assigned(StickyAssignor().assign(owned, topology)) == read(finally_)
    first = CooperativeStickyAssignor().assign(owned, topology)
    assert assigned(first) == read(at_first)
    then = {name: replace(member, owned=first[name], generation=2) for name, member in owned.items()}
    assert assigned(CooperativeStickyAssignor().assign(then, topology)) == read(finally_)


@pytest.mark.parametrize(
    "vector",
    [*client_vectors("sticky"), *client_vectors("cooperative-sticky")],
    ids=lambda vector: f"{vector['assignor']} {vector['members'][0]['id']}",
)
def test_recorded_results_of_kafka(vector):
    assert ours(vector_case(vector)) == {"assignment": vector["result"]}


# ---- ownership


def sticky_data(text, generation, version=1):
    listed = [one.rpartition("-") for one in text.split()]
    entries = [ProtocolTopicPartition(topic=topic, partitions=(int(number),)) for topic, _, number in listed]
    return encode_sticky_user_data(StickyAssignorUserData(previous_assignment=entries, generation=generation), version)


def test_the_claim_of_the_newer_generation_wins():
    members = {"a": owning("t: t-0 t-1", 4), "b": owning("t: t-1 t-2", 5)}
    assert lists(CooperativeStickyAssignor().assign(members, Topology.of({"t": 4}))) == {
        "a": ["t-0", "t-3"],
        "b": ["t-1", "t-2"],
    }


def test_two_claims_of_one_generation_are_void():
    members = {"a": owning("t: t-0 t-1"), "b": owning("t: t-1 t-2")}
    topology = Topology.of({"t": 4})
    assert lists(StickyAssignor().assign(members, topology)) == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}
    assert lists(CooperativeStickyAssignor().assign(members, topology)) == {"a": ["t-0"], "b": ["t-2", "t-3"]}


def test_sticky_reads_user_data_or_else_owned_partitions():
    owner = Member(topics=["t"], owned=[("t", 0)], generation=1, user_data=sticky_data("t-3 t-2", 1))
    members = {"a": owner, "b": Member(topics=["t"])}
    assert lists(StickyAssignor().assign(members, Topology.of({"t": 4})))["a"] == ["t-2", "t-3"]
    given = {"a": replace(owner, user_data=None), "b": Member(topics=["t"])}
    assert lists(StickyAssignor().assign(given, Topology.of({"t": 4})))["a"] == ["t-0", "t-1"]


def test_user_data_of_older_clients_or_damaged_has_no_generation():
    members = {
        "a": Member(topics=["t"], user_data=sticky_data("t-0 t-1 t-2", -1, version=0)),
        "b": Member(topics=["t"], generation=1, user_data=sticky_data("t-0", 1)),
        "c": Member(topics=["t"], user_data=b"\x00\x00"),
    }
    assert lists(StickyAssignor().assign(members, Topology.of({"t": 3}))) == {"a": ["t-1"], "b": ["t-0"], "c": ["t-2"]}


def test_cooperative_reads_the_generation_from_user_data_of_older_subscriptions():
    old = replace(owning("t: t-0 t-1", -1), user_data=CooperativeStickyAssignor.subscription_user_data(None, 7))
    members = {"a": old, "b": owning("t: t-1 t-2", 6)}
    topology = Topology.of({"t": 4})
    # In hash order "a" comes first, so the generation of its subscription counts. It has none, so
    # "b" wins (KIP-792 as implemented in Kafka).
    assert lists(CooperativeStickyAssignor().assign(members, topology))["b"] == ["t-1", "t-2"]
    turned = {"c": members["a"], "b": members["b"]}
    assert lists(CooperativeStickyAssignor().assign(turned, topology))["c"] == ["t-0", "t-1"]


@pytest.mark.oracle
def test_max_generation_makes_older_members_stale(oracle):
    """In Kafka, a member of that generation with an unknown topic has the same effect."""
    changed = 0
    for seed in range(300):
        case = client_case(Random(seed), "sticky", owned="history")
        if len({tuple(sorted(consumer["topics"])) for consumer in case["consumers"].values()}) == 1:
            continue
        members, topology = read_case(case)
        members = {name: one if one.user_data else replace(one, owned=()) for name, one in members.items()}
        mine = lists(StickyAssignor().assign(members, topology, max_generation=9))
        witness = {"topics": ["nothing"], "userData": sticky_data("", 9).hex()}
        theirs = kafka(oracle, case | {"consumers": case["consumers"] | {"witness": witness}})
        if "assignment" in theirs:
            assert mine == {name: given for name, given in theirs["assignment"].items() if name != "witness"}, seed
            changed += mine != lists(StickyAssignor().assign(members, topology))
    assert changed > 0


def test_before_kafka_3_7_members_keep_the_partitions_listed_first():
    members = {"a": owning("t: t-3 t-0 t-2 t-1"), "b": Member(topics=["t"])}
    topology = Topology.of({"t": 4})
    assert lists(StickyAssignor().assign(members, topology))["a"] == ["t-0", "t-1"]
    assert lists(StickyAssignor(version=KafkaVersion(3, 6)).assign(members, topology))["a"] == ["t-3", "t-0"]


# ---- where Kafka's own result is not valid


# ---- invariants


@given(groups(members=8, claims=False))
def test_an_assignment_that_members_own_stays(drawn):
    """Without racks: a partition outside its owner's rack is reassigned each time."""
    members, topology = drawn
    for assignor in (StickyAssignor(), CooperativeStickyAssignor()):
        unassigned = {name: Member(topics=one.topics, instance_id=one.instance_id) for name, one in members.items()}
        prepared = GroupSpec(unassigned, topology)
        first = assignor.assign_group(prepared)
        again = assignor.assign_group(prepared.with_owned(first, generation=1))
        assert {name: set(given) for name, given in again.items()} == {
            name: set(given) for name, given in first.items()
        }


@given(groups(members=8, same=True, claims=False))
def test_with_equal_subscriptions_counts_differ_by_one_at_most(drawn):
    members, topology = drawn
    counts = StickyAssignor().assign(members, topology).counts
    assert counts.max() - counts.min() <= 1


@given(groups(members=8, claims=False))
def test_no_subscriber_has_two_partitions_less_than_an_owner(drawn):
    members, topology = drawn
    members = {name: replace(one, rack=None) for name, one in members.items()}
    result = StickyAssignor().assign(members, topology)
    size = {name: len(given) for name, given in result.items()}
    for owner, given_ in result.items():
        for topic, _ in given_:
            for name, member in members.items():
                assert topic not in member.topics or size[name] >= size[owner] - 1


@given(groups(members=8), st.randoms(use_true_random=False))
def test_equal_input_gives_an_equal_result_from_any_instance(drawn, rng):
    members, topology = drawn
    for made in BOTH.values():
        assignor = made()
        other, other_topology = read_case(client_case(rng, assignor.name, owned="claims"))
        first = lists(assignor.assign(members, topology))
        assignor.assign(other, other_topology)
        assert first == lists(assignor.assign(members, topology)) == lists(made().assign(dict(members), topology))


def test_balancing_stops_after_a_maximum_number_of_passes(monkeypatch):
    members = {"a": owning("t: t-0 t-1 t-2 t-3"), "b": Member(topics=["t", "u"]), "c": Member(topics=["t", "u"])}
    topology = Topology.of({"t": 4, "u": 1})
    assert StickyAssignor().assign(members, topology).counts.max() == 2
    monkeypatch.setattr(balance, "MANY", 0)
    left = StickyAssignor().assign(members, topology)
    assert len(left["a"]) == 4
    check_valid(left, members, topology)


def test_with_owned_replaces_user_data():
    topology = Topology.of({"t": 4})
    members = {
        "a": Member(topics=["t"], user_data=sticky_data("t-0 t-1 t-2 t-3", 9)),
        "b": Member(topics=["t"]),
    }
    prepared = GroupSpec(members, topology)
    wanted = StickyAssignor().assign({"a": owning("t: t-2 t-3"), "b": owning("t: t-0 t-1")}, topology)
    assert lists(StickyAssignor().assign_group(prepared.with_owned(wanted, generation=1))) == lists(wanted)


# ---- user data


@pytest.mark.oracle
@given(
    names=st.lists(st.sampled_from([f"topic-{number}" for number in range(40)] + ["AaAa", "BBBB", "AaBB"]), max_size=60)
)
def test_user_data_equals_the_bytes_of_kafka(oracle, names):
    owned = [(name, number) for number, name in enumerate(names)]
    listed = [{"topic": topic, "partition": number} for topic, number in owned]
    for name, assignor in BOTH.items():
        theirs = oracle.call("stickyUserData", assignor=name, partitions=listed, generation=3)["hex"]
        mine = assignor.subscription_user_data(owned, 3)
        assert mine is not None
        assert mine.hex() == theirs


def test_user_data_before_the_first_assignment():
    assert StickyAssignor.subscription_user_data(None, -1) is None
    assert CooperativeStickyAssignor.subscription_user_data(None, -1) == b"\xff\xff\xff\xff"


# ---- size


@pytest.mark.oracle
@pytest.mark.parametrize("assignor", BOTH)
def test_many_moves_equal_kafkas(oracle, assignor):
    moved = 0
    for seed in range(60):
        rng = Random(seed)
        case = client_case(rng, assignor, size=Size(members=120, topics=15, partitions=30))
        concentrate(rng, case)
        theirs = kafka(oracle, case)
        assert verdict(case, ours(case), theirs) is None, seed
        if "assignment" in theirs:
            before = {name: set(one["ownedPartitions"]) for name, one in case["consumers"].items()}
            moved += sum(len(before[name] - set(given)) for name, given in theirs["assignment"].items())
    assert moved > 1000


def test_a_new_member_in_a_large_group_moves_only_its_own_share():
    """Different subscriptions, 10,000 partitions; Kafka's assignor takes five seconds."""
    topology = Topology.of({f"topic{number}": 100 for number in range(100)})
    names = list(topology.index)
    members = {f"member{number}": Member(topics=names[number // 200 * 20 :][:20]) for number in range(999)}
    first = StickyAssignor().assign(members, topology)
    members["new"] = Member(topics=names[80:])
    owned = {name: replace(one, owned=first.get(name, ()), generation=1) for name, one in members.items()}
    result = StickyAssignor().assign(owned, topology)
    assert result.counts.min() == 9 or len(result["new"]) >= result.counts.max() - 1
    assert sum(len(set(result[name]) & set(first[name])) for name in first) == 10_000 - len(result["new"])
    assert np.array_equal(np.sort(result.partitions), np.arange(10_000))
    held_back = CooperativeStickyAssignor().assign(owned, topology)
    assert held_back["new"] == ()
    assert {name: given for name, given in held_back.items() if given} == {
        name: given for name, given in result.items() if name != "new"
    }
