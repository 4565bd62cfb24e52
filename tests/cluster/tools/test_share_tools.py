"""Kafka's command-line tools for share groups on an embedded cluster, with all of their options.

`kafka-share-groups`, the console share consumer and its benchmark. The tools are those of 4.3.1, as
4.4.0 was released without them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from quorate.cluster import EmbeddedCluster
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.java_tools import CONFIG, Run, rows

GROUPS, CONSOLE = "consumer.group.ShareGroupCommand", "consumer.ConsoleShareConsumer"
COUNT = 10
PROPERTIES = {
    **QUICK,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
}


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, properties=PROPERTIES, seed=1) as made:
        made.call(lambda: [made.core.create_topic(name, partitions=2, replicas=1) for name in ("t", "u")])
        producer = Producer({"bootstrap.servers": made.bootstrap_servers, "linger.ms": 0})
        for topic in ("t", "u"):
            for number in range(COUNT):
                producer.produce(topic, b"%d" % number, partition=number % 2)
        assert producer.flush(60) == 0
        yield made
        assert made.core.failures == []


def read_from_the_beginning(ok: Run, group: str) -> None:
    ok(
        CONFIG,
        *("--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "share.auto.offset.reset=earliest"),
    )


def consume(ok: Run, group: str, *options: object, topic: str = "t", count: int = COUNT) -> list[str]:
    """Return the values that the console share consumer prints."""
    at = ("--topic", topic, "--group", group, "--timeout-ms", 60_000, "--max-messages", count)
    return ok(CONSOLE, *at, *options).splitlines()


def lags(ok: Run, group: str) -> dict[str, str]:
    """Return topic and partition → lag, as `--describe` prints it.

    The printed start offset is that of the last write, before it moved.
    """
    described = rows(ok(GROUPS, "--describe", "--offsets", "--group", group))
    return {f"{one[1]}-{one[2]}": one[4] for one in described}


def test_the_console_share_consumer_accepts_releases_and_rejects(ok: Run) -> None:
    read_from_the_beginning(ok, "console")
    assert len(consume(ok, "console", "--release", count=1)) == 1
    options = ("--formatter-property", "print.partition=true", "--formatter-property", "print.delivery=true")
    again = consume(ok, "console", "--reject", *options)
    assert len(again) == COUNT  # among them the one that was released
    assert all(line.startswith("Partition:") and "Delivery:" in line for line in again)
    assert lags(ok, "console") == {"t-0": "0", "t-1": "0"}
    read_from_the_beginning(ok, "accepting")
    assert sorted(consume(ok, "accepting", "--reject-message-on-error"), key=int) == [str(one) for one in range(COUNT)]
    assert lags(ok, "accepting") == {"t-0": "0", "t-1": "0"}


def test_share_groups_are_listed_and_described(ok: Run, tmp_path: Path) -> None:
    config = tmp_path / "admin.properties"
    config.write_text("client.id=admin\n")
    read_from_the_beginning(ok, "described")
    consume(ok, "described")
    assert "described" in ok(GROUPS, "--list", "--command-config", config).split()
    states = rows(ok(GROUPS, "--list", "--state"))
    assert ["described", "Empty"] in states
    assert ["described", "Empty"] in rows(ok(GROUPS, "--list", "--state", "Empty,Stable"))
    assert "described" not in ok(GROUPS, "--list", "--state", "Dead")
    state = ok(GROUPS, "--describe", "--state", "--verbose", "--group", "described", "--timeout", 20_000)
    assert re.search(r"described +127\.0\.0\.1:\d+ +\(\d\) +Empty +\d+ +\d+ +0\b", state), state
    assert not rows(ok(GROUPS, "--describe", "--members", "--verbose", "--group", "described"))
    verbose = ok(GROUPS, "--describe", "--offsets", "--verbose", "--group", "described")
    assert "LEADER-EPOCH" in verbose
    assert [[one[1], one[2], one[-1]] for one in rows(verbose)] == [["t", "0", "0"], ["t", "1", "0"]]
    assert "described" in ok(GROUPS, "--describe", "--all-groups", "--offsets")


def test_offsets_of_share_groups_are_reset(ok: Run) -> None:
    read_from_the_beginning(ok, "reset")
    consume(ok, "reset")
    consume(ok, "reset", topic="u")
    reset = (GROUPS, "--reset-offsets", "--group", "reset")
    planned = ok(*reset, "--topic", "t:0", "--to-earliest", "--dry-run")
    assert rows(planned) == [["reset", "t", "0", "0"]]
    assert set(lags(ok, "reset").values()) == {"0"}
    ok(*reset, "--topic", "t:0", "--to-earliest", "--execute")
    assert lags(ok, "reset") == {"t-0": "5", "t-1": "0", "u-0": "0", "u-1": "0"}
    ok(*reset, "--all-topics", "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    assert set(lags(ok, "reset").values()) == {"5"}
    ok(*reset, "--topic", "u", "--to-latest", "--execute")
    assert lags(ok, "reset") == {"t-0": "5", "t-1": "5", "u-0": "0", "u-1": "0"}
    assert sorted(consume(ok, "reset"), key=int) == [str(one) for one in range(COUNT)]


def test_offsets_and_share_groups_are_deleted(ok: Run) -> None:
    read_from_the_beginning(ok, "deleted")
    consume(ok, "deleted")
    consume(ok, "deleted", topic="u")
    out = ok(GROUPS, "--delete-offsets", "--group", "deleted", "--topic", "u")
    assert rows(out) == [["u", "Successful"]], out
    assert lags(ok, "deleted").keys() == {"t-0", "t-1"}
    assert "successful" in ok(GROUPS, "--delete", "--group", "deleted")
    assert "deleted" not in ok(GROUPS, "--list").split()
    assert "successful" in ok(GROUPS, "--delete", "--all-groups")
    assert ok(GROUPS, "--list").split() == []


def test_the_benchmark_of_the_share_consumer_reads_all_records(ok: Run) -> None:
    read_from_the_beginning(ok, "benchmark")
    at = ("--topic", "t", "--group", "benchmark", "--num-records", COUNT, "--timeout", 60_000)
    out = ok("ShareConsumerPerformance", *at, "--threads", 2, "--show-detailed-stats", "--reporting-interval", 1000)
    assert re.search(rf"(?m)\b{COUNT}\b", out), out
