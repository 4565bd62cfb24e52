"""One Kafka process in a container: how it is configured, started, stopped and paused.

A node has a name, a volume and a port that do not change. Each start creates a new container, which
may have another rack, configuration or Kafka version on the same data.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quorate.cluster.errors import ClusterError
from quorate.cluster.waiting import wait_for
from quorate.integration.containers.engine import Session, engine, engine_errors
from quorate.integration.containers.plan import DATA, new_id

if TYPE_CHECKING:
    from docker.models.containers import Container
    from testcontainers.core.network import Network

_VERSION = "io.quorate.version"
_RACK = "io.quorate.rack"
"""Labels of a container: the version and the rack of its start."""

_PROPERTIES = "/tmp/server.properties"
# Formatting takes another JVM, so it is done once. Both steps run as the same user.
_START_SCRIPT = "/tmp/start.sh"
# A class data archive, as in the official image and in those of docker/image, saves 2/5 of the CPU
# time of a start. Images of docker/image also have what kafka-storage.sh writes without options,
# which only differs in ids and timestamps. That saves a quarter of a first start. Those of 4.4 have
# other files: there, each directory is formatted.
_START = f"""set -e
if [ -f /opt/kafka/kafka.jsa ]; then
    export KAFKA_JVM_PERFORMANCE_OPTS="$KAFKA_JVM_PERFORMANCE_OPTS -XX:SharedArchiveFile=/opt/kafka/kafka.jsa"
fi
if [ ! -f {DATA}/meta.properties ]; then
    formatted=/opt/kafka/formatted
    if [ -f $formatted/bootstrap.checkpoint ] && [ -z "$FORMAT_OPTIONS" ] && ! grep -q '^unstable' {_PROPERTIES}; then
        cp $formatted/* {DATA}
        node=$(grep '^node.id=' {_PROPERTIES})
        sed -i -e "s/^cluster.id=.*/cluster.id=$CLUSTER_ID/" -e "s/^node.id=.*/$node/" \\
            -e "s/^directory.id=.*/directory.id=$DIRECTORY_ID/" {DATA}/meta.properties
    else
        /opt/kafka/bin/kafka-storage.sh format --cluster-id="$CLUSTER_ID" --config {_PROPERTIES} \\
            $FORMAT_OPTIONS >/dev/null
    fi
