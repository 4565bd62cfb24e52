"""`quorate decode -b`: a real broker, and unreachable brokers."""

import json
import re
import signal
import time
from contextlib import closing

import pytest

from quorate.cli.connection import CONNECTION_OPTIONS
from quorate.cli.errors import note
from quorate.cluster import EmbeddedCluster
from tests.broker.broker import free_ports


def commit(broker, group, *offsets):
    """Commit offsets of a group without members, for a topic of its own."""
    from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

    topic = f"topic-of-{group}"
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        if topic not in admin.list_topics():
            admin.create_topics([NewTopic(topic, 1, 1)])
    at = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group, enable_auto_commit=False)
    with closing(consumer):
        consumer.assign([at])
        for offset in offsets:
            consumer.commit({at: OffsetAndMetadata(offset, "", -1)})


@pytest.mark.oracle
def test_a_live_cluster_shows_the_same_as_its_log_directory(quorate, racked):
    commit(racked, "cli-live", 3, 5, 8)
    ended = quorate("decode", "-b", racked.bootstrap_servers, "--group", "cli-live", "--type", "OffsetCommit")
    assert (ended.status, ended.err) == (0, "")
    assert [json.loads(line)["value"]["offset"] for line in ended.lines] == [3, 5, 8]
    on_disk = quorate("decode", racked.log_dir, "--group", "cli-live", "--type", "OffsetCommit")
    assert ended.out == on_disk.out
    by_number = (
        "--partition",
        json.loads(ended.lines[0])["partition"],
        "--limit",
        2,
        "--group",
        "cli-live",
        "--format",
        "kafka",
    )
    assert len(quorate("decode", "-b", racked.bootstrap_servers, *by_number, "--type", "1").lines) == 2


@pytest.mark.oracle
def test_since_and_until_apply_to_a_live_cluster(quorate, racked):
    commit(racked, "cli-times", 1)
    time.sleep(0.01)
    middle = time.time_ns() // 1_000_000
    commit(racked, "cli-times", 2)
    options = ("decode", "-b", racked.bootstrap_servers, "--group", "cli-times", "--type", "OffsetCommit")
    before, since = quorate(*options, "--until", middle), quorate(*options, "--since", middle)
    assert [json.loads(line)["value"]["offset"] for line in before.lines] == [1]
    assert [json.loads(line)["value"]["offset"] for line in since.lines] == [2]
    assert quorate(*options, "--since", "1960-01-01").lines == [*before.lines, *since.lines]


@pytest.mark.oracle
def test_follow_runs_until_ctrl_c(start, racked):
    commit(racked, "cli-follow", 1)
    process = start("decode", "-b", racked.bootstrap_servers, "--follow", "--group", "cli-follow", "--type", "1")
    assert json.loads(process.stdout.readline())["value"]["offset"] == 1
    for offset in (2, 3):
        commit(racked, "cli-follow", offset)
        assert json.loads(process.stdout.readline())["value"]["offset"] == offset
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_follow_reports_a_lost_and_a_restored_connection_once(start):
    """With a real broker: tests/codecs/test_live.py."""
    properties = {"offsets.topic.num.partitions": 3}
    with EmbeddedCluster(brokers=1, properties=properties, seed=1) as cluster:
        commit(cluster, "cli-outage", 1)
        process = start("decode", "-b", cluster.bootstrap_servers, "--follow", "--group", "cli-outage", "--type", "1")
        assert json.loads(process.stdout.readline())["value"]["offset"] == 1
        cluster.stop_broker(1)
        lost = process.stderr.readline().decode()
        cluster.start_broker(1)
        back = process.stderr.readline().decode()
        commit(cluster, "cli-outage", 2)
        assert json.loads(process.stdout.readline())["value"]["offset"] == 2
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=300) == (b"", b"")
        where = f"{cluster.bootstrap_servers} (PLAINTEXT): "
        assert lost == where + (
            "connection lost to the leaders of 3 of 3 partitions; reading continues when they are back\n"
        )
        assert re.fullmatch(re.escape(where) + r"connected again after \d+ s\n", back)


@pytest.mark.oracle
def test_a_missing_partition_or_topic_is_an_error(quorate, racked):
    commit(racked, "cli-nothing", 1)
    server = ("decode", "-b", racked.bootstrap_servers)
    for options, complaint in (
        (("--partition", 99), "__consumer_offsets has partitions 0 to 2, not 99"),
        (("--topic", "__share_group_state"), "__share_group_state does not exist"),
    ):
        ended = quorate(*server, *options)
        assert (ended.status, ended.out) == (1, "")
        assert complaint in ended.err
        assert len(ended.err.splitlines()) == 1


@pytest.mark.oracle
def test_a_refused_login_does_not_show_the_password(start, racked, monkeypatch):
    monkeypatch.setenv("QUORATE_SASL_PASSWORD", "s3cret-pass")
    login = ("--security-protocol", "SASL_PLAINTEXT", "--sasl-mechanism", "PLAIN", "--sasl-plain-username", "u")
    done = start("decode", "-b", racked.bootstrap_servers, *login, "--connect-timeout-ms", 3000)
    out, err = done.communicate(timeout=300)
    assert (done.returncode, out) == (1, b"")
    assert err.startswith(b"error: ")
    assert b"SASL" in err
    assert b"s3cret-pass" not in err


def test_an_unreachable_broker_is_an_error_of_one_line(start):
    process = start("decode", "-b", f"127.0.0.1:{free_ports(1)[0]}", "--connect-timeout-ms", 1000)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, b"")
    assert err.startswith(b"error: 127.0.0.1:")
    assert b"within 1,000 ms" in err
    assert len(err.splitlines()) == 1


def test_connection_options_are_configs_of_kafka_python():
    from kafka import KafkaConsumer

    assert set(CONNECTION_OPTIONS) <= set(KafkaConsumer.DEFAULT_CONFIG)


def test_connection_options_are_passed_to_the_client(quorate, monkeypatch):
    given = {}

    def read_live(servers, **how):
        given.update(how, servers=servers)
        return iter(())

    monkeypatch.setattr("quorate.codecs.live.read_live", read_live)
    monkeypatch.setenv("QUORATE_SASL_PASSWORD", "s3cret")
    login = ["--security-protocol", "SASL_SSL", "--sasl-mechanism", "PLAIN", "--sasl-plain-username", "u"]
    tls = ["--ssl-cafile", "ca.pem", "--no-ssl-check-hostname"]
    assert (
        quorate(
            "decode", "-b", "a:1,b:2", "--partition", 4, "--isolation-level", "read_uncommitted", *login, *tls
        ).status
        == 0
    )
    assert given == {
        "servers": ["a:1", "b:2"],
        "topic": "__consumer_offsets",
        "partitions": (4,),
        "follow": False,
        "isolation_level": "read_uncommitted",
        "since_ms": None,
        "connect_timeout_ms": 10_000,
        "on_notice": note,
        "client_id": "quorate",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "s3cret",
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
    }
