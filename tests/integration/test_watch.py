"""`quorate.watch.Observer` on embedded and real brokers, next to independent clients."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from quorate.cluster.interface import Cluster
from quorate.watch import (
    EventKind,
    MemberJoined,
    MemberLeft,
    NotObserved,
    Observer,
    ResetByAdmin,
    ResetByClient,
    event,
    rebalance,
)
from tests.integration.limits import LIMIT_MS

LIMIT_S = LIMIT_MS / 1000


def assigned(one: KafkaConsumer, topic: str) -> None:
    """Wait until kafka-python has partitions.

    3.0.12 may never get any if it joins before it knows the topic, and joins again when it does.
    """
    until = time.monotonic() + LIMIT_S
    while not one.partitions_for_topic(topic):
        assert time.monotonic() < until, f"{topic} is not known"
    while not one.assignment():
        one.poll(timeout_ms=200)
        assert time.monotonic() < until, "no partitions"


@contextmanager
def consumer(cluster: Cluster, topic: str, group: str, **config: object) -> Iterator[KafkaConsumer]:
    """A member of the group that has its partitions."""
    one = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **config,
    )
    try:
        assigned(one, topic)
        yield one
    finally:
        one.close()


def commit(one: KafkaConsumer, topic: str, offsets: dict[int, int]) -> None:
    one.commit({TopicPartition(topic, number): OffsetAndMetadata(offset, "", -1) for number, offset in offsets.items()})


def produce(cluster: Cluster, topic: str, times: dict[int, list[int]]) -> None:
    """Write a record for each timestamp, by partition."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, stamps in times.items():
            for stamp in stamps:
                producer.send(topic, b"x", partition=number, timestamp_ms=stamp)
        producer.flush()


def timestamp_at(cluster: Cluster, topic: str, number: int, offset: int) -> int:
    """Return the timestamp of a record, read by a consumer of its own."""
    at = TopicPartition(topic, number)
    one = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False)
    try:
        one.assign([at])
        one.seek(at, offset)
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            for record in one.poll(timeout_ms=500).get(at, ()):
                return int(record.timestamp)
        raise AssertionError(f"no record at offset {offset} of {topic}-{number}")
    finally:
        one.close()


