"""The image of `quorate serve`, and its uses in docs/how-to/serve-in-a-container.md."""

import io
import json
import re
import socket
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaConsumer, KafkaProducer

from quorate.cli.serve import serve
from quorate.cluster.waiting import wait_for
from quorate.integration.containers.engine import LABEL, engine, remove_labelled
from tests.integration.limits import LIMIT_MS
from tests.integration.test_compose import compose

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "serve-in-a-container.md").read_text("utf-8")
YAML = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
(EXAMPLE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def image() -> str:
    """Build the image, from the cache if nothing has changed, and return its id.

    The name quorate/serve may be of another clone on this machine.
    """
    done = subprocess.run([ROOT / "docker" / "serve" / "build"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def run(image: str) -> Iterator[Run]:
    """Return a function that starts a container of the image, and removes it after the test."""
    label = uuid.uuid4().hex[:12]

    def start(**arguments: Any) -> Any:
        return engine().containers.run(image, detach=True, labels={LABEL: label}, **arguments)

    yield start
    remove_labelled(LABEL, label)


def wait_healthy(container: Any) -> None:
    def healthy() -> bool:
        container.reload()
        assert container.status == "running", container.logs().decode()
        return bool(container.attrs["State"]["Health"]["Status"] == "healthy")

    wait_for("the container is healthy", healthy, LIMIT_MS, every_ms=200)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def produce(address: str, value: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=address)) as producer:
        producer.send("orders", value, partition=0).get(60)


def consume(address: str, count: int) -> list[bytes]:
    with closing(
        KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            consumer_timeout_ms=60_000,
        )
    ) as consumer:
        return [next(consumer).value for _ in range(count)]


def test_clients_of_the_host_use_a_published_port_and_data_is_kept(run: Run) -> None:
    port, volume = free_port(), uuid.uuid4().hex
    address = f"localhost:{port}"
    start = {
        "ports": {"9092/tcp": ("127.0.0.1", port)},
        "environment": {"QUORATE_SERVE_ADVERTISE": address},
        "volumes": {volume: {"bind": "/data", "mode": "rw"}},
    }
    try:
        first = run(**start)
        wait_healthy(first)
        produce(address, b"one")
        assert consume(address, 1) == [b"one"]
        assert first.exec_run(["id", "-u"]).output == b"1000\n"

        began = time.monotonic()
        first.stop(timeout=60)
        assert time.monotonic() - began < 30
        first.reload()
        assert first.attrs["State"]["ExitCode"] == 0
        assert first.logs().endswith(b"stopping\n")

        first.start()  # the same container
        wait_healthy(first)
        assert consume(address, 1) == [b"one"]
        first.stop(timeout=60)

        second = run(**start)  # another one with the volume
        wait_healthy(second)
        produce(address, b"two")
        assert consume(address, 2) == [b"one", b"two"]
        second.remove(force=True, v=True)
        first.remove(force=True, v=True)
    finally:
        for container in engine().containers.list(all=True, filters={"volume": volume}):
            container.remove(force=True)
        engine().volumes.get(volume).remove(force=True)


def test_clients_of_the_host_use_tls_and_a_password(run: Run, tmp_path: Path) -> None:
    port = free_port()
    container = run(
        command=["--json"],
        ports={"9092/tcp": ("127.0.0.1", port)},
        environment={
            "QUORATE_SERVE_ADVERTISE": f"localhost:{port}",
            "QUORATE_SERVE_SECURITY": "SASL_SSL",
            "QUORATE_SERVE_PASSWORD": "secret",
        },
    )
    wait_healthy(container)
    config = json.loads(container.logs(stderr=False))["client_config"]
    assert (config["bootstrap_servers"], config["sasl_plain_password"]) == (f"localhost:{port}", "secret")
    copied, _ = container.get_archive(config["ssl_cafile"])  # as by docker cp
    with tarfile.open(fileobj=io.BytesIO(b"".join(copied))) as archive:
        (tmp_path / "ca.pem").write_bytes(archive.extractfile("ca.pem").read())
    with closing(KafkaProducer(**config | {"ssl_cafile": str(tmp_path / "ca.pem")})) as producer:
        producer.send("orders", b"one").get(60)


def test_a_container_whose_cluster_does_not_start_ends_with_an_error(run: Run) -> None:
    container = run(environment={"QUORATE_SERVE_RACKS": "a,,b"})
    assert container.wait(timeout=LIMIT_MS / 1000)["StatusCode"] == 1
    assert container.logs().startswith(b"error: --racks a,,b: a name is missing\n")


def test_the_image_is_built_for_a_registry_by_the_same_file() -> None:
    """No registry is needed for what is tested here; the default base image is the official one."""
    text = (ROOT / "docker" / "serve" / "Dockerfile").read_text()
    assert re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE) == ["python:3.12-slim"]
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "dependencies", "${BASE}"]


