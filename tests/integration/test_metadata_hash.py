"""KIP-1101 on Kafka brokers: a group is reassigned when its topics' partitions or racks change.

The metadata hash in its records equals the one that quorate computes.
"""

from collections.abc import Iterator

import pytest

from quorate.integration import Cluster
from tests.integration.groups import (
    Member,
    all_of,
    expected_hash,
    group_state,
    registered_racks,
    settled,
    wait_for_epoch,
)

pytestmark = pytest.mark.scenario("KIP-1101 metadata hash")


@pytest.fixture
def members(kafka_cluster: Cluster, topic: str, group_id: str) -> Iterator[list[Member]]:
    found = [Member(kafka_cluster, group_id, [topic], name=f"m{number}") for number in range(2)]
    settled(found, all_of(topic, 6))
    yield found
    for member in found:
        member.close()


@pytest.mark.kafka_topic(replicas=2)
def test_an_added_partition_changes_the_hash_and_is_assigned(
    kafka_cluster: Cluster, topic: str, group_id: str, members: list[Member]
) -> None:
    before = group_state(kafka_cluster, group_id)
    assert before.metadata_hash == expected_hash(kafka_cluster, topic)
    kafka_cluster.add_partitions(topic, 7)
    settled(members, all_of(topic, 7))
    after = group_state(kafka_cluster, group_id)
    assert after.epoch > before.epoch
    assert after.metadata_hash == expected_hash(kafka_cluster, topic) != before.metadata_hash


@pytest.mark.kafka_topic(replicas=2)
def test_a_broker_in_another_rack_changes_the_hash_and_moves_nothing(
    kafka_cluster: Cluster, topic: str, group_id: str, members: list[Member]
) -> None:
    before = group_state(kafka_cluster, group_id)
    # Not the coordinator: the group's new one would load it and compute the hash for that reason.
    broker = next(one.id for one in kafka_cluster.brokers if one.id != kafka_cluster.coordinator_of(group_id))
    racks = {one.id: one.rack for one in kafka_cluster.brokers}
    kafka_cluster.restart_broker(broker, rack="elsewhere")
    try:
        assert registered_racks(kafka_cluster) == {**racks, broker: "elsewhere"}
        moved = expected_hash(kafka_cluster, topic)
        assert moved != before.metadata_hash
        after = wait_for_epoch(
            kafka_cluster, group_id, lambda state: state.metadata_hash == moved, "the hash has the new rack"
        )
        assert after.epoch > before.epoch
        assert after.target == before.target
    finally:
        kafka_cluster.restart_broker(broker, rack=racks[broker])
    assert registered_racks(kafka_cluster) == racks
    wait_for_epoch(
        kafka_cluster, group_id, lambda state: state.metadata_hash == before.metadata_hash, "the hash is what it was"
    )


def test_a_new_topic_that_the_regex_matches_joins_the_hash(kafka_cluster: Cluster, group_id: str) -> None:
    first, second = f"{group_id}.a", f"{group_id}.b"
    kafka_cluster.create_topic(first, partitions=2)
    with Member(kafka_cluster, group_id, [f"^{group_id}.*"]) as member:
        settled([member], all_of(first, 2))
        before = group_state(kafka_cluster, group_id)
        assert before.metadata_hash == expected_hash(kafka_cluster, first)
        kafka_cluster.create_topic(second, partitions=3)
        settled([member], all_of(first, 2) | all_of(second, 3))
        after = group_state(kafka_cluster, group_id)
        assert after.metadata_hash == expected_hash(kafka_cluster, first, second)
        assert after.epoch > before.epoch
    kafka_cluster.delete_topic(first)
    kafka_cluster.delete_topic(second)


@pytest.mark.kafka_topic(replicas=3)
def test_other_changes_leave_hash_and_epoch_alone(
    kafka_cluster: Cluster, topic: str, group_id: str, members: list[Member]
) -> None:
    before = group_state(kafka_cluster, group_id)
    kafka_cluster.set_config(f"topic:{topic}", {"retention.ms": "777777"})
    (described,) = kafka_cluster.admin.describe_topics([topic])
    # The same replicas with another leader: replicas in another order do not count either.
    turned = {part["partition_index"]: part["replica_nodes"][::-1] for part in described["partitions"]}
    kafka_cluster.reassign(topic, turned)
    # A change that does count comes last: once its epoch is reached, earlier ones would have been
    # seen.
    kafka_cluster.add_partitions(topic, 7)
    settled(members, all_of(topic, 7))
    written = [(epoch, hash_) for epoch, hash_ in group_state(kafka_cluster, group_id).epochs if epoch > before.epoch]
    assert written == [(before.epoch + 1, expected_hash(kafka_cluster, topic))]
