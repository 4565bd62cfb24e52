"""KIP-881 on Kafka brokers: Python and Java consumers read from their own rack and stay balanced.

They rebalance when racks change, and not otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest
from kafka import TopicPartition

from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.integration import Cluster
from tests.assignors.adapters.live import Aio, Java, KafkaPython, Member, spread, wait_for
from tests.integration.groups import produce

pytestmark = pytest.mark.scenario("KIP-881 rack-aware consumers")

RACKS = ("a", "b", "c")
LIMIT_S = 300


def python_member(cluster: Cluster, group: str, topics: Sequence[str], assignor: str, rack: str | None) -> Member:
    return KafkaPython(
        cluster, group, topics, getattr(kafka_python, assignor)(), **({"client_rack": rack} if rack else {})
    )


def aio_member(cluster: Cluster, group: str, topics: Sequence[str], assignor: str, rack: str | None) -> Member:
    options = aiokafka.options(getattr(aiokafka, assignor)(), client_rack=rack)
    strategy = options.pop("partition_assignment_strategy")
    return Aio(cluster, group, topics, *strategy, **options)


CLIENTS = {"kafka-python": python_member, "aiokafka": aio_member}


@pytest.fixture
def members() -> Iterator[Callable[[Member], Member]]:
    with ExitStack() as stack:
        yield stack.enter_context


def local_share(cluster: Cluster, topic: str, members: dict[str, Member]) -> float:
    (found,) = cluster.topology(topic).topics
    owned = [(rack, partition) for rack, member in members.items() for _, partition in member.assigned]
    return sum(rack in found.racks[partition] for rack, partition in owned) / len(owned)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
@pytest.mark.kafka_topic(assignment=[[1], [2], [3], [1], [2], [3]])
def test_members_in_three_racks_get_the_partitions_of_their_rack(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str, assignor: str, members: Callable[[Member], Member]
) -> None:
    by_rack = {rack: members(CLIENTS[client](kafka_cluster, group_id, [topic], assignor, rack)) for rack in RACKS}
    wait_for(lambda: all(len(one.assigned) == 2 for one in by_rack.values()), *by_rack.values(), limit_s=LIMIT_S)
    assert spread(*by_rack.values()) == [(topic, partition) for partition in range(6)]
    wait_for(lambda: local_share(kafka_cluster, topic, by_rack) == 1.0, *by_rack.values(), limit_s=LIMIT_S)


# Broker 3 leads nothing: the member in its rack reads from followers there, with any assignment.
@pytest.mark.kafka_topic(assignment=[[1, 3], [2, 3], [1, 3], [2, 3], [1, 3], [2, 3]])
def test_bytes_come_from_the_replica_in_the_consumers_rack(
    kafka_cluster: Cluster, topic: str, group_id: str, members: Callable[[Member], Member]
) -> None:
    by_rack = {
        rack: members(python_member(kafka_cluster, group_id, [topic], "CooperativeSticky", rack)) for rack in RACKS
    }
    wait_for(lambda: all(len(one.assigned) == 2 for one in by_rack.values()), *by_rack.values(), limit_s=LIMIT_S)
    produce(kafka_cluster, topic, 6, 50)
    third: Any = by_rack["c"]

    def reads_from_its_rack() -> bool:
        # The leader redirects a consumer to a follower in its rack (KIP-392).
        states = third.consumer._subscription.assignment
        return len(third.assigned) == 2 and all(
            states[TopicPartition(topic, partition)].preferred_read_replica() == 3 for _, partition in third.assigned
        )

    wait_for(reads_from_its_rack, third, limit_s=LIMIT_S)
    for member in by_rack.values():
        wait_for(lambda member=member: len(member.records) >= 100, member, limit_s=LIMIT_S)


@pytest.mark.parametrize("java_leads", [True, False])
@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
@pytest.mark.kafka_topic(assignment=[[1], [2], [3], [1], [2], [3]])
def test_a_group_with_a_java_consumer_agrees(
    kafka_cluster: Cluster,
    topic: str,
    group_id: str,
    assignor: str,
    java_leads: bool,
    members: Callable[[Member], Member],
) -> None:
    by_rack: dict[str, Member] = {}

    def java() -> None:
        by_rack["a"] = members(Java(kafka_cluster, group_id, [topic], assignor, rack="a"))
        wait_for(lambda: by_rack["a"].assigned, by_rack["a"], limit_s=LIMIT_S)

    def python() -> None:
        for rack, client in (("b", "kafka-python"), ("c", "aiokafka")):
            by_rack[rack] = members(CLIENTS[client](kafka_cluster, group_id, [topic], assignor, rack))
            wait_for(lambda rack=rack: by_rack[rack].assigned, by_rack[rack], limit_s=LIMIT_S)

    # The first member of a classic group becomes its leader and stays it.
    for step in (java, python) if java_leads else (python, java):
        step()
    wait_for(lambda: all(len(one.assigned) == 2 for one in by_rack.values()), *by_rack.values(), limit_s=LIMIT_S)
    wait_for(lambda: local_share(kafka_cluster, topic, by_rack) == 1.0, *by_rack.values(), limit_s=LIMIT_S)
    assert spread(*by_rack.values()) == [(topic, partition) for partition in range(6)]
    assert bool(by_rack["a"].led) is java_leads  # type: ignore[attr-defined]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.kafka_topic(assignment=[[1], [2], [3], [1]])
def test_a_leader_with_a_rack_rejoins_when_replicas_move_and_a_leader_without_does_not(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str, members: Callable[[Member], Member]
) -> None:
    with_rack = members(CLIENTS[client](kafka_cluster, group_id, [topic], "Range", "a"))
    without = members(CLIENTS[client](kafka_cluster, f"{group_id}-none", [topic], "Range", None))
    wait_for(lambda: len(with_rack.assigned) == len(without.assigned) == 4, with_rack, without, limit_s=LIMIT_S)
    before, before_without = len(with_rack.events), len(without.events)

    kafka_cluster.reassign(topic, {0: [2]})
    wait_for(lambda: len(with_rack.events) > before, with_rack, limit_s=LIMIT_S)
    # By the time that one has rebalanced, the other has seen the same metadata. What it would do
    # next, it would have done.
    kafka_cluster.add_partitions(topic, 5)
    wait_for(lambda: len(without.assigned) == 5, without, limit_s=LIMIT_S)
    assert [kind for kind, _ in without.events[before_without:]].count("assigned") == 1


@pytest.mark.kafka_topic(assignment=[[1, 2], [2, 3], [3, 1]])
def test_a_broker_that_restarts_in_its_rack_causes_no_rebalance(
    kafka_cluster: Cluster, topic: str, group_id: str, members: Callable[[Member], Member]
) -> None:
    leaders: list[Member] = []
    for client, rack in product(CLIENTS, ("a", None)):
        group = f"{group_id}-{client}-{rack}"
        kafka_cluster.move_coordinator(group, 1)  # restarts of others move no coordinator
        leaders.append(members(CLIENTS[client](kafka_cluster, group, [topic], "Range", rack)))
    wait_for(lambda: all(len(one.assigned) == 3 for one in leaders), *leaders, limit_s=LIMIT_S)
    before = [len(one.events) for one in leaders]
    kafka_cluster.restart_broker(2)
    kafka_cluster.add_partitions(topic, 4)
    wait_for(lambda: all(len(one.assigned) == 4 for one in leaders), *leaders, limit_s=LIMIT_S)
    for leader, seen in zip(leaders, before, strict=True):
        assert [kind for kind, _ in leader.events[seen:]].count("assigned") == 1, leader
