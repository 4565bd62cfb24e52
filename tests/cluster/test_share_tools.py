"""Kafka's command-line tools for share groups on an embedded cluster, with all of their options.

`kafka-share-groups`, the console share consumer and its benchmark. The tools are those of 4.3.1, as
4.4.0 was released without them.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from quorate.cluster import EmbeddedCluster
from tests.cluster.conftest import QUICK
from tests.cluster.test_java_tools import CONFIG
from tests.cluster.test_java_tools import tools as tools

GROUPS, CONSOLE = "consumer.group.ShareGroupCommand", "consumer.ConsoleShareConsumer"
COUNT = 10
PROPERTIES = {
    **QUICK,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
}
Run = Callable[..., str]


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


@pytest.fixture
def run(tools: Callable[..., dict[str, Any]], running: EmbeddedCluster) -> Run:
    """Run a tool, which must succeed, and return its output."""

    def run(tool: str, *arguments: object) -> str:
        response = tools(tool, "--bootstrap-server", running.bootstrap_servers, *arguments)
        assert response["status"] == 0, response
        out: str = response["out"]
        assert not re.search("Error[: ]|Exception", out), response
        return out

    return run


def read_from_the_beginning(run: Run, group: str) -> None:
    run(
        CONFIG,
        *("--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "share.auto.offset.reset=earliest"),
    )


def consume(run: Run, group: str, *options: object, topic: str = "t", count: int = COUNT) -> list[str]:
    """Return the values that the console share consumer prints."""
    at = ("--topic", topic, "--group", group, "--timeout-ms", 60_000, "--max-messages", count)
    return run(CONSOLE, *at, *options).splitlines()


def rows(out: str) -> list[list[str]]:
    """Return the rows of a table, without its header."""
    return [line.split() for line in out.splitlines() if line.strip()][1:]


def lags(run: Run, group: str) -> dict[str, str]:
    """Return topic and partition → lag, as `--describe` prints it.

    The printed start offset is that of the last write, before it moved.
    """
    described = rows(run(GROUPS, "--describe", "--offsets", "--group", group))
    return {f"{one[1]}-{one[2]}": one[4] for one in described}


def test_the_console_share_consumer_accepts_releases_and_rejects(run: Run) -> None:
    read_from_the_beginning(run, "console")
    assert len(consume(run, "console", "--release", count=1)) == 1
    options = ("--formatter-property", "print.partition=true", "--formatter-property", "print.delivery=true")
    again = consume(run, "console", "--reject", *options)
    assert len(again) == COUNT  # among them the one that was released
    assert all(line.startswith("Partition:") and "Delivery:" in line for line in again)
    assert lags(run, "console") == {"t-0": "0", "t-1": "0"}
    read_from_the_beginning(run, "accepting")
    assert sorted(consume(run, "accepting", "--reject-message-on-error"), key=int) == [str(one) for one in range(COUNT)]
    assert lags(run, "accepting") == {"t-0": "0", "t-1": "0"}


def test_share_groups_are_listed_and_described(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "admin.properties"
    config.write_text("client.id=admin\n")
    read_from_the_beginning(run, "described")
    consume(run, "described")
    assert "described" in run(GROUPS, "--list", "--command-config", config).split()
    states = rows(run(GROUPS, "--list", "--state"))
    assert ["described", "Empty"] in states
    assert ["described", "Empty"] in rows(run(GROUPS, "--list", "--state", "Empty,Stable"))
    assert "described" not in run(GROUPS, "--list", "--state", "Dead")
    state = run(GROUPS, "--describe", "--state", "--verbose", "--group", "described", "--timeout", 20_000)
    assert re.search(r"described +127\.0\.0\.1:\d+ +\(\d\) +Empty +\d+ +\d+ +0\b", state), state
    assert not rows(run(GROUPS, "--describe", "--members", "--verbose", "--group", "described"))
    verbose = run(GROUPS, "--describe", "--offsets", "--verbose", "--group", "described")
    assert "LEADER-EPOCH" in verbose
    assert [[one[1], one[2], one[-1]] for one in rows(verbose)] == [["t", "0", "0"], ["t", "1", "0"]]
    assert "described" in run(GROUPS, "--describe", "--all-groups", "--offsets")


def test_offsets_of_share_groups_are_reset(run: Run) -> None:
    read_from_the_beginning(run, "reset")
    consume(run, "reset")
    consume(run, "reset", topic="u")
    reset = (GROUPS, "--reset-offsets", "--group", "reset")
    planned = run(*reset, "--topic", "t:0", "--to-earliest", "--dry-run")
    assert rows(planned) == [["reset", "t", "0", "0"]]
    assert set(lags(run, "reset").values()) == {"0"}
    run(*reset, "--topic", "t:0", "--to-earliest", "--execute")
    assert lags(run, "reset") == {"t-0": "5", "t-1": "0", "u-0": "0", "u-1": "0"}
    run(*reset, "--all-topics", "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    assert set(lags(run, "reset").values()) == {"5"}
    run(*reset, "--topic", "u", "--to-latest", "--execute")
    assert lags(run, "reset") == {"t-0": "5", "t-1": "5", "u-0": "0", "u-1": "0"}
    assert sorted(consume(run, "reset"), key=int) == [str(one) for one in range(COUNT)]


def test_offsets_and_share_groups_are_deleted(run: Run) -> None:
    read_from_the_beginning(run, "deleted")
    consume(run, "deleted")
    consume(run, "deleted", topic="u")
    out = run(GROUPS, "--delete-offsets", "--group", "deleted", "--topic", "u")
    assert rows(out) == [["u", "Successful"]], out
    assert lags(run, "deleted").keys() == {"t-0", "t-1"}
    assert "successful" in run(GROUPS, "--delete", "--group", "deleted")
    assert "deleted" not in run(GROUPS, "--list").split()
    assert "successful" in run(GROUPS, "--delete", "--all-groups")
    assert run(GROUPS, "--list").split() == []


def test_the_benchmark_of_the_share_consumer_reads_all_records(run: Run) -> None:
    read_from_the_beginning(run, "benchmark")
    at = ("--topic", "t", "--group", "benchmark", "--num-records", COUNT, "--timeout", 60_000)
    out = run("ShareConsumerPerformance", *at, "--threads", 2, "--show-detailed-stats", "--reporting-interval", 1000)
    assert re.search(rf"(?m)\b{COUNT}\b", out), out
