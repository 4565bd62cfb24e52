"""KIP-848, "Migration": a running group changes to the consumer protocol and back.

Members change one by one, while messages are produced.
"""

from typing import Any

import pytest

from quorate.cluster.waiting import wait_for
from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages import classic_group, consumer_group
from quorate.integration import Cluster
from tests.integration.clients import CLIENTS, Crowd
from tests.integration.groups import Load, all_of, committed
from tests.integration.history import history
from tests.integration.limits import LIMIT_MS

pytestmark = pytest.mark.scenario("KIP-848 migration")

CLASSIC = {"group.protocol": "classic", "partition.assignment.strategy": "range"}
"""What makes librdkafka's consumer a member of the classic protocol."""


def kind_of(cluster: Cluster, group: str) -> str:
    """Whether the newest records of a group are those of a classic or of a consumer group."""
    kind = "none"
    for entry in cluster.read_offsets_topic(partitions=[cluster.offsets_partition_of(group)]):
        record = entry.record
        if not isinstance(record, CoordinatorRecord) or record.value is None:
            continue
        if getattr(record.key, "group_id", getattr(record.key, "group", None)) != group:
            continue
        if isinstance(record.key, classic_group.GroupMetadataKey):
            kind = "classic"
        elif isinstance(record.key, consumer_group.ConsumerGroupMetadataKey):
            kind = "consumer"
    return kind


def classic(client: str) -> dict[str, Any]:
    """Return the configuration for a member of the classic protocol."""
    return CLASSIC if client == "confluent-kafka" else {}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_running_group_goes_over_to_the_consumer_protocol_and_back(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str
) -> None:
    """`client`: used by classic members; members of the consumer protocol use librdkafka."""
    everything = all_of(topic, 6)
    with Crowd(client, kafka_cluster, group_id, [topic]) as crowd, Load(kafka_cluster, topic, 6) as load:
        for name in ("old-0", "old-1"):
            crowd.start(name, **classic(client))
            crowd.settle(everything)
        assert kind_of(kafka_cluster, group_id) == "classic"

        # The first member of the new protocol makes the group one of that, and the others stay in
        # it.
        crowd.start("new-0", client="confluent-kafka")
        crowd.settle(everything)
        assert kind_of(kafka_cluster, group_id) == "consumer"
        crowd.stop("old-0")
        crowd.start("new-1", client="confluent-kafka")
        crowd.settle(everything)
        crowd.stop("old-1")
        crowd.settle(everything)
        assert kind_of(kafka_cluster, group_id) == "consumer"

        # The other way round it is the last member of the new protocol that decides.
        crowd.start("back-0", **classic(client))
        crowd.settle(everything)
        crowd.stop("new-0")
        crowd.start("back-1", **classic(client))
        crowd.settle(everything)
        assert kind_of(kafka_cluster, group_id) == "consumer"
        crowd.stop("new-1")
        wait_for("the group is classic", lambda: kind_of(kafka_cluster, group_id) == "classic", LIMIT_MS)
        crowd.settle(everything)

        sent = load.stop()
        crowd.wait_until_consumed(everything, sent)
        expected = dict.fromkeys(everything, sent)
        wait_for("all is committed", lambda: committed(kafka_cluster, group_id) == expected, LIMIT_MS)
        assert history(kafka_cluster, group_id).owned_twice == []


def test_a_group_whose_assignor_keeps_data_in_assignments_stays_classic(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    """librdkafka's cooperative-sticky keeps data in assignments from its second generation on.

    A consumer group cannot store that, so that the new member is rejected, and nothing moves.
    """
    with Crowd("confluent-kafka", kafka_cluster, group_id, [topic]) as crowd:
        for name in ("old-0", "old-1"):
            crowd.start(name, **{**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"})
            crowd.settle(all_of(topic, 6))
        before = crowd.assigned()
        new = crowd.start("new")
        error = wait_for("the new member has an error", lambda: new.error, LIMIT_MS)
        assert "The group id does not exist" in error.str()
        assert crowd.assigned() == {**before, "new": frozenset()}
        assert kind_of(kafka_cluster, group_id) == "classic"
