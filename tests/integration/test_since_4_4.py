"""What brokers have since Kafka 4.4, on one broker of that release.

4.3.1 is the default in containers, as 4.4.0 was released without command-line tools.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer

from quorate.integration import Cluster
from tests.integration.limits import LIMIT_MS
from tests.integration.test_share_groups import Member, configure, poll_until, produce
from tests.integration.test_versions import check_versions


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: Callable[..., Cluster]) -> Iterator[Cluster]:
    properties = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
    with kafka_cluster_factory(version="4.4.0", racks=[None], properties=properties) as running:
        yield running


def test_brokers_report_their_versions_and_features(cluster: Cluster) -> None:
    check_versions(cluster)


def dead_letters(cluster: Cluster, topic: str, count: int) -> list[tuple[Any, Any, dict[str, str]]]:
    """Return keys, values and headers, in the order of the records' offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[Any, Any, dict[str, str]]] = []
    until = time.monotonic() + LIMIT_MS / 1000
    while len(found) < count:
        assert time.monotonic() < until, found
        one = consumer.poll(0.5)
        if one is not None and one.error() is None:
            headers = {name: (value or b"").decode() for name, value in one.headers() or []}
            found.append((one.key(), one.value(), headers))
    consumer.close()
    return sorted(found, key=lambda one: int(one[2]["__dlq.errors.offset"]))


@pytest.mark.scenario("KIP-932 share consumers", versions="4.4.0")
@pytest.mark.parametrize("copies", [False, True])
def test_undeliverable_records_are_written_to_a_dead_letter_queue(
    cluster: Cluster, group_id: str, *, copies: bool
) -> None:
    """KIP-1191, since 4.4; brokers create the topic on the first dead letter."""
    topic, queue = group_id, f"dlq.{group_id}"
    cluster.create_topic(topic, partitions=1)
    configure(
        cluster,
        group_id,
        share_delivery_count_limit=2,
        errors_deadletterqueue_topic_name=queue,
        errors_deadletterqueue_copy_record_enable=str(copies).lower(),
    )
    produce(cluster, topic, [0, 6, 12])

    def acknowledge(member: Member, message: Any) -> None:
        kinds = {0: AcknowledgeType.REJECT, 6: AcknowledgeType.ACCEPT, 12: AcknowledgeType.RELEASE}
        member.consumer.acknowledge(message, kinds[int(message.value())])

    with Member(cluster, group_id, topic, explicit=True) as member:
        poll_until([member], lambda: member.received == Counter({0: 1, 6: 1, 12: 2}), acknowledge)
        member.consumer.commit_sync(timeout=30)
    rejected, exceeded = dead_letters(cluster, queue, 2)
    assert [one[:2] for one in (rejected, exceeded)] == (
        [(None, b"0"), (None, b"12")] if copies else [(None, None)] * 2
    )
    same = {"__dlq.errors.topic": topic, "__dlq.errors.partition": "0", "__dlq.errors.group": group_id}
    assert rejected[2] == same | {
        "__dlq.errors.offset": "0",
        "__dlq.errors.delivery.count": "1",
        "__dlq.errors.message": "Offset rejected by client.",
    }
    assert exceeded[2] == same | {
        "__dlq.errors.offset": "2",
        "__dlq.errors.delivery.count": "2",
        "__dlq.errors.message": "Offset delivery count exceeded the threshold.",
    }
