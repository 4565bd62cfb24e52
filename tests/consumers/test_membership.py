"""A member's decisions. That they are Java's is tested in test_against_java.py."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.consumers import (
    ConsumerMembership,
    ConsumerState,
    Identity,
    InvalidTransition,
    LeaveOperation,
    TopicSubscription,
)
from quorate.consumers.states import TRANSITIONS
from tests.consumers.member import INTERVAL_MS, ORDERS, ScriptedMember


def test_join_has_all_fields_and_the_next_heartbeat_only_the_epoch() -> None:
    member = ScriptedMember.subscribed()
    join = member.beat()
    assert join is not None
    assert (join.member_epoch, join.rack_id, join.rebalance_timeout_ms) == (0, "a", 60_000)
    assert (join.subscribed_topic_names, join.subscribed_topic_regex, join.topic_partitions) == (("orders",), None, ())
    member.respond(epoch=3, orders=[])
    assert member.beat() is None
    member.poll()
    member.finish()
    assert (acknowledgement := member.beat()) is not None
    assert (acknowledgement.member_epoch, acknowledgement.rack_id, acknowledgement.rebalance_timeout_ms) == (
        3,
        None,
        -1,
    )
    assert (acknowledgement.subscribed_topic_names, acknowledgement.topic_partitions) == (None, ())


def test_heartbeat_has_a_field_only_when_it_changed() -> None:
    member = ScriptedMember.stable(0, 1)
    member.advance(INTERVAL_MS)
    assert (request := member.beat()) is not None
    assert (request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions) == (-1, None, None)
    member.respond(epoch=1)
    member.membership.subscribe(TopicSubscription(regex="o.*", has_listener=True))
    member.advance(INTERVAL_MS)
    assert (request := member.beat()) is not None
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ((), "o.*")


def test_new_partitions_are_assigned_and_acknowledged() -> None:
    member = ScriptedMember.subscribed()
    member.beat()
    member.respond(epoch=1, orders=[1, 0])
    assert member.state == "reconciling"
    member.membership.reconcile(member.now_ms, can_commit=False)
    assert member.take()[-1] == "AssignPartitions [0, 1]"
    assert member.owned == []
    member.finish()
    assert (member.state, member.owned) == ("acknowledging", [0, 1])
    assert (request := member.beat()) is not None
    assert request.topic_partitions == (TopicPartitions(topic_id=ORDERS, partitions=(0, 1)),)
    assert member.state == "stable"


def test_revocation_waits_for_the_poll_and_for_the_commit() -> None:
    member = ScriptedMember.stable(0, 1, auto_commit=True)
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(epoch=1, orders=[0])
    member.membership.reconcile(member.now_ms, can_commit=False)
    assert member.take() == ["AssignmentReceived {" + f"{ORDERS!r}: (0,)" + "}", "StateChanged reconciling"]
    member.poll()
    assert member.take() == ["PauseFetching [1]", f"CommitOffsets {member.now_ms + 60_000}"]
    member.membership.complete(member.actions.pop(), TimeoutError())
    assert member.take() == ["PauseFetching [1]", "RevokePartitions [1]"]
    member.membership.complete(member.actions.pop())
    assert member.take() == ["AssignPartitions [0]"]
    assert (member.state, member.owned) == ("reconciling", [0, 1])
    member.finish()
    assert (member.state, member.owned) == ("acknowledging", [0])


def test_failed_listener_leaves_the_member_without_acknowledgement_until_the_next_step() -> None:
    member = ScriptedMember.stable(0, 1)
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(epoch=1, orders=[0])
    member.poll()
    member.finish(error=ValueError("listener"))
    assert member.state == "reconciling"
    assert member.beat() is None
    member.poll()
    member.finish()
    assert member.state == "acknowledging"


def test_topic_without_a_name_waits_for_metadata() -> None:
    member = ScriptedMember.subscribed()
    member.membership.topic_names({})
    member.beat()
    member.respond(epoch=1, orders=[0])
    member.poll()
    assert "UpdateMetadata" in member.take()
    member.finish()
    member.beat()
    member.membership.topic_names({ORDERS: "orders"})
    member.poll()
    member.finish()
    assert member.owned == [0]


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_fenced_member_loses_its_partitions_and_joins_again(error: ErrorCode) -> None:
    member = ScriptedMember.stable(0, 1)
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(error=error)
    assert member.take() == [
        "StateChanged fenced",
        "EpochChanged None",
        "PauseFetching [0, 1]",
        "LosePartitions [0, 1]",
    ]
    assert member.beat() is None
    member.finish()
    assert (member.state, member.owned) == ("joining", [])
    assert (request := member.beat()) is not None
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ("orders",))


def test_assignment_is_not_applied_after_the_member_was_fenced() -> None:
    member = ScriptedMember.stable(0)
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(epoch=2, orders=[0, 1])
    member.poll()
    member.take()
    (assign,) = member.actions
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(error=ErrorCode.FENCED_MEMBER_EPOCH)
    assert not member.membership.apply(assign)  # type: ignore[arg-type]
    assert member.owned == [0]


def test_lost_coordinator_is_found_and_all_changed_fields_are_sent_again() -> None:
    member = ScriptedMember.stable(0)
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(error=ErrorCode.NOT_COORDINATOR)
    assert member.take() == ["FindCoordinator"]
    assert member.beat() is None
    member.membership.coordinator_known = True
    assert (request := member.beat()) is not None
    assert request.member_epoch == 1
    assert (request.rebalance_timeout_ms, request.subscribed_topic_names) == (60_000, ("orders",))
    assert request.topic_partitions == (TopicPartitions(topic_id=ORDERS, partitions=(0,)),)


def test_backoff_after_errors_doubles() -> None:
    member = ScriptedMember.stable(0)
    member.advance(INTERVAL_MS)
    for backoff_ms in (100, 200, 400, 800, 1000, 1000):
        assert member.beat() is not None
        member.respond(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert member.membership.time_to_wait_ms(member.now_ms) == backoff_ms
        member.advance(backoff_ms - 1)
        assert member.beat() is None
        member.advance(1)


def test_application_that_does_not_poll_leaves_and_joins_again_with_its_next_poll() -> None:
    member = ScriptedMember.stable(0)
    for _ in range(12):
        member.advance(INTERVAL_MS)
        request = member.beat()
        member.respond(epoch=1)
    assert request is not None
    assert request.member_epoch == -1
    assert member.state == "stale"
    assert member.take()[-1] == "LosePartitions [0]"
    member.poll()
    assert member.state == "stale"  # its listener is running
    member.finish()
    assert member.state == "joining"


@pytest.mark.parametrize(
    ("instance_id", "operation", "epoch"),
    [
        (None, LeaveOperation.DEFAULT, -1),
        (None, LeaveOperation.REMAIN_IN_GROUP, None),
        ("one", LeaveOperation.DEFAULT, -2),
        ("one", LeaveOperation.LEAVE_GROUP, -1),
        ("one", LeaveOperation.REMAIN_IN_GROUP, -2),
    ],
)
def test_closing(instance_id: str | None, operation: LeaveOperation, epoch: int | None) -> None:
    member = ScriptedMember.stable(0, instance_id=instance_id)
    member.membership.close(operation)
    heartbeat = member.membership.heartbeat_on_close(member.now_ms)
    assert (heartbeat and heartbeat.request.member_epoch) == epoch


def test_leaving_revokes_and_ends_with_the_response() -> None:
    member = ScriptedMember.stable(0)
    member.membership.leave()
    assert member.take() == ["StateChanged prepare-leaving", "PauseFetching [0]", "RevokePartitions [0]"]
    member.finish()
    assert (request := member.beat()) is not None
    assert (request.member_epoch, member.state) == (-1, "unsubscribed")
    member.take()
    member.respond(epoch=-1)
    assert member.take() == ["LeaveCompleted"]


def test_late_response_does_not_count_for_a_member_that_joined_again() -> None:
    member = ScriptedMember.stable(0)
    member.advance(INTERVAL_MS)
    member.beat()
    late = member.last
    member.advance(60_000)
    member.beat()
    member.poll()
    member.finish()
    member.poll()
    member.finish()
    assert member.state == "joining"
    member.last = late
    member.respond(epoch=7)
    assert (member.state, member.membership.member_epoch) == ("joining", 0)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.STALE_MEMBER_EPOCH,
    ],
)
def test_fatal_error_is_raised_and_the_partitions_are_lost(error: ErrorCode) -> None:
    member = ScriptedMember.stable(0)
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(error=error)
    assert member.take() == [
        f"RaiseError {error.name}",
        "StateChanged fatal",
        "EpochChanged None",
        "PauseFetching [0]",
        "LosePartitions [0]",
    ]
    assert member.membership.time_to_wait_ms(member.now_ms) is None


def test_missing_permission_for_a_topic_is_raised_and_the_member_stays() -> None:
    member = ScriptedMember.stable(0)
    member.advance(INTERVAL_MS)
    member.beat()
    member.respond(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert member.take() == ["RaiseError TOPIC_AUTHORIZATION_FAILED"]
    assert member.state == "stable"


@pytest.mark.parametrize("old", ConsumerState, ids=lambda state: state.value)
def test_only_transitions_of_the_table_are_possible(old: ConsumerState) -> None:
    for new in ConsumerState:
        member = ScriptedMember.subscribed().membership
        member.state = old
        if new is old or new in TRANSITIONS[old]:
            member.transition_to(new)
            assert member.state is new
        else:
            with pytest.raises(InvalidTransition):
                member.transition_to(new)


def test_max_poll_interval_may_differ_from_the_rebalance_timeout() -> None:
    identity = Identity("group", "member", rebalance_timeout_ms=60_000, max_poll_interval_ms=1_000)
    member = ConsumerMembership(identity, now_ms=0)
    member.coordinator_known = True
    member.subscribe(TopicSubscription(["orders"]))
    member.poll(0)
    join = member.next_heartbeat(0)
    assert join is not None
    assert join.request.rebalance_timeout_ms == 60_000
    assert member.next_heartbeat(999) is None
    leave = member.next_heartbeat(1_000)
    assert leave is not None
    assert leave.request.member_epoch == -1


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Identity(None, "m"), "group_id=None: give the name of the group"),
        (lambda: Identity("g", 5), r"member_id=5: give a text that no other member has, such as str\(uuid4\(\)\)"),
        (lambda: Identity("g", b"m"), "member_id=b'm': give a text"),
        (lambda: Identity("g", "m", instance_id=5), "instance_id=5: give a text, or None"),
        (lambda: Identity("g", "m", rack_id=5), "rack_id=5: give a text, or None"),
        (lambda: Identity("g", "m", rebalance_timeout_ms=1.5), "rebalance_timeout_ms=1.5: give a whole number"),
        (lambda: Identity("g", "m", server_assignor=5), "server_assignor=5: give the name of an assignor"),
        (lambda: Identity("g", "m", max_poll_interval_ms="5"), "max_poll_interval_ms='5': give a whole number"),
        (lambda: TopicSubscription("orders"), r"topics='orders': give a list of topics, such as \['orders'\]"),
        (lambda: TopicSubscription([5]), r"topics=\[5\]: give a list of topics"),
        (lambda: TopicSubscription(regex=re.compile("o.*")), "regex=re.compile.*: give a regex as text"),
        (lambda: ConsumerMembership("billing", now_ms=0), "identity='billing': give an Identity"),
        (lambda: membership(now_ms=None), "now_ms=None: give milliseconds of the client's clock"),
        (lambda: membership(auto_commit="no"), "auto_commit='no': give True or False"),
        (lambda: membership(retry_backoff_ms="5"), "retry_backoff_ms='5': give milliseconds"),
        (lambda: membership(retry_backoff_max_ms=None), "retry_backoff_max_ms=None: give milliseconds"),
        (lambda: membership(jitter="0.2"), "jitter='0.2': give a number from 0 to 1"),
        (lambda: membership(random=0.5), "random=0.5: give a function"),
        (lambda: membership(client_assignors=("range",)), r"client_assignors=\('range',\): give a tuple"),
    ],
)
def test_parameters_of_a_wrong_type_are_named(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        make()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Identity("", "m"), "group_id='': give a name that is not empty"),
        (lambda: Identity(" \0\t", "m"), "group_id=.*: give a name that is not empty"),
        (lambda: Identity("g", ""), r"member_id='': give a text that is not empty, such as str\(uuid4\(\)\)"),
        (lambda: Identity("g", "m", instance_id=""), "instance_id='': give up to 249 letters of ASCII, digits"),
        (lambda: Identity("g", "m", instance_id="a b"), "instance_id='a b': give up to 249"),
        (lambda: Identity("g", "m", instance_id="ä"), "instance_id='ä': give up to 249"),
        (lambda: Identity("g", "m", instance_id="a\n"), "instance_id=.*: give up to 249"),
        (lambda: Identity("g", "m", instance_id=".."), r"but not '\.' or '\.\.'"),
        (lambda: Identity("g", "m", instance_id="x" * 250), "instance_id='x+': give up to 249"),
        (lambda: Identity("g", "m", rack_id=""), "rack_id='': give a text that is not empty, or None"),
        (
            lambda: Identity("g", "m", rebalance_timeout_ms=0),
            "rebalance_timeout_ms=0: give whole milliseconds from 1 to",
        ),
        (
            lambda: Identity("g", "m", rebalance_timeout_ms=2**31),
            "rebalance_timeout_ms=.*: give whole milliseconds from 1",
        ),
        (
            lambda: Identity("g", "m", max_poll_interval_ms=-1),
            "max_poll_interval_ms=-1: give whole milliseconds from 1",
        ),
        (lambda: membership(retry_backoff_ms=-1), "retry_backoff_ms=-1: give milliseconds from 0"),
        (lambda: membership(retry_backoff_max_ms=-1), "retry_backoff_max_ms=-1: give milliseconds from 0"),
        (lambda: membership(jitter=1.5), "jitter=1.5: give a number from 0 to 1"),
        (lambda: membership(jitter=float("nan")), "jitter=nan: give a number from 0 to 1"),
    ],
)
def test_values_that_kafkas_consumer_rejects_are_named(make: Callable[[], object], complaint: str) -> None:
    """Those of the constructor of Java's consumer of 4.4, and empty texts that brokers reject."""
    with pytest.raises(ValueError, match=complaint):
        make()


def test_values_that_kafkas_consumer_accepts() -> None:
    identity = Identity("a\0b", "m", instance_id="x" * 249, rebalance_timeout_ms=1, max_poll_interval_ms=2**31 - 1)
    ConsumerMembership(identity, now_ms=0, retry_backoff_ms=0, retry_backoff_max_ms=0, jitter=0)


def membership(**given: Any) -> ConsumerMembership:
    return ConsumerMembership(Identity("g", "m"), **{"now_ms": 0, **given})