fi
exec /opt/kafka/bin/kafka-server-start.sh {_PROPERTIES}
"""

# Tests share two cores with the brokers: C1 and the serial collector start faster and use less CPU.
_ENVIRONMENT = {
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto",
}


_FREEZE_MS = 60_000

_ERROR_WORDS = (" ERROR ", " FATAL ", "Exception", "Caused by")


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
        self.should_run = False
        """Whether the node was started, and not stopped since."""
        self._session = session
        self._network = network
        self._ports = dict(ports)
        self._environment = {**_ENVIRONMENT, "KAFKA_HEAP_OPTS": f"-Xms128m -Xmx{heap_mb}m", **environment}
        self._earlier_logs = ""
        self._container: Container | None = None
        self.disk_mb = disk_mb
        self._volume = self._full_name = f"quorate-{session.name}-{name}"

    def adopt(self) -> None:
        """Attach to the container that another process has started."""
        from docker.errors import NotFound

        with contextlib.suppress(NotFound):  # that process stopped the node and ended before a start
            self._container = engine().containers.get(self._full_name)
            self.version = self._container.labels[_VERSION]
            self.rack = self._container.labels[_RACK] or None
            self.should_run = self.state != "stopped"

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
        """Start the process on the node's data. Returns when the container runs.

        `files`: contents, path and mode of further files. `format_options`: options of
        kafka-storage.sh for the first start.
        """
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        # Our own watcher cleans up (engine.py); Ryuk's image is not available everywhere.
        testcontainers_config.ryuk_disabled = True
        # This does nothing if the volume exists.
        engine().volumes.create(self._volume, labels=self._session.labels, driver_opts=self._disk())
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
            .with_envs(**self._environment, FORMAT_OPTIONS=format_options, DIRECTORY_ID=new_id())
            .with_volume_mapping(self._volume, DATA, "rw")
        )
        ports: dict[Any, Any] = container.ports  # the methods of DockerContainer publish on all interfaces
        ports.update({inside: ("127.0.0.1", outside) for outside, inside in self._ports.items()})
        with engine_errors(f"{self.name} cannot be started"):
            container.start()
        self.version, self.rack, self.should_run = version, rack, True
        self._container = container.get_wrapped_container()

    @property
    def container(self) -> "Container":
        """Container of the latest start, running or not."""
        if self._container is None:
            raise ClusterError(f"{self.name} has not been started")
        return self._container

    @property
    def state(self) -> str:
        """State of the process: running, paused or stopped."""
        if self._container is None:
            return "stopped"
        self._container.reload()
        return self._container.status if self._container.status in ("running", "paused") else "stopped"

    @property
    def image(self) -> str:
        """Image of the latest start; empty before that."""
        return "" if self._container is None else str(self._container.attrs["Config"]["Image"])

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; `None` while it runs."""
        if self._container is None:
            return None
        self._container.reload()
        return None if self._container.status != "exited" else int(self._container.attrs["State"]["ExitCode"])

    def stop(self, timeout_ms: int) -> None:
        """Terminate the process, and kill it after `timeout_ms` if it still runs."""
        with engine_errors(f"{self.name} cannot be stopped"):
            self.resume()  # a frozen process does not handle signals
            if self.state == "running":
                self.container.stop(timeout=max(1, timeout_ms // 1000))
        self.should_run = False

    def kill(self) -> None:
        """Kill the process, if it runs."""
        with engine_errors(f"{self.name} cannot be killed"):
            self.resume()
            if self.state == "running":
                self.container.kill()
        self.should_run = False

    def pause(self) -> None:
        """Freeze the process. Raises `ClusterError`.

        Retries if runc fails: with cgroups v1 that happens on a busy machine (moby#48205).
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
        """Resume the process, if it is frozen."""
        if self.state == "paused":
            with engine_errors(f"{self.name} cannot be resumed"):
                self.container.unpause()

    def run(self, *command: str) -> str:
        """Run a command in the container, and return its standard output.

        Raises `ClusterError` with its output if it fails.
        """
        code, (out, err) = self.container.exec_run(list(command), user="root", demux=True)
        if code != 0:
            output = (err or out or b"").decode(errors="replace").strip()
            raise ClusterError(f"{self.name}: {' '.join(command)} exited with status {code}: {output}")
        return (out or b"").decode(errors="replace")

    @property
    def address(self) -> str:
        """Address of the container within the network."""
        self.container.reload()
        (found,) = [net["IPAddress"] for net in self.container.attrs["NetworkSettings"]["Networks"].values()]
        return str(found)

    def log(self) -> str:
        """Return the log of the process, over all its starts."""
        now = "" if self._container is None else self._container.logs().decode(errors="replace")
        return self._earlier_logs + now

    def log_excerpt(self, lines: int = 15) -> str:
        """Return the last lines of the log with errors, or the last lines if none has an error.

        An exception has no time: the line with the time that its message began with comes first.
        """
        logged = self.log().splitlines()
        errors: list[str] = []
        begun: str | None = None
        for line in logged:
            if line.startswith("20"):  # 2026-11-27T15:24:25.465
                begun = line
            if any(word in line for word in _ERROR_WORDS):
                errors += [line] if begun in (None, line) else [begun, line]
                begun = None
        return "\n".join((errors or logged)[-lines:])

    def _disk(self) -> dict[str, str]:
        """Return the volume's options.

        A disk of limited size is in memory, and empty at each start.
        """
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
    """Escape a value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
