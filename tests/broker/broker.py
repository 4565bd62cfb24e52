"""A Kafka broker (KRaft) in a local JVM, on free ports of 127.0.0.1; `close` removes its data.

    with Broker() as broker:
        KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)

Runs Kafka's own jars, which tests/broker/build fetches. Standard library only.
"""

import random
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

HERE = Path(__file__).resolve().parent
LIB = HERE / "target" / "lib"
TOOLS_LIB = HERE.parent / "oracle_4_3" / "target" / "lib"
CLASSES = HERE / "target" / "classes"
"""Programs of the tests in Java: GroupMember, KafkaConfigs and KafkaTools."""
VERSION = "4.3.1"
"""The release of a broker by default, as in pom.xml: the newest with Kafka's command-line tools."""
NEWEST = "4.4.0"
"""The newest release, whose jars tests/broker/build fetches, too."""
REMEDY = "run `make test`, or tests/broker/build with a JDK (17 or newer) and Maven on the PATH"
START_S = 300


class BrokerFailed(RuntimeError):
    """The broker did not start. The message has the end of its log."""


def lib(version: str = VERSION) -> Path:
    """Return the folder with the jars of a release, `VERSION` or `NEWEST`."""
    return LIB if version == VERSION else HERE / "target" / version


def _archive(version: str) -> Path:
    """Return the class data archive of a broker (AppCDS), which halves the CPU time of a start.

    tests/broker/build writes it.
    """
    return HERE / "target" / f"{version}.jsa"


def _formatted(version: str) -> Path:
    """Return a formatted storage directory, which tests/broker/build writes.

    Brokers start with a copy that has other ids: formatting takes a third of the CPU time of a
    start.
    """
    return HERE / "target" / f"{version}.formatted"


def missing(version: str = VERSION) -> str | None:
    """Return what is missing to run a broker, with the remedy, or `None`."""
    if shutil.which("java") is None:
        return f"no java on the PATH: {REMEDY}"
    if not any(lib(version).glob("kafka_2.13-*.jar")) or not (CLASSES / "KafkaTools.class").exists():
        return f"tests/broker is not built: {REMEDY}"
    return None


def java(*options: str, classes: Sequence[Path | str] = (), version: str = VERSION) -> list[str]:
    """Return the command that runs a class of Kafka in a short-lived JVM, without the class's name.

    `classes`: class path after the broker's jars, which must come first for the archive.
    """
    # Of moved or newer jars, Java would warn on standard output, where tests read results.
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    archive = [f"-XX:SharedArchiveFile={path}", "-Xlog:cds*=off"] if (path := _archive(version)).exists() else []
    return ["java", *quick, *archive, *options, "-cp", ":".join(map(str, (lib(version) / "*", *classes, CLASSES)))]


def tools(*options: str) -> list[str]:
    """Return the command that runs one of Kafka's command-line tools, without the tool's class.

    They are those of 4.3.1, as 4.4.0 was released without them.
    """
    return java(*options, classes=[TOOLS_LIB / "*"])


def missing_tools() -> str | None:
    """Return what is missing to run `tools`, with the remedy, or `None`."""
    if shutil.which("java") is None:
        return f"no java on the PATH: {REMEDY}"
    if not any(TOOLS_LIB.glob("kafka-tools-[0-9]*.jar")):
        return "tests/oracle_4_3 is not built: run `make test`, or tests/oracle_4_3/build with a JDK and Maven"
    return None


