"""Partitions without a leader: their lags are unknown, everything else is shown."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from quorate.cluster import EmbeddedCluster
from quorate.watch import Observer
from tests.integration.test_watch import LIMIT_S, assigned

NOTE = "no leader, and so no log end offset: orders-1"


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedCluster]:
    """Partition 1 has no leader, and 0 has 5 records; group `g` has a member, and committed 2."""
    with EmbeddedCluster(brokers=2, seed=1, properties={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.create_topic("orders", assignment=[[1], [2]])
        with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
            for number in (0, 1):
                for _ in range(5):
                    producer.send("orders", b"x", partition=number)
            producer.flush()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="g", enable_auto_commit=False
        )
        with closing(consumer):
            assigned(consumer, "orders")
            consumer.commit({TopicPartition("orders", number): OffsetAndMetadata(2, "", -1) for number in (0, 1)})
            cluster.stop_broker(2)
            yield cluster


@pytest.mark.parametrize("command", ["list", "describe", "members", "history", "upgrade-check"])
def test_commands_without_lags_do_not_need_leaders(quorate, kafka, command):
    ended = quorate("groups", command, "-b", kafka.brokers[0].address, "--group", "g")
    assert ended.status == 0, ended.err
    assert "leader" not in ended.err


def test_offsets_have_no_lag_where_there_is_no_leader(quorate, kafka):
    ended = quorate("groups", "offsets", "-b", kafka.brokers[0].address, "--group", "g", "--json")
    assert (ended.status, ended.err) == (0, f"{NOTE}\n")
    rows = json.loads(ended.out)
    assert [(row["current_offset"], row["log_end_offset"], row["lag"]) for row in rows] == [(2, 5, 3), (2, None, None)]


def test_assign_leaves_lags_without_leaders_out(quorate, kafka):
    ended = quorate("assign", "-b", kafka.brokers[0].address, "--group", "g", "--json")
    assert ended.status == 0
    assert NOTE in ended.err
    assert json.loads(ended.out)["input"]["topics"]["orders"]["lag"] == [3, None]


def test_an_observer_reads_the_other_lags_and_names_the_partition(kafka):
    with Observer(kafka.brokers[0].address, interval_s=600) as observer:
        observer.wait_until_caught_up()
        observer.sample(LIMIT_S)
        assert observer.status().errors == (f"lags are unknown: {NOTE}",)
        found = observer.group("g")
        assert [one.lag_records for one in found.partitions] == [3, None]
        kafka.start_broker(2)
        observer.sample(LIMIT_S)
        assert observer.status().errors == ()
        assert [one.lag_records for one in observer.group("g").partitions] == [3, 3]
