"""An observer of an embedded cluster when something fails."""

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer

from quorate.cluster import EmbeddedCluster
from quorate.codecs.errors import QuorateError
from quorate.watch import EventKind, MemberJoined, Observer, rebalance
from quorate.watch.store import WatchStore
from tests.integration.test_watch import LIMIT_S, assigned


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(racks=["a"], properties={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.create_topic("orders", partitions=2, replicas=1)
        yield cluster


def join_and_leave(kafka: EmbeddedCluster, group_id: str) -> None:
    with KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id=group_id) as one:
        assigned(one, "orders")


def test_an_error_in_the_store_loses_no_event(kafka, monkeypatch):
    put_event, failures = WatchStore.put_event, [2]

    def fail_twice(self, event):
        if failures[0]:
            failures[0] -= 1
            raise QuorateError("the disk is full")
        return put_event(self, event)

    monkeypatch.setattr(WatchStore, "put_event", fail_twice)
    with Observer(kafka.bootstrap_servers, interval_s=600) as observer:
        join_and_leave(kafka, "full-disk")
        observer.wait_for(rebalance(group="full-disk", cause=MemberJoined), LIMIT_S)
        assert failures == [0]
        began = observer.events(group_id="full-disk", kinds=[EventKind.REBALANCE_BEGAN], newest_first=False)
        assert [one.epoch for one in began] == list(range(1, len(began) + 1))


def test_a_restarted_broker_is_followed_further(kafka):
    with Observer(kafka.bootstrap_servers, interval_s=600) as observer:
        join_and_leave(kafka, "before")
        observer.wait_for(rebalance(group="before", cause=MemberJoined), LIMIT_S)
        broker = kafka.brokers[0].id
        kafka.stop_broker(broker)
        kafka.start_broker(broker)
        join_and_leave(kafka, "after")
        observer.wait_for(rebalance(group="after", cause=MemberJoined), LIMIT_S)
