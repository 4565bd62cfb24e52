"""Each client with each security protocol and default configs: produce, and consume in a group."""

import asyncio
import atexit
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaConsumer, KafkaProducer

from quorate.cluster import EmbeddedCluster, Security, make_certificate
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.java_tools import tools as tools

USER, PASSWORD = "alice", "very secret"
VALUES = [b"%d" % number for number in range(20)]


@dataclass(frozen=True, slots=True)
class Way:
    """How to connect, and to which cluster."""

    protocol: str
    mechanism: str | None
    servers: str
    authority: str

    def config(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the configs of a client, by the client's names."""
        found = {"servers": self.servers, "protocol": self.protocol}
        if self.mechanism is not None:
            found |= {"mechanism": self.mechanism, "user": USER, "password": PASSWORD}
        if self.protocol.endswith("SSL"):
            found["authority"] = self.authority
        return {names[key]: value for key, value in found.items()}


WAYS = [
    ("PLAINTEXT", None),
    ("SSL", None),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "SCRAM-SHA-512"),
]


def _named(way: tuple[str, str | None]) -> str:
    return " ".join(filter(None, way))


@pytest.fixture(scope="module", params=WAYS, ids=_named)
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    protocol, mechanism = request.param
    context, authority = make_certificate(tmp_path_factory.mktemp("tls"))
    security = Security(users={USER: PASSWORD} if mechanism else {}, tls=context if protocol.endswith("SSL") else None)
    properties = {**QUICK, "num.partitions": 3, "default.replication.factor": 3}
    with EmbeddedCluster(brokers=3, racks=["a", "b", "c"], security=security, properties=properties, seed=1) as made:
        yield Way(protocol, mechanism, made.bootstrap_servers, str(authority))
        assert made.core.failures == []


CONFLUENT = {
    "servers": "bootstrap.servers",
    "protocol": "security.protocol",
    "mechanism": "sasl.mechanisms",
    "user": "sasl.username",
    "password": "sasl.password",
    "authority": "ssl.ca.location",
}
KAFKA_PYTHON = {
    "servers": "bootstrap_servers",
    "protocol": "security_protocol",
    "mechanism": "sasl_mechanism",
    "user": "sasl_plain_username",
    "password": "sasl_plain_password",
    "authority": "ssl_cafile",
}


def librdkafka(way: Way, protocol: str = "classic") -> list[bytes]:
    config: dict[str, Any] = dict(way.config(CONFLUENT))
    topic = f"librdkafka-{protocol}"
    producer = Producer(config)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(300) == 0
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest", "group.protocol": protocol})
    consumer.subscribe([topic])
    read: list[bytes] = []
    while len(read) < len(VALUES):
        message = consumer.poll(300)
        assert message is not None
        assert message.error() is None, message.error()
        read.append(message.value() or b"")
    consumer.close()
    return read


def librdkafka_848(way: Way) -> list[bytes]:
    return librdkafka(way, "consumer")


def librdkafka_share(way: Way) -> list[bytes]:
    """KIP-932. Java's share consumer is in another test."""
    config: dict[str, Any] = dict(way.config(CONFLUENT))
    topic = "librdkafka-share"
    reset = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[reset])
    admin = AdminClient(config)
    for done in admin.incremental_alter_configs([group]).values():
        done.result(60)
    producer = Producer(config)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(300) == 0
    consumer = ShareConsumer({**config, "group.id": topic})
    consumer.subscribe([topic])
    read: list[bytes] = []
    until = time.monotonic() + 300
    while len(read) < len(VALUES):
        assert time.monotonic() < until, read
        for message in consumer.poll(1):
            assert message.error() is None, message.error()
            read.append(message.value() or b"")
    consumer.close()
    return read


def kafka_python(way: Way) -> list[bytes]:
    config: dict[str, Any] = dict(way.config(KAFKA_PYTHON))
    producer = KafkaProducer(**config)
    for value in VALUES:
        producer.send("kafka-python", value)
    producer.flush(300)
    producer.close()
    consumer = KafkaConsumer("kafka-python", **config, group_id="kafka-python", auto_offset_reset="earliest")
    read = [next(consumer).value for _ in VALUES]
    consumer.close()
    return read


