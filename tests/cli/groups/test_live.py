"""`quorate groups -b`: groups of a real broker."""

import json
import re
import time
from contextlib import closing, suppress

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError

from quorate.cluster import EmbeddedCluster
from quorate.codecs.live import read_live_blocks
from quorate.integration import live_groups
from tests.cli.assign.test_live import PATIENCE_S, classic_member, consumer_members
from tests.cli.conftest import RACK


@pytest.mark.oracle
def test_a_live_group_has_lags_and_racks(quorate, racked):
    with classic_member(racked, "seen") as committed:
        servers = racked.bootstrap_servers
        rows = json.loads(quorate("groups", "offsets", "-b", servers, "--group", "seen", "--json").out)
        members = json.loads(quorate("groups", "members", "-b", servers, "--group", "seen", "--json").out)
        listed = quorate("groups", "list", "-b", servers)
        earlier = quorate("groups", "list", "-b", servers, "--at", "1d")
    assert [(row["topic"], row["partition"], row["current_offset"]) for row in rows][:2] == [
        ("orders", 0, committed),
        ("orders", 1, None),
    ]
    assert (rows[0]["log_end_offset"], rows[0]["lag"]) == (committed + 6, 6)
    assert rows[0]["racks"] == [RACK]
    assert members[0]["partitions"] == 6
    assert any(line.startswith("seen ") for line in listed.lines)
    assert (earlier.status, "--at may be before they were created" in earlier.err) == (1, True)


@pytest.mark.oracle
def test_a_live_consumer_group_has_locality_and_the_cause_of_its_epoch(quorate, racked):
    with consumer_members(racked, "nightly", 2):
        until = time.monotonic() + PATIENCE_S
        rows = []
        while [row["partitions"] for row in rows] != [2, 2]:
            assert time.monotonic() < until, rows
            time.sleep(0.5)
            shown = quorate("groups", "members", "-b", racked.bootstrap_servers, "--group", "nightly", "--json")
            rows = json.loads(shown.out) if shown.status == 0 else []
        described = quorate("groups", "describe", "-b", racked.bootstrap_servers, "--group", "nightly", "--json")
        checked = quorate("groups", "upgrade-check", "-b", racked.bootstrap_servers, "--group", "nightly")
    assert [(row["rack"], row["local"], row["remote"]) for row in rows] == [(RACK, 2, 0)] * 2
    assert {topic for row in rows for topic in row["assignment"]} == {"orders"}
    (group,) = json.loads(described.out)
    assert group["last_bump"]["epoch"] == group["group_epoch"]
    assert group["last_bump"]["causes"] == ["joined"]
    assert re.fullmatch(r"(localhost|127\.0\.0\.1):\d+ \(\d+\)", group["coordinator"])
    assert (checked.out, checked.err) == ("", "Kafka 4.4.0 affects none of 1 group\n"), (
        "the stored hash is that of the topics"
    )


@pytest.mark.oracle
@pytest.mark.parametrize("command", ["list", "describe", "members", "offsets", "history", "upgrade-check"])
def test_groups_are_the_same_without_pyarrow(quorate, racked, monkeypatch, command):
    """Records are then decoded one by one by kafka-python."""
    with (
        classic_member(racked, "columns"),
        closing(KafkaAdminClient(bootstrap_servers=racked.bootstrap_servers)) as admin,
    ):
        admin.alter_group_offsets("columns-too", {TopicPartition("orders", 1): OffsetAndMetadata(1, "", -1)})
        arguments = ["groups", command, "-b", racked.bootstrap_servers, "--group", "columns*", "--json"]
        by_columns = quorate(*arguments)
        monkeypatch.setattr(live_groups, "_HAS_COLUMNS", False)
        monkeypatch.setattr(live_groups, "read_live_blocks", None)
        one_by_one = quorate(*arguments)
    assert (by_columns.status, by_columns.err) == (0, "")
    assert ("columns-too" in by_columns.out) == (command not in ("members", "upgrade-check"))
    assert by_columns == one_by_one


