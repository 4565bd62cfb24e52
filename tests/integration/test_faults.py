"""Brokers crash, freeze or are unreachable while groups of all clients consume.

No partition is owned twice, and no committed offset or message is lost. Ownership is what the
coordinator wrote (`history`). A member that cannot reach the coordinator may have an older
assignment. It continues to read, other members read the same messages again, and its commits are
rejected.
"""

import time

import pytest

from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster, ClusterError, KafkaCluster
from tests.integration.clients import SESSION_MS, Crowd, Crowds, check, check_overlaps
from tests.integration.detour import Detour
from tests.integration.groups import Load, all_of, registered_racks
from tests.integration.history import history
from tests.integration.limits import LIMIT_MS

pytestmark = [
    pytest.mark.scenario("faults"),
    pytest.mark.kafka_topic(replicas=3, config={"min.insync.replicas": "2"}),
]

PARTITIONS = 6


def test_a_coordinator_that_is_killed_during_a_rebalance(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with Crowds(kafka_cluster, topic, group_id, session_timeout_ms=30_000) as crowds:
        for crowd in crowds.each:
            crowd.start("a")
            # aiokafka joins without being polled; a member that is busy with records holds up the
            # others.
            crowd.start("busy", client="kafka-python" if crowd.client == "aiokafka" else None)
        crowds.settle()
        for crowd in crowds.each:
            crowd.members["busy"].polls.clear()
            crowd.start("new")
        for crowd in crowds.each:
            wait_for(f"{crowd.client} is rebalancing", lambda crowd=crowd: rebalancing(crowd), LIMIT_MS)
        coordinator = crowds.coordinator
        racks = registered_racks(kafka_cluster)
        kafka_cluster.kill_broker(coordinator)
        assert kafka_cluster.brokers[coordinator - 1].state == "stopped"
        for crowd in crowds.each:
            assert len(crowd.members["new"].assigned) < 2, "what the busy one has is not free yet"
            crowd.members["busy"].polls.set()
        crowds.settle()
        assert crowds.coordinator != coordinator
        kafka_cluster.start_broker(coordinator)
        assert registered_racks(kafka_cluster) == racks
        crowds.settle()
        crowds.end_well()
        for crowd in crowds.each:
            # Members came back within their session timeouts, so it is true of what they believed,
            # too.
            check_overlaps(crowd)


def rebalancing(crowd: Crowd) -> bool:
    if crowd.client == "confluent-kafka":
        return history(crowd.cluster, crowd.group).pending
    (found,) = crowd.cluster.admin.describe_groups([crowd.group]).values()
    return bool(found["group_state"] == "PreparingRebalance")


def test_a_coordinator_that_freezes_for_longer_than_the_session_timeout(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    with Crowds(kafka_cluster, topic, group_id) as crowds:
        crowds.start("a", "b", "c")
        coordinator = crowds.coordinator
        began = time.monotonic()
        with kafka_cluster.paused(coordinator):
            kafka_cluster.wait_fenced(coordinator)
            assert crowds.coordinator != coordinator
            crowds.settle()
            wait_for("the session timeout is over", lambda: time.monotonic() > began + 2 * SESSION_MS / 1000, LIMIT_MS)
        kafka_cluster.wait_ready()
        crowds.settle()
        crowds.end_well()


@pytest.mark.long_on_brokers
def test_a_coordinator_that_clients_cannot_reach(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with Crowds(kafka_cluster, topic, group_id) as crowds:
        crowds.start("a", "b", "c")
        before = {crowd.client: history(kafka_cluster, crowd.group).generation for crowd in crowds.each}
        began = time.monotonic()
        with kafka_cluster.network_cut(crowds.coordinator):
            wait_for("the session timeout is over", lambda: time.monotonic() > began + 2 * SESSION_MS / 1000, LIMIT_MS)
        crowds.settle()
        crowds.end_well()
        for crowd in crowds.each:
            # The broker stayed the coordinator, and removed all members.
            assert history(kafka_cluster, crowd.group).generation > before[crowd.client]


@pytest.mark.long_on_brokers
def test_a_member_that_cannot_reach_its_coordinator(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with (
        Detour() as detour,
        Crowd("kafka-python", kafka_cluster, group_id, [topic], session_timeout_ms=10_000) as crowd,
        Load(kafka_cluster, topic, PARTITIONS) as load,
    ):
        crowd.start("a")
        crowd.start("b")
        alone = crowd.start("alone", proxy_url=detour.url)
        crowd.settle(all_of(topic, PARTITIONS))
        had = alone.assigned
        coordinator = kafka_cluster.coordinator_of(group_id)
        address = next(broker.address for broker in kafka_cluster.brokers if broker.id == coordinator)
        detour.cut(int(address.rpartition(":")[2]))

        def others_have_all() -> bool:
            return crowd.members["a"].assigned | crowd.members["b"].assigned == all_of(topic, PARTITIONS)

        wait_for("the others have its partitions", others_have_all, LIMIT_MS)
        assert alone.assigned == had, "it does not know yet"
        detour.heal()
        crowd.settle(all_of(topic, PARTITIONS))
        sent = load.stop()
        crowd.wait_until_consumed(all_of(topic, PARTITIONS), sent)
        check(crowd, dict.fromkeys(all_of(topic, PARTITIONS), sent))
        # What it had was given to others, and nothing else; what it tried to commit meanwhile was
        # refused.
        assert {(overlap.held_by, overlap.partition) for overlap in crowd.deliveries.overlaps} == {
            ("alone", at) for at in had
        }
        assert {name for name, _ in crowd.deliveries.refused} == {"alone"}


def test_a_coordinator_whose_disk_is_full(secure_cluster: KafkaCluster, group_id: str) -> None:
    topic = group_id
    secure_cluster.create_topic(topic, partitions=PARTITIONS, replicas=3, config={"min.insync.replicas": "2"})
    with Crowds(secure_cluster, topic, group_id, session_timeout_ms=30_000) as crowds:
        secure_cluster.move_coordinator(crowds.each[0].group, 3)
        assert crowds.coordinator == 3
        crowds.start("a", "b", "c")
        secure_cluster.fill_disk(3)
        # A broker that cannot write to its only disk ends by itself.
        wait_for("broker 3 has given up", lambda: secure_cluster.brokers[2].state == "stopped", LIMIT_MS)
        assert "No space left on device" in secure_cluster.logs(3)
        secure_cluster.wait_fenced(3)
        assert crowds.coordinator != 3
        crowds.settle()
        # With a new disk, and nothing on it. A partition with its only replica there would have no
        # leader any more (KIP-966), so all topics of this cluster have three.
        secure_cluster.start_broker(3)
        secure_cluster.wait_in_sync()
        crowds.settle()
        crowds.end_well()
        for crowd in crowds.each:
            check_overlaps(crowd)
    secure_cluster.delete_topic(topic)


def test_only_a_disk_of_a_limited_size_is_filled(secure_cluster: KafkaCluster) -> None:
    with pytest.raises(
        ClusterError, match=r"broker-1 has no disk of limited size; start the cluster with disk_mb=\{1: 64\}"
    ):
        secure_cluster.fill_disk(1)
