"""One Kafka process in a container: its properties, its start, and what may be done to it from outside.

A node is a name, a volume and a port that stay, and a container that is made anew for each start:
so a start may bring another rack, another configuration or another Kafka version on the same data.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quorate.cluster.errors import ClusterError
from quorate.cluster.waiting import wait_for
from quorate.integration.containers.engine import Session, engine, engine_errors
from quorate.integration.containers.plan import DATA

if TYPE_CHECKING:
    from docker.models.containers import Container
    from testcontainers.core.network import Network

__all__ = ["Node"]

_VERSION = "io.quorate.version"
_RACK = "io.quorate.rack"
"""Labels of the container: what it was started with."""

_PROPERTIES = "/tmp/server.properties"
# Formatting is a JVM of its own, so it is done once. Both steps as the same user, whatever the
# image's.
_START_SCRIPT = "/tmp/start.sh"
# Classes that an image has ready for the JVM (the official one has, and those of docker/image) take
# 2/5 off a start's CPU time.
_START = f"""set -e
if [ -f /opt/kafka/kafka.jsa ]; then
    export KAFKA_JVM_PERFORMANCE_OPTS="$KAFKA_JVM_PERFORMANCE_OPTS -XX:SharedArchiveFile=/opt/kafka/kafka.jsa"
fi
if [ ! -f {DATA}/meta.properties ]; then
    /opt/kafka/bin/kafka-storage.sh format --cluster-id="$CLUSTER_ID" --config {_PROPERTIES} $FORMAT_OPTIONS >/dev/null
