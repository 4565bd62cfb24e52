"""`quorate cluster` without containers: options, output, and errors about missing dependencies.

Real labs: tests/integration/test_lab.py.
"""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from quorate.cli.cluster.labs import check_majority, check_stopped, majority_note
from quorate.cli.cluster.show import list_json, list_lines, next_lines, status_json, status_lines
from quorate.cli.cluster.start import LabOptions, differences
from quorate.cli.errors import UserError
from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import BrokerInfo
from quorate.integration.containers.engine import engine
from quorate.integration.containers.images import resolve_image
from quorate.integration.containers.plan import ContainersPlan
from quorate.integration.survey import Survey
from tests.cli.test_process import imported_by


def plan(properties=None, **changed):
    made = ContainersPlan.make(
        brokers=3,
        racks=["a", "b", None],
        version="4.3.1",
        image=None,
        controllers=0,
        properties=properties or {"num.partitions": 6},
        secure=False,
        heap_mb=384,
        disk_mb={},
        ports=[9092, 9093, 9094],
    )
    return replace(made, **changed)


def lab(states=("running", "running", "running"), name="lab", **changed):
    """A stand-in for a `KafkaCluster`, as the commands use it."""
    planned = plan(**changed)
    return SimpleNamespace(
        lab_name=name,
        plan=planned,
        version="4.3.1",
        image="apache/kafka:4.3.1",
        certificate="PEM" if planned.secure else None,
        bootstrap_servers=",".join(f"127.0.0.1:{port}" for port in planned.ports.values()),
        client_config={"bootstrap_servers": "…"}
        | (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "ssl_cafile": "/tmp/ca.pem"}
            | {"sasl_plain_username": "quorate", "sasl_plain_password": "secret"}
            if planned.secure
            else {}
        ),
        brokers=[
            BrokerInfo(id=number, rack=planned.racks[number], address=f"127.0.0.1:{port}", version="4.3.1", state=state)
            for (number, port), state in zip(planned.ports.items(), states, strict=True)
        ],
    )


def test_configs_that_kafka_does_not_have_are_in_the_notes_of_the_start():
    names = ["nope", "log.retention.ms", "super.users", "listener.name.client.ssl.keystore.location"]
    assert plan(dict.fromkeys(names, "1")).ignored == ("properties: Kafka has no config nope, and brokers ignore it",)


HEALTHY = Survey(
    unfenced=frozenset({1, 2, 3}),
    controller=2,
    topics=2,
    partitions=10,
    without_leader=0,
    not_in_sync=0,
    leads={1: 4, 2: 3, 3: 3},
    coordinates={1: 2, 2: 1, 3: 1},
)


# ---- missing dependencies


@pytest.fixture
def no_socket(no_engine, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///there/is/no.sock")


@pytest.mark.parametrize(
    "command",
    [["up", "--runtime", "docker"], ["status"], ["down"], ["restart-broker", "2"], ["heal"], ["logs", "1"]],
    ids=str,
)
def test_a_missing_engine_is_an_error_with_a_remedy(quorate, no_socket, command):
    ended = quorate("cluster", *command)
    assert (ended.status, ended.out) == (1, "")
    error, remedy = ended.err.splitlines()
    assert error == "error: no container engine responds: its socket does not exist"
    assert "start Docker" in remedy


def test_the_list_notes_that_labs_in_containers_are_missing_without_an_engine(
    quorate, no_socket, monkeypatch, tmp_path
):
    monkeypatch.setenv("QUORATE_LABS", str(tmp_path))
    ended = quorate("cluster", "list")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.splitlines() == [
        "labs in containers are not shown: no container engine responds: its socket does not exist",
        "no lab exists; start one: quorate cluster up",
    ]


def test_an_unreachable_engine_is_named_by_its_address(quorate, no_engine):
    ended = quorate("cluster", "status")
    assert ended.err.splitlines()[0] == "error: no container engine responds: tcp://127.0.0.1:9: Connection refused"


def test_the_python_api_names_the_missing_extra(monkeypatch):
    engine.cache_clear()
    monkeypatch.setitem(sys.modules, "docker", None)
    monkeypatch.setitem(sys.modules, "docker.errors", None)
    with pytest.raises(ClusterError, match=r"containers need the package docker.*quorate\[testcontainers\]"):
        resolve_image("4.3.1")
    engine.cache_clear()


@pytest.mark.parametrize("missing", ["docker", "testcontainers"])
def test_a_missing_extra_is_an_error_with_the_command_to_install_it(quorate, monkeypatch, missing):
    engine.cache_clear()
    monkeypatch.setitem(sys.modules, missing, None)
    ended = quorate("cluster", "up", "--runtime", "docker")
    engine.cache_clear()
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        f"error: containers need the package {missing}, which is not installed",
        "       pip install 'quorate[testcontainers]'",
    ]


