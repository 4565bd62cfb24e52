"""`kafka-streams-groups` on an embedded cluster, while an application runs and after."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from quorate.cluster import EmbeddedCluster
from quorate.cluster.waiting import wait_for
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.java_tools import Run, rows
from tests.streams.application import Instance, missing

GROUPS = "streams.StreamsGroupCommand"
LIMIT_MS = 120_000
PROPERTIES = {
    **QUICK,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
}


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, properties=PROPERTIES, seed=1) as made:
        made.call(lambda: [made.core.create_topic(name, partitions=2, replicas=1) for name in ("lines", "counts")])
        producer = Producer({"bootstrap.servers": made.bootstrap_servers, "linger.ms": 0})
        for number in range(4):
            producer.produce("lines", b"word", partition=number % 2)
        assert producer.flush(60) == 0
        yield made
        assert made.core.failures == []


@pytest.fixture
def run(ok: Run) -> Run:
    """Run `kafka-streams-groups`, which must succeed, and return its output."""
    return partial(ok, GROUPS)


def offsets(run: Run) -> dict[str, str]:
    """Return topic and partition → lag, of the tasks of members."""
    out = run("--describe", "--offsets", "--group", "words")
    return {f"{one[1]}-{one[2]}": one[-1] for one in rows(out)}


def committed(running: EmbeddedCluster) -> dict[int, int]:
    """Return partition → committed offset of the input topic."""
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    groups = [ConsumerGroupTopicPartitions("words")]
    found = admin.list_consumer_group_offsets(groups)["words"].result(60).topic_partitions
    return {one.partition: one.offset for one in found if one.topic == "lines"}


def test_streams_groups_are_listed_described_reset_and_deleted(
    run: Run, running: EmbeddedCluster, tmp_path: Path
) -> None:
    if (reason := missing()) is not None:
        pytest.fail(reason)
    group = ("--group", "words")
    with Instance(
        running.bootstrap_servers,
        "words",
        "lines",
        "counts",
        tmp_path,
        group_protocol="streams",
        replication_factor=1,
        num_stream_threads=1,
        commit_interval_ms=100,
    ) as instance:
        instance.wait_until_running()
        wait_for(
            "all lines are read", lambda: offsets(run).get("lines-0") == "0" == offsets(run).get("lines-1"), LIMIT_MS
        )
        assert run("--list").split() == ["words"]
        assert ["words", "Stable"] in rows(run("--list", "--state"))
        assert "words" not in run("--list", "--state", "Empty")
        state = run("--describe", "--state", "--verbose", *group)
        assert re.search(r"words +127\.0\.0\.1:\d+ +\(\d\) +Stable +\d+", state), state
        members = run("--describe", "--members", "--verbose", *group)
        assert "words" in members, members
        assert "ACTIVE" in members, members
        assert re.search(r"0: ?\[0", members), members
        assert "words" in run("--describe", "--offsets", "--verbose", "--all-groups")
        instance.stop()
    wait_for("the group is empty", lambda: ["words", "Empty"] in rows(run("--list", "--state")), LIMIT_MS)
    planned = run("--reset-offsets", *group, "--input-topic", "lines", "--to-earliest", "--dry-run")
    assert [one[1:4] for one in rows(planned)] == [["lines", "0", "0"], ["lines", "1", "0"]], planned
    assert committed(running) == {0: 2, 1: 2}
    out = run("--delete-offsets", *group, "--input-topic", "lines")
    deleted = [["lines", "0", "Successful"], ["lines", "1", "Successful"]]
    assert rows(out)[1:] == deleted, out
    assert committed(running) == {}
    assert "successful" in run("--delete", *group)
    assert run("--list").split() == []
