"""`sticky` and `cooperative-sticky` where Kafka's own result is not valid.

Causes are partitions that do not exist, and empty or changed subscriptions.
"""

import pytest
from hypothesis import given

from quorate.assignors import Member, Topic, Topology
from quorate.assignors.sticky import StickyAssignor
from tests.assignors.client_differential import kafka, ours
from tests.assignors.groups import check_valid, groups
from tests.assignors.sticky.test_sticky import BOTH, lists, owning, sticky_data


@pytest.mark.oracle
def test_a_partition_that_no_longer_exists_has_no_owner(oracle):
    case = {
        "op": "clientAssign",
        "assignor": "sticky",
        "partitions": [{"topic": "t", "partition": number} for number in range(2)],
        "consumers": {
            "a": {"topics": ["t"], "userData": sticky_data("t-7", 1).hex()},
            "b": {"topics": ["t"]},
        },
    }
    assert "t-7" in kafka(oracle, case)["assignment"]["a"]
    assert ours(case) == {"assignment": {"a": ["t-0"], "b": ["t-1"]}}


@pytest.mark.oracle
def test_losing_a_partition_that_no_longer_exists_counts_as_a_loss(oracle):
    """If the owner no longer subscribes to the topic, Kafka's result is valid."""
    topics = {"t": 6, "u": 5}
    case = {
        "op": "clientAssign",
        "assignor": "cooperative-sticky",
        "partitions": [{"topic": topic, "partition": one} for topic, count in topics.items() for one in range(count)],
        "consumers": {
            "a": {"topics": ["t", "u"], "ownedPartitions": ["t-0", "t-1", "t-2", "u-0"], "generationId": 1},
            "b": {"topics": ["u"], "ownedPartitions": ["t-9"], "generationId": 1},
            "c": {"topics": ["t"], "ownedPartitions": ["t-3"], "generationId": 1},
        },
    }
    assert ours(case) == kafka(oracle, case)


@pytest.mark.oracle
def test_a_member_with_an_empty_subscription_gets_no_partitions(oracle):
    case = {
        "op": "clientAssign",
        "assignor": "sticky",
        "partitions": [{"topic": "t", "partition": number} for number in range(4)],
        "consumers": {"a": {"topics": []}, "b": {"topics": ["t"]}},
    }
    assert kafka(oracle, case)["assignment"]["a"] != []
    assert ours(case) == {"assignment": {"a": [], "b": ["t-0", "t-1", "t-2", "t-3"]}}


@pytest.mark.oracle
def test_a_former_owner_gets_back_only_subscribed_partitions(oracle):
    case = {
        "op": "clientAssign",
        "assignor": "cooperative-sticky",
        "partitions": [{"topic": topic, "partition": one} for topic in ("t", "u") for one in range(4)],
        "consumers": {
            "new": {"topics": ["t"], "ownedPartitions": ["t-0", "t-1", "t-2", "t-3"], "generationId": 5},
            "other": {"topics": ["t", "u"], "ownedPartitions": ["u-0", "u-1", "u-2", "u-3"], "generationId": 5},
            "old": {"topics": ["u"], "ownedPartitions": ["t-0"], "generationId": 4},
        },
    }
    theirs = kafka(oracle, case)["assignment"]
    assert "t-0" in theirs["old"], "Kafka gives it back"
    assert not any(one.startswith("t-") for one in ours(case)["assignment"]["old"])


@pytest.mark.oracle
def test_a_former_owner_outside_the_balancing_does_not_fail_the_group(oracle):
    case = {
        "op": "clientAssign",
        "assignor": "cooperative-sticky",
        "partitions": [{"topic": topic, "partition": one} for topic in ("t", "u") for one in range(4)],
        "consumers": {
            "m1": {"topics": ["t"], "ownedPartitions": ["t-0", "t-1", "t-2", "t-3"], "generationId": 5},
            "m2": {"topics": ["t"], "generationId": 5},
            "m3": {"topics": ["u"], "ownedPartitions": ["t-0"], "generationId": 4},
        },
    }
    assert kafka(oracle, case)["error"]["class"] == "NullPointerException"
    assert ours(case) == {
        "assignment": {"m1": ["t-2", "t-3"], "m2": [], "m3": ["u-0", "u-1", "u-2", "u-3"]},
    }


def test_partitions_missing_in_metadata_are_not_assigned():
    topology = Topology([Topic(name="t", partitions=3, numbers=[0, 4, 7])])
    for members in (
        {"a": owning("t: t-4 t-2"), "b": Member(topics=["t"])},
        {"a": owning("t: t-4"), "b": Member(topics=["t", "missing"])},
    ):
        result = StickyAssignor().assign(members, topology)
        assert sorted(one for given in lists(result).values() for one in given) == ["t-0", "t-4", "t-7"]
        assert "t-4" in lists(result)["a"]


@given(groups())
def test_every_partition_goes_to_one_subscriber_for_any_claims(drawn):
    members, topology = drawn
    check_valid(StickyAssignor().assign(members, topology), members, topology)


@pytest.mark.oracle
def test_no_partition_is_withheld_for_members_with_an_empty_subscription(oracle):
    """Kafka's plan takes partitions from the only subscriber; ours leaves them."""
    case = {
        "op": "clientAssign",
        "assignor": "cooperative-sticky",
        "partitions": [{"topic": "t", "partition": number} for number in range(2)],
        "consumers": {
            "a": {"topics": []},
            "b": {"topics": ["t"], "ownedPartitions": ["t-0", "t-1"], "generationId": 1},
        },
    }
    assert kafka(oracle, case) == {"assignment": {"a": [], "b": ["t-0"]}}
    assert ours(case) == {"assignment": {"a": [], "b": ["t-0", "t-1"]}}


@pytest.mark.parametrize("assignor", BOTH.values())
def test_groups_without_members_or_partitions(assignor):
    assert dict(assignor().assign({}, Topology.of({"t": 3}))) == {}
    assert dict(assignor().assign({"a": Member(topics=["t"])}, Topology.of({}))) == {"a": ()}
    assert dict(assignor().assign({"a": Member(), "b": Member(topics=["t"])}, Topology.of({"t": 0}))) == {
        "a": (),
        "b": (),
    }