@pytest.mark.parametrize("arguments", [["cluster", "--help"], ["cluster", "up", "--help"]])
def test_help_imports_neither_docker_nor_kafka(arguments):
    assert imported_by(*arguments) & {"docker", "kafka", "numpy", "quorate.integration", "testcontainers"} == set()


@pytest.mark.parametrize("arguments", [[], ["cluster"]], ids=str)
def test_without_a_command_the_help_is_shown(quorate, arguments):
    ended = quorate(*arguments)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.splitlines()[0].startswith("Usage: ")
    assert "\nCommands:\n" in ended.err


# ---- options


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--racks", "a,,b"], "--racks a,,b: a name is missing"),
        (["up", "--property", "log.retention.ms"], "--property log.retention.ms: is not KEY=VALUE"),
        (["up", "--port", "65534"], "--port 65534: fewer than 3 ports from there up to 65535"),
        (["up", "--brokers", "1001"], "--brokers 1001: a cluster has at most 1,000"),
        (["up", "--brokers", "2", "--racks", "a,b,c"], "--brokers 2: too few for 3 racks"),
        (["up", "--brokers", "0"], "Invalid value for '--brokers'"),
        (["restart-broker"], "Missing argument"),
        (["stop-broker", "one"], "'one' is not a valid integer"),
    ],
    ids=str,
)
def test_options_are_checked_before_the_engine_is_used(quorate, no_engine, arguments, complaint):
    ended = quorate("cluster", *arguments)
    assert (ended.status, ended.out) == (1, "")
    assert complaint in ended.err


def lab_options(**given):
    plain = {
        "brokers": None,
        "racks": ["a", "b", "c"],
        "version": None,
        "image": None,
        "controllers": None,
        "properties": {},
        "sasl": False,
        "port": None,
        "heap_mb": None,
    }
    return LabOptions(**plain | given, given=frozenset(given))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ""),  # defaults are not compared: the lab has racks a, b, none
        ({"brokers": 3, "racks": ["a", "b", None], "version": "4.3.1", "port": 9092}, ""),
        ({"properties": {"num.partitions": "6"}}, ""),
        ({"brokers": 5}, "3 brokers"),
        ({"racks": ["x", "y", "z"]}, "racks a,b,-"),
        ({"version": "4.0.2", "port": 9000}, "Kafka 4.3.1, port 9092 for broker 1"),
        ({"properties": {"num.partitions": "7"}}, "other properties"),
        ({"sasl": True}, "no SASL"),
    ],
    ids=str,
)
def test_an_existing_lab_is_compared_with_the_given_options(options, said):
    assert differences(lab_options(**options), lab()) == said


# ---- majorities


def test_one_of_three_brokers_cannot_be_started_alone():
    stopped = lab(("stopped", "stopped", "stopped"))
    with pytest.raises(UserError) as error:
        check_majority(stopped, [3])
    assert error.value.remedy == ("start them together: quorate cluster start-broker 3 1 2",)
    check_majority(stopped, [3, 1])
    with pytest.raises(UserError) as error:
        check_majority(lab(("stopped", "stopped", "stopped"), name="other"), [3])
    assert error.value.remedy == ("start them together: quorate cluster start-broker 3 1 2 --name other",)
    check_majority(lab(("running", "stopped", "stopped")), [3])


def test_separate_controllers_need_no_majority_of_brokers():
    apart = lab(("stopped", "stopped", "stopped"), controllers=(101,))
    check_majority(apart, [3])
    assert majority_note(apart) == ""


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (("running", "running", "stopped"), ""),
        (("running", "paused", "stopped"), "note: only 1 of 3 controllers running"),
        (("stopped", "stopped", "stopped"), ""),
    ],
)
def test_a_lost_majority_is_noted(states, said):
    noted = majority_note(lab(states))
    assert noted.startswith(said)
    assert bool(noted) == bool(said)


