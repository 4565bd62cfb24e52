"""The source on a cluster with SASL and TLS, with Kafka's client configs as options."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from quorate.cluster import EmbeddedCluster, Security, make_certificate
from tests.pipeline.helpers.reading import rows_of

PASSWORD = 'very "secret"; \\ indeed'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedCluster, Path]]:
    """Start a cluster with an offset of alice's group; return it with its CA certificate."""
    context, authority = make_certificate(tmp_path_factory.mktemp("certificates"))
    with EmbeddedCluster(security=Security(users={"alice": PASSWORD}, tls=context)) as made:
        made.call(lambda: made.core.create_topic("t", partitions=1, replicas=1))
        consumer = Consumer(
            {
                "bootstrap.servers": made.bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "SCRAM-SHA-512",
                "sasl.username": "alice",
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(authority),
                "group.id": "alices",
            }
        )
        consumer.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)
        consumer.close()
        yield made, authority


def options(cluster: tuple[EmbeddedCluster, Path], mechanism: str) -> dict[str, str]:
    made, authority = cluster
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "kafka.bootstrap.servers": made.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        f'username="alice" password="{quoted}";',
        "kafka.ssl.truststore.location": str(authority),
        "kafka.ssl.truststore.type": "PEM",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_rows_are_read_with_sasl_over_tls(cluster: tuple[EmbeddedCluster, Path], mechanism: str) -> None:
    rows = rows_of(**options(cluster, mechanism), types="OffsetCommit")
    assert [(row["group"], row["offset_commit"]["topic"], row["offset_commit"]["offset"]) for row in rows] == [
        ("alices", "t", 5)
    ]
