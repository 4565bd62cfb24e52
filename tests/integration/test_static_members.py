"""KIP-345 on Kafka brokers: static members restart without a rebalance.

They are removed at the session timeout, and fenced by another member with the same instance id.
"""

import pytest

from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster
from tests.integration.clients import CLIENTS, Crowd
from tests.integration.groups import all_of
from tests.integration.history import history
from tests.integration.limits import LIMIT_MS

pytestmark = pytest.mark.scenario("KIP-345 static members")

NAMES = ("i0", "i1", "i2")


@pytest.mark.parametrize("client", CLIENTS)
def test_rolling_bounce_moves_no_partition_and_keeps_the_generation(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str
) -> None:
    with Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=45_000) as crowd:
        for name in NAMES:
            crowd.start(name, instance=name)
        crowd.settle(all_of(topic, 6))
        before, generation = crowd.assigned(), history(kafka_cluster, group_id).generation
        assigned = len(crowd.deliveries.assignments)
        for name in NAMES:
            crowd.stop(name)
            member = crowd.start(name, instance=name)
            wait_for(
                f"{name} has its partitions again",
                lambda member=member, name=name: member.assigned == before[name],
                LIMIT_MS,
            )
        after = history(kafka_cluster, group_id)
        assert after.generation == generation
        assert after.owned_twice == []
        assert crowd.assigned() == before
        # Each member received its own partitions once more, and no others.
        assert len(crowd.deliveries.assignments) == assigned + 6
        assert crowd.deliveries.overlaps == []


@pytest.mark.parametrize("client", CLIENTS)
def test_partitions_of_an_absent_member_move_at_the_session_timeout(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str
) -> None:
    with Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=5_000) as crowd:
        crowd.start("i0", instance="i0")
        crowd.start("i1", instance="i1")
        crowd.settle(all_of(topic, 6))
        generation = history(kafka_cluster, group_id).generation
        crowd.stop("i1")
        crowd.settle(all_of(topic, 6))
        after = history(kafka_cluster, group_id)
        assert after.generation > generation
        assert after.owned_twice == []
        crowd.start("i1", instance="i1")
        crowd.settle(all_of(topic, 6))
        assert history(kafka_cluster, group_id).generation > after.generation


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_new_member_with_the_same_instance_id_fences_the_first(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str
) -> None:
    with Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=45_000) as crowd:
        first = crowd.start("first", instance="i")
        crowd.settle(all_of(topic, 6))
        before = history(kafka_cluster, group_id)
        second = crowd.start("second", instance="i")
        error = wait_for("the first member has an error", lambda: first.error, LIMIT_MS)
        assert type(error).__name__ == "FencedInstanceIdError"
        assert f"another consumer joined group {group_id} with group_instance_id 'i', so this one" in str(error)
        wait_for("the second member has all partitions", lambda: second.assigned == all_of(topic, 6), LIMIT_MS)
        # The second member replaced the first one in the same generation.
        after = history(kafka_cluster, group_id)
        assert after.generations == before.generations
        assert len(set(after.owners.values())) == 1


def test_new_member_with_the_same_instance_id_is_rejected_in_a_kip_848_group(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    with Crowd("confluent-kafka", kafka_cluster, group_id, [topic], session_timeout_ms=45_000) as crowd:
        first = crowd.start("first", instance="i")
        crowd.settle(all_of(topic, 6))
        before = history(kafka_cluster, group_id)
        second = crowd.start("second", instance="i")
        error = wait_for("the second member has an error", lambda: second.error, LIMIT_MS)
        assert "The instance ID is still used by another member in the consumer group" in error.str()
        assert not second.assigned
        assert first.assigned == all_of(topic, 6)
        assert history(kafka_cluster, group_id).generations == before.generations
        # After the first member has left, even temporarily, another one can use its instance id.
        crowd.stop("first")
        crowd.members.pop("second")
        crowd.start("third", instance="i")
        crowd.settle(all_of(topic, 6))
        assert history(kafka_cluster, group_id).generations == before.generations