def test_only_stopped_brokers_can_be_started():
    mixed = lab(("running", "paused", "stopped"))
    for broker, complaint in (
        (1, "broker 1 is running"),
        (2, "broker 2 is paused"),
        (9, "broker 9 does not exist; brokers of this lab: 1, 2, 3"),
    ):
        with pytest.raises(UserError, match=complaint):
            check_stopped(mixed, [3, broker])
    check_stopped(mixed, [3])


# ---- output


def test_status_of_a_healthy_lab():
    assert status_lines(lab(), HEALTHY) == [
        "\x1b[1mlab: 3 of 3 brokers running; Kafka 4.3.1 (apache/kafka:4.3.1)\x1b[0m",
        "",
        "\x1b[1mbroker  rack  address         version  leads  coordinates  state\x1b[0m",
        "     1  a     127.0.0.1:9092  4.3.1        4            2  \x1b[32mrunning\x1b[0m",
        "     2  b     127.0.0.1:9093  4.3.1        3            1  \x1b[32mrunning, active controller\x1b[0m",
        "     3  -     127.0.0.1:9094  4.3.1        3            1  \x1b[32mrunning\x1b[0m",
        "",
        "10 partitions of 2 topics: all in sync",
        "bootstrap servers: 127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094",
    ]


def test_status_of_an_unhealthy_lab():
    found = replace(HEALTHY, unfenced=frozenset({1}), without_leader=1, not_in_sync=7)
    text = "\n".join(status_lines(lab(("running", "running", "paused")), found))
    assert "2 of 3 brokers running" in text
    assert "fenced, active controller" in text
    assert "paused" in text
    assert "10 partitions of 2 topics: 1 without a leader, 7 with replicas that are not in sync" in text
    assert "to start stopped brokers: quorate cluster up\n" in text


def test_status_of_brokers_that_do_not_respond():
    lines = status_lines(lab(), None)
    assert "3 of 3 brokers running, none responds" in lines[0]
    assert not any("partitions" in line for line in lines)
    result = json.loads(status_json(lab(), None))
    assert (result["answers"], result["controller"], result["partitions"]) == (False, None, None)


def test_json_has_what_the_table_has():
    result = json.loads(status_json(lab(), HEALTHY))
    assert result["brokers"][1] == {
        "id": 2,
        "rack": "b",
        "address": "127.0.0.1:9093",
        "version": "4.3.1",
        "state": "running",
        "leads": 3,
        "coordinates": 1,
    }
    assert (result["bootstrap_servers"], result["controller"]) == (lab().bootstrap_servers, 2)
    assert (result["topics"], result["partitions"], result["security"]) == (2, 10, None)


def test_suggested_commands_name_the_lab():
    text = "\n".join(next_lines(lab(name="other")))
    assert "quorate decode -b 127.0.0.1:9092 --follow" in text
    assert "restart-broker 2 --rack a --name other" in text  # not its present rack
    assert "quorate cluster down --name other" in text
    assert "--name" not in "\n".join(next_lines(lab()))


def test_suggested_commands_of_a_secure_lab_have_credentials():
    secure = lab(secure=True)
    text = "\n".join(next_lines(secure))
    assert "export QUORATE_SASL_USERNAME=quorate QUORATE_SASL_PASSWORD=secret" in text
    assert "quorate cluster certificate > ca.pem" in text
    assert "--security-protocol SASL_SSL --sasl-mechanism SCRAM-SHA-512 --ssl-cafile ca.pem" in text
    assert json.loads(status_json(secure, HEALTHY))["security"] == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "quorate",
        "sasl_plain_password": "secret",
        "certificate": "PEM",
    }


def test_the_list_has_complete_and_incomplete_labs():
    labs = {"lab": lab(("running", "stopped", "running")), "torn": None}
    _, first, second = list_lines(labs)
    assert first.split() == ["lab", "4.3.1", "2", "of", "3", "running", lab().bootstrap_servers]
    assert second.endswith("incomplete; to remove it: quorate cluster down --name torn")
    whole, torn = json.loads(list_json(labs))
    assert whole["brokers"] == {"1": "running", "2": "stopped", "3": "running"}
    assert torn == {"name": "torn", "version": None, "brokers": None, "bootstrap_servers": None}


def test_a_plan_is_the_same_after_conversion_to_json():
    made = plan(controllers=(101, 102), image="my/kafka:{version}", secure=True)
    assert ContainersPlan.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_misspelt_config_is_rejected_before_containers_start():
    with pytest.raises(ClusterError, match=r"Kafka has no config num\.partitons; did you mean num\.partitions\?"):
        plan(properties={"num.partitons": 6})
