"""`quorate cluster` on embedded labs, which run in a background process.

Labs in containers: tests/integration/test_lab.py.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, closing
from types import FunctionType

import pytest
from kafka import KafkaConsumer, KafkaProducer

from quorate.cluster.waiting import wait_for
from quorate.integration import ClusterError, EmbeddedLab, embedded_lab, embedded_lab_process
from quorate.integration.embedded_lab import LabPlan, embedded_lab_names, is_alive, lab_folder


@pytest.fixture
def labs(tmp_path, monkeypatch, no_engine, quorate):
    """The command, with a folder for labs, which are removed after the test."""
    monkeypatch.setenv("QUORATE_LABS", str(tmp_path / "labs"))
    yield quorate
    for name in embedded_lab_names():
        EmbeddedLab.remove(name)


def _enable_interrupts():
    """Restore Ctrl-C, which a shell ignores for tests in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def fields(status):
    return [(broker["id"], broker["rack"], broker["version"], broker["state"]) for broker in status["brokers"]]


def test_a_lab_runs_between_commands_and_its_data_outlives_its_process(labs):
    up = json.loads(labs("cluster", "up", "--racks", "a,b", "--version", "4.0.2", "--json").out)
    assert (up["image"], fields(up)) == ("embedded", [(1, "a", "4.0.2", "running"), (2, "b", "4.0.2", "running")])
    producer = KafkaProducer(bootstrap_servers=up["bootstrap_servers"])
    producer.send("orders", b"kept", partition=5).get(300)
    producer.close()

    assert labs("cluster", "restart-broker", "2", "--rack", "c").out.startswith("broker 2 is up in rack c at ")
    assert labs("cluster", "stop-broker", "1").out == "broker 1 is stopped\n"
    found = json.loads(labs("cluster", "status", "--json").out)
    assert [(broker["rack"], broker["state"]) for broker in found["brokers"]] == [("a", "stopped"), ("c", "running")]
    assert labs("cluster", "up").out.startswith("lab: up again after ")
    assert labs("cluster", "upgrade", "4.4.0").out == "lab: all brokers run 4.4.0\n"
    refused = labs("cluster", "upgrade", "3.9.2")
    assert refused.err.startswith(
        "error: cannot change to version 3.9.2: the cluster has group.version 1, Kafka 3.9.2 supports no such feature"
    )
    assert "2 of 2 running" in labs("cluster", "list").out

    os.kill(int((lab_folder("lab") / "lock").read_text()), signal.SIGKILL)
    wait_for("the process is gone", lambda: not is_alive("lab"), 5_000)
    ended = labs("cluster", "status")
    assert ended.err.splitlines() == [
        "error: the process of the lab lab has ended",
        "       start it again with its data: quorate cluster up --name lab",
    ]
    assert "its process has ended" in labs("cluster", "list").out
    again = json.loads(labs("cluster", "up", "--json").out)
    assert again["bootstrap_servers"] == up["bootstrap_servers"]
    assert again["cluster_id"] == up["cluster_id"]
    assert fields(again) == [(1, "a", "4.4.0", "running"), (2, "c", "4.4.0", "running")]
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=again["bootstrap_servers"],
        auto_offset_reset="earliest",
        consumer_timeout_ms=300_000,
    )
    assert next(consumer).value == b"kept"
    consumer.close()

    assert labs("cluster", "down").out == "lab: removed, with its data\n"
    assert embedded_lab_names() == []
    assert not lab_folder("lab").exists()


def test_a_lab_with_damaged_data_starts_with_accept_data_loss(labs):
    up = json.loads(labs("cluster", "up", "--racks", "a", "--json").out)
    with closing(KafkaProducer(bootstrap_servers=up["bootstrap_servers"])) as producer:
        producer.send("orders", b"lost", partition=0).get(10)
    os.kill(int((lab_folder("lab") / "lock").read_text()), signal.SIGKILL)
    wait_for("the process is gone", lambda: not is_alive("lab"), 5_000)
    segment = lab_folder("lab") / "data" / "broker-1" / "orders-0" / f"{0:020}.log"
    segment.unlink()
    said = f"{segment}: the segment is missing; the records at offset 0 "
    assert labs("cluster", "up").err.startswith(f"error: {said}would be lost; ")
    accepted = labs("cluster", "up", "--accept-data-loss")
    assert f"{said}are lost" in accepted.err
    assert accepted.out.startswith("lab: up again ")


