"""What quorate's consumer for aiokafka does after errors and unusual calls of its application."""

import asyncio
from typing import Any

import pytest

from quorate.cluster import TEST_PROPERTIES, EmbeddedCluster
from quorate.integration import Cluster
from tests.integration.conftest import QUICK
from tests.integration.groups import produce
from tests.integration.test_consumers_aiokafka import Listener, consume, consumer, new, numbers, run, until

pytestmark = pytest.mark.scenario("KIP-848 in Python")


@pytest.mark.long_on_brokers
def test_unsubscribing_right_after_the_assignment_does_not_end_fetching(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    async def scenario() -> None:
        async with consumer(kafka_cluster, group_id, topic) as one:
            one.unsubscribe()
            one.subscribe([topic])
            assert len(await consume(one, 60)) == 60

    produce(kafka_cluster, topic, 6, 10)
    run(scenario())


@pytest.mark.without_containers
def test_stop_reports_that_no_broker_responds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with consumer(cluster, "g", "orders") as one:
            await consume(one, 1)
            cluster.stop_broker(1)
            await until("lost", lambda: one._own.coordinator_id is None)

    monkeypatch.setattr("quorate.consumers.aiokafka_coordinator.CLOSE_SECONDS", 0.1)
    with EmbeddedCluster(properties={**TEST_PROPERTIES, **QUICK}) as cluster:
        cluster.create_topic("orders", partitions=1)
        produce(cluster, "orders", 1, 1)
        run(scenario())
    assert "Closing the member of group g: no response" in caplog.messages


@pytest.mark.long_on_brokers
def test_listener_that_waits_for_a_cancelled_task_does_not_stop_the_rebalance(
    kafka_cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Worker(Listener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            super().on_partitions_revoked(revoked)
            work.cancel()
            await work

    async def scenario() -> None:
        nonlocal work
        work = asyncio.create_task(asyncio.sleep(3600))
        one = new(kafka_cluster, group_id)
        one.subscribe([topic], listener=Worker())
        async with one, consumer(kafka_cluster, group_id, topic) as other:
            await until("both have half", lambda: len(numbers(one)) == len(numbers(other)) == 3)

    work: Any = None
    run(scenario())
    assert any("on_partitions_revoked of" in message for message in caplog.messages)


@pytest.mark.long_on_brokers
def test_start_returns_if_the_listener_unsubscribes(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    class Leaving(Listener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            one.unsubscribe()

    async def scenario() -> None:
        nonlocal one
        one = new(kafka_cluster, group_id)
        one.subscribe([topic], listener=Leaving())
        async with one:
            assert one.assignment() == frozenset()

    one: Any = None
    run(scenario())
