"""Upgrade 4.0.2 → 4.3.1 → 4.0.2, broker by broker, while members consume.

KIP-1101 changes the group's records; members continue without interruption. A second group has
quorate's consumers.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from quorate.cluster.waiting import wait_for
from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages import consumer_group
from quorate.integration import Cluster
from tests.integration.clients import Crowd, check, check_overlaps
from tests.integration.conftest import QUICK
from tests.integration.groups import (
    Deliveries,
    GroupState,
    Load,
    Member,
    all_of,
    committed,
    expected_hash,
    given_first,
    group_state,
    settled,
)
from tests.integration.limits import LIMIT_MS
from tests.integration.test_versions import check_versions

OLD, NEW = "4.0.2", "4.3.1"
PARTITIONS = 6

pytestmark = pytest.mark.scenario("rolling upgrade and downgrade", versions=f"{OLD} > {NEW} > {OLD}")


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: Callable[..., Cluster]) -> Iterator[Cluster]:
    # 4.0 has no assignment interval. No member must be removed because brokers start slowly on a
    # busy machine.
    quick = {name: value for name, value in QUICK.items() if not {"assignment", "session"} & {*name.split(".")}}
    quick |= {"group.consumer.session.timeout.ms": LIMIT_MS, "group.consumer.max.session.timeout.ms": LIMIT_MS}
    with kafka_cluster_factory(version=OLD, properties=quick) as running:
        yield running


def test_an_older_release_reports_its_versions_and_features(cluster: Cluster) -> None:
    check_versions(cluster)


def test_members_continue_through_an_upgrade_and_a_downgrade(cluster: Cluster, group_id: str) -> None:
    if cluster.version != OLD:  # a first attempt ended before the downgrade
        cluster.upgrade(OLD)
    topic = group_id
    cluster.create_topic(topic, partitions=PARTITIONS, replicas=3, config={"min.insync.replicas": "2"})
    deliveries = Deliveries()
    members: list[Member] = []
    with ExitStack() as stack:
        for number in range(3):
            given_first(members)
            member = Member(cluster, group_id, [topic], name=f"m{number}", deliveries=deliveries)
            members.append(stack.enter_context(member))
        settled(members, all_of(topic, PARTITIONS))
        quorates = stack.enter_context(
            Crowd("quorate", cluster, f"{group_id}-quorate", [topic], session_timeout_ms=LIMIT_MS)
        )
        for name, client in (("q0", "quorate"), ("q1", "quorate-aiokafka")):
            quorates.start(name, client=client)
            quorates.settle(all_of(topic, PARTITIONS))
        quorates_have = quorates.assigned()
        load = stack.enter_context(Load(cluster, topic, PARTITIONS))
        held = {name: set(those) for name, those in deliveries.held.items()}
        given = len(deliveries.assignments)

        before = group_state(cluster, group_id)
        assert before.has_partition_metadata  # the record that 4.0 keeps racks in
        assert before.metadata_hash == 0

        cluster.upgrade(NEW)
        upgraded = _wait_for_hash(cluster, group_id)
        assert upgraded.metadata_hash == expected_hash(cluster, topic)
        assert not upgraded.has_partition_metadata
        assert _tombstones_since_hash(cluster, group_id) == 1
        assert upgraded.epoch == before.epoch + 1
        assert upgraded.target == before.target
        offsets = committed(cluster, group_id)

        cluster.upgrade(OLD)
        wait_for("the group has no hash again", lambda: group_state(cluster, group_id).metadata_hash == 0, LIMIT_MS)
        downgraded = group_state(cluster, group_id)
        assert downgraded.has_partition_metadata
        assert downgraded.epoch > upgraded.epoch
        assert downgraded.target == before.target
        assert all(committed(cluster, group_id)[partition] >= offset for partition, offset in offsets.items())

        sent = load.stop()
        wait_for("every message was consumed", lambda: deliveries.distinct() == PARTITIONS * sent, LIMIT_MS)
        # No coordinator, of either release, ever changed the target assignment,
        assert all(before.target[member] == target for member, target in downgraded.targets[len(before.targets) :])
        # and no partition moved. A member may have to join again, if the responses of two
        # coordinators in a row were lost (it is fenced, two epochs late); it receives the same
        # partitions.
        assert deliveries.held == held
        assert sorted(deliveries.assignments[given:]) == sorted(deliveries.lost)
        assert {(name, at) for name, those in held.items() for at in those} >= {*deliveries.lost}
        assert deliveries.overlaps == []

        quorates.settle(all_of(topic, PARTITIONS))
        quorates.wait_until_consumed(all_of(topic, PARTITIONS), sent)
        check(quorates, dict.fromkeys(all_of(topic, PARTITIONS), sent))
        check_overlaps(quorates)
        assert quorates.assigned() == quorates_have


def _wait_for_hash(cluster: Cluster, group_id: str) -> GroupState:
    def state() -> GroupState | None:
        found = group_state(cluster, group_id)
        return found if found.metadata_hash != 0 and not found.has_partition_metadata else None

    return wait_for("the group has a hash and no partition metadata", state, LIMIT_MS)


def _tombstones_since_hash(cluster: Cluster, group_id: str) -> int:
    """Tombstones of ConsumerGroupPartitionMetadata from the first epoch with a hash on."""
    hashed = False
    tombstones = 0
    for entry in cluster.read_offsets_topic(partitions=[cluster.offsets_partition_of(group_id)]):
        record = entry.record
        if not isinstance(record, CoordinatorRecord) or getattr(record.key, "group_id", None) != group_id:
            continue
        if isinstance(record.key, consumer_group.ConsumerGroupMetadataKey) and record.value is not None:
            hashed = hashed or record.value.metadata_hash != 0
        elif isinstance(record.key, consumer_group.ConsumerGroupPartitionMetadataKey) and hashed:
            tombstones += record.value is None
    return tombstones