def test_clients_of_a_secure_lab_need_its_certificate_and_password(labs):
    up = json.loads(labs("cluster", "up", "--racks", "-", "--sasl", "--json").out)
    assert up["security"]["sasl_mechanism"] == "SCRAM-SHA-512"
    assert labs("cluster", "certificate").out == up["security"]["certificate"]
    with EmbeddedLab.attach("lab") as lab:
        lab.create_topic("t", partitions=2)
        assert lab.topology("t").topics[0].partitions == 2
    for path in lab_folder("lab").glob("*.json"):
        assert lab_folder("lab").stat().st_mode & 0o077 == 0 or path.stat().st_mode & 0o077 == 0


def test_an_existing_lab_is_not_replaced(labs):
    labs("cluster", "up", "--racks", "a")
    ended = labs("cluster", "up", "--racks", "a,b")
    assert ended.err.splitlines()[0] == "error: lab lab already exists, with racks a"
    ended = labs("cluster", "up", "--runtime", "docker")
    assert ended.err.splitlines()[0] == "error: lab lab already exists, and is embedded"
    ended = labs("cluster", "restart-broker", "1", "--version", "4.0.2")
    assert ended.err.splitlines()[0] == "error: all brokers of an embedded cluster have the same version"
    ended = labs("cluster", "restart-broker", "1", "--version", "new")
    assert ended.err.splitlines() == ["error: 'new' is not a version of Kafka: write it as 4.4.0"]
    ended = labs("cluster", "stop-broker", "7")
    assert (ended.status, ended.err) == (1, "error: broker 7 does not exist; brokers of this lab: 1\n")
    ended = labs("cluster", "logs", "7")
    assert ended.status == 1
    assert "broker 7" in ended.err.splitlines()[0]
    ended = labs("cluster", "cut", "1", "2", "3")
    assert ended.err.splitlines() == [
        "error: cannot cut broker 1 off from 2, 3 only: embedded brokers exchange no packets",
        "       cut it off from all other brokers, or, without naming brokers, from clients; "
        "real brokers (--runtime docker) can be cut off from each other",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--image", "x"], "--image is for labs in containers"),
        (["--heap-mb", "512"], "--heap-mb is for labs in containers"),
        (["--version", "2.0.0"], "an embedded cluster cannot run Kafka 2.0.0: use 4.4.0"),
        (["--name", "A B"], "a lab cannot be named 'A B'"),
        (["--property", "num.partitions=x"], "Invalid value x for configuration num.partitions"),
    ],
)
def test_a_failed_start_leaves_no_files(labs, arguments, said):
    ended = labs("cluster", "up", *arguments)
    assert ended.status == 1
    assert ended.err.splitlines()[0].startswith(f"error: {said}")
    assert not list(lab_folder().glob("*"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_lab_starts_if_up_is_killed_and_is_removed_if_up_is_interrupted(labs, number):
    """A killed `up` cannot remove the lab, so the lab starts; an interrupted one removes it."""
    starting = "import sys; from quorate.cli.main import main; main(sys.argv[1:])"
    up = subprocess.Popen(
        [sys.executable, "-P", "-c", starting, "cluster", "up"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_enable_interrupts,
    )
    folder = lab_folder("lab")
    begun = folder / (
        "lock" if number == signal.SIGKILL else "plan.json"
    )  # the lab's process writes its id into the former
    wait_for("a lab is being started", lambda: begun.exists() and begun.read_text(), 20_000)
    up.send_signal(number)
    up.wait(300)
    if number == signal.SIGINT:
        assert not folder.exists()
        return
    wait_for("the lab exists", lambda: "lab" in embedded_lab_names(), 20_000)
    status = json.loads(labs("cluster", "status", "--json").out)
    assert {broker["state"] for broker in status["brokers"]} == {"running"}
    assert "Traceback" not in (folder / "log").read_text()


def test_an_empty_list_suggests_how_to_start_a_lab(labs):
    ended = labs("cluster", "list")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.splitlines()[-1] == "no lab exists; start one: quorate cluster up"


def test_without_dockers_package_the_error_is_a_missing_lab(labs, monkeypatch):
    monkeypatch.setattr("quorate.cli.cluster.labs.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "docker", None)
    for command in (["status"], ["restart-broker", "2"], ["logs", "1"]):
        ended = labs("cluster", *command)
        assert (ended.status, ended.out) == (1, "")
        assert ended.err.splitlines() == [
            "error: lab lab does not exist",
            "       start it: quorate cluster up --name lab",
        ]
    ended = labs("cluster", "down")
    assert (ended.status, ended.out, ended.err) == (0, "", "lab lab does not exist\n")


def test_a_lab_of_another_version_of_quorate_is_an_error(labs):
    lab_folder("old").mkdir(parents=True)
    (lab_folder("old") / "lab.json").write_text("{}")
    with pytest.raises(ClusterError, match="the lab old was started by another version of quorate"):
        EmbeddedLab.attach("old")


@pytest.mark.parametrize("name", ["../other", "", ".", "..", "/", "a/../../other"])
def test_an_invalid_name_removes_nothing(labs, tmp_path, name):
    other = tmp_path / "other"
    other.mkdir()
    lab_folder("there").mkdir(parents=True)
    with pytest.raises(ClusterError, match="a lab cannot be named"):
        EmbeddedLab.remove(name)
    assert labs("cluster", "down", "--name", name).status == 1
    assert other.is_dir()
    assert lab_folder("there").is_dir()


@pytest.mark.parametrize("late", [False, True], ids=["the first holds the lock", "both are starting"])
def test_a_second_start_does_not_disturb_the_first(labs, monkeypatch, late):
    folder = lab_folder("lab")
    folder.mkdir(parents=True)
    calls = []

    def seen(name):
        calls.append(name)
        return is_alive(name) if len(calls) > late else False

    monkeypatch.setattr(embedded_lab, "is_alive", seen)
    with (folder / "lock").open("wb") as lock:  # as the process of the first start does
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = labs("cluster", "up")
        assert (ended.status, ended.err.splitlines()[0]) == (1, "error: a lab of this name is being started")
    assert (folder / "lock").exists()


def test_two_simultaneous_starts_create_the_lab_of_the_first(labs, monkeypatch):
    """The second starts after the first has written its plan, and before the plan is read."""
    seconds = []

    def start(*arguments, **options):
        if not seconds:
            seconds.append(labs("cluster", "up", "--racks", "x"))
        return popen(*arguments, **options)

    popen = subprocess.Popen
    monkeypatch.setattr(embedded_lab.subprocess, "Popen", start)
    lab = EmbeddedLab.start("lab", LabPlan(version="4.3.1", racks={1: "a"}, ports={}, properties={}, secure=False))
    (second,) = seconds
    assert (second.status, second.err.splitlines()) == (
        1,
        ["error: a lab of this name is being started", "       wait for it: quorate cluster status --name lab"],
    )
    assert lab.brokers[0].rack == "a"
    assert EmbeddedLab.remove("lab")
    with ExitStack() as stack:  # an existing lock file that no process holds does not block a start
        assert stack.enter_context(embedded_lab._starting_lock(lab_folder("lab"))) > 0


def test_the_lab_process_accepts_exactly_the_calls_of_embedded_lab():
    own = vars(EmbeddedLab).items()
    called = {name for name, found in own if isinstance(found, FunctionType) and hasattr(found, "__wrapped__")}
    assert called | {"brokers", "copy_segments"} == embedded_lab_process._READ | embedded_lab_process._CHANGE


def test_a_shared_lock_does_not_make_a_lab_alive(labs):
    lab_folder("lab").mkdir(parents=True)
    with (lab_folder("lab") / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert not is_alive("lab")


def test_the_log_of_a_lab_is_limited_in_size(tmp_path, monkeypatch):
    """Tracebacks of the process go to the current log file, also after it was rotated."""
    standard = []
    monkeypatch.setattr(embedded_lab_process.os, "dup2", lambda new, _: standard.append(os.fstat(new).st_ino))
    log = embedded_lab_process._Log(tmp_path / "log")
    with closing(log):
        for number in range(30_000):
            log.say(f"broker 1: closed a connection of 127.0.0.1: {number} {'x' * 50}")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"log", "log.1"}
    assert max(sizes.values()) <= 1 << 20
    assert (
        (tmp_path / "log").read_text().splitlines()[-1].startswith("broker 1: closed a connection of 127.0.0.1: 29999 ")
    )
    assert standard[-1] == (tmp_path / "log").stat().st_ino