fi
exec /opt/kafka/bin/kafka-server-start.sh {_PROPERTIES}
"""

# Tests share two cores with the brokers: the quick compiler and the small collector start faster
# and take less.
_ENVIRONMENT = {
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
}


_FREEZE_MS = 60_000

_WRONG = (" ERROR ", " FATAL ", "Exception", "Caused by")


class Node:
    """A broker, a controller, or both.

    `ports`: port of this host → port of the container. `rack`, `version`: of the latest start.
    """

    def __init__(
        self,
        *,
        number: int,
        name: str,
        session: Session,
        network: "Network",
        ports: Mapping[int, int],
        heap_mb: int,
        environment: Mapping[str, str],
        version: str,
        rack: str | None,
        disk_mb: int | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.version = version
        self.rack = rack
        self.wanted = False
        """Whether it was started and not stopped since."""
        self._session = session
        self._network = network
        self._ports = dict(ports)
        self._environment = {**_ENVIRONMENT, "KAFKA_HEAP_OPTS": f"-Xms128m -Xmx{heap_mb}m", **environment}
        self._earlier_logs = ""
        self._container: Container | None = None
        self.disk_mb = disk_mb
        self._volume = self._full_name = f"quorate-{session.name}-{name}"

    def adopt(self) -> None:
        """Take over what another process has started."""
        from docker.errors import NotFound

        with contextlib.suppress(NotFound):  # that process ended between two starts
            self._container = engine().containers.get(self._full_name)
            self.version = self._container.labels[_VERSION]
            self.rack = self._container.labels[_RACK] or None
            self.wanted = self.state != "stopped"

    def start(
        self,
        image: str,
        version: str,
        rack: str | None,
        properties: Mapping[str, object],
        *,
        format_options: str = "",
        files: Sequence[tuple[bytes, str, int]] = (),
    ) -> None:
        """Start the process on the node's data.

        Returns when the container runs, which is before Kafka answers.

        `files`: contents, path and mode of further files; `format_options`: of kafka-storage.sh,
        for the first start.
        """
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        # Our own watcher cleans up (engine.py); Ryuk's image cannot be had everywhere.
        testcontainers_config.ryuk_disabled = True
        engine().volumes.create(
            self._volume, labels=self._session.labels, driver_opts=self._disk()
        )  # or nothing, if it is there
        self._discard()
        text = "".join(f"{name}={_escape(str(value))}\n" for name, value in properties.items())
        container = (
            DockerContainer(
                image,
                command=f"sh {_START_SCRIPT}",
                name=self._full_name,
                network=self._network,
                network_aliases=[self.name],
                transferables=[(text.encode(), _PROPERTIES, 0o644), (_START.encode(), _START_SCRIPT, 0o644), *files],
                hostname=self.name,
                entrypoint="",
                user="root",
                cap_add=["NET_ADMIN"],  # for cut()
                labels={**self._session.labels, _VERSION: version, _RACK: rack or ""},
                stop_signal="SIGTERM",
            )
            .with_envs(**self._environment, FORMAT_OPTIONS=format_options)
            .with_volume_mapping(self._volume, DATA, "rw")
        )
        ports: dict[Any, Any] = container.ports  # its own methods publish on every interface
        ports.update({inside: ("127.0.0.1", outside) for outside, inside in self._ports.items()})
        with engine_errors(f"{self.name} cannot be started"):
            container.start()
        self.version, self.rack, self.wanted = version, rack, True
        self._container = container.get_wrapped_container()

    @property
    def container(self) -> "Container":
        """The container of the latest start, running or not."""
        if self._container is None:
            raise ClusterError(f"{self.name} has not been started")
        return self._container

    @property
    def state(self) -> str:
        """What it is doing: running, paused or stopped."""
        if self._container is None:
            return "stopped"
        self._container.reload()
        return self._container.status if self._container.status in ("running", "paused") else "stopped"

    @property
    def image(self) -> str:
        """What it runs from, as it was named at the latest start; empty before that."""
        return "" if self._container is None else str(self._container.attrs["Config"]["Image"])

    @property
    def exit_code(self) -> int | None:
        """What the process ended with; `None` while it runs."""
        if self._container is None:
            return None
        self._container.reload()
        return None if self._container.status != "exited" else int(self._container.attrs["State"]["ExitCode"])

    def stop(self, timeout_ms: int) -> None:
        """Ask the process to end, and end it after `timeout_ms` if it does not."""
        with engine_errors(f"{self.name} cannot be stopped"):
            self.resume()  # a frozen process cannot be asked
            if self.state == "running":
                self.container.stop(timeout=max(1, timeout_ms // 1000))
        self.wanted = False

    def kill(self) -> None:
        """End the process at once. One that has ended is left as it is."""
        with engine_errors(f"{self.name} cannot be killed"):
            self.resume()
            if self.state == "running":
                self.container.kill()
        self.wanted = False

    def pause(self) -> None:
        """Freeze the process.

        Tried again where runc gives up: with cgroups v1 it may fail to freeze on a busy machine
        (moby#48205). Raises `ClusterError`.
        """
        with engine_errors(f"{self.name} cannot be paused"):
            wait_for(f"{self.name} can be frozen by the container engine", self._freeze, _FREEZE_MS)

    def _freeze(self) -> bool:
        from docker.errors import APIError

        try:
            self.container.pause()
        except APIError as error:
            if "unable to freeze" not in str(error):
                raise
            return False
        return True

    def resume(self) -> None:
        """Let it go on, if it is frozen."""
        if self.state == "paused":
            with engine_errors(f"{self.name} cannot be resumed"):
                self.container.unpause()

    def run(self, *command: str) -> str:
        """Run a command in the container; its standard output.

        Raises `ClusterError` with its output if it fails.
        """
        code, (out, err) = self.container.exec_run(list(command), user="root", demux=True)
        if code != 0:
            raise ClusterError(
                f"{self.name}: {' '.join(command)} ended with {code}: {(err or out or b'').decode(errors='replace').strip()}"
            )
        return (out or b"").decode(errors="replace")

    @property
    def address(self) -> str:
        """The container's address within the network."""
        self.container.reload()
        (found,) = [net["IPAddress"] for net in self.container.attrs["NetworkSettings"]["Networks"].values()]
        return str(found)

    def log(self) -> str:
        """What the process has logged, over all its starts."""
        now = "" if self._container is None else self._container.logs().decode(errors="replace")
        return self._earlier_logs + now

    def log_excerpt(self, lines: int = 15) -> str:
        """The last lines of the log that tell of something wrong; if none does, the last lines."""
        logged = self.log().splitlines()
        wrong = [line for line in logged if any(word in line for word in _WRONG)]
        return "\n".join((wrong or logged)[-lines:])

    def _disk(self) -> dict[str, str]:
        """A disk of a limited size is memory, and empty again at the next start; any other one is the host's."""
        if self.disk_mb is None:
            return {}
        return {"type": "tmpfs", "device": "tmpfs", "o": f"size={self.disk_mb}m"}

    def _discard(self) -> None:
        from docker.errors import NotFound

        if self._container is None:
            return
        with contextlib.suppress(NotFound):
            self._earlier_logs += self._container.logs().decode(errors="replace")
            self._container.remove(force=True)
        self._container = None


def _escape(value: str) -> str:
    """A value as a Java properties file has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
