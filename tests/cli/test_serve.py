"""`quorate serve`: real clients reach it, Prometheus reads it, signals end it, and what cannot be is said in one line."""

import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.integration.over_http import got


@contextmanager
def served(start, *arguments: object) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The process and what it prints with --json."""
    process = start("serve", "--port", 0, "--json", *arguments)
    try:
        yield process, json.loads(process.stdout.readline() or process.stderr.read().decode())
    finally:
        process.kill()
        process.communicate()


def test_clients_use_it_prometheus_reads_it_and_sigterm_ends_it(start):
    with served(start, "--racks", "a,b,c", "--metrics-port", 0, "--kafka-version", "4.0.2") as (process, where):
        assert [(one["id"], one["rack"]) for one in where["brokers"]] == [(1, "a"), (2, "b"), (3, "c")]
        assert where["version"] == "4.0.2"
        config = where["client_config"]
        producer = KafkaProducer(**config)
        producer.send("orders", b"one", partition=4).get(300)
        producer.close()
        consumer = KafkaConsumer(
            "orders", **config, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=300_000
        )
        assert next(consumer).value == b"one"
        consumer.commit()

        status, text = got(f"{where['http']}/metrics")
        assert status == 200
        for expected in (
            r'quorate_broker_up{broker="2",rack="b"} 1\.0',
            r'quorate_requests_total{api="Produce",broker="\d",version="\d+"} [1-9]',
            r'quorate_request_seconds_bucket{api="Produce",broker="\d",le="\+Inf"} [1-9]',
            r'quorate_received_bytes_total{broker="1"} [1-9]',
            r'quorate_sent_bytes_total{broker="1"} [1-9]',
            r'quorate_connections{broker="\d"} [1-9]',
            r'quorate_groups{kind="Classic",state="Stable"} 1\.0',
            r'quorate_log_end_offset{partition="4",topic="orders"} 1\.0',
            r'quorate_log_start_offset{partition="4",topic="orders"} 0\.0',
            r"quorate_failures_total 0\.0",
        ):
            assert re.search(f"^{expected}", text, re.MULTILINE), expected
        assert got(f"{where['http']}/health") == (200, '{"status": "ok"}\n')
        assert got(f"{where['http']}/ready") == (200, '{"status": "ok"}\n')
        assert got(f"{where['http']}/nothing")[0] == 404

        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (0, b"", b"stopping\n")
        consumer.close(autocommit=False)


def test_ctrl_c_ends_it_too_and_logins_are_asked_for(start):
    with served(start, "--security", "SASL_SSL", "--password", "secret") as (process, where):
        config = where["client_config"]
        producer = KafkaProducer(**config)
        producer.send("orders", b"one").get(300)
        producer.close()
        assert config["sasl_plain_password"] == "secret"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
        assert process.returncode == 0


def test_what_is_in_a_directory_is_there_the_next_time(start, tmp_path):
    with served(start, "--racks", "a,b", "--data", tmp_path / "kafka") as (process, where):
        producer = KafkaProducer(**where["client_config"])
        producer.send("orders", b"kept", partition=3).get(300)
        producer.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        assert process.returncode == 0
    with served(start, "--racks", "a,b", "--data", tmp_path / "kafka") as (_, where):
        consumer = KafkaConsumer(
            "orders", **where["client_config"], auto_offset_reset="earliest", consumer_timeout_ms=300_000
        )
        assert [next(consumer).value] == [b"kept"]
        consumer.close()


def test_damaged_data_refuses_the_start_until_the_loss_is_accepted(start, quorate, tmp_path):
    """Issue 14: a start said "ready", and nothing else."""
    data = tmp_path / "data"
    with served(start, "--data", data) as (process, where):
        producer = KafkaProducer(bootstrap_servers=where["bootstrap_servers"])
        producer.send("orders", b"one", partition=0).get(10)
        producer.close()
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    segment = data / "broker-1" / "orders-0" / f"{0:020}.log"
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refused = quorate("serve", "--port", 0, "--data", data)
    assert refused.status == 1
    assert refused.err.startswith(f"error: {segment}, position 0: the batch has CRC ")
    assert "the records at offset 0 would be lost; " in refused.err
    assert "--accept-data-loss" in refused.err
    with served(start, "--data", data, "--accept-data-loss") as (process, where):
        assert where["brokers"]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert f"{segment}, position 0: " in err.decode()
    assert "the records at offset 0 are lost; the damaged file is kept in " in err.decode()
    (kept,) = data.glob("damaged-*/broker-1/orders-0/*.log")
    assert kept.read_bytes() == content[:-1] + bytes([content[-1] ^ 1])
    with served(start, "--data", data) as (_, where):
        assert where["brokers"]


def test_a_directory_that_another_process_uses_is_refused(start, quorate, tmp_path):
    with served(start, "--data", tmp_path / "kafka"):
        ended = quorate("serve", "--port", 0, "--data", tmp_path / "kafka")
        assert ended.status == 1
        assert ended.err.startswith(f"error: {tmp_path / 'kafka'}")


# ---- what cannot be


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def test_a_port_that_is_taken(quorate, taken):
    ended = quorate("serve", "--port", taken)
    assert ended.status == 1
    first, remedy = ended.err.splitlines()
    assert first == f"error: broker 1 cannot listen on 127.0.0.1:{taken}: that port is taken; choose another"
    assert remedy == "       other ports: --port N; free ones: --port 0"


def test_a_port_for_metrics_that_is_taken(quorate, taken):
    ended = quorate("serve", "--port", 0, "--metrics-port", taken)
    assert ended.status == 1
    assert ended.err.splitlines()[:2] == [
        f"error: --metrics-port {taken} of 127.0.0.1: it is taken",
        "       choose another, or a free one: --metrics-port 0",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kafka-version", "2.8.0"], "an embedded cluster cannot be Kafka 2.8.0: use 4.3.1, or another of 3.9, 4.0"),
        (["--kafka-version", "new"], "kafka.version cannot be 'new'"),
        (["--racks", "a,,b"], "--racks a,,b: a name is missing"),
        (["--brokers", "2", "--racks", "a,b,c"], "--brokers 2 are too few for 3 racks"),
        (["--property", "x"], "--property x: is not KEY=VALUE"),
        (
            ["--property", "group.max.size=many"],
            "Invalid value many for configuration group.max.size: Not a number of type INT",
        ),
        (
            ["--property", "connections.max.idle.ms=long"],
            "Invalid value long for configuration connections.max.idle.ms",
        ),
        (["--host", "0.0.0.0"], "--host 0.0.0.0: clients cannot connect to that"),
        (["--host", "192.0.2.1"], "broker 1 cannot listen on 192.0.2.1:9092: that is no address of this machine"),
        (["--data", "/proc/x"], "/proc/x: No such file or directory"),
        (["--password", "x"], "--password: clients need none with --security PLAINTEXT"),
        (
            ["--port", "0", "--property", "offsets.topic.num.partitions=0"],
            "Invalid value 0 for configuration offsets.topic.num.partitions: Value must be at least 1",
        ),
        (["--port", "65535", "--brokers", "3"], "--port 65535: there are no 3 ports from there on"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(quorate, arguments, said):
    before = set(threading.enumerate())  # the clusters that tests of this session share are among them
    ended = quorate("serve", *arguments)
    assert ended.status == 1
    assert ended.err.splitlines()[0].startswith(f"error: {said}")
    assert "Traceback" not in ended.err
    assert "quorate-cluster" not in {thread.name for thread in set(threading.enumerate()) - before}