def free_ports(count: int) -> list[int]:
    """Return free ports, below the range of ephemeral ports."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 500):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise BrokerFailed("no free port between 20000 and 32000")


class Broker:
    """A running broker.

    `configs` are added to its server.properties. `jvm` are options of the JVM. `listener` is the
    security protocol of the clients' listener; the controller's is always PLAINTEXT. `second` is
    that of another listener named SECOND, at `second_servers`. `version` is `VERSION` or `NEWEST`.
    """

    def __init__(
        self,
        configs: Mapping[str, object] | None = None,
        *,
        listener: str = "PLAINTEXT",
        second: str | None = None,
        jvm: tuple[str, ...] = (),
        version: str = VERSION,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="quorate-broker-"))
        self.log_dir = self.folder / "data"
        self.port, controller, other = free_ports(3)
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.second_servers = f"127.0.0.1:{other}"
        for_clients, protocols = f"CLIENT://{self.bootstrap_servers}", f"CLIENT:{listener},CONTROLLER:PLAINTEXT"
        if second is not None:
            for_clients, protocols = f"{for_clients},SECOND://{self.second_servers}", f"{protocols},SECOND:{second}"
        self._listener = listener
        self._jvm = jvm
        self._version = version
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] = (self.folder / "broker.log").open("wb")
        properties = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{for_clients},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": for_clients,
            "listener.security.protocol.map": protocols,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "log.dirs": self.log_dir,
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 2,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "num.partitions": 2,
            "auto.create.topics.enable": "false",
            # Few resources: tests share two cores with the broker.
            "broker.session.timeout.ms": 6000,  # a busy machine may be late by seconds
            "broker.heartbeat.interval.ms": 1000,
            "metadata.max.idle.interval.ms": 0,  # no record twice a second: a quarter of an idle broker's CPU time
            "num.network.threads": 1,
            "num.io.threads": 2,
            "background.threads": 1,
            "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
            **(configs or {}),
        }
        self._properties = self.folder / "server.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def __enter__(self) -> Self:
        reason = missing(self._version)
        if reason is not None:
            raise BrokerFailed(reason)
        try:
            if _formatted(self._version).exists():
                shutil.copytree(_formatted(self._version), self.log_dir)
                ids = {"version": 1, "node.id": 1, "cluster.id": _new_id(), "directory.id": _new_id()}
                text = "".join(f"{name}={value}\n" for name, value in ids.items())
                (self.log_dir / "meta.properties").write_text(text)
            else:
                self.format()
            self._process = self._java("kafka.Kafka", str(self._properties))
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def format(self) -> None:
        """Format the storage directory."""
        # As one word: an id may begin with a dash, and would be taken for an option.
        arguments = ("format", f"--cluster-id={_new_id()}", "--config", str(self._properties))
        formatted = self._java("kafka.tools.StorageTool", *arguments)
        if formatted.wait(START_S) != 0:
            raise BrokerFailed(f"the storage could not be formatted\n{self.log()}")

    def shut_down(self) -> None:
        """Shut the broker down cleanly."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_S)

    def stop(self) -> None:
        """Kill the broker, and keep its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def change(self, **configs: object) -> None:
        """Set configs for the next start, with underscores for dots (`broker_rack="b"`)."""
        with self._properties.open("a") as file:
            file.writelines(f"{name.replace('_', '.')}={value}\n" for name, value in configs.items())

    def start(self) -> None:
        """Start the broker again on the same ports and data."""
        self._process = self._java("kafka.Kafka", str(self._properties))
        self._wait()

    def close(self) -> None:
        """End the broker and remove its data."""
        self.stop()
        self._output.close()
        shutil.rmtree(self.folder)

    def log(self) -> str:
        """Return the last lines of the broker's log."""
        self._output.flush()
        return "\n".join((self.folder / "broker.log").read_text(errors="replace").splitlines()[-30:])

    def _java(self, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
        options = ("-Xmx320m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *self._jvm)
        command = [*java(*options, version=self._version), main, *arguments]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT)

    def _wait(self) -> None:
        """Wait until the broker is active: then its client listener accepts connections."""
        assert self._process is not None
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise BrokerFailed(f"the broker exited with status {self._process.returncode}\n{self.log()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise BrokerFailed(f"the broker does not respond after {START_S} s\n{self.log()}")


def _new_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _build(version: str) -> None:
    """Write the archive of classes, and the formatted storage directory."""
    archive, formatted = _archive(version), _formatted(version)
    archive.unlink(missing_ok=True)
    shutil.rmtree(formatted, ignore_errors=True)
    new = archive.with_suffix(".new")
    to_format = Broker(version=version)
    to_format.format()
    shutil.copytree(to_format.log_dir, formatted)
    to_format.close()
    with Broker(jvm=(f"-XX:ArchiveClassesAtExit={new}",), version=version) as archiving:
        archiving.shut_down()
    new.rename(archive)


if __name__ == "__main__":
    for release in (VERSION, NEWEST):
        _build(release)