@pytest.mark.oracle
def test_watch_shows_new_records_until_ctrl_c(quorate, racked, monkeypatch):
    waited, starts, read = [], [], []

    def wait(seconds):
        waited.append(seconds)
        if len(waited) == 2:
            raise KeyboardInterrupt
        with closing(KafkaAdminClient(bootstrap_servers=racked.bootstrap_servers)) as admin:
            admin.alter_group_offsets("watched-too", {TopicPartition("orders", 1): OffsetAndMetadata(1, "", -1)})

    def live(servers, *, start_offsets, **how):
        starts.append(dict(start_offsets))
        for block in read_live_blocks(servers, start_offsets=start_offsets, **how):
            read.extend((len(starts), block.partition, offset) for offset in block.offset.tolist())
            yield block

    monkeypatch.setattr("quorate.cli.groups.wait", wait)
    monkeypatch.setattr("quorate.integration.live_groups.read_live_blocks", live)
    with classic_member(racked, "watched"):
        servers = racked.bootstrap_servers
        ended = quorate("groups", "list", "-b", servers, "--group", "watched*", "--watch", "5")
    assert (ended.status, waited) == (130, [5, 5])
    assert [line.split()[0] for line in ended.lines] == ["GROUP", "watched", "GROUP", "watched", "watched-too"]
    assert starts[0] == {}
    assert starts[1]
    places = [(partition, offset) for _, partition, offset in read]
    assert len(set(places)) == len(places), "nothing is read twice"
    assert {round_ for round_, *_ in read} == {1, 2}


@pytest.mark.oracle
def test_an_unknown_group_is_an_error_with_the_existing_ones(quorate, racked):
    with classic_member(racked, "payments"):
        ended = quorate("groups", "describe", "-b", racked.bootstrap_servers, "--group", "paymetns")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("error: no group matches paymetns\n       existing groups: payments")


def test_a_cluster_without_groups_is_an_error(quorate):
    """The broker is embedded. tests/codecs/test_live_failures.py has a real one that is new."""
    with EmbeddedCluster(brokers=1, seed=1) as cluster:
        servers = cluster.bootstrap_servers
        for command in (("decode",), ("groups", "list")):
            ended = quorate(*command, "-b", servers)
            assert (ended.status, ended.out) == (1, "")
            assert "__consumer_offsets" in ended.err
            assert "brokers create it when the first group needs it" in ended.err
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin, suppress(CoordinatorNotAvailableError):
            admin.describe_groups(["g"])  # creates the topic
        until = time.monotonic() + PATIENCE_S
        while (ended := quorate("decode", "-b", servers, "--partition", "0", "--since", "1h")).status:
            assert time.monotonic() < until, ended.err
            time.sleep(0.5)
    note = f"nothing to show: __consumer_offsets on {servers} has no records since 1h in partition 0\n"
    assert (ended.status, ended.out, ended.err) == (0, "", note)


def committed(cluster, group_id, offset):
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.alter_group_offsets(group_id, {TopicPartition("orders", 0): OffsetAndMetadata(offset, "", -1)})


def test_the_lag_of_an_offset_after_the_end_is_negative_as_in_kafka(quorate):
    with EmbeddedCluster(seed=1) as cluster:
        cluster.create_topic("orders")
        committed(cluster, "ahead", 100)
        (row,) = json.loads(quorate("groups", "offsets", "-b", cluster.bootstrap_servers, "--json").out)
    assert (row["current_offset"], row["log_end_offset"], row["lag"]) == (100, 0, -100)


def test_watch_continues_after_a_restart_of_the_broker(quorate, monkeypatch):
    with EmbeddedCluster(seed=1) as cluster:
        steps = [
            lambda: cluster.stop_broker(1),
            lambda: (cluster.start_broker(1), committed(cluster, "second", 1)),
        ]

        def wait(seconds):
            if not steps:
                raise KeyboardInterrupt
            steps.pop(0)()

        monkeypatch.setattr("quorate.cli.groups.wait", wait)
        cluster.create_topic("orders")
        committed(cluster, "first", 1)
        live = ("groups", "list", "-b", cluster.bootstrap_servers, "--watch", "1", "--connect-timeout-ms", "500")
        ended = quorate(*live)
        cluster.stop_broker(1)
        unreachable = quorate(*live)
    assert ended.status == 130
    assert [line.split()[0] for line in ended.lines] == ["GROUP", "first", "GROUP", "first", "second"]
    assert re.fullmatch(r"error: 127\.0\.0\.1:\d+ \(PLAINTEXT\): .*ECONNREFUSED.*", ended.err.splitlines()[0])
    assert (unreachable.status, unreachable.out) == (1, "")
