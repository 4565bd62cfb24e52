"""The API of quorate's aiokafka consumer in the consumer protocol.

Scenarios that its groups share with the kafka-python consumer are in `test_consumers.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    KafkaConfigurationError,
    UnsupportedVersionError,
)

from quorate.assignors import RangeAssignor
from quorate.consumers.aiokafka import AIOKafkaConsumer, GroupError, SubscriptionPattern
from quorate.consumers.states import ConsumerState
from quorate.consumers.transitions import LeaveOperation
from quorate.integration import Cluster
from tests.integration.clients import aiokafka_config
from tests.integration.groups import group_state, produce
from tests.integration.limits import LIMIT_MS

pytestmark = pytest.mark.scenario("KIP-848 in Python")


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Notes its calls, one of them in a coroutine."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[int]]] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls.append(("revoked", {at.partition for at in revoked}))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await asyncio.sleep(0)
        self.calls.append(("assigned", {at.partition for at in assigned}))

    def on_partitions_lost(self, lost: Any) -> None:
        self.calls.append(("lost", {at.partition for at in lost}))


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario, and check that no task is left."""

    async def checked() -> None:
        async with asyncio.timeout(LIMIT_MS / 1000):
            await scenario
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    asyncio.run(checked())


async def until(what: str, reached: Callable[[], Any]) -> None:
    """Wait for a condition."""
    try:
        async with asyncio.timeout(LIMIT_MS / 1000):
            while not reached():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not reached: {what}") from None


def new(cluster: Cluster, group: str | None, *topics: str, **config: Any) -> AIOKafkaConsumer:
    defaults = {"auto_offset_reset": "earliest", "group_protocol": "consumer", "metadata_max_age_ms": 1000}
    return AIOKafkaConsumer(*topics, group_id=group, **{**aiokafka_config(cluster), **defaults, **config})


@asynccontextmanager
async def consumer(cluster: Cluster, group: str | None, *topics: str, **config: Any) -> AsyncIterator[Any]:
    async with new(cluster, group, *topics, **config) as one:
        yield one


async def consume(one: Any, count: int) -> list[Any]:
    """Return that many messages."""
    received: list[Any] = []
    while len(received) < count:
        for some in (await one.getmany(timeout_ms=100)).values():
            received += some
    return received


def numbers(one: Any) -> set[int]:
    return {at.partition for at in one.assignment()}


def membership(one: Any) -> Any:
    return one._coordinator._membership


async def change_epoch(one: Any) -> None:
    """Give a consumer an epoch that its coordinator rejects.

    Not while a heartbeat is in flight, whose response has the epoch again.
    """
    await until("no heartbeat is in flight", lambda: not membership(one)._schedule.in_flight)
    membership(one).member_epoch += 7


