"""Random histories: our member's requests, actions and states equal those of Kafka's consumer.

A failure prints the seed and a shortened script. `member_duel.py` declares the differences.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from quorate.codecs import Uuid
from tests.consumers.member_duel import (
    EndedLeave,
    FatalTwice,
    LateResponse,
    LeftTwice,
    MemberDuel,
    RemainsInGroup,
    Unsubscribed,
)
from tests.consumers.member_scripts import MemberHistory
from tests.coordinator.minimise import run_and_minimise
from tests.coordinator.scripts import Differs, KnownFailure
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

SCRIPTS = 1000
STEPS = 60

T0 = str(Uuid(b"\0\1" * 8))
ASSIGNED = {"topicPartitions": [{"topicId": T0, "partitions": [0, 1]}]}


@pytest.mark.parametrize("seed", range(portion(SCRIPTS, usual=SCRIPTS // 10)))
def test_a_random_history_equals_kafkas(oracle: Oracle, seed: int) -> None:
    duel = MemberDuel(oracle, note=f"seed {seed}")
    with suppress(KnownFailure):  # what came before was compared
        run_and_minimise(duel, lambda: MemberHistory(Random(seed), duel).run(STEPS))


class Member:
    """A member on both sides that joins with a listener and receives partitions 0 and 1 of t0."""

    def __init__(self, oracle: Oracle, **options: Any) -> None:
        self.duel = MemberDuel(oracle)
        self.step("new", autoCommit=False, maxPollIntervalMs=10_000, **options)
        self.step("names", names={T0: "t0"})
        self.join()
        self.step("run")
        self.respond(0, memberEpoch=1, heartbeatIntervalMs=3000, assignment=ASSIGNED)
        self.step("poll")
        self.step("apply", callback=0)
        self.step("complete", callback=0)

    def step(self, do: str, **fields: Any) -> dict[str, Any]:
        return self.duel.op("member", do=do, **fields)

    def join(self) -> None:
        """Subscribe to t0, and join with the next heartbeat."""
        self.step("findCoordinator")
        self.step("subscribe", topics=["t0"], listener=True)
        self.step("poll")

    def respond(self, request: int, **body: Any) -> None:
        self.step("respond", request=request, body=body)

    def become_stale(self) -> None:
        """Exceed max.poll.interval.ms: the listener has to lose the partitions (callback 1)."""
        self.step("advance", ms=10_000)
        self.step("run")


def late_response(member: Member) -> None:
    member.step("run")  # request 1
    member.become_stale()
    member.step("complete", callback=1)
    member.step("poll")
    member.step("run")
    member.respond(1, memberEpoch=7, heartbeatIntervalMs=3000)


def late_failure(member: Member) -> None:
    member.step("new", autoCommit=False, maxPollIntervalMs=10_000)  # without an interval, the wait is the backoff
    member.join()
    member.step("run")  # request 0
    member.step("leave")
    member.step("loseCoordinator")
    member.step("run")  # it has left
    member.join()
    member.step("fail", request=0, failure="timedOut")
    member.step("run")  # request 1
    member.step("fail", request=1, failure="timedOut")
    member.step("run")


def remaining(member: Member) -> None:
    member.step("close", operation="REMAIN_IN_GROUP")
    member.step("run")


def ended_leave(member: Member) -> None:
    member.step("leave")
    member.step("advance", ms=3000)
    member.step("run")
    member.respond(1, errorCode=25)
    member.step("subscribe", topics=["t0"], listener=True)
    member.step("poll")
    member.step("complete", callback=1)


def fatal_twice(member: Member) -> None:
    member.step("run")
    member.step("leave")
    member.step("complete", callback=1)
    member.step("run")
    member.respond(1, errorCode=42)
    member.respond(2, errorCode=42)


def without_subscription(member: Member) -> None:
    member.become_stale()
    member.step("poll")
    member.step("leave")
    member.step("complete", callback=1)
    member.step("run")
    member.respond(2, memberEpoch=1, heartbeatIntervalMs=3000, assignment={"topicPartitions": []})
    member.step("run")
    member.step("apply", callback=2)


def left_twice(member: Member) -> None:
    member.step("run")
    member.step("leave")
    member.respond(1, memberEpoch=-1, heartbeatIntervalMs=3000)
    member.step("leave")


def left_twice_after_the_callback(member: Member) -> None:
    member.step("run")
    member.step("leave")
    member.respond(1, memberEpoch=-1, heartbeatIntervalMs=3000)
    member.step("complete", callback=1)
    member.step("leave")


@pytest.mark.parametrize(
    ("scenario", "difference"),
    [
        (late_response, LateResponse),
        (late_failure, LateResponse),
        (remaining, RemainsInGroup),
        (ended_leave, EndedLeave),
        (fatal_twice, FatalTwice),
        (without_subscription, Unsubscribed),
        (left_twice, LeftTwice),
        (left_twice_after_the_callback, LeftTwice),
    ],
)
def test_a_declared_difference_exists(
    oracle: Oracle, scenario: Callable[[Member], None], difference: type[Differs]
) -> None:
    member = Member(oracle)
    with pytest.raises(difference) as raised:
        scenario(member)
    assert raised.type is difference


def test_a_lost_assignment_is_not_adopted(oracle: Oracle) -> None:
    member = Member(oracle)
    member.step("run")
    more = {"topicPartitions": [{"topicId": T0, "partitions": [0, 1, 2]}]}
    member.respond(1, memberEpoch=2, heartbeatIntervalMs=3000, assignment=more)
    member.step("reconcile")  # callback 1
    member.step("advance", ms=3000)
    member.step("run")
    member.respond(2, errorCode=110)  # FENCED_MEMBER_EPOCH
    assert member.step("apply", callback=1)["applied"] is False


def test_a_fatal_error_of_a_stale_member_has_no_effect(oracle: Oracle) -> None:
    member = Member(oracle)
    member.step("run")
    member.become_stale()
    kafka = member.step("respond", request=1, body={"errorCode": 42})  # INVALID_REQUEST
    assert [what for what, *_ in kafka["log"]] == ["error", "invalidTransition"]
    assert kafka["state"] == "STALE"
