"""The assignment of quorate's aiokafka consumer, which changes partition by partition."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka.errors import IllegalStateError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as At

from quorate.consumers.aiokafka_subscription import GroupSubscription

A, B, C = At("t", 0), At("t", 1), At("u", 0)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def subscribed(*partitions: At) -> GroupSubscription:
    state = GroupSubscription(loop=asyncio.get_running_loop())
    state.register_fetch_waiters(set())
    state.subscribe({"t", "u"})
    state.own(partitions)
    state.release(partitions)
    return state


def test_partitions_that_stay_keep_their_state() -> None:
    async def scenario() -> None:
        state = subscribed(A, B)
        assignment = state.member_assignment
        assert assignment is not None
        state.seek(A, 7)
        assert state.own([A, C]) == {B}
        assert state.member_assignment is assignment
        assert assignment.active
        assert assignment.all_consumed_offsets() == {A: OffsetAndMetadata(7, "")}
        assert not assignment.state_value(A).paused
        # New partitions are held until the listener has received them.
        assert assignment.state_value(C).paused
        assert state.paused_partitions() == set()
        resumed = assignment.state_value(C).resume_fut
        state.release([C])
        assert resumed.done()
        assert not assignment.state_value(C).paused

    run(scenario())


def test_responses_for_removed_partitions_have_no_effect() -> None:
    async def scenario() -> None:
        state = subscribed(A, B)
        assignment = state.member_assignment
        assert assignment is not None
        committed = assignment.state_value(B).fetch_committed()
        position = assignment.state_value(B).wait_for_position()
        state.own([A])
        await asyncio.gather(committed, position)  # no client waits for ever
        removed = assignment.state_value(B)
        assert (removed.has_valid_position, removed.paused) == (False, True)
        removed.reset_to((await removed.fetch_committed()).offset)
        removed.update_committed(OffsetAndMetadata(3, ""))  # of a request that was in flight
        with pytest.raises(IllegalStateError):
            state.seek(B, 1)

    run(scenario())


def test_new_subscription_keeps_partitions_and_holds_those_of_other_topics() -> None:
    async def scenario() -> None:
        state = subscribed(A, C)
        assignment = state.member_assignment
        assert assignment is not None
        state.pause(A)
        state.subscribe({"t"})
        assert state.assigned_partitions() == {A, C}
        assert assignment.state_value(C).paused
        state.subscribe({"t", "u"})
        assert not assignment.state_value(C).paused
        # A pause of the application outlasts that of a rebalance.
        state.hold([A])
        state.release([A])
        assert state.paused_partitions() == {A}
        state.unsubscribe()
        assert not assignment.active
        assert state.member_assignment is None

    run(scenario())


def test_committed_offsets_of_all_new_partitions_are_read_at_once() -> None:
    async def scenario() -> None:
        state = subscribed(A, B, C)
        assignment = state.member_assignment
        assert assignment is not None
        state.seek(C, 1)
        assert assignment.requesting_committed() == []
        first = assignment.state_value(A).fetch_committed()
        assert set(assignment.requesting_committed()) == {A, B}
        for at in (A, B):
            assignment.state_value(at).update_committed(OffsetAndMetadata(at.partition, ""))
        assert (await first).offset == 0
        assert (await assignment.state_value(B).fetch_committed()).offset == 1
        assert assignment.requesting_committed() == []

    run(scenario())


def test_cancelled_calls_are_no_polls_any_more() -> None:
    async def scenario() -> None:
        state = subscribed(A)
        before = state.polled_ms

        async def poll() -> None:
            with state.fetch_context():
                await asyncio.sleep(60)

        polls = asyncio.create_task(poll())
        await asyncio.sleep(0.01)
        assert state.polling
        polls.cancel()
        await asyncio.wait([polls])
        assert not state.polling
        assert state.polled_ms > before

    run(scenario())
