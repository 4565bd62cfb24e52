"""`EmbeddedCluster`: several brokers with racks in this process, on ports of 127.0.0.1, that clients cannot tell from Kafka.

    with EmbeddedCluster(racks=["a", "b", "c"]) as kafka:
        kafka.bootstrap_servers

It runs in a thread of its own, so that blocking clients can be used beside it; in a program with a
loop, `async with` runs it in that loop. What brokers in containers do in seconds, such as noticing
that one does not answer, takes its configured time here, too; starting and stopping takes none.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from quorate.cluster.broker import LOOPBACK
from quorate.cluster.clock import Clock
from quorate.cluster.core import ClusterCore
from quorate.cluster.errors import ClusterError
from quorate.cluster.faults import Faults
from quorate.cluster.interface import BrokerInfo, Cluster, racks_of_brokers
from quorate.cluster.loop_thread import LoopThread
from quorate.cluster.meter import Meter
from quorate.cluster.security import Security, SecurityProtocol, generate_security
from quorate.cluster.temporary_folder import TemporaryFolder
from quorate.cluster.waiting import wait_for
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

__all__ = ["EmbeddedCluster"]

T = TypeVar("T")


class EmbeddedCluster(Cluster):
    """A cluster with brokers 1 to `brokers`, by default one for each rack.

    `racks`: of brokers, taken by turns; `ports`: of each; free ones are taken where none are given;
    `host`: where they listen; `advertised_host`: what clients are told instead of that; `version`:
    the release that they are, such as "4.0.2", which settles versions of APIs, features, and how
    groups are coordinated (the newest by default); `properties`: configs by Kafka's names, for all
    brokers; `data`: a directory that everything is kept in, and that a later cluster with as many
    brokers goes on with (else it is in memory, and gone when it stops); `accept_data_loss`: start
    although data in that directory is missing or damaged, without it (the notes name each loss;
    damaged files are copied to `DIR/damaged-…`); `clock`: another than the machine's; `security`:
    TLS and logins, or a protocol, for which a certificate and a user are generated (`password`: of
    that user); `seed`: of what is random; `metered`: count requests; `on_note`: is given what
    brokers notice.

    Raises `ClusterError` for numbers that do not go together, when it is made, and for a port that
    is taken, when it starts; `ConfigError` for configs.
    """

    def __init__(
        self,
        brokers: int | None = None,
        *,
        racks: Sequence[str | None] = (),
        ports: Sequence[int] | None = None,
        host: str = LOOPBACK,
        advertised_host: str | None = None,
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
        self.timeout_ms = timeout_ms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None
        self._thread: LoopThread | None = None
        self._files: TemporaryFolder | None = None
        named = racks_of_brokers((len(racks) or 1) if brokers is None else brokers, racks)
        if ports is not None and len(ports) != len(named):
            raise ClusterError(f"{len(ports)} ports for {len(named)} brokers; give one for each")
        if version is not None:
            properties = {**(properties or {}), "kafka.version": version}
        try:
            if isinstance(security, str):
                if security.endswith("SSL"):
                    self._files = TemporaryFolder()
                security = generate_security(security, self._files.path if self._files else None, password)
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
            self._forget_files()
            raise
        if metered:
            self.core.meter = Meter()
        for broker, port in zip(self.core.brokers.values(), ports or [0] * len(named), strict=True):
            broker.listen_host, broker.host, broker.port = host, advertised_host or host, port

    # ---- what there is

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
        """HOST:PORT of every broker, separated by commas."""
        return ",".join(broker.address for broker in self.core.brokers.values())

    @property
    def responsive_servers(self) -> str:
        """`bootstrap_servers` without brokers that answer nothing."""
        brokers = self.core.brokers.values()
        return ",".join(one.address for one in brokers if one.serving and not one.silent) or self.bootstrap_servers

    @property
    def client_config(self) -> dict[str, Any]:
        """Configuration by which kafka-python's clients reach the cluster; with a generated login where there is one."""
        return {**super().client_config, **self.core.security.client_config}

    def _make_admin(self) -> "KafkaAdminClient":
        if self._in_loop:
            raise ClusterError(
                "a client in the loop of its cluster would wait for itself",
                "use it in a thread: await asyncio.to_thread(kafka.create_topic, ...)",
            )
        return super()._make_admin()

    @property
    def faults(self) -> Faults:
        """What goes wrong with requests, and the requests that came."""
        return self.core.faults

    @property
    def cluster_id(self) -> str:
        """The id that clients are told."""
        return self.core.cluster_id

    @property
    def start_notes(self) -> Sequence[str]:
        """What the start noticed in the data directory."""
        return self.core.start_notes

    @property
    def failures(self) -> Sequence[str]:
        """Tracebacks of faults of quorate's own, the first hundred."""
        return self.core.failures

    def logs(self, broker: int) -> str:
        """What a broker reported besides its responses."""
        self.core.need_broker(broker)
        mark = f"broker {broker}: "
        notes = self.call(lambda: list(self.core.notes))
        return "".join(f"{line.removeprefix(mark)}\n" for line in notes if line.startswith(mark))

    def copy_segments(
        self, destination: str | PathLike[str], topic: str = CONSUMER_OFFSETS, *, broker: int | None = None
    ) -> Path:
        """Write a topic's batches into folders TOPIC-PARTITION, as a broker's log directory has them."""

        def write() -> None:
            found = self.core.topics.get(topic)
            if found is None:
                raise ClusterError(f"there is no topic {topic}")
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

    # ---- in a loop

    async def start(self) -> None:
        """Start all brokers in the running loop.

        Raises `ClusterError` if a port is taken; then, as whatever goes wrong, none runs.
        """
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        try:
            for broker in self.core.brokers.values():
                await broker.start()
            self.core.started()
        except BaseException:
            for broker in self.core.brokers.values():
                broker.stop()
            self.core.close()
            self._ended()
            raise

    async def stop(self, *, grace_ms: int = 250) -> None:
        """Stop all brokers, in the loop that they run in: responses that are there are still sent, for as long as `grace_ms`; requests that wait get none."""
        loop = asyncio.get_running_loop()
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
        self._ended()

    def _ended(self) -> None:
        self._loop = self._loop_thread = None
        self._forget_files()

    def _forget_files(self) -> None:
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
        """Start in a thread, unless it runs already."""
        if self._thread is None:
            self._thread = LoopThread(self.start)
        return self

    def close(self, *, grace_ms: int = 250) -> None:
        """End a cluster that runs in a thread of its own; `grace_ms` as for `stop`."""
        self.close_admin()
        if self._thread is not None:
            self._thread.end(self.stop(grace_ms=grace_ms))
            self._thread = None
        self._forget_files()

    @property
    def _in_loop(self) -> bool:
        """Whether the caller is in the cluster's own loop, and must not wait for it."""
        return self._loop_thread == threading.get_ident()

    def call(self, action: Callable[[], T], *, timeout_ms: int | None = None) -> T:
        """Call a function in the cluster's thread, and wait for it; in its own loop, or before it runs, at once.

        Raises `TimeoutError` if its turn does not come in time.
        """
        if self._loop is None or self._in_loop:
            return action()

        async def run() -> T:
            return action()

        waiting = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return waiting.result(None if timeout_ms is None else timeout_ms / 1000)

    def _wait(self, work: Coroutine[Any, Any, T], instead: str) -> T:
        """Wait for what takes more than one turn of the loop.

        `instead`: what to write in the loop itself.
        """
        if self._loop is None or self._in_loop:
            work.close()
            raise ClusterError("brokers start in the loop of their cluster, which must not wait", f"await {instead}")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _change(self, action: Callable[[], object]) -> None:
        """Change brokers: the admin client is made again, which may know others."""
        self.close_admin()
        self.call(action)

    # ---- brokers come and go

    def stop_broker(self, broker: int) -> None:
        """Stop a broker: others lead in its place at once."""
        self._change(lambda: self.core.stop_broker(broker))

    def kill_broker(self, broker: int) -> None:
        """Stop a broker. Its connections close, and that it is gone is noticed at once."""
        self.stop_broker(broker)

    async def start_broker_async(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """`start_broker` in the cluster's own loop."""
        found = self.core.need_broker(broker)
        self._check_version(version)
        if found.serving:
            raise ClusterError(f"broker {broker} is running")
        if rack is not None:
            found.rack = rack or None
        await found.start()
        self.core.register(found)

    def start_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """Start a stopped broker on its old port, in another rack if one is given; "" is none.

        In the cluster's own loop: `start_broker_async`.
        """
        self.close_admin()
        self._wait(self.start_broker_async(broker, rack=rack, version=version), f"start_broker_async({broker})")

    def restart_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """`stop_broker`, then `start_broker`."""
        self._check_version(version)  # before the broker is stopped for nothing
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
                "all brokers of an embedded cluster are of one release",
                f"move all of them: quorate cluster upgrade {version}",
                "labs that run in containers can be mixed: quorate cluster up --runtime docker",
            )

    async def add_broker_async(self, *, rack: str | None = None, port: int = 0) -> int:
        """`add_broker` in the cluster's own loop."""
        other = next(iter(self.core.brokers.values()))
        added = self.core.add_broker(rack)
        added.listen_host, added.host, added.port = other.listen_host, other.host, port
        try:
            await added.start()
        except BaseException:
            self.core.remove_broker(added.id)
            raise
        self.core.register(added)
        return added.id

    def add_broker(self, *, rack: str | None = None, port: int = 0) -> int:
        """Start one broker more, and return its number.

        Nothing is on it until topics are made, or replicas moved to it. In the cluster's own loop:
        `add_broker_async`.
        """
        self.close_admin()
        return self._wait(self.add_broker_async(rack=rack, port=port), "add_broker_async()")

    def remove_broker(self, broker: int) -> None:
        """Stop a broker and forget it.

        Raises `ClusterError`, and leaves it as it is, while it has replicas: move them first.
        """
        self._change(lambda: self.core.remove_broker(broker))

    def pause_broker(self, broker: int) -> None:
        """Freeze a broker: connections stay open and nothing answers."""
        self._change(lambda: self.core.need_broker(broker).freeze(True))

    def resume_broker(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self._change(lambda: self.core.need_broker(broker).freeze(False))

    def wait_fenced(self, broker: int) -> None:
        """Wait until others lead in the place of a broker that is frozen or cut off from them."""
        found = self.core.need_broker(broker)
        wait_for(f"broker {broker} is fenced", lambda: not found.alive, self.timeout_ms)

    def cut(self, broker: int, *others: int) -> None:
        """Cut a broker off from the clients, or from all other brokers.

        Between some brokers only there is nothing that could be cut.
        """
        if others and set(others) | {broker} != set(self.core.brokers):
            raise ClusterError(
                f"brokers {broker} and {', '.join(map(str, others))} of an embedded cluster exchange nothing that could be cut",
                "cut a broker off from all others, or, without naming others, from clients; real brokers (--runtime docker) can be cut off from each other",
            )
        found = self.core.need_broker(broker)
        self._change(lambda: found.lose_controller(True) if others else found.cut(True))

    def heal(self) -> None:
        """Undo every `cut`."""

        def heal() -> None:
            for broker in self.core.brokers.values():
                broker.cut(False)
                broker.lose_controller(False)

        self._change(heal)

    def upgrade(self, version: str) -> None:
        """Have brokers and coordinators be of another release, on the same logs."""
        try:
            self._change(lambda: self.core.change_version(version))
        except (ConfigError, ValueError) as error:
            raise ClusterError(f"version {version} cannot be: {error}") from None

    def wait_ready(self) -> None:
        """Have `__consumer_offsets`, as brokers in containers do by then.

        Raises `ClusterError` if it cannot be made.
        """
        try:
            self.call(lambda: self.core.internal_topic(CONSUMER_OFFSETS))
        except ApiError as refusal:
            remedy = ("free some space",) if refusal.code is ErrorCode.KAFKA_STORAGE_ERROR else ()
            raise ClusterError(f"{CONSUMER_OFFSETS} cannot be made: {refusal}", *remedy) from None
