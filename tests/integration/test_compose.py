"""docker/compose.yaml: the three brokers that it describes come up, and move to other racks.

It is put to Docker Compose where that is installed, and otherwise started as it reads, by the
engine's own API.
"""

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource
from kafka.errors import KafkaError

from quorate.cluster.waiting import wait_for
from quorate.integration.containers.engine import LABEL, engine, remove_labelled
from quorate.integration.containers.images import DEFAULT_VERSION, name_image, resolve_image
from tests.integration.limits import LIMIT_MS

FILE = Path(__file__).resolve().parents[2] / "docker" / "compose.yaml"
BOOTSTRAP = "127.0.0.1:19091"

Up = Callable[[Mapping[str, str]], None]


def read(variables: Mapping[str, str]) -> Any:
    """Substitute variables like Compose: `${NAME:-default}`, and `$$` for a dollar."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        if isinstance(value, str):
            return re.sub(
                r"\$(?:(\$)|\{(\w+):-([^}]*)\})", lambda m: "$" if m[1] else variables.get(m[2]) or m[3], value
            )
        return value

    return filled(yaml.safe_load(FILE.read_text()))


@cache
def compose() -> list[str]:
    """Return the command, if it is installed."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True).returncode == 0:
            return command
    return []


def image() -> str:
    """Return the name of an existing image without its tag, as the file requires."""
    return resolve_image(DEFAULT_VERSION).rpartition(":")[0]


@pytest.fixture
def up() -> Iterator[Up]:
    """Brings up what the file describes, with variables; a second time what differs since."""
    project = f"test-{uuid.uuid4().hex[:8]}"
    common = {"QUORATE_KAFKA_IMAGE": image(), "KAFKA_VERSION": DEFAULT_VERSION}
    if compose():
        command = [*compose(), "--file", str(FILE), "--project-name", project]

        def put(variables: Mapping[str, str]) -> None:
            subprocess.run(
                [*command, "up", "--detach"], env=os.environ | common | variables, check=True, capture_output=True
            )

        yield put
        subprocess.run([*command, "down", "--volumes"], env=os.environ | common, check=True, capture_output=True)
        return
    labels = {LABEL: project}
    client = engine()
    network = client.networks.create(project, labels=labels)
    running: dict[str, tuple[Any, Any]] = {}

    def start(variables: Mapping[str, str]) -> None:
        described = read(common | variables)
        for volume in described["volumes"]:
            client.volumes.create(f"{project}_{volume}", labels=labels)
        for service, wanted in described["services"].items():
            if service in running:
                before, container = running[service]
                if before == wanted:
                    continue
                container.stop(timeout=60)
                container.remove()
            assert wanted.keys() == {
                *("image", "user", "stop_grace_period", "entrypoint"),
                *("hostname", "environment", "ports", "volumes"),
            }
            (port,), (volume,) = wanted["ports"], wanted["volumes"]
            address, outside, inside = port.split(":")
            name, folder = volume.split(":")
            container = client.containers.create(
                wanted["image"],
                entrypoint=wanted["entrypoint"],
                user=wanted["user"],
                hostname=wanted["hostname"],
                environment=wanted["environment"],
                ports={inside: (address, outside)},
                volumes={f"{project}_{name}": {"bind": folder, "mode": "rw"}},
                labels=labels,
            )
            network.connect(container, aliases=[service])
            container.start()
            running[service] = wanted, container

    try:
        yield start
    finally:
        remove_labelled(LABEL, project)


def test_defaults_are_the_official_image_of_the_version_that_we_test_with() -> None:
    images = {service["image"] for service in read({})["services"].values()}
    assert images == {f"apache/kafka:{DEFAULT_VERSION}"}
    assert {
        one["image"] for one in read({"QUORATE_KAFKA_IMAGE": "x/y", "KAFKA_VERSION": "4.0.2"})["services"].values()
    } == {"x/y:4.0.2"}


def test_brokers_listen_on_this_machine_alone() -> None:
    ports = [port for service in read({})["services"].values() for port in service["ports"]]
    assert ports == ["127.0.0.1:19091:9092", "127.0.0.1:19092:9092", "127.0.0.1:19093:9092"]


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ("quorate/kafka", "quorate/kafka:4.0.2"),
        ("host:5000/kafka", "host:5000/kafka:4.0.2"),
        ("host:5000/kafka:{version}-rc1", "host:5000/kafka:4.0.2-rc1"),
        ("kafka:mine", "kafka:mine"),
        ("kafka@sha256:0123", "kafka@sha256:0123"),
    ],
)
def test_an_image_without_a_tag_is_meant_in_the_version_everywhere(image: str, named: str) -> None:
    assert name_image(image, "4.0.2") == named


def racks() -> dict[int, tuple[int, str]] | None:
    """Broker → port and rack, of the brokers that take part."""
    with closing(KafkaAdminClient(bootstrap_servers=BOOTSTRAP, bootstrap_timeout_ms=3000)) as admin:
        brokers = admin.describe_cluster()["brokers"]
    return {broker["broker_id"]: (broker["port"], broker["rack"]) for broker in brokers if not broker["is_fenced"]}


def test_three_brokers_come_up_in_their_racks_and_move(up: Up) -> None:
    up({})
    expected = {1: (19091, "a"), 2: (19092, "b"), 3: (19093, "c")}
    wait_for("the brokers are up", lambda: racks() == expected, LIMIT_MS, also=(KafkaError,), every_ms=1000)
    with closing(KafkaProducer(bootstrap_servers="127.0.0.1:19092")) as producer:
        producer.send("orders", b"kept").get(30)
    with closing(KafkaAdminClient(bootstrap_servers=BOOTSTRAP)) as admin:
        (topic,) = admin.describe_topics(["orders"])
        assert [len(part["replica_nodes"]) for part in topic["partitions"]] == [2] * 6
        resource = ConfigResource("BROKER", "1", configs={"replica.selector.class": None})
        found = admin.describe_configs([resource], config_filter="all")["broker"]["1"]["replica.selector.class"]
        assert found["value"] == "org.apache.kafka.common.replica.RackAwareReplicaSelector"

    up({"RACK_2": "c"})
    expected[2] = (19092, "c")
    wait_for("broker 2 is in rack c", lambda: racks() == expected, LIMIT_MS, also=(KafkaError,), every_ms=1000)
    with closing(
        KafkaConsumer(
            "orders", bootstrap_servers="127.0.0.1:19092", auto_offset_reset="earliest", consumer_timeout_ms=300_000
        )
    ) as consumer:
        assert next(iter(consumer)).value == b"kept"
