"""Groups of quorate's consumers in the consumer protocol while much happens at once.

No message is lost, the coordinator never gives a partition to two members, and commits do not go
back. Each scenario has several events on one group, under load.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quorate.cluster.waiting import wait_for
from quorate.codecs.releases import KafkaVersion
from quorate.integration import Cluster
from tests.integration.clients import SESSION_MS, Crowd, check, check_overlaps
from tests.integration.groups import Load, all_of, group_state
from tests.integration.history import history
from tests.integration.limits import LIMIT_MS

pytestmark = [
    pytest.mark.scenario("KIP-848 in Python"),
    pytest.mark.kafka_topic(replicas=3, config={"min.insync.replicas": "2"}),
]

PARTITIONS = 6


@contextmanager
def under_load(cluster: Cluster, topic: str, group: str, *, session_timeout_ms: int = 45_000) -> Iterator[Crowd]:
    """Return a group; in the end, check that it consumed and committed all messages once in order.

    Members that have been fenced may consume messages again.
    """
    everything = all_of(topic, PARTITIONS)
    with (
        Crowd("quorate", cluster, group, [topic], session_timeout_ms=session_timeout_ms) as crowd,
        Load(cluster, topic, PARTITIONS) as load,
    ):
        yield crowd
        crowd.settle(everything)
        sent = load.stop()
        crowd.wait_until_consumed(everything, sent)
        check(crowd, dict.fromkeys(everything, sent))


@pytest.mark.long_on_brokers
def test_storm_of_joins_and_bounces(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    everything = all_of(topic, PARTITIONS)
    with under_load(kafka_cluster, topic, group_id) as crowd:
        for name in ("a", "b", "c"):
            crowd.start(name)
        for name in ("s0", "s1", "s2"):
            crowd.start(name, instance=name)
        crowd.settle(everything)
        for name in ("a", "b", "s0"):
            crowd.stop(name)
        for name in ("d", "e", "f"):
            crowd.start(name)
        static = crowd.start("s0", instance="s0")
        crowd.stop("c")
        crowd.settle(everything)
        held, generation = static.assigned, history(kafka_cluster, group_id).generation
        crowd.stop("s0")
        static = crowd.start("s0", instance="s0")
        wait_for("s0 has its partition again", lambda: static.assigned == held, LIMIT_MS)
        assert history(kafka_cluster, group_id).generation == generation
        crowd.settle(everything)
        assert crowd.deliveries.lost == []
        check_overlaps(crowd)


@pytest.mark.long_on_brokers
def test_paused_process_loses_its_partitions_and_returns(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    """As after a long garbage collection: the process does not know that time has passed."""
    everything = all_of(topic, PARTITIONS)
    with under_load(kafka_cluster, topic, group_id, session_timeout_ms=SESSION_MS) as crowd:
        other = crowd.start("other")
        paused = crowd.start("paused", client="process")
        crowd.settle(everything)
        held = paused.assigned
        paused.process.send_signal(signal.SIGSTOP)
        try:
            wait_for("the other has all partitions", lambda: other.assigned == everything, LIMIT_MS)
            assert paused.assigned == held
            consumed = len(other.records)
            wait_for("it consumes", lambda: len(other.records) > consumed + 25, LIMIT_MS)
        finally:
            paused.process.send_signal(signal.SIGCONT)
        wait_for("it lost its partitions", lambda: ("lost", held) in paused.events, LIMIT_MS)
        crowd.settle(everything)
        # A pause within the session timeout has no effect.
        generation = history(kafka_cluster, group_id).generation
        paused.process.send_signal(signal.SIGSTOP)
        time.sleep(SESSION_MS / 4000)
        paused.process.send_signal(signal.SIGCONT)
        received = len(paused.records)
        wait_for("it continues", lambda: len(paused.records) > received + 10, LIMIT_MS)
        assert history(kafka_cluster, group_id).generation == generation


# Killed real brokers: test_faults.py; a real broker that changes its rack: test_metadata_hash.py
@pytest.mark.long_on_brokers
def test_brokers_that_are_killed_and_a_rack_that_changes(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    everything = all_of(topic, PARTITIONS)
    with under_load(kafka_cluster, topic, group_id) as crowd:
        for name in ("a", "b", "c"):
            crowd.start(name, client_rack=name)
        crowd.settle(everything)
        coordinator = kafka_cluster.coordinator_of(group_id)
        kafka_cluster.kill_broker(coordinator)
        crowd.start("d", client_rack="a")  # joins while the coordinator is unknown
        crowd.settle(everything)
        assert kafka_cluster.coordinator_of(group_id) != coordinator
        rack = next(broker.rack for broker in kafka_cluster.brokers if broker.id == coordinator)
        before = group_state(kafka_cluster, group_id).epoch
        kafka_cluster.start_broker(coordinator, rack="elsewhere")
        try:
            # Racks are in the metadata hash (KIP-1101, Kafka 4.1); the records of 4.0 have none.
            if KafkaVersion.parse(kafka_cluster.brokers[0].version) >= KafkaVersion(4, 1):
                wait_for("a new epoch", lambda: group_state(kafka_cluster, group_id).epoch > before, LIMIT_MS)
            crowd.settle(everything)
            crowd.stop("d")
            crowd.start("d", client_rack="elsewhere")
            crowd.settle(everything)
        finally:
            kafka_cluster.restart_broker(coordinator, rack=rack)
        crowd.settle(everything)
        check_overlaps(crowd)


def test_quorate_java_and_librdkafka_share_a_group(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    everything = all_of(topic, PARTITIONS)
    with under_load(kafka_cluster, topic, group_id) as crowd:
        crowd.start("ours")
        crowd.settle(everything)
        for name, client in (("java", "java"), ("librdkafka", "confluent-kafka")):
            crowd.start(name, client=client)
            crowd.settle(everything)
        crowd.stop("ours")
        crowd.settle(everything)
        crowd.start("ours-again")
        crowd.settle(everything)
        crowd.stop("java")
        crowd.settle(everything)