@pytest.mark.long_on_brokers
def test_start_waits_for_the_assignment_and_iteration_returns_messages(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    async def scenario() -> None:
        async with consumer(kafka_cluster, group_id, topic) as one:
            assert numbers(one) == set(range(6))
            offsets = set()
            async for message in one:
                offsets.add((message.partition, message.offset))
                if len(offsets) == 60:
                    break
            assert offsets == {(partition, offset) for partition in range(6) for offset in range(10)}

    produce(kafka_cluster, topic, 6, 10)
    run(scenario())


def test_partitions_that_stay_keep_their_position_and_are_not_interrupted(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    async def scenario() -> None:
        listener = Listener()
        one = new(kafka_cluster, group_id, enable_auto_commit=False)
        one.subscribe([topic], listener=listener)
        async with one:
            await consume(one, 60)
            fetching = one._fetcher._pending_tasks.copy()
            assignment = one._subscription.subscription.assignment
            async with consumer(kafka_cluster, group_id, topic) as other:
                await until("shared", lambda: len(numbers(one)) == len(numbers(other)) == 3)
                kept = numbers(one)
                assert one._subscription.subscription.assignment is assignment
                assert not any(task.cancelled() for task in fetching)
                # Nothing was committed: with a new position, messages would be returned again.
                assert [await one.position(TopicPartition(topic, number)) for number in kept] == [10] * 3
                with pytest.raises(IllegalStateError):
                    await one.position(TopicPartition(topic, next(iter(numbers(other)))))
            assert listener.calls[:3] == [
                ("assigned", set(range(6))),
                ("revoked", set(range(6)) - kept),
                ("assigned", set()),
            ]
            await until("all", lambda: len(numbers(one)) == 6)
            again = await consume(one, 30)
            assert {message.partition for message in again} == set(range(6)) - kept

    produce(kafka_cluster, topic, 6, 10)
    run(scenario())


@pytest.mark.long_on_brokers
def test_records_are_returned_after_the_listener_has_sought(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    class Seeking(Listener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            for at in assigned:
                assert await one.position(at) == 0
            await asyncio.sleep(0.3)
            for at in assigned:
                one.seek(at, 7)

    async def scenario() -> None:
        one.subscribe([topic], listener=Seeking())
        async with one:
            assert {message.offset for message in await consume(one, 18)} == {7, 8, 9}

    async def main() -> None:
        nonlocal one
        one = new(kafka_cluster, group_id)
        await scenario()

    one: Any = None
    produce(kafka_cluster, topic, 6, 10)
    run(main())


@pytest.mark.parametrize("by", ["brokers", "consumer"])
def test_regex_finds_new_topics(kafka_cluster: Cluster, group_id: str, by: str) -> None:
    prefix = group_id.replace(".", "-")

    async def scenario() -> None:
        one = new(kafka_cluster, group_id)
        one.subscribe(pattern=SubscriptionPattern(f"{prefix}-.*") if by == "brokers" else f"{prefix}-")
        async with one:
            await until("the first topic", lambda: {at.topic for at in one.assignment()} == {f"{prefix}-old"})
            await asyncio.to_thread(kafka_cluster.create_topic, f"{prefix}-new", partitions=1)
            both = {f"{prefix}-old", f"{prefix}-new"}
            await until("the new topic", lambda: {at.topic for at in one.assignment()} == both)
            await asyncio.to_thread(produce, kafka_cluster, f"{prefix}-new", 1, 1)
            assert (await one.getone()).topic == f"{prefix}-new"

    kafka_cluster.create_topic(f"{prefix}-old", partitions=1)
    run(scenario())


@pytest.mark.long_on_brokers
def test_changed_subscription_stops_old_topics_at_once(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    other = f"{topic}-other"

    async def scenario() -> None:
        listener = Listener()
        async with consumer(kafka_cluster, group_id, topic, max_poll_records=1) as one:
            await one.getone()
            one.subscribe([other], listener=listener)
            assert {message.topic for message in await consume(one, 10)} == {other}
            await until("the new topic only", lambda: {at.topic for at in one.assignment()} == {other})
            assert [call for call in listener.calls if call[1]] == [("revoked", set(range(6))), ("assigned", {0})]
            one.subscribe([topic, other], listener=listener)
            assert {message.topic for message in await consume(one, 59)} == {topic}

    kafka_cluster.create_topic(other, partitions=1)
    produce(kafka_cluster, topic, 6, 10)
    produce(kafka_cluster, other, 1, 10)
    run(scenario())


def test_application_that_does_not_poll_loses_its_partitions_and_returns(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    async def scenario() -> None:
        listener = Listener()
        slow = new(kafka_cluster, group_id, max_poll_interval_ms=2_000)
        slow.subscribe([topic], listener=listener)
        async with slow, consumer(kafka_cluster, group_id, topic) as other:
            polling = asyncio.create_task(consume(other, 1 << 30))
            polls = asyncio.create_task(slow.getone())  # a join may take longer than its interval
            await until("shared", lambda: [len(numbers(one)) for one in (slow, other)] == [3, 3])
            polls.cancel()
            await asyncio.wait([polls])
            held = numbers(slow)
            await until("the other one has all", lambda: len(numbers(other)) == 6)
            await until("lost", lambda: ("lost", held) in listener.calls)
            assert membership(slow).state is ConsumerState.STALE
            polls = asyncio.create_task(slow.getone())
            await until("shared again", lambda: [len(numbers(one)) for one in (slow, other)] == [3, 3])
            # A call that waits is a poll.
            await asyncio.sleep(3)
            assert len(numbers(slow)) == 3
            for task in (polls, polling):
                task.cancel()
                await asyncio.wait([task])

    run(scenario())


def test_fenced_member_fails_to_commit_and_returns(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    async def scenario() -> None:
        listener = Listener()
        one = new(kafka_cluster, group_id, enable_auto_commit=False)
        one.subscribe([topic], listener=listener)
        at = TopicPartition(topic, 0)
        async with one:
            await until("all", lambda: len(numbers(one)) == 6)  # a coordinator may not know a new topic yet
            await change_epoch(one)  # as if the coordinator had fenced it
            with pytest.raises(CommitFailedError):
                await one.commit({at: 1})
            await until("lost", lambda: ("lost", set(range(6))) in listener.calls)
            await until("all again", lambda: len(numbers(one)) == 6)
            await one.commit({at: (1, "note")})
            assert await one.committed(at) == 1
            assert listener.calls[-1] == ("assigned", set(range(6)))

    run(scenario())


def test_committed_offsets_are_read_again_after_the_epoch_changed(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    async def scenario() -> None:
        at = TopicPartition(topic, 0)
        async with consumer(kafka_cluster, group_id, topic, enable_auto_commit=False) as one:
            await until("all", lambda: len(numbers(one)) == 6)
            await one.commit({at: 4})
            await change_epoch(one)
            assert await one.committed(at) == 4

    run(scenario())


@pytest.mark.long_on_brokers
@pytest.mark.parametrize("auto_commit", [True, False])
def test_unsubscribe_calls_the_listener_which_may_commit(
    kafka_cluster: Cluster, topic: str, group_id: str, auto_commit: bool
) -> None:
    class Committing(Listener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            with pytest.raises(IllegalStateError, match="not assigned"):
                await one.commit({TopicPartition("other", 0): 1})
            if not auto_commit:  # an automatic commit comes first
                await one.commit()
            super().on_partitions_revoked(revoked)

    async def scenario() -> None:
        nonlocal one
        listener = Committing()
        one = new(kafka_cluster, group_id, auto_commit_interval_ms=3_600_000, enable_auto_commit=auto_commit)
        one.subscribe([topic], listener=listener)
        async with one:
            await consume(one, 60)
            one.unsubscribe()
            assert one.assignment() == set()
            await until("revoked", lambda: listener.calls[-1] == ("revoked", set(range(6))))
            assert [await one.committed(TopicPartition(topic, number)) for number in range(6)] == [10] * 6
            await until("left", lambda: not group_state(kafka_cluster, group_id).target)
            with pytest.raises(IllegalStateError, match="Not subscribed"):
                await one.commit()
            one.subscribe([topic], listener=listener)
            await until("joined again", lambda: listener.calls[-1] == ("assigned", set(range(6))))

    one: Any = None
    produce(kafka_cluster, topic, 6, 10)
    run(scenario())


@pytest.mark.long_on_brokers
def test_seek_and_pause(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    async def scenario() -> None:
        at = TopicPartition(topic, 0)
        async with consumer(kafka_cluster, group_id, topic) as one:
            assert one.paused() == set()
            await consume(one, 60)
            one.pause(at)
            assert one.paused() == {at}
            one.seek(at, 3)
            assert await one.getmany(timeout_ms=300) == {}
            one.resume(at)
            assert (await one.getone()).offset == 3
            assert await one.seek_to_beginning(at)
            assert (await one.getone(at)).offset == 0
            assert one.highwater(at) == 10

    produce(kafka_cluster, topic, 6, 10)
    run(scenario())


@pytest.mark.parametrize(
    ("instance", "operation", "remains"),
    [
        (None, LeaveOperation.DEFAULT, False),
        (None, LeaveOperation.REMAIN_IN_GROUP, True),
        ("i", LeaveOperation.DEFAULT, True),
        ("i", LeaveOperation.LEAVE_GROUP, False),
    ],
)
@pytest.mark.long_on_brokers
def test_stopping_commits_and_leaves_the_group_or_not(
    kafka_cluster: Cluster, topic: str, group_id: str, instance: str | None, operation: LeaveOperation, remains: bool
) -> None:
    async def scenario() -> None:
        one = new(kafka_cluster, group_id, topic, group_instance_id=instance, auto_commit_interval_ms=3_600_000)
        async with one:
            await consume(one, 6)
            waiting = asyncio.create_task(one.getone(TopicPartition(topic, 99)))
            await asyncio.sleep(0)
            await one.stop(operation)
            with pytest.raises(ConsumerStoppedError):
                await waiting
        async with consumer(kafka_cluster, group_id) as reader:
            offsets = [await reader.committed(TopicPartition(topic, number)) for number in range(6)]
            assert sum(offset or 0 for offset in offsets) == 6

    produce(kafka_cluster, topic, 6, 1)
    run(scenario())
    assert bool(group_state(kafka_cluster, group_id).target) == remains


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.long_on_brokers
def test_assigned_partitions_without_a_member(
    kafka_cluster: Cluster, topic: str, group_id: str, auto_commit: bool
) -> None:
    async def scenario() -> None:
        at = TopicPartition(topic, 0)
        one = new(kafka_cluster, group_id, enable_auto_commit=auto_commit)
        one.assign([at])
        async with one:
            assert len(await consume(one, 10)) == 10
            await one.commit()
            assert await one.committed(at) == 10
            assert membership(one).state is ConsumerState.UNSUBSCRIBED

    produce(kafka_cluster, topic, 6, 10)
    run(scenario())


def test_fatal_errors_are_raised_until_the_consumer_stops(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    async def scenario() -> None:
        one = new(kafka_cluster, group_id, topic, group_remote_assignor="nonesuch")
        try:
            with pytest.raises(GroupError, match="UNSUPPORTED_ASSIGNOR"):
                await one.start()
            for _ in range(2):
                with pytest.raises(GroupError, match="UNSUPPORTED_ASSIGNOR"):
                    await one.getone()
        finally:
            await one.stop()

    run(scenario())


@pytest.mark.long_on_brokers
def test_failing_and_stopping_listeners(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    class Stopping(Listener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await super().on_partitions_assigned(assigned)
            raise ValueError("of the application")

        async def on_partitions_revoked(self, revoked: Any) -> None:
            super().on_partitions_revoked(revoked)
            await one.stop()

    async def scenario() -> None:
        nonlocal one
        listener = Stopping()
        one = new(kafka_cluster, group_id)
        one.subscribe([topic], listener=listener)
        await one.start()
        assert len(await consume(one, 60)) == 60  # as in aiokafka, the error is logged only
        async with consumer(kafka_cluster, group_id, topic) as other:
            await until("the other one has all", lambda: len(numbers(other)) == 6)
        assert [kind for kind, _ in listener.calls] == ["assigned", "revoked"]

    one: Any = None
    produce(kafka_cluster, topic, 6, 10)
    run(scenario())


@pytest.mark.long_on_brokers
def test_cancelled_calls_leave_no_task(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    async def scenario() -> None:
        async with consumer(kafka_cluster, group_id, topic) as one:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await one.getone()
            assert not one._subscription.polling
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await one.commit({TopicPartition(topic, 0): 1})
        for after_s in (0, 0.002, 0.01, 0.03):  # within each step of the start
            with suppress(TimeoutError):
                async with asyncio.timeout(after_s), consumer(kafka_cluster, f"{group_id}-2", topic):
                    pass
        one = new(kafka_cluster, group_id, topic)
        await one.start()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await one.stop()

    run(scenario())


@pytest.mark.long_on_brokers
def test_configs_of_the_classic_protocol_are_rejected(kafka_cluster: Cluster, group_id: str) -> None:
    async def scenario() -> None:
        with pytest.raises(KafkaConfigurationError, match="session_timeout_ms"):
            new(kafka_cluster, group_id, session_timeout_ms=1)
        with pytest.raises(KafkaConfigurationError, match="group_protocol='consumer'"):
            new(kafka_cluster, group_id, group_protocol="classic", group_remote_assignor="range")
        alone = new(kafka_cluster, None)
        with pytest.raises(KafkaConfigurationError, match="SubscriptionPattern"):
            alone.subscribe(pattern=SubscriptionPattern("a"))
        await alone.stop()

    run(scenario())


def test_client_assignors_need_brokers_that_support_them(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    async def scenario() -> None:
        with pytest.raises(UnsupportedVersionError, match="client_assignor_fallback"):
            async with consumer(kafka_cluster, group_id, topic, client_assignors=[RangeAssignor()]):
                pass
        fallback = {"client_assignors": [RangeAssignor()], "client_assignor_fallback": "server"}
        async with consumer(kafka_cluster, group_id, topic, **fallback) as one:
            assert len(numbers(one)) == 6

    run(scenario())


def test_tls_and_login_are_those_of_aiokafka(secure_cluster: Cluster, group_id: str) -> None:
    async def scenario() -> None:
        async with consumer(secure_cluster, group_id, group_id) as one:
            assert len(await consume(one, 10)) == 10

    secure_cluster.create_topic(group_id, partitions=2, replicas=3)
    produce(secure_cluster, group_id, 2, 5)
    run(scenario())
    secure_cluster.delete_topic(group_id)


def test_classic_protocol_is_aiokafkas_own(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    async def scenario() -> None:
        async with consumer(kafka_cluster, group_id, topic, group_protocol="classic", session_timeout_ms=10_000) as one:
            assert numbers(one) == set(range(6))
            described = await asyncio.to_thread(kafka_cluster.admin.describe_groups, [group_id])
            assert described[group_id]["protocol_data"] == "roundrobin"

    run(scenario())