def check(variables: Mapping[str, str]) -> None:
    """Fail for variables that are of no option."""
    assert set(variables) <= {f"QUORATE_SERVE_{option.name.upper()}" for option in serve.params if option.name}


def check_ports(service: Mapping[str, Any]) -> None:
    """Fail unless each broker's port is published as the same port."""
    racks = (service.get("environment") or service["env"])["QUORATE_SERVE_RACKS"].split(",")
    published = []
    for text in service["ports"]:
        outside, inside = text.removeprefix("127.0.0.1:").split(":")
        assert outside == inside
        first, _, last = inside.partition("-")
        published += range(int(first), int(last or first) + 1)
    assert published == [9092 + number for number in range(len(racks))]


CLIENT = """
from kafka import KafkaConsumer, KafkaProducer
KafkaProducer(bootstrap_servers="localhost:9092").send("orders", b"one").get(60)
consumer = KafkaConsumer("orders", bootstrap_servers="localhost:9092", auto_offset_reset="earliest", client_rack="c")
assert next(consumer).value == b"one"
print(sorted(broker.rack for broker in consumer._client.cluster.brokers()))
"""


def test_services_of_the_compose_file_share_the_network_of_the_cluster(run: Run, tmp_path: Path) -> None:
    described = YAML[0]
    kafka, tests = described["services"]["kafka"], described["services"]["tests"]
    if compose():
        (tmp_path / "compose.yaml").write_text(yaml.safe_dump(described))
        (tmp_path / "Dockerfile").write_text("FROM scratch\n")
        done = subprocess.run([*compose(), "config", "--quiet"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert kafka.keys() == {"image", "environment", "ports", "volumes"}
    assert kafka["image"] == "quorate/serve"
    check(kafka["environment"])
    check_ports(kafka)
    assert kafka["volumes"] == ["kafka:/data"]
    assert described["volumes"].keys() == {"kafka"}
    assert tests["network_mode"] == "service:kafka"
    assert tests["depends_on"] == {"kafka": {"condition": "service_healthy"}}

    cluster = run(environment=kafka["environment"])
    wait_healthy(cluster)
    client = run(
        network_mode=f"container:{cluster.id}",
        entrypoint=["python3", "-c", CLIENT],
    )
    status = client.wait(timeout=LIMIT_MS / 1000)["StatusCode"]
    assert (status, client.logs().decode().splitlines()[-1:]) == (0, ["['a', 'b', 'c']"])


def test_the_service_of_the_workflow_becomes_healthy(run: Run) -> None:
    (service,) = YAML[1]["jobs"]["test"]["services"].values()
    assert service.keys() == {"image", "env", "ports"}
    check(service["env"])
    check_ports(service)
    wait_healthy(run(environment=service["env"]))


def test_the_testcontainers_example_passes(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")  # its image may not exist here
    assert EXAMPLE.count('"quorate/serve"') == 1
    (tmp_path / "test_in_a_container.py").write_text(EXAMPLE.replace("quorate/serve", image))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_MS / 1000,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
