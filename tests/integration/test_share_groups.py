"""KIP-932 with librdkafka's share consumer: delivery, acknowledgements, locks, limits, leaders."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from quorate.integration import Cluster
from tests.cluster.share.group_configs import configure
from tests.integration.limits import LIMIT_MS

pytestmark = pytest.mark.scenario("KIP-932 share consumers")

COUNT = 60
LOCK_MS = 3_000


class Member:
    """A share consumer, and what it received: value → how often."""

    def __init__(self, cluster: Cluster, group: str, topic: str, *, explicit: bool = False) -> None:
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "share.acknowledgement.mode": "explicit" if explicit else "implicit",
            }
        )
        self.consumer.subscribe([topic])
        self.received: Counter[int] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def poll(self, timeout_s: float = 0.3) -> list[Any]:
        found = [one for one in self.consumer.poll(timeout=timeout_s) if one.error() is None]
        self.received.update(int(one.value()) for one in found)
        return found


def poll_until(members: Sequence[Member], ready: Callable[[], bool], each: Callable[[Member, Any], object]) -> None:
    until = time.monotonic() + LIMIT_MS / 1000
    while not ready():
        assert time.monotonic() < until, [member.received for member in members]
        for member in members:
            for one in member.poll():
                each(member, one)


def nothing(member: Member, message: Any) -> None:
    """Leave the acknowledgement to the next poll."""


def acknowledging(*released: int) -> Callable[[Member, Any], object]:
    """Accept records, and release those with some values."""

    def acknowledge(member: Member, message: Any) -> None:
        kind = AcknowledgeType.RELEASE if int(message.value()) in released else AcknowledgeType.ACCEPT
        member.consumer.acknowledge(message, kind)

    return acknowledge


def produce(cluster: Cluster, topic: str, values: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value=b"%d" % value, partition=value % 6)
    assert producer.flush(60) == 0


@pytest.fixture
def group(kafka_cluster: Cluster, group_id: str) -> str:
    configure(kafka_cluster, group_id, share_record_lock_duration_ms=LOCK_MS)
    return group_id


def test_accepted_records_are_delivered_once(kafka_cluster: Cluster, topic: str, group: str) -> None:
    produce(kafka_cluster, topic, range(COUNT))
    with Member(kafka_cluster, group, topic) as first:
        poll_until([first], lambda: first.received.total() >= COUNT, nothing)
        first.poll()  # accepts the last ones
        first.consumer.commit_sync(timeout=30)
    assert first.received == Counter(range(COUNT))
    produce(kafka_cluster, topic, range(100, 106))
    with Member(kafka_cluster, group, topic) as second:
        poll_until([second], lambda: second.received.total() >= 6, nothing)
    assert second.received == Counter(range(100, 106))


def test_released_records_are_delivered_again_until_the_limit(kafka_cluster: Cluster, topic: str, group: str) -> None:
    configure(kafka_cluster, group, share_delivery_count_limit=3)
    produce(kafka_cluster, topic, range(4))
    expected = Counter({0: 1, 1: 3, 2: 1, 3: 3})
    with Member(kafka_cluster, group, topic, explicit=True) as member:
        poll_until([member], lambda: member.received.total() >= expected.total(), acknowledging(1, 3))
        for _ in range(5):
            for one in member.poll():
                acknowledging()(member, one)
    assert member.received == expected


@pytest.mark.kafka_topic(partitions=1)  # which both members are assigned
def test_records_are_delivered_again_when_their_lock_expires(kafka_cluster: Cluster, topic: str, group: str) -> None:
    produce(kafka_cluster, topic, [0])
    with Member(kafka_cluster, group, topic, explicit=True) as slow:
        poll_until([slow], lambda: slow.received.total() == 1, nothing)
        began = time.monotonic()
        with Member(kafka_cluster, group, topic, explicit=True) as other:
            poll_until([other], lambda: other.received.total() == 1, acknowledging())
            assert time.monotonic() - began > LOCK_MS / 1000 / 2
            other.consumer.commit_sync(timeout=30)


def test_two_members_share_the_records(kafka_cluster: Cluster, topic: str, group: str) -> None:
    with ExitStack() as stack:
        members = [stack.enter_context(Member(kafka_cluster, group, topic)) for _ in range(2)]
        for member in members:
            member.poll(2)
        produce(kafka_cluster, topic, range(COUNT))
        poll_until(members, lambda: sum(member.received.total() for member in members) >= COUNT, nothing)
    assert members[0].received + members[1].received == Counter(range(COUNT))


@pytest.mark.kafka_topic(partitions=6, replicas=3)
def test_another_leader_continues(kafka_cluster: Cluster, topic: str, group: str) -> None:
    produce(kafka_cluster, topic, range(COUNT))
    with Member(kafka_cluster, group, topic) as member:
        poll_until([member], lambda: member.received.total() >= COUNT, nothing)
        member.poll()
        member.consumer.commit_sync(timeout=30)
        kafka_cluster.stop_broker(2)
        produce(kafka_cluster, topic, range(COUNT, 2 * COUNT))
        poll_until([member], lambda: len(member.received) >= 2 * COUNT, nothing)
    assert member.received == Counter(range(2 * COUNT))