def aiokafka(way: Way) -> list[bytes]:
    async def run() -> list[bytes]:
        config: dict[str, Any] = dict(way.config(KAFKA_PYTHON))
        authority = config.pop("ssl_cafile", None)
        if authority is not None:
            config["ssl_context"] = ssl.create_default_context(cafile=authority)
        async with AIOKafkaProducer(**config) as producer:
            for value in VALUES:
                await producer.send_and_wait("aiokafka", value)
        made = AIOKafkaConsumer("aiokafka", **config, group_id="aiokafka", auto_offset_reset="earliest")
        async with made as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in VALUES]

    return asyncio.run(run())


@cache
def built(program: str = ".") -> Path:
    """Build a program of franz-go's client, and return its path."""
    made = Path(mkdtemp(prefix="quorate-franz-")) / "franz"
    atexit.register(shutil.rmtree, made.parent)
    offline = {**os.environ, "GOFLAGS": "-mod=readonly", "GOPROXY": "off"}
    subprocess.run(["go", "build", "-o", made, program], cwd=FRANZ, env=offline, check=True, timeout=300)
    return made


def franz_go(way: Way, *mode: str) -> list[bytes]:
    login = (way.mechanism or "", USER, PASSWORD)
    command = [built(), way.servers, way.protocol, *login, way.authority, *mode]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    return [line.encode() for line in ran.stdout.splitlines()]


def franz_go_share(way: Way) -> list[bytes]:
    """KIP-932; released records come again, after others."""
    return sorted(franz_go(way, "share"), key=int)


FRANZ = Path(__file__).with_name("franz")
CLIENTS = [librdkafka, librdkafka_848, librdkafka_share, kafka_python, aiokafka]
_MODULES = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")
HAS_FRANZ = shutil.which("go") is not None and (_MODULES / "github.com" / "twmb" / "franz-go@v1.22.2").is_dir()
if HAS_FRANZ:
    CLIENTS += [franz_go, franz_go_share]  # scripts/setup-go fetches its modules


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.__name__)
def test_a_client_with_default_configs_produces_and_consumes_in_a_group(
    way: Way, client: Callable[[Way], list[bytes]]
) -> None:
    assert sorted(client(way)) == sorted(VALUES)


@pytest.mark.parametrize("way", WAYS[-2:], indirect=True, ids=_named)  # others are in test_java_clients
def test_the_java_client_produces_and_consumes_in_a_group(
    way: Way, tools: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    lines = [f"bootstrap.servers={way.servers}", f"security.protocol={way.protocol}"]
    if way.mechanism is not None:
        module = "plain.PlainLoginModule" if way.mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'org.apache.kafka.common.security.{module} required username="{USER}" password="{PASSWORD}";'
        lines += [f"sasl.mechanism={way.mechanism}", f"sasl.jaas.config={login}"]
    if way.protocol.endswith("SSL"):
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={way.authority}"]
    config = tmp_path / "client.properties"
    config.write_text("\n".join(lines))
    at = ("--bootstrap-server", way.servers, "--command-config", config, "--topic", "java")
    count = len(VALUES)
    sent = tools("ProducerPerformance", *at, "--num-records", count, "--record-size", 10, "--throughput", -1)
    assert any(line.startswith(f"{count} records sent") for line in sent["out"].splitlines()), sent
    for protocol in ("classic", "consumer"):
        config.write_text("\n".join([*lines, f"group.protocol={protocol}"]))
        read = tools("ConsumerPerformance", *at, "--num-records", count, "--group", protocol, "--timeout", 20_000)
        names, values = (line.split(", ") for line in read["out"].splitlines()[-2:])
        assert int(dict(zip(names, values, strict=True))["data.consumed.in.nMsg"]) == count, read
    reset = ("--entity-type", "groups", "--entity-name", "share", "--add-config", "share.auto.offset.reset=earliest")
    altered = tools(
        "kafka.admin.ConfigCommand", "--bootstrap-server", way.servers, "--command-config", config, "--alter", *reset
    )
    assert altered["status"] == 0, altered
    config.write_text("\n".join(lines))
    read = tools("ShareConsumerPerformance", *at, "--num-records", count, "--group", "share", "--timeout", 60_000)
    names, values = (line.split(", ") for line in read["out"].splitlines()[-2:])
    assert int(dict(zip(names, values, strict=True))["data.consumed.in.nMsg"]) == count, read
