"""`quorate serve`: real clients, metrics, signals, and errors in options."""

import json
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from quorate.cluster.waiting import wait_for
from tests.cli.conftest import COMMAND
from tests.integration.over_http import got


@contextmanager
def served(start, *arguments: object) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the process and its output with --json."""
    process = start("serve", "--port", 0, "--json", *arguments)
    try:
        yield process, json.loads(process.stdout.readline() or process.stderr.read().decode())
    finally:
        process.kill()
        process.communicate()


def test_clients_connect_metrics_are_served_and_sigterm_ends_it(start):
    with served(start, "--racks", "a,b,c", "--metrics-port", 0, "--kafka-version", "4.0.2") as (process, where):
        assert [(broker["id"], broker["rack"]) for broker in where["brokers"]] == [(1, "a"), (2, "b"), (3, "c")]
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


def test_ctrl_c_ends_a_cluster_with_sasl(start):
    with served(start, "--security", "SASL_SSL", "--password", "secret") as (process, where):
        config = where["client_config"]
        producer = KafkaProducer(**config)
        producer.send("orders", b"one").get(300)
        producer.close()
        assert config["sasl_plain_password"] == "secret"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
        assert process.returncode == 0


def test_records_in_a_data_directory_are_kept(start, tmp_path):
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


def test_a_start_with_damaged_data_needs_accept_data_loss(start, quorate, tmp_path):
    """Issue 14: the cluster started without an error."""
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


@pytest.mark.parametrize(
    ("advertise", "addresses"),
    [
        ("kafka:19092", ["kafka:19092", "kafka:19093"]),
        ("[::1]:19092", ["[::1]:19092", "[::1]:19093"]),
        ("[::1]", ["[::1]:PORT", "[::1]:PORT"]),
        ("::1", ["[::1]:PORT", "[::1]:PORT"]),
        ("kafka", ["kafka:PORT", "kafka:PORT"]),
    ],
)
def test_clients_receive_the_advertised_address(start, advertise, addresses):
    with served(start, "--brokers", 2, "--advertise", advertise) as (_, where):
        found = [re.sub(r"\b(?!1909)\d{4,}$", "PORT", broker["address"]) for broker in where["brokers"]]
        assert found == addresses


def test_options_are_read_from_the_environment_and_the_command_line_takes_precedence(start, monkeypatch):
    monkeypatch.setenv("QUORATE_SERVE_RACKS", "a,b")
    monkeypatch.setenv("QUORATE_SERVE_ADVERTISE", "kafka:19092")
    monkeypatch.setenv("QUORATE_SERVE_PROPERTIES", "num.partitions=2 log.retention.ms=60000")
    monkeypatch.setenv("QUORATE_SERVE_DATA", "")
    with served(start) as (_, where):
        assert [(broker["rack"], broker["address"]) for broker in where["brokers"]] == [
            ("a", "kafka:19092"),
            ("b", "kafka:19093"),
        ]
    with served(start, "--advertise", "127.0.0.1", "--racks", "c") as (_, where):
        assert [broker["rack"] for broker in where["brokers"]] == ["c"]
        producer = KafkaProducer(**where["client_config"])
        assert len(producer.partitions_for("orders")) == 2
        producer.close()


# ---- errors


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_configs_that_kafka_does_not_have_are_named_on_stderr(start):
    process = start("serve", "--port", 0, "--property", "retention.ms=5", "--property", "nope=1")
    assert b"ready" in process.stdout.readline()
    process.terminate()
    _, notes = process.communicate(timeout=60)
    assert [line for line in notes.decode().splitlines() if "properties" in line] == [
        "properties: Kafka has no config retention.ms, and brokers ignore it; did you mean log.retention.ms?",
        "properties: Kafka has no config nope, and brokers ignore it",
    ]


def test_a_port_in_use_is_an_error(quorate, used_port):
    ended = quorate("serve", "--port", used_port)
    assert ended.status == 1
    first, remedy = ended.err.splitlines()
    assert first == (
        f"error: broker 1 cannot listen on 127.0.0.1:{used_port}: the port is already in use; choose another"
    )
    assert remedy == "       choose other ports: --port N; or free ports: --port 0"


def test_a_metrics_port_in_use_is_an_error(quorate, used_port):
    ended = quorate("serve", "--port", 0, "--metrics-port", used_port)
    assert ended.status == 1
    assert ended.err.splitlines()[:2] == [
        f"error: --metrics-port {used_port} of 127.0.0.1: port in use",
        "       choose another port, or a free one: --metrics-port 0",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kafka-version", "2.8.0"], "an embedded cluster cannot run Kafka 2.8.0: use 4.4.0, or another of 3.9, 4.0"),
        (["--kafka-version", "new"], "invalid value 'new' for kafka.version"),
        (["--racks", "a,,b"], "--racks a,,b: a name is missing"),
        (["--brokers", "2", "--racks", "a,b,c"], "--brokers 2: too few for 3 racks"),
        (["--brokers", "99999999999999999999"], "--brokers 99999999999999999999: a cluster has at most 1,000"),
        (["--property", "x"], "--property x: is not KEY=VALUE"),
        (
            ["--property", "group.max.size=many"],
            "Invalid value many for configuration group.max.size: Not a number of type INT",
        ),
        (
            ["--property", "connections.max.idle.ms=long"],
            "Invalid value long for configuration connections.max.idle.ms",
        ),
        (["--host", ""], "--host is empty"),
        (["--advertise", ""], "--advertise is empty"),
        (["--data", ""], "--data is empty"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0: clients cannot connect to this address"),
        (["--advertise", "kafka:many"], "--advertise kafka:many: is not HOST or HOST:PORT"),
        (
            ["--advertise", "kafka:65535", "--brokers", "2"],
            "--advertise kafka:65535: the ports of 2 brokers have to be from 1 to 65535",
        ),
        (["--host", "192.0.2.1"], "broker 1 cannot listen on 192.0.2.1:9092: not an address of this machine"),
        (["--data", "/proc/x"], "/proc/x: No such file or directory"),
        (["--password", "x"], "--password has no effect with --security PLAINTEXT"),
        (
            ["--port", "0", "--property", "offsets.topic.num.partitions=0"],
            "Invalid value 0 for configuration offsets.topic.num.partitions: Value must be at least 1",
        ),
        (["--port", "65535", "--brokers", "3"], "--port 65535: fewer than 3 ports from there up to 65535"),
    ],
)
def test_wrong_options_are_an_error(quorate, arguments, said):
    before = set(threading.enumerate())  # includes clusters that tests of this session share
    ended = quorate("serve", *arguments)
    assert ended.status == 1
    assert ended.err.splitlines()[0].startswith(f"error: {said}")
    assert "Traceback" not in ended.err
    assert "quorate-cluster" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_a_limit_of_open_files_is_an_error_with_the_way_to_raise_it():
    command = f"ulimit -n 100; exec {COMMAND} serve --port 0 --brokers 200"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: broker \d+ cannot listen: this process has too many open files\n +raise the limit, .*`ulimit -n.*\n",
        done.stderr,
    )


PLUG_IN = """
class Mine:
    name = "mine"

    def assign(self, group_spec, topic_describer):
        last = max(group_spec.member_ids)
        topics = group_spec.member_subscription(last).subscribed_topic_ids
        return {last: {topic_id: range(topic_describer.num_partitions(topic_id)) for topic_id in topics}}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Create a project with an assignor of ten lines, and a folder in which it is installed."""
    (tmp_path / "ten_lines.py").write_text(PLUG_IN)
    site = tmp_path / "site"
    info = site / "mine-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "ten_lines.py").write_text(PLUG_IN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[quorate.server_assignors]\nmine = ten_lines:Mine\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    return tmp_path


@pytest.mark.parametrize("assignor", ["mine", "ten_lines:Mine"])
def test_a_librdkafka_group_uses_the_assignor_of_an_empty_project(start, project, assignor, monkeypatch):
    if ":" in assignor:
        monkeypatch.delenv("PYTHONPATH")
    monkeypatch.chdir(project)
    assignors = f"group.consumer.assignors=uniform,{assignor}"
    with served(start, "--property", assignors) as (_, where):
        config = {
            "bootstrap.servers": where["client_config"]["bootstrap_servers"],
            "group.id": "g",
            "group.protocol": "consumer",
            "group.remote.assignor": "mine",
        }
        producer = Producer({"bootstrap.servers": config["bootstrap.servers"]})
        producer.produce("orders", b"one")
        assert producer.flush(300) == 0
        consumers = [Consumer(config) for _ in range(2)]
        for consumer in consumers:
            consumer.subscribe(["orders"])

        def counts():
            for consumer in consumers:
                consumer.poll(0.1)
            return sorted(len(consumer.assignment()) for consumer in consumers) == [0, 6]

        wait_for("one member has all partitions", counts, 300_000)
        for consumer in consumers:
            consumer.close()


@pytest.mark.parametrize(
    ("assignor", "complaint"),
    [
        ("mine", "Class mine cannot be found; valid values for group.consumer.assignors: uniform, range, "
                 "rack-aware-uniform, lag-aware, or MODULE:CLASS"),
        ("ten_lines:Gone", "group.consumer.assignors: cannot load ten_lines:Gone: AttributeError"),
        ("no_such:Thing", "group.consumer.assignors: cannot load no_such:Thing: ModuleNotFoundError"),
    ],
)  # fmt: skip
def test_an_assignor_that_does_not_load_is_refused(start, project, assignor, complaint, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    process = start("serve", "--port", 0, "--property", f"group.consumer.assignors={assignor}", cwd=project)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, b"")
    assert err.decode().startswith(f"error: {complaint}")
    assert b"Traceback" not in err
