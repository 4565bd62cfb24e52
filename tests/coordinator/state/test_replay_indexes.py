"""Indexes of replay: groups by topic and regex, static members, subscription types."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.codecs.messages import consumer_group as consumer
from quorate.codecs.messages import share_group as share
from quorate.coordinator.state import (
    ConsumerGroup,
    CoordinatorState,
    ShareGroup,
)
from quorate.coordinator.state.consumer import is_homogeneous
from quorate.coordinator.state.topic_index import TopicIndex
from tests.coordinator.single_records import Log, member


def test_topic_index_finds_groups_that_subscribe_by_name_or_regex() -> None:
    state = CoordinatorState()
    last: list[str] = []
    state.topics.on_last = last.extend
    log = Log(state=state)
    log.group_at(1)
    log.write("MemberMetadata", member(subscribed_topic_names=("a", "b")), "g", "m")
    log.write("MemberMetadata", member(subscribed_topic_names=("b",), subscribed_topic_regex="x.*"), "g", "n")
    value = consumer.ConsumerGroupRegularExpressionValue(topics=("x1", "b"), version=1, timestamp=2)
    log.write("RegularExpression", value, "g", "x.*")
    assert dict(log.group.topic_subscribers) == {"a": (1, 0), "b": (2, 1), "x1": (0, 1)}
    assert [state.topics.groups([one]) for one in ("a", "b", "x1", "c")] == [{"g"}, {"g"}, {"g"}, set()]
    assert set(log.group.subscribed_topics(log.group.members["n"].metadata)) == {"b", "x1"}
    later = consumer.ConsumerGroupRegularExpressionValue(topics=("x2",), version=2, timestamp=3)
    log.write("RegularExpression", later, "g", "x.*")
    assert dict(log.group.topic_subscribers) == {"a": (1, 0), "b": (2, 0), "x2": (0, 1)}
    assert last == ["x1"]
    log.write("RegularExpression", None, "g", "x.*")
    log.write("RegularExpression", None, "g", "x.*")
    assert dict(log.group.topic_subscribers) == {"a": (1, 0), "b": (2, 0)}
    assert last == ["x1", "x2"]
    log.write("MemberMetadata", member(subscribed_topic_names=("b",)), "g", "m")
    assert last == ["x1", "x2", "a"]


def test_topic_index_finds_share_groups_until_the_last_member_leaves() -> None:
    log = Log("share")
    last: list[str] = []
    log.state.topics.on_last = last.extend

    def subscribe(member_id: str, *names: str) -> None:
        value = share.ShareGroupMemberMetadataValue(
            rack_id=None, client_id="", client_host="", subscribed_topic_names=names
        )
        log.write("MemberMetadata", value, "g", member_id)

    log.group_at(1)
    subscribe("m", "a", "b")
    subscribe("n", "b")
    assert dict(log.group.topic_subscribers) == {"a": 1, "b": 2}
    subscribe("m", "b", "c")
    assert dict(log.group.topic_subscribers) == {"b": 2, "c": 1}
    assert (last, log.state.topics.groups(["a"]), log.state.topics.groups(["c", "b"])) == (["a"], set(), {"g"})
    for member_id in ("m", "n"):
        log.write("CurrentMemberAssignment", None, "g", member_id)
        log.write("MemberMetadata", None, "g", member_id)
    assert (dict(log.group.topic_subscribers), sorted(last)) == ({}, ["a", "b", "c"])


def test_topic_index_has_all_groups_of_a_topic() -> None:
    index = TopicIndex()
    index.subscribe(["t"], "g")
    index.subscribe(["t"], "h")
    index.subscribe(["u"], "i")
    assert index.groups(["t", "nothing", "u"]) == {"g", "h", "i"}
    index.unsubscribe(["t"], "g")
    index.unsubscribe(["nothing"], "g")
    assert index.groups(["t"]) == {"h"}
    index.unsubscribe(["t"], "h")
    assert index.groups_by_topic == {"u": {"i"}}


def test_static_member_is_found_by_instance_id_until_it_is_replaced() -> None:
    log = Log()
    log.group_at(1)
    log.write("MemberMetadata", member(instance_id="i"), "g", "old")
    assert log.group.static_members == {"i": "old"}
    log.write("MemberMetadata", member(instance_id="i"), "g", "new")
    log.write("CurrentMemberAssignment", None, "g", "old")
    log.write("MemberMetadata", None, "g", "old")
    assert log.group.static_members == {"i": "new"}
    log.write("CurrentMemberAssignment", None, "g", "new")
    log.write("MemberMetadata", None, "g", "new")
    assert log.group.static_members == {}


def test_subscriptions_are_homogeneous_with_equal_names_or_one_regex() -> None:
    assert is_homogeneous({}, {"a": (2, 0), "b": (2, 0)}, 2)
    assert not is_homogeneous({}, {"a": (2, 0), "b": (1, 0)}, 2)
    assert is_homogeneous({"x": 2}, {"a": (0, 1)}, 2)
    assert not is_homogeneous({"x": 1}, {"a": (0, 1)}, 2)
    assert not is_homogeneous({"x": 2}, {"a": (1, 1)}, 2)
    assert not is_homogeneous({"x": 2}, {"a": (0, 2)}, 2)
    assert not is_homogeneous({"x": 2}, {"a": (1, 0)}, 2)


@pytest.mark.parametrize(
    ("interval_ms", "last_ms", "now_ms", "may"),
    [(1000, 0, 5, True), (0, 900, 901, True), (1000, 900, 1899, False), (1000, 900, 1900, True), (1, 1, 1, False)],
)
@pytest.mark.parametrize("kind", [ConsumerGroup, ShareGroup])
def test_new_target_assignment_waits_for_the_assignment_interval(
    kind: Callable[[str], Any], interval_ms: int, last_ms: int, now_ms: int, may: bool
) -> None:
    group = kind("g")
    group.assignment_timestamp_ms = last_ms
    assert group.may_assign(interval_ms, now_ms) is may
