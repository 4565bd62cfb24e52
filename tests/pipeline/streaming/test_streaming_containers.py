"""Streams on a live cluster with rebalances and killed queries, compared with batch jobs."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.integration import Cluster
from quorate.pipeline import group_state, lag, rebalances
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.state_rows import STATE
from quorate.pipeline.streaming import (
    latest_lag,
    latest_rebalances,
    latest_state,
    stream_group_state,
    stream_lag,
    stream_rebalances,
)
from tests.pipeline.helpers.in_threads import in_threads
from tests.pipeline.helpers.jobs import comparable
from tests.pipeline.helpers.streams import Killed, stream_of, write_parts

pytestmark = pytest.mark.containers

ENDS = "topic string, partition int, timestamp timestamp, end_offset long"


def restless(servers: str) -> AbstractContextManager[None]:
    """Run a group of each protocol during the block; the second member joins and leaves."""
    from confluent_kafka import Consumer, Producer

    def member(done: Event, *, protocol: str, stays: bool) -> None:
        config = {
            "bootstrap.servers": servers,
            "group.id": f"{protocol}-group",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
        while not done.is_set():
            consumer = Consumer(config)
            consumer.subscribe(["orders"])
            until = time.monotonic() + 2
            while not done.is_set() and (stays or time.monotonic() < until):
                consumer.consume(50, 0.5)
            consumer.close()  # commits, and leaves

    def produce(done: Event) -> None:
        producer = Producer({"bootstrap.servers": servers})
        while not done.wait(0.2):
            producer.produce("orders", b"an order")
            producer.poll(0)
        producer.flush(300)

    members = [partial(member, protocol=one, stays=stays) for one in ("classic", "consumer") for stays in (True, False)]
    return in_threads(*members, produce)


def snapshot(cluster: Cluster) -> pa.Table:
    """Return the current end offsets."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(**cluster.client_config)
    try:
        ends = consumer.end_offsets([TopicPartition("orders", partition) for partition in range(4)])
    finally:
        consumer.close()
    at = sorted(ends.items())
    return pa.table(
        {
            "topic": ["orders"] * 4,
            "partition": pa.array([one.partition for one, _ in at], pa.int32()),
            "timestamp": pa.array([time.time_ns() // 1_000_000 * 1000] * 4, pa.timestamp("us", "UTC")),
            "end_offset": [offset for _, offset in at],
        }
    )


@pytest.mark.long
def test_streams_of_a_live_cluster_equal_the_batch_jobs_at_the_end(
    spark: SparkSession, kafka_cluster_factory: Callable[..., Cluster], tmp_path: Path
) -> None:
    seed = time.time_ns()
    random = Random(seed)
    with kafka_cluster_factory(brokers=1, racks=[None], properties={"offsets.topic.num.partitions": 2}) as cluster:
        cluster.create_topic("orders", partitions=4)
        source = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        with restless(cluster.bootstrap_servers):
            cluster.wait_ready()
            write_parts(tmp_path / "ends", [snapshot(cluster)])
            rows = spark.readStream.format("consumer-offsets").options(**source).load()
            ends = stream_of(spark, tmp_path / "ends", schema=ENDS)
            streams = {
                "state": Killed(stream_group_state(rows), tmp_path / "state", random),
                "rebalances": Killed(stream_rebalances(rows), tmp_path / "rebalances", random),
                "lag": Killed(stream_lag(rows, ends, keep_ms=1 << 40), tmp_path / "lag", random),
            }
            while not any(stream.kills for stream in streams.values()):
                for stream in streams.values():
                    stream.once()
                write_parts(tmp_path / "ends", [snapshot(cluster)])
        found = {name: stream.to_the_end() for name, stream in streams.items()}
        log = spark.read.format("consumer-offsets").options(**source).load()
        assert loaded(log, "groups", None) is not None  # the jobs use push-down
        _check(spark, found, log, tmp_path / "ends", f"seed {seed}")


def _check(spark: SparkSession, found: dict[str, DataFrame], log: DataFrame, ends: Path, seed: str) -> None:
    def by_group(table: pa.Table) -> dict[str, Any]:
        rows = comparable(row for row in table.to_pylist() if row["group"] is not None)
        return {name: row | {"skipped": None} for name, row in rows.items()}

    wanted = group_state(log, isolation_level="read_committed").rows
    actual = by_group(latest_state(found["state"]).rows.select(*STATE.names).toArrow().cast(STATE))
    assert actual == by_group(wanted.toArrow()), seed
    assert {"classic-group", "consumer-group"} <= actual.keys()
    tables = {
        "rebalances": (latest_rebalances(found["rebalances"]), rebalances(log)),
        "lag": (latest_lag(found["lag"]), lag(log, spark.read.parquet(str(ends)), isolation_level="read_committed")),
    }
    for name, (stream, batch) in tables.items():
        got, expected = (
            sorted(str(list(row)) for row in df.collect()) for df in (stream.select(*batch.columns), batch)
        )
        assert got == expected, (name, seed)
        assert len(expected) >= 4, name
