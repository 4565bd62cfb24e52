"""What quorate's consumer for aiokafka does after errors and unusual calls of its application."""

import pytest

from quorate.cluster import TEST_PROPERTIES, EmbeddedCluster
from quorate.integration import Cluster
from tests.integration.conftest import QUICK
from tests.integration.groups import produce
from tests.integration.test_consumers_aiokafka import consume, consumer, run, until

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
