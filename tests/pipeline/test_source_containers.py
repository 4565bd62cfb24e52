"""Read a cluster of three brokers with TLS and SASL, while groups rebalance and leaders change."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster
from quorate.pipeline.source import ConsumerOffsets
from tests.integration.groups import committed
from tests.pipeline.helpers.in_threads import in_threads
from tests.pipeline.helpers.reading import by_place, expected, rows_of

pytestmark = pytest.mark.containers


def kafka_options(config: dict[str, Any]) -> dict[str, str]:
    """Return the cluster's client config under Kafka's names."""
    user, password = config["sasl_plain_username"], config["sasl_plain_password"]
    return {
        "kafka.bootstrap.servers": config["bootstrap_servers"],
        "kafka.security.protocol": config["security_protocol"],
        "kafka.sasl.mechanism": config["sasl_mechanism"],
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{password}";',
        "kafka.ssl.truststore.location": str(config["ssl_cafile"]),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.endpoint.identification.algorithm": "https" if config.get("ssl_check_hostname", True) else "",
    }


def rebalances(config: dict[str, Any]) -> AbstractContextManager[None]:
    """Run a group during the block whose second member joins and leaves."""
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    def come_and_go(done: Event) -> None:
        while not done.is_set():
            try:
                with closing(
                    KafkaConsumer("orders", group_id="restless", auto_offset_reset="earliest", **config)
                ) as consumer:
                    for _ in range(4):
                        consumer.poll(300)
                    while not consumer.assignment() and not done.is_set():
                        consumer.poll(300)
                    consumer.commit()
            except KafkaError:
                time.sleep(0.2)  # its broker may be the one that restarts

    return in_threads(come_and_go, come_and_go)


@pytest.mark.long
def test_a_stream_reads_each_record_once_while_groups_rebalance_and_a_leader_restarts(
    kafka_cluster_factory: Callable[..., Cluster], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", minversion="4.2")
    from quorate.pipeline.stream_limited import LimitedReader

    with kafka_cluster_factory(security="SASL_SSL") as cluster:
        cluster.create_topic("orders", partitions=4, replicas=3)
        options = kafka_options(cluster.client_config)
        found: list[dict[str, Any]] = []
        start: dict[str, Any] | None = None

        def micro_batch() -> bool:
            """Run a micro-batch by a new reader. Returns whether it had rows."""
            nonlocal start
            source = ConsumerOffsets({**options, "isolation.level": "read_uncommitted", "maxOffsetsPerTrigger": "25"})
            reader = source.streamReader(source.schema())
            assert isinstance(reader, LimitedReader)
            start = start or reader.initialOffset()
            end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
            tasks = reader.partitions(start, end)
            reader.stop()
            for task in tasks:
                found.extend(row for batch in reader.read(task) for row in batch.to_pylist())
            before, start = start, end
            return bool(before != end)

        with rebalances(cluster.client_config):
            cluster.wait_ready()
            for step in range(6):
                micro_batch()
                if step == 2:
                    cluster.restart_broker(1)
            wait_for("a member has committed", lambda: committed(cluster, "restless") or None, 120_000)
        while micro_batch():
            pass
        wanted = expected(cluster.copy_segments(tmp_path))
        assert len({row["group"] for row in wanted}) > 0
        assert {"GroupMetadata", "OffsetCommit"} <= {row["type"] for row in wanted}
        assert by_place(found) == by_place(wanted)
        assert by_place(rows_of(**options, isolation_level="read_uncommitted")) == by_place(wanted)
