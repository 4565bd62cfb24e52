"""An observer of an embedded cluster when something fails, or is slow."""

import re
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kafka import KafkaConsumer

from quorate.cluster import EmbeddedCluster
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.errors import QuorateError
from quorate.codecs.live import LivePoll
from quorate.watch import EventKind, MemberJoined, Observer, WatchLimits, live, rebalance
from quorate.watch.collector import Collector
from quorate.watch.problems import Problems
from quorate.watch.store import WatchStore
from quorate.watch.topics import KnownTopics
from tests.coordinator.bulk_logs import pair_of
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


def test_a_late_reader_says_so_until_it_has_caught_up(tmp_path, monkeypatch):
    key, value = pair_of(("commit", 0, 0, 0, 0, 7))
    minute_ago_ms = time.time_ns() // 1_000_000 - 60_000
    late, seen = [], []

    def polls(*_: object, **__: object) -> Iterator[LivePoll]:
        for offset, waiting in enumerate([5, 0]):
            record = SimpleNamespace(
                offset=offset, key=key, value=value, timestamp=minute_ago_ms + offset, leader_epoch=0
            )
            yield LivePoll(records={0: [record]}, caught_up=True, waiting=waiting)
            late.append(thread.late_ms)
            seen.append(problems.sentences())
        stop.set()
        yield LivePoll(records={}, caught_up=True)

    monkeypatch.setattr(live, "poll_live", polls)
    store, problems, stop = WatchStore(tmp_path, "a cluster"), Problems(), threading.Event()
    collector = Collector(store, KnownTopics(), WatchLimits(), lambda _: None)
    cluster = live.LiveCluster(["localhost:1"], {}, 1)
    thread = live.LogThread(cluster, CONSUMER_OFFSETS, collector, problems, stop)
    thread.caught_up = True
    thread.start()
    thread.join(LIMIT_S)
    assert late[0] >= 60_000
    assert re.fullmatch(f"{CONSUMER_OFFSETS} is read \\d+ s late: 5 records are waiting", *seen[0])
    assert (late[1], seen[1]) == (0, ())
    assert collector.records == 2
    assert collector.next_offsets(CONSUMER_OFFSETS) == {0: 2}
    store.close()