@pytest.mark.kafka_topic(partitions=4)
def test_lag_in_time_is_that_of_an_independent_consumer(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    begin = time.time_ns() // 1_000_000 - 3_600_000
    produce(kafka_cluster, topic, {n: [begin + 1000 * i * i + n for i in range(40)] for n in range(3)})
    committed = {0: 0, 1: 17, 2: 40}  # the third one has no lag, the fourth no record
    with Observer(kafka_cluster.bootstrap_servers, interval_s=600) as observer:
        with consumer(kafka_cluster, topic, group_id) as one:
            commit(one, topic, committed | {3: 0})
            observer.wait_for(rebalance(group=group_id, cause=MemberJoined), LIMIT_S)
            wait_for_commit(observer, group_id, topic, committed)
            observer.sample()
            found = {row.partition: row for row in observer.group(group_id).partitions}
        for number, offset in committed.items():
            expected = 0
            if offset < 40:
                expected = timestamp_at(kafka_cluster, topic, number, 39) - timestamp_at(
                    kafka_cluster, topic, number, offset
                )
            assert (found[number].lag_records, found[number].lag_ms) == (40 - offset, expected)
        assert (found[3].lag_records, found[3].lag_ms) == (0, 0)
        (summary,) = [one for one in observer.groups() if one.group_id == group_id]
        assert summary.lag_records == 63
        assert summary.lag_ms == found[0].lag_ms == 39 * 39 * 1000
        now = time.time_ns() // 1_000_000
        assert observer.lag(group_id, from_ms=now - 60_000, to_ms=now)[-1].lag_ms == summary.lag_ms


def wait_for_commit(observer: Observer, group_id: str, topic: str, committed: dict[int, int]) -> None:
    """Wait until the observer has read these commits."""
    version, until = 0, time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        moment = observer.group(group_id)
        rows = {} if moment is None else {(row.topic, row.partition): row.committed for row in moment.partitions}
        if all(rows.get((topic, number)) == offset for number, offset in committed.items()):
            return
        version = observer.wait(version, 1)
    raise AssertionError(f"{committed} were not read; {observer.status()}")


@pytest.mark.kafka_topic(partitions=2)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_rebalance_appears_once_with_its_cause(
    kafka_cluster: Cluster, topic: str, group_id: str, protocol: str
) -> None:
    from tests.watch.helpers.members import member

    with Observer(kafka_cluster.bootstrap_servers, interval_s=600) as observer:
        with member(kafka_cluster, topic, group_id, protocol):
            first = observer.wait_for(rebalance(group=group_id, cause=MemberJoined), LIMIT_S)
            assert {(move.topic, move.partition) for move in first.moved} == {(topic, 0), (topic, 1)}
        left = observer.wait_for(rebalance(group=group_id, cause=MemberLeft), LIMIT_S)
        ended = observer.events(group_id=group_id, kinds=[EventKind.REBALANCE_ENDED], newest_first=False)
        began = observer.events(group_id=group_id, kinds=[EventKind.REBALANCE_BEGAN], newest_first=False)
        assert [one.id for one in ended] == [first.id, left.id]
        assert [one.epoch for one in began] == [one.epoch for one in ended]
        assert all(one.duration_ms is not None and one.duration_ms >= 0 for one in ended)
        owner = first.moved[0].after[0]
        before = observer.group(group_id, at_ms=left.at_ms - 1)
        assert [row.member_id for row in before.members] == [owner]
        assert not observer.group(group_id, at_ms=left.at_ms).members
        spans = observer.ownership(group_id, from_ms=0, to_ms=left.at_ms + 1)
        assert {(span.partition, span.member_id, span.to_ms) for span in spans} >= {(0, owner, left.at_ms)}
        with pytest.raises(NotObserved, match=group_id):
            observer.wait_for(rebalance(group=group_id), timeout_s=0.1)


@pytest.mark.kafka_topic(partitions=1)
def test_an_offset_that_went_back_has_a_cause(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with Observer(kafka_cluster.bootstrap_servers, interval_s=600) as observer:
        with consumer(kafka_cluster, topic, group_id) as one:
            commit(one, topic, {0: 9})
            commit(one, topic, {0: 4})
            found = observer.wait_for(event(EventKind.OFFSET_WENT_BACK, group=group_id), LIMIT_S)
            assert isinstance(found.cause, ResetByClient)
            assert found.facts == (f"{topic} 0: 9 → 4",)
        observer.wait_for(rebalance(group=group_id, cause=MemberLeft), LIMIT_S)
        admin = KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers)
        try:
            admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
        finally:
            admin.close()
        found = observer.wait_for(event(EventKind.OFFSET_WENT_BACK, group=group_id), LIMIT_S)
        assert isinstance(found.cause, ResetByAdmin)


@pytest.mark.kafka_topic(partitions=2)
def test_a_restart_loses_no_event_and_repeats_none(
    kafka_cluster: Cluster, topic: str, group_id: str, tmp_path: Path
) -> None:
    def observed() -> Observer:
        return Observer(kafka_cluster.bootstrap_servers, interval_s=600, state=tmp_path)

    with observed() as observer, consumer(kafka_cluster, topic, group_id) as one:
        observer.wait_for(rebalance(group=group_id, cause=MemberJoined), LIMIT_S)
        commit(one, topic, {0: 3})
        wait_for_commit(observer, group_id, topic, {0: 3})
        observer.close()
        commit(one, topic, {0: 2})
    with observed() as observer:
        back = observer.wait_for(event(EventKind.OFFSET_WENT_BACK, group=group_id), LIMIT_S)
        left = observer.wait_for(rebalance(group=group_id, cause=MemberLeft), LIMIT_S)
        assert back.facts == (f"{topic} 0: 3 → 2",)
        began, ended = (
            [one.epoch for one in observer.events(group_id=group_id, kinds=[kind], newest_first=False)]
            for kind in (EventKind.REBALANCE_BEGAN, EventKind.REBALANCE_ENDED)
        )
        assert began == ended == list(range(1, left.epoch + 1))
        assert observer.group(group_id, at_ms=left.at_ms - 1).members


@pytest.mark.kafka_topic(partitions=1)
def test_the_lag_of_a_share_group_counts_from_its_start_offset(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    from tests.integration.test_share_groups import Member, configure, nothing, poll_until

    begin = time.time_ns() // 1_000_000 - 3_600_000
    configure(kafka_cluster, group_id)
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=begin + 1000 * number)
        producer.flush()
    with Observer(kafka_cluster.bootstrap_servers, interval_s=600) as observer:
        with Member(kafka_cluster, group_id, topic, explicit=True) as one:
            poll_until([one], lambda: one.received.total() >= 5, nothing)
        wait_for_commit(observer, group_id, topic, {0: 0})  # what was not acknowledged is released
        observer.sample()
        (found,) = [one for one in observer.groups() if one.group_id == group_id]
        assert (found.kind, found.lag_records, found.lag_ms) == ("share", 5, 4_000)


@pytest.mark.kafka_topic(partitions=2)
def test_the_fixture_observes_the_cluster_of_the_test(
    kafka_cluster: Cluster, observer: Observer, topic: str, group_id: str
) -> None:
    assert observer.is_caught_up
    with consumer(kafka_cluster, topic, group_id):
        joined = observer.wait_for(rebalance(group=group_id, cause=MemberJoined), LIMIT_S)
    assert [move.topic for move in joined.moved] == [topic, topic]
