"""`quorate cluster` on Kafka brokers: a lab outlives its command, and later commands find it."""

import json
import os
import signal
import subprocess
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from quorate.cli.main import main
from quorate.cluster.waiting import wait_for
from quorate.integration import ClusterError, KafkaCluster
from quorate.integration.containers import cluster as cluster_module
from quorate.integration.containers.engine import LAB, engine
from quorate.integration.containers.lab import lab_names, remove_lab
from tests.integration.limits import LIMIT_MS

COMMAND = str(Path(sysconfig.get_path("scripts")) / "quorate")
ENVIRONMENT = os.environ | {"NO_COLOR": "1", "TERM": "dumb"}
PATIENCE_S = 300


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


def quorate(*arguments: str) -> Ended:
    """Run the command. It keeps no state between calls; the process of `up` ends before the lab."""
    if arguments[:2] == ("cluster", "up"):
        arguments = (*arguments, "--runtime", "docker")
        done = subprocess.run(
            [COMMAND, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        return Ended(done.returncode, done.stdout, done.stderr)
    ended = CliRunner(catch_exceptions=False).invoke(main, arguments, env={"NO_COLOR": "1"})
    return Ended(ended.exit_code, ended.stdout, ended.stderr)


def things(name: str) -> list[Any]:
    """Whatever the engine has of a lab."""
    chosen = {"label": f"{LAB}={name}"}
    client = engine()
    return [
        *client.containers.list(all=True, filters=chosen, ignore_removed=True),
        *client.networks.list(filters=chosen),
        *client.volumes.list(filters=chosen),
    ]


@pytest.fixture
def name() -> Iterator[str]:
    """Return a unique name, and remove the lab of that name afterwards."""
    chosen = f"test-{uuid.uuid4().hex[:8]}"
    yield chosen
    remove_lab(chosen)


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    """Start a lab with the command, and return its name."""
    chosen = f"test-{uuid.uuid4().hex[:8]}"
    try:
        ended = quorate("cluster", "up", "--name", chosen, "--property", "log.retention.ms=86400000")
        assert ended.status == 0, ended.err
        yield chosen
    finally:
        remove_lab(chosen)


@pytest.fixture
def on(lab: str) -> Callable[..., Ended]:
    """Run a command of `quorate cluster` on the lab."""

    def run(command: str, *arguments: str) -> Ended:
        return quorate("cluster", command, "--name", lab, *arguments)

    return run


@pytest.fixture
def all_up_afterwards(lab: str) -> Iterator[None]:
    """Undo what a test has stopped or cut, also if it fails."""
    yield
    with closing(KafkaCluster.attach(lab)) as cluster:
        cluster.heal()
        if any(broker.state != "running" for broker in cluster.brokers):
            cluster.start_all()


def status(on: Callable[..., Ended]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(on("status", "--json").out)
    return found


def states(on: Callable[..., Ended]) -> list[str]:
    return [broker["state"] for broker in status(on)["brokers"]]


def test_up_says_where_the_brokers_are_and_what_to_try(on: Callable[..., Ended]) -> None:
    shown = status(on)
    assert [(broker["id"], broker["rack"], broker["state"]) for broker in shown["brokers"]] == [
        (1, "a", "running"),
        (2, "b", "running"),
        (3, "c", "running"),
    ]
    assert shown["controller"] in (1, 2, 3)
    assert sum(broker["coordinates"] for broker in shown["brokers"]) == 4  # partitions of __consumer_offsets
    again = on("up")  # which has nothing to do
    assert again.status == 0
    assert "already up" in again.out.splitlines()[0]
    assert f"bootstrap servers: {shown['bootstrap_servers']}\n" in again.out
    assert f"quorate decode -b {shown['brokers'][0]['address']} --follow" in again.out
    assert status(on) == shown


def test_up_does_not_pass_off_a_lab_as_another(on: Callable[..., Ended], lab: str) -> None:
    ended = on("up", "--racks", "a,b", "--version", "4.0.2")
    assert (ended.status, ended.out) == (1, "")
    first, *remedy = ended.err.splitlines()
    assert first == f"error: lab {lab} already exists, with 3 brokers, racks a,b,c, Kafka 4.3.1" or (
        first == f"error: lab {lab} already exists, with racks a,b,c, Kafka 4.3.1"
    )
    assert any(f"quorate cluster down --name {lab}" in line for line in remedy)


def test_ports_are_those_of_this_machine_alone(lab: str) -> None:
    for container in engine().containers.list(filters={"label": f"{LAB}={lab}"}):
        published = [one for port in container.ports.values() for one in port or []]
        assert [one["HostIp"] for one in published] == ["127.0.0.1"]


def test_topics_come_into_being_when_they_are_written_to(on: Callable[..., Ended], lab: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=status(on)["bootstrap_servers"])) as producer:
        producer.send("orders", b"x").get(30)
    with closing(KafkaCluster.attach(lab)) as cluster:
        (topic,) = cluster.topology("orders").topics
        assert topic.partitions == 6
        assert all(len(set(racks)) == 2 for racks in topic.racks)
        cluster.delete_topic("orders")


def test_a_broker_moves_to_another_rack_and_keeps_address_and_data(on: Callable[..., Ended], lab: str) -> None:
    before = status(on)
    topic = f"kept-{uuid.uuid4()}"  # a second attempt needs another one
    with closing(KafkaCluster.attach(lab)) as cluster:
        cluster.create_topic(topic, assignment=[[2]])
        with closing(KafkaProducer(**cluster.client_config)) as producer:
            producer.send(topic, b"still here").get(30)
    ended = on("restart-broker", "2", "--rack", "c")
    assert ended.status == 0, ended.err
    address = before["brokers"][1]["address"]
    assert ended.out.startswith(f"broker 2 is up in rack c at {address}, Kafka 4.3.1 (")
    after = status(on)
    assert [broker["rack"] for broker in after["brokers"]] == ["a", "c", "c"]
    assert after["bootstrap_servers"] == before["bootstrap_servers"]
    config: dict[str, Any] = {
        "bootstrap_servers": address,
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 30_000,
    }

    def first() -> bytes | None:
        with closing(KafkaConsumer(topic, **config)) as consumer:
            return next((record.value for record in consumer), None)

    # One that connected right after the restart once fetched nothing in 300 s.
    assert wait_for("a consumer reads the record", first, LIMIT_MS) == b"still here"


@pytest.mark.usefixtures("all_up_afterwards")
def test_brokers_stop_and_come_back_in_their_latest_rack(on: Callable[..., Ended]) -> None:
    rack = status(on)["brokers"][1]["rack"]  # not that of `up`, after the test before
    assert on("stop-broker", "2").out.startswith("broker 2 is stopped")
    assert states(on) == ["running", "stopped", "running"]
    refused = on("start-broker", "1")
    assert refused.status == 1
    assert "broker 1 is running" in refused.err
    assert f"broker 2 is up in rack {rack}" in on("start-broker", "2").out
    assert states(on) == ["running"] * 3


def test_python_gets_the_whole_cluster_and_leaves_it_there(on: Callable[..., Ended], lab: str) -> None:
    group = f"group-{lab}"
    with KafkaCluster.attach(lab) as cluster:
        assert cluster.lab_name == lab
        cluster.create_topic(group, partitions=2)
        cluster.admin.alter_group_offsets(group, {TopicPartition(group, 0): OffsetAndMetadata(7, "", -1)})
        records = [entry.record for entry in cluster.read_offsets_topic()]
        assert any(getattr(record.key, "group", "") == group for record in records)
    assert states(on) == ["running"] * 3
    decoded = quorate("decode", "-b", status(on)["bootstrap_servers"], "--group", group, "--format", "jsonl")
    assert [json.loads(line)["value"]["offset"] for line in decoded.out.splitlines()] == [7]


@pytest.mark.usefixtures("all_up_afterwards")
def test_a_frozen_broker_is_fenced_and_resumes(on: Callable[..., Ended]) -> None:
    assert on("pause-broker", "2").out.startswith("broker 2 is paused")
    wait_for("the others lead", lambda: status(on)["brokers"][1]["leads"] == 0, LIMIT_MS)
    assert states(on) == ["running", "paused", "running"]
    assert "broker 2 is paused" in on("start-broker", "2").err
    assert on("resume-broker", "2").out.startswith("broker 2 is resumed")
    wait_for("it takes part again", lambda: states(on) == ["running"] * 3, LIMIT_MS)


@pytest.mark.usefixtures("all_up_afterwards")
@pytest.mark.long
def test_up_starts_what_is_stopped_even_if_it_is_all(on: Callable[..., Ended]) -> None:
    before = status(on)["bootstrap_servers"]
    killed = on("kill-broker", "1", "2", "3")
    assert killed.out.splitlines()[0].startswith("broker 1 is killed")
    assert states(on) == ["stopped"] * 3
    alone = on("start-broker", "1")
    assert alone.status == 1
    assert "start them together: quorate cluster start-broker 1 2 3" in alone.err
    again = on("up")
    assert again.status == 0, again.err
    assert "up again after" in again.out.splitlines()[0]
    assert (states(on), status(on)["bootstrap_servers"]) == (["running"] * 3, before)


@pytest.mark.usefixtures("all_up_afterwards")
def test_a_cut_is_healed_by_another_process(on: Callable[..., Ended]) -> None:
    assert "broker 3 is cut off from broker 1, 2" in on("cut", "3", "1", "2").out
    wait_for("broker 3 is fenced", lambda: states(on)[2] == "fenced", LIMIT_MS)
    assert on("heal").out.startswith("all brokers are connected again")
    wait_for("it takes part again", lambda: states(on)[2] == "running", LIMIT_MS)


def test_a_broker_shows_its_log(on: Callable[..., Ended]) -> None:
    logged = on("logs", "2", "--lines", "3")
    assert len(logged.out.splitlines()) == 3
    assert "broker 7 does not exist; brokers: 1, 2, 3" in on("logs", "7").err


def test_a_broker_cannot_be_cut_off_from_itself(on: Callable[..., Ended]) -> None:
    assert "broker 1 cannot be cut off from itself" in on("cut", "1", "1").err


def test_a_downgrade_below_the_version_of_the_data_says_how_to_go_back(name: str) -> None:
    started = quorate("cluster", "up", "--name", name, "--brokers", "1", "--racks", "a", "--property", "nope=1")
    assert started.status == 0
    assert "properties: Kafka has no config nope, and brokers ignore it" in started.err
    ended = quorate("cluster", "upgrade", "4.0.2", "--name", name)
    assert ended.status == 1
    assert f"to go back: quorate cluster upgrade 4.3.1 --name {name}" in ended.err
    assert quorate("cluster", "upgrade", "4.3.1", "--name", name).status == 0


@pytest.mark.long
def test_a_second_start_of_the_same_name_does_not_harm_the_first(
    on: Callable[..., Ended], lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if both had looked before either began.
    monkeypatch.setattr(cluster_module, "check_name", lambda _: None)
    before = status(on)
    with pytest.raises(ClusterError, match="network cannot be created"):
        KafkaCluster(lab=lab, racks=["a"])
    assert status(on) == before
    with KafkaCluster.attach(lab):
        monkeypatch.undo()
        with pytest.raises(ClusterError, match=f"a lab named {lab} already exists"):
            KafkaCluster(lab=lab, racks=["a"])


def test_nothing_is_left_of_a_lab_that_did_not_come_up(name: str) -> None:
    ended = quorate("cluster", "up", "--name", name, "--racks", "a", "--property", "log.retention.hours=soon")
    assert (ended.status, ended.out) == (1, "")
    assert "error: broker-1 exited with status 1" in ended.err
    assert "ConfigException" in ended.err
    assert things(name) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_lab_whose_start_was_interrupted(name: str, how: signal.Signals) -> None:
    process = subprocess.Popen(
        [COMMAND, "cluster", "up", "--name", name, "--racks", "a", "--runtime", "docker"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("waiting for brokers"):
            break
    process.send_signal(how)
    out, err = process.communicate(timeout=300)
    assert process.returncode == (130 if how is signal.SIGINT else -how)
    assert (out, "Traceback" in err) == ("", False)
    wait_for("all of it is removed", lambda: things(name) == [], LIMIT_MS)


def test_a_port_in_use_is_named(on: Callable[..., Ended], lab: str, name: str) -> None:
    port = status(on)["brokers"][0]["address"].partition(":")[2]
    ended = quorate("cluster", "up", "--name", name, "--racks", "a", "--port", port)
    assert (ended.status, ended.out) == (1, "")
    assert f"error: broker-1 cannot be started: port {port} of 127.0.0.1 is in use" in ended.err
    assert things(name) == []


def test_a_secure_lab_of_an_older_version_moves_on_without_a_rack_and_keeps_its_password(
    name: str, tmp_path: Path
) -> None:
    options = ("--racks", "r", "--version", "4.0.2", "--sasl", "--heap-mb", "256")
    assert quorate("cluster", "up", "--name", name, *options).status == 0
    moved = quorate("cluster", "restart-broker", "1", "--version", "4.3.1", "--rack", "-", "--name", name)
    assert "broker 1 is up without a rack at 127.0.0.1:" in moved.out
    again = quorate("cluster", "restart-broker", "1", "--name", name)
    assert again.out.partition(" (")[0] == moved.out.partition(" (")[0]  # Kafka 4.3.1 without a rack, as it was
    shown = json.loads(quorate("cluster", "status", "--name", name, "--json").out)
    assert (shown["version"], shown["brokers"][0]["rack"]) == ("4.3.1", None)

    certificate = quorate("cluster", "certificate", "--name", name).out
    (tmp_path / "ca.pem").write_text(certificate)
    config = shown["security"] | {"ssl_cafile": str(tmp_path / "ca.pem")}
    assert config.pop("certificate") == certificate
    with closing(KafkaAdminClient(bootstrap_servers=shown["bootstrap_servers"], **config)) as admin:
        assert [broker["rack"] for broker in admin.describe_cluster()["brokers"]] == [None]
    with pytest.raises(KafkaError):
        KafkaConsumer(
            **{**config, "sasl_plain_password": "wrong"},
            bootstrap_servers=shown["bootstrap_servers"],
            bootstrap_timeout_ms=3000,
        ).topics()

    gone = quorate("cluster", "down", "--name", name)
    assert (gone.status, gone.out) == (0, f"{name}: removed, with its data\n")
    assert things(name) == []
    assert name not in quorate("cluster", "list").out
    nothing = quorate("cluster", "down", "--name", name)
    assert (nothing.status, nothing.out) == (0, "")
    assert nothing.err.startswith(f"lab {name} does not exist")
    missing = quorate("cluster", "status", "--name", name)
    assert (missing.status, missing.out) == (1, "")
    assert missing.err.startswith(f"error: lab {name} does not exist")


def test_down_all_removes_every_lab_also_what_is_left_of_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine().volumes.create(f"quorate-{name}-broker-1", labels={LAB: name})
    assert name in lab_names()
    remains = quorate("cluster", "status", "--name", name)
    assert f"the lab {name} is incomplete" in remains.err
    monkeypatch.setattr(
        "quorate.integration.containers.lab.lab_names", lambda: [name]
    )  # other labs may exist on this machine
    ended = quorate("cluster", "down", "--all")
    assert (ended.status, ended.out) == (0, f"{name}: removed, with its data\n")
    assert things(name) == []


def test_a_lab_of_another_version_of_quorate_is_reported_and_can_be_removed(name: str) -> None:
    engine().networks.create(f"quorate-{name}", labels={LAB: name, "io.quorate.plan": '{"brokers": 3}'})
    shown = quorate("cluster", "status", "--name", name)
    assert (shown.status, shown.err.splitlines()[0]) == (
        1,
        f"error: the lab {name} was started by another version of quorate",
    )
    assert f"incomplete; to remove it: quorate cluster down --name {name}" in quorate("cluster", "list").out
    assert quorate("cluster", "down", "--name", name).status == 0
    assert things(name) == []


@pytest.mark.usefixtures("all_up_afterwards")
def test_status_does_not_wait_long_for_brokers_that_do_not_respond(on: Callable[..., Ended]) -> None:
    for change in (("cut", "1"), ("pause-broker", "2", "3")):
        done = on(*change)
        assert done.status == 0, done.err
    began = time.monotonic()
    shown = status(on)
    assert time.monotonic() - began < 60
    assert (shown["answers"], [broker["state"] for broker in shown["brokers"]]) == (
        False,
        ["running", "paused", "paused"],
    )
