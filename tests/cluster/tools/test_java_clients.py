"""Kafka's own command-line tools on an embedded cluster: topics, producers, consumers, groups."""

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from quorate.cli.main import main
from quorate.cluster import EmbeddedCluster
from tests.broker.broker import tools as tools_command
from tests.cluster.helpers.java_tools import Run


@pytest.fixture
def java(tools: Callable[..., dict[str, Any]]) -> Run:
    """Run a tool, which must succeed, and return its output."""

    def run(tool: str, *arguments: object) -> str:
        response = tools(tool, *arguments)
        assert response["status"] == 0, response
        out: str = response["out"]
        return out

    return run


def alone(tool: str, *arguments: str, said: str = "") -> str:
    """Run a producer, in its own JVM: it reads standard input, or sends records until it ends."""
    command = tools_command("-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    command += [f"org.apache.kafka.tools.{tool}", *arguments]
    ran = subprocess.run(command, input=said, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:] + ran.stdout[-2000:]
    return ran.stdout


def test_kafkas_tools_create_topics_produce_consume_and_describe_groups(cluster: EmbeddedCluster, java: Run) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    java("TopicCommand", *at, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "3")
    reported = java("TopicCommand", *at, "--describe", "--topic", "orders")
    assert "PartitionCount: 3\tReplicationFactor: 3" in reported
    lines = [f"line {number}" for number in range(50)]
    alone("ConsoleProducer", *at, "--topic", "orders", said="\n".join(lines) + "\n")
    for protocol in ("classic", "consumer"):
        read = java(
            "consumer.ConsoleConsumer",
            *at,
            *("--topic", "orders", "--from-beginning", "--group", protocol, "--max-messages", "50"),
            *("--command-property", f"group.protocol={protocol}", "--timeout-ms", "300000"),
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


def test_kafkas_verifiable_clients_write_and_read_each_number_once(cluster: EmbeddedCluster, java: Run) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers)
    cluster.call(lambda: cluster.core.create_topic("numbers", partitions=3, replicas=3))
    sent = events(alone("VerifiableProducer", *at, "--topic", "numbers", "--max-messages", "300", "--acks", "-1"))
    acknowledged = {(one["partition"], one["offset"]) for one in sent["producer_send_success"]}
    assert len(acknowledged) == 300
    assert {int(one["value"]) for one in sent["producer_send_success"]} == set(range(300))

    def read(protocol: str) -> dict[str, list[dict[str, Any]]]:
        member = ("--topic", "numbers", "--group-id", protocol, "--group-protocol", protocol, "--verbose")
        return events(java("VerifiableConsumer", *at, *member, "--max-messages", "300", "--reset-policy", "earliest"))

    for protocol in ("classic", "consumer"):
        found = read(protocol)
        assert {(one["partition"], one["offset"]) for one in found["record_data"]} == acknowledged, protocol
        assert len(found["record_data"]) == 300
        assert sum(len(one["partitions"]) for one in found["partitions_assigned"]) == 3
        assert all(one["success"] for one in found["offsets_committed"])

    # The records of their groups: from the Java consumer, as printed by Kafka's formatters,
    # and as decoded by us.
    groups = ("--group", "classic", "--group", "consumer")  # without the groups of the readers
    ours = {f"Partition:{one['partition']} Offset:{one['offset']}": one for one in decoded("-b", at[1], *groups)}
    offsets = decoded("-b", at[1], "--type", "OffsetCommit", "--format", "kafka")
    rows = consumed(java, at, AS_BYTES, len(ours))
    printed = consumed(java, at, AS_OFFSETS, len(offsets))
    by_place = {f"{at} {offset}": (key, value) for at, offset, key, value in (row.split(_BETWEEN) for row in rows)}
    assert by_place.keys() == ours.keys()
    assert {one["name"] for one in ours.values()} >= {"OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata"}
    pairs = "".join(f"{as_hex(key)} {as_hex(value)}\n" for key, value in by_place.values())
    for place, theirs in zip(by_place, decoded("-", said=pairs), strict=True):
        assert {part: ours[place][part] for part in ("name", "version", "key", "value")} == {
            part: theirs[part] for part in ("name", "version", "key", "value")
        }
    assert sorted(map(json.dumps, map(json.loads, printed))) == sorted(map(json.dumps, offsets))
    assert {one["key"]["data"]["group"] for one in offsets} == {"classic", "consumer"}


BYTES = "org.apache.kafka.common.serialization.BytesDeserializer"
_BETWEEN = " <-> "  # keys and values may contain a single blank
_SHOWN = ("print.key=true", "print.partition=true", "print.offset=true", f"key.separator={_BETWEEN}")
_FORMAT = (*_SHOWN, *(f"{part}.deserializer={BYTES}" for part in ("key", "value")))
AS_BYTES = tuple(piece for one in _FORMAT for piece in ("--formatter-property", one))
"""Partition, offset, key and value, in which Kafka escapes bytes other than printable ASCII, and
also the blank.
"""
AS_OFFSETS = ("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter")


def events(printed: str) -> dict[str, list[dict[str, Any]]]:
    """Return the events of a verifiable client, by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in printed.splitlines():
        one = json.loads(line)
        found.setdefault(one["name"], []).append(one)
    return found


def consumed(java: Run, at: tuple[str, str], options: tuple[str, ...], count: int) -> list[str]:
    """Return what the console consumer prints of `__consumer_offsets`, without its own records.

    It ends after a time without records, which on a busy machine may be before the first one. With
    fewer than `count` records, it runs again with a longer timeout (issue 14).
    """
    rows: list[str] = []
    for limit_ms in (1_500, 15_000, 150_000):
        topic = ("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", str(limit_ms))
        printed = java("consumer.ConsoleConsumer", *at, *topic, *options)
        rows = printed.replace("}{", "}\n{").splitlines()  # Kafka's formatters print no line ends
        rows = [row for row in rows if "console-consumer" not in row]
        if len(rows) >= count:
            break
    return rows


def decoded(*arguments: str, said: str | None = None) -> list[dict[str, Any]]:
    form = () if "--format" in arguments else ("--format", "jsonl")
    ran = CliRunner(catch_exceptions=False).invoke(main, ["decode", *arguments, *form], input=said)
    assert ran.exit_code == 0, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


def as_hex(escaped: str) -> str:
    """Convert bytes as printed by Kafka's `Bytes` to hex; `null` for null."""
    if escaped == "null":
        return escaped
    return re.sub(rb"\\x(..)", lambda one: bytes.fromhex(one[1].decode()), escaped.encode(), flags=re.DOTALL).hex()
