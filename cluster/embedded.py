"""`EmbeddedCluster`: brokers with racks in this process, which behave as Kafka's.

    with EmbeddedCluster(racks=["a", "b", "c"]) as kafka:
        kafka.bootstrap_servers

It runs in a thread of its own, for blocking clients. With `async with` it runs in the caller's
loop. Timeouts, such as for detecting a broker that does not respond, take their configured time, as
on real brokers; starting and stopping takes none.

The module is longer than others, because it has the whole interface of a cluster.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from quorate.cluster.broker import LOOPBACK
from quorate.cluster.clock import Clock
from quorate.cluster.core import ClusterCore
from quorate.cluster.errors import ClusterError
from quorate.cluster.faults import Faults
from quorate.cluster.interface import BrokerInfo, Cluster, check_rack, racks_of_brokers
from quorate.cluster.loop_thread import LoopThread
from quorate.cluster.meter import Meter
from quorate.cluster.parameters import check_types
from quorate.cluster.security import Security, SecurityProtocol, generate_security
from quorate.cluster.temporary_folder import TemporaryFolder
from quorate.cluster.waiting import wait_for
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError
from quorate.coordinator.errors import ApiError

T = TypeVar("T")

NOT_RUNNING = "the cluster is not running: use it in a `with` block, or await `start()`"


class EmbeddedCluster(Cluster):
    """A cluster with brokers 1 to `brokers`, by default one for each rack.

    `racks`: assigned to brokers round-robin. `ports`: one for each broker, by default free ones.
    `host`: the listen address. `advertised_host`, `advertised_ports`: what clients receive instead
    of `host` and `ports`, for example if a container publishes other ports.
    `version`: the release to behave as, such as "4.0.2": versions of APIs, features and group
    coordination (default: the newest). `properties`: configs of all brokers, by Kafka's names;
    a note names those that Kafka does not have, which brokers ignore.

    `data`: the data directory; a later cluster with as many brokers can start from it. Without it,
    data is in memory and is lost on stop. `accept_data_loss`: start although data in the directory
    is missing or damaged; the notes name each loss, and damaged files are copied to
    `DIR/damaged-…`.

    `clock`: another clock than the machine's. `security`: TLS and SASL, or a protocol, for which a
    certificate and a user are generated, with `password` for that user. `seed`: for random choices.
    `metered`: count requests. `on_note`: called with each report of a broker.

    Raises `ClusterError` for contradicting parameters, and at the start for a port in use;
    `ConfigError` for invalid configs.
    """

    def __init__(
        self,
        brokers: int | None = None,
        *,
        racks: Sequence[str | None] = (),
        ports: Sequence[int] | None = None,
        host: str = LOOPBACK,
        advertised_host: str | None = None,
        advertised_ports: Sequence[int] | None = None,
        version: str | None = None,
        properties: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        accept_data_loss: bool = False,
        clock: Clock | None = None,
        security: Security | SecurityProtocol = "PLAINTEXT",
        password: str | None = None,
        seed: int | None = None,
        metered: bool = False,
        timeout_ms: int = 60_000,
        on_note: Callable[[str], object] | None = None,
    ) -> None:
        check_types(locals())
        self.timeout_ms = timeout_ms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None
        self._thread: LoopThread | None = None
        self._files: TemporaryFolder | None = None
        self._pid = os.getpid()
        if not host:  # sockets would listen on all addresses of the machine
            raise ClusterError("host is empty: give an address to listen on, such as 127.0.0.1")
        named = racks_of_brokers(1 if brokers is None and not racks else brokers, racks or ())
        for given in (ports, advertised_ports):
            if given is not None and len(given) != len(named):
                raise ClusterError(f"{len(given)} ports for {len(named)} brokers; give one port for each broker")
        if version is not None:
            properties = {**(properties or {}), "kafka.version": version}
        try:
            if isinstance(security, Security):
                if password is not None:
                    raise ClusterError("a password has no effect with a Security, which has the users")
            else:
                if security in ("SSL", "SASL_SSL"):
                    self._files = TemporaryFolder()
                security = generate_security(
                    security, self._files.path if self._files else None, password, host=advertised_host or host
                )
            self.core = ClusterCore(
                named,
                properties=properties,
                data=data,
                accept_data_loss=accept_data_loss,
                clock=clock,
                security=security,
                seed=seed,
                on_note=on_note,
            )
        except BaseException:
            self._remove_files()
            raise
        if metered:
            self.core.meter = Meter()
        any_port = [0] * len(named)
        for broker, port, advertised in zip(
            self.core.brokers.values(), ports or any_port, advertised_ports or any_port, strict=True
        ):
            broker.listen_host, broker.listen_port = host, port
            broker.host, broker.port = advertised_host or host, advertised or port

    # ---- state

    @property
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""
        version = str(self.core.broker_configs.coordinator.kafka_version)
        return [
            BrokerInfo(
                id=broker.id,
                rack=broker.rack,
                address=broker.address,
                version=version,
                state="stopped" if not broker.serving else "paused" if broker.frozen else "running",
            )
            for broker in self.core.brokers.values()
        ]

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every broker, separated by commas.

        Raises `ClusterError` before the start, when ports are not known.
        """
        if not all(broker.port for broker in self.core.brokers.values()):
            raise ClusterError(NOT_RUNNING)
        return ",".join(broker.address for broker in self.core.brokers.values())

    @property
    def responsive_servers(self) -> str:
        """`bootstrap_servers` without brokers that are stopped, paused or cut off."""
        brokers = self.core.brokers.values()
        return (
            ",".join(broker.address for broker in brokers if broker.serving and not broker.silent)
            or self.bootstrap_servers
        )

    @property
    def client_config(self) -> dict[str, Any]:
        """Configs for kafka-python's clients to connect, including generated credentials."""
        return {**super().client_config, **self.core.security.client_config}

    def _check_blocking(self) -> None:
        if self._in_loop:
            raise ClusterError(
                "a blocking client would deadlock in the loop of its own cluster",
                "use it in a thread: await asyncio.to_thread(kafka.create_topic, ...)",
            )
        self._need_running()

    def close_admin(self) -> None:
        """Close the admin client, if one was created. Raises `ClusterError` in a forked process."""
        self._need_own_process()
        super().close_admin()

    def _need_running(self) -> None:
        """Raise `ClusterError` before the start, after the stop, and in a forked process."""
        if self._loop is None:
            raise ClusterError(NOT_RUNNING)
        self._need_own_process()

    def _need_own_process(self) -> None:
        if self._loop is not None and self._pid != os.getpid():
            raise ClusterError(
                f"the cluster runs in process {self._pid}, which started it",
                "in a forked process, connect clients to bootstrap_servers, and call nothing else",
            )

    @property
    def faults(self) -> Faults:
        """Injected faults, and the recorded requests."""
        return self.core.faults

    @property
    def cluster_id(self) -> str:
        """The cluster id."""
        return self.core.cluster_id

    @property
    def start_notes(self) -> Sequence[str]:
        """Reports of the start: about the data directory, and of configs that brokers ignore."""
        return self.core.start_notes

    @property
    def failures(self) -> Sequence[str]:
        """The first hundred tracebacks of internal errors."""
        return self.core.failures

    def logs(self, broker: int) -> str:
        """Return what a broker has reported."""
        self.core.need_broker(broker)
        mark = f"broker {broker}: "
        notes = self.call(lambda: list(self.core.notes))
        return "".join(f"{line.removeprefix(mark)}\n" for line in notes if line.startswith(mark))

    def copy_segments(
        self, destination: str | PathLike[str], topic: str = CONSUMER_OFFSETS, *, broker: int | None = None
    ) -> Path:
        """Write a topic's batches into folders TOPIC-PARTITION, as in a broker's log directory."""

        def write() -> None:
            found = self.core.topics.get(topic)
            if found is None:
                raise ClusterError(f"topic {topic} does not exist")
            for partition in found.partitions:
                if broker is not None and broker not in partition.replicas:
                    continue
                folder = Path(destination) / f"{topic}-{partition.index}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{partition.log.start_offset:020}.log").write_bytes(
                    b"".join(batch.data for batch in partition.log)
                )

        self.call(write)
        return Path(destination)

    # ---- in the caller's loop

    async def start(self) -> None:
        """Start all brokers in the running loop.

        Raises `ClusterError` if a port is in use. After any error no broker runs.
        """
        if self._loop is not None:
            raise ClusterError("the cluster is running already")
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._pid = os.getpid()
        try:
            for broker in self.core.brokers.values():
                await broker.start()
            self.core.started()
        except BaseException:
            for broker in self.core.brokers.values():
                broker.stop()
            self.core.close()
            self._on_stopped()
            raise

    async def stop(self, *, grace_ms: int = 250) -> None:
        """Stop all brokers, in the loop in which they run.

        Completed responses are sent within `grace_ms`; pending requests get none. Raises
        `ClusterError` in another loop.
        """
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise ClusterError("the cluster runs in another thread", "call close(), or leave its `with` block")
        self.close_admin()
        brokers = self.core.brokers.values()
        for broker in brokers:
            broker.stop(at_once=False)
        self.core.groups.runtime.close()
        until = loop.time() + grace_ms / 1000
        await asyncio.sleep(0)
        while any(broker.connections for broker in brokers) and loop.time() < until:
            await asyncio.sleep(0.001)
        for broker in brokers:
            broker.drop_clients()
        self.core.close()
        self._on_stopped()

    def _on_stopped(self) -> None:
        self._loop = self._loop_thread = None
        self._remove_files()

    def _remove_files(self) -> None:
        if self._files is not None:
            self._files.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ---- in a thread

    def __enter__(self) -> Self:
        """Start in a thread, unless it is running."""
        if self._thread is None:
            self._thread = LoopThread(self.start)
        return self

    def close(self, *, grace_ms: int = 250) -> None:
        """Stop a cluster that runs in a thread; `grace_ms` as for `stop`.

        Does nothing in a forked process: the cluster continues in the process that started it.
        Raises `ClusterError` if it runs in the caller's loop.
        """
        if self._pid != os.getpid():
            return
        if self._loop is not None and self._thread is None:
            raise ClusterError("the cluster runs in an event loop of the program", "await stop()")
        self.close_admin()
        if self._thread is not None:
            self._thread.end(self.stop(grace_ms=grace_ms))
            self._thread = None
        self._remove_files()

    @property
    def _in_loop(self) -> bool:
        """Whether the caller runs in the cluster's loop, and must not block."""
        return self._loop_thread == threading.get_ident()

    def call(self, action: Callable[[], T], *, timeout_ms: int | None = None) -> T:
        """Call a function in the cluster's thread, and return its result.

        In the cluster's own loop, or before the start, the function is called directly. Raises
        `TimeoutError` if it is not called in time.
        """
        self._need_own_process()
        if self._loop is None or self._in_loop:
            return action()

        async def run() -> T:
            return action()

        waiting = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return waiting.result(None if timeout_ms is None else timeout_ms / 1000)

    def _wait(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """Run a coroutine in the cluster's loop and wait for it.

        `instead`: what to write within that loop, for the error.
        """
        try:
            self._need_running()
            if self._in_loop:
                raise ClusterError("blocking calls would deadlock in the cluster's own loop", f"await {instead}")
        except ClusterError:
            work.close()
            raise
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _change(self, action: Callable[[], object]) -> None:
        """Change brokers, and close the admin client, which may know the old ones."""
        self.close_admin()
        self.call(action)

    # ---- brokers

    def stop_broker(self, broker: int) -> None:
        """Stop a broker; its leaderships move at once."""
        self._change(lambda: self.core.stop_broker(broker))

    def kill_broker(self, broker: int) -> None:
        """Stop a broker; connections close, and it is fenced at once."""
        self.stop_broker(broker)

    async def start_broker_async(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """`start_broker` in the cluster's own loop."""
        found = self.core.need_broker(broker)
        self._check_version(version)
        if found.serving:
            raise ClusterError(f"broker {broker} is running")
        check_rack(rack)
        if rack is not None:
            found.rack = rack or None
        await found.start()
        self.core.register(found)

    def start_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """Start a stopped broker on its old port, optionally in another rack ("" for none).

        In the cluster's own loop, use `start_broker_async`.
        """
        self.close_admin()
        self._wait(self.start_broker_async(broker, rack=rack, version=version), f"start_broker_async({broker})")

    def restart_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """`stop_broker`, then `start_broker`."""
        self._check_version(version)  # before the broker is stopped
        super().restart_broker(broker, rack=rack, version=version)

    def _check_version(self, version: str | None) -> None:
        if version is None:
            return
        try:
            wanted = KafkaVersion.parse(version)
        except ValueError as error:
            raise ClusterError(str(error)) from None
        if wanted != self.core.broker_configs.coordinator.kafka_version:
            raise ClusterError(
                "all brokers of an embedded cluster have the same version",
                f"upgrade all of them: quorate cluster upgrade {version}",
                "labs in containers can mix versions: quorate cluster up --runtime docker",
            )

    async def add_broker_async(self, *, rack: str | None = None, port: int = 0) -> int:
        """`add_broker` in the cluster's own loop."""
        check_rack(rack)
        other = next(iter(self.core.brokers.values()))
        added = self.core.add_broker(rack)
        added.listen_host, added.host, added.listen_port = other.listen_host, other.host, port
        try:
            await added.start()
        except BaseException:
            self.core.remove_broker(added.id)
            raise
        self.core.register(added)
        return added.id

    def add_broker(self, *, rack: str | None = None, port: int = 0) -> int:
        """Start one more broker, and return its id.

        It has no replicas until topics are created or replicas are moved. In the cluster's own
        loop, use `add_broker_async`.
        """
        self.close_admin()
        return self._wait(self.add_broker_async(rack=rack, port=port), "add_broker_async()")

    def remove_broker(self, broker: int) -> None:
        """Stop and unregister a broker.

        Raises `ClusterError`, and changes nothing, while it has replicas: move them first.
        """
        self._change(lambda: self.core.remove_broker(broker))

    def pause_broker(self, broker: int) -> None:
        """Pause a broker: connections stay open, and it does not respond."""
        self._change(lambda: self.core.need_broker(broker).freeze(True))

    def resume_broker(self, broker: int) -> None:
        """Resume a paused broker."""
        self._change(lambda: self.core.need_broker(broker).freeze(False))

    def wait_fenced(self, broker: int) -> None:
        """Wait until a broker that is paused or cut off from the controller is fenced."""
        found = self.core.need_broker(broker)
        wait_for(f"broker {broker} is fenced", lambda: not found.alive, self.timeout_ms)

    def cut(self, broker: int, *others: int) -> None:
        """Cut a broker off from clients, or from all other brokers.

        Partial partitions between brokers are not supported.
        """
        if others and set(others) | {broker} != set(self.core.brokers):
            raise ClusterError(
                f"cannot cut broker {broker} off from {', '.join(map(str, others))} only: "
                "embedded brokers exchange no packets",
                "cut it off from all other brokers, or, without naming brokers, from clients; "
                "real brokers (--runtime docker) can be cut off from each other",
            )
        found = self.core.need_broker(broker)
        self._change(lambda: found.cut_from_controller(True) if others else found.cut(True))

    def heal(self) -> None:
        """Undo every `cut`."""

        def heal() -> None:
            for broker in self.core.brokers.values():
                broker.cut(False)
                broker.cut_from_controller(False)

        self._change(heal)

    def upgrade(self, version: str) -> None:
        """Change the version of all brokers and coordinators, on the same logs."""
        try:
            self._change(lambda: self.core.change_version(version))
        except (ConfigError, ValueError) as error:
            raise ClusterError(f"cannot change to version {version}: {error}") from None

    def wait_ready(self) -> None:
        """Create `__consumer_offsets`, and wait until running brokers are unfenced.

        It also exists on brokers in containers when they are ready. Raises `ClusterError` if it
        cannot be created, and after `timeout_ms` with a broker that is cut off from the others.
        """
        try:
            self.call(lambda: self.core.internal_topic(CONSUMER_OFFSETS))
        except ApiError as error:
            remedy = ("free some space",) if error.code is ErrorCode.KAFKA_STORAGE_ERROR else ()
            raise ClusterError(f"{CONSUMER_OFFSETS} cannot be created: {error}", *remedy) from None
        running = [self.core.need_broker(info.id) for info in self.brokers if info.state == "running"]

        def unfenced() -> bool:
            if fenced := [broker.id for broker in running if not broker.alive]:
                raise ClusterError(f"fenced: {fenced}")
            return True

        wait_for("running brokers are unfenced", unfenced, self.timeout_ms, also=(ClusterError,))
