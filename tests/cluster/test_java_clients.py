"""Kafka's own command-line tools on an embedded cluster, unchanged: topics, producers, consumers of both protocols, groups."""

import shutil
import subprocess
from pathlib import Path

import pytest

from quorate.cluster import EmbeddedCluster
from tests.broker.broker import LIB as BROKER_LIB
from tests.broker.fixtures import need_broker

TOOLS_LIB = Path(__file__).parents[1] / "oracle" / "target" / "lib"
"""kafka-tools is in the oracle's folder, what it needs beside it in the broker's."""


def java(main: str, *arguments: str, said: str = "") -> str:
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{TOOLS_LIB}/*:{BROKER_LIB}/*"]
    ran = subprocess.run(
        [*command, f"org.apache.kafka.tools.{main}", *arguments],
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:] + ran.stdout[-2000:]
    return ran.stdout


@pytest.fixture(autouse=True)
def _tools() -> None:
    need_broker()
    if shutil.which("java") is None or not any(TOOLS_LIB.glob("kafka-tools-[0-9]*.jar")):
        pytest.skip("tests/oracle is not built: `make test` builds it")


def test_kafkas_tools_make_topics_produce_consume_in_both_protocols_and_describe_groups(
    cluster: EmbeddedCluster,
) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    java("TopicCommand", *at, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "3")
    told = java("TopicCommand", *at, "--describe", "--topic", "orders")
    assert "PartitionCount: 3\tReplicationFactor: 3" in told
    lines = [f"line {number}" for number in range(50)]
    java("ConsoleProducer", *at, "--topic", "orders", said="\n".join(lines) + "\n")
    for protocol in ("classic", "consumer"):
        read = java(
            "consumer.ConsoleConsumer",
            *at,
            *("--topic", "orders", "--from-beginning", "--group", protocol, "--max-messages", "50"),
            *("--command-property", f"group.protocol={protocol}", "--timeout-ms", "20000"),
        )
        assert sorted(read.splitlines()) == sorted(lines)
    groups = java("consumer.group.ConsumerGroupCommand", *at, "--describe", "--all-groups")
    rows = [row.split() for row in groups.splitlines() if row.strip()]
    column = rows[0].index("CURRENT-OFFSET")
    committed = {"classic": 0, "consumer": 0}
    for row in rows:
        if row[1] == "orders":
            committed[row[0]] += int(row[column])
    assert committed == {"classic": 50, "consumer": 50}
