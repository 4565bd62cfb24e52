"""`EmbeddedCluster`: several brokers with racks in this process, on ports of 127.0.0.1, that clients cannot tell from Kafka.

    with EmbeddedCluster(brokers=3, racks=["a", "b", "c"]) as kafka:
        kafka.bootstrap_servers

It runs in a thread of its own, so that blocking clients can be used beside it; in a program with a loop, `async with` runs it in that loop.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Self, TypeVar

from quorate.cluster.broker import LOOPBACK
from quorate.cluster.clock import Clock
from quorate.cluster.core import ClusterCore
from quorate.cluster.errors import ClusterError
from quorate.cluster.security import Security

__all__ = ["EmbeddedCluster"]

T = TypeVar("T")


async def _end_tasks() -> None:
    """End what is going on in the loop: clients that connect until the end are being accepted."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _ in range(3):  # so that connections are told that they are closed
        await asyncio.sleep(0)


class EmbeddedCluster:
    """A cluster with brokers 1 to `brokers`. `racks`: of each, or one for all, or `None`; `ports`: of each; free ones are taken where none are given.

    `host`: where they listen; `advertised_host`: what clients are told instead of that; `kafka_version`: the release that they are, such as "4.0.2", which settles versions of APIs, features, and how groups
    are coordinated (the newest by default); `properties`: settings by Kafka's names, for all brokers; `data`: a directory that
    everything is kept in, and that a later cluster with as many brokers goes on with (else it is in memory, and gone when it stops); `accept_data_loss`: start although data
    in that directory is missing or damaged, without it (the notes name each loss; damaged files are copied to `DIR/damaged-…`); `clock`: another than the machine's; `security`: TLS and logins; `seed`: of
    what is random. Raises `ClusterError` for numbers that do not go together, when it is made, and for a port that is taken, when it starts; `ConfigError` for settings.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        racks: Sequence[str | None] | None = None,
        ports: Sequence[int] | None = None,
        host: str = LOOPBACK,
        advertised_host: str | None = None,
        kafka_version: str | None = None,
        properties: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        accept_data_loss: bool = False,
        clock: Clock | None = None,
        security: Security | None = None,
        seed: int | None = None,
        on_note: Callable[[str], object] | None = None,
    ) -> None:
        if brokers < 1:
            raise ClusterError(f"{brokers} brokers are none; use 1 or more")
        for what, given in (("racks", racks), ("ports", ports)):
            if given is not None and len(given) != brokers:
                raise ClusterError(f"{len(given)} {what} for {brokers} brokers; give one for each")
        if kafka_version is not None:
            properties = {**(properties or {}), "kafka.version": kafka_version}
        named = dict(zip(range(1, brokers + 1), racks or [None] * brokers, strict=True))
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
        for broker, port in zip(self.core.brokers.values(), ports or [0] * brokers, strict=True):
            broker.listen_host, broker.host, broker.port = host, advertised_host or host, port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of every broker, separated by commas."""
        return ",".join(broker.address for broker in self.core.brokers.values())

    # ---- in a loop

    async def start(self) -> None:
        """Start all brokers in the running loop. Raises `ClusterError` if a port is taken; then, as whatever goes wrong, none runs."""
        try:
            for broker in self.core.brokers.values():
                await broker.start()
            self.core.started()
        except BaseException:
            for broker in self.core.brokers.values():
                broker.stop()
            self.core.close()
            raise

    async def stop(self, *, grace_ms: int = 250) -> None:
        """Stop all brokers, in the loop that they run in: answers that are there are still sent, for as long as `grace_ms`; requests that wait get none."""
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

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ---- in a thread

    def __enter__(self) -> Self:
        ready = threading.Event()
        failed: list[BaseException] = []

        def run() -> None:
            loop = asyncio.new_event_loop()
            self._loop = loop
            try:
                loop.run_until_complete(self.start())
            except BaseException as error:  # noqa: BLE001  # whatever it is, the thread that waits raises it
                failed.append(error)
                ready.set()
                loop.close()
                return
            ready.set()
            loop.run_forever()
            loop.run_until_complete(_end_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

        self._thread = threading.Thread(target=run, name="quorate-cluster", daemon=True)
        self._thread.start()
        ready.wait()
        if failed:
            self._thread.join()
            raise failed[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, *, grace_ms: int = 250) -> None:
        """End a cluster that runs in a thread of its own; `grace_ms` as for `stop`."""
        loop, thread = self._loop, self._thread
        assert loop is not None
        assert thread is not None
        asyncio.run_coroutine_threadsafe(self.stop(grace_ms=grace_ms), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def call(self, action: Callable[[], T], *, timeout_ms: int | None = None) -> T:
        """Do something to the cluster in its thread, and wait for it; with a loop of one's own, call it directly. Raises `TimeoutError` if its turn does not come in time."""
        if self._loop is None or threading.current_thread() is self._thread:
            return action()

        async def run() -> T:
            return action()

        waiting = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return waiting.result(None if timeout_ms is None else timeout_ms / 1000)

    # ---- the owner's doings

    def stop_broker(self, broker: int) -> None:
        """Stop a broker: others lead in its place at once."""

        def stop() -> None:
            self.core.need_broker(broker).stop()
            self.core.broker_changed()

        self.call(stop)

    async def start_broker_async(self, broker: int, *, rack: str | None = None) -> None:
        """`start_broker` in the cluster's own loop."""
        found = self.core.need_broker(broker)
        if found.alive:
            raise ClusterError(f"broker {broker} is running")
        if rack is not None:
            found.rack = rack or None
        await found.start()
        found.registered = True
        self.core.broker_changed()

    def start_broker(self, broker: int, *, rack: str | None = None) -> None:
        """Start a stopped broker on its old port, in another rack if one is given; "" is none. Not in the cluster's own loop, which it would hold up: there, `start_broker_async`."""
        if self._loop is None or threading.current_thread() is self._thread:
            raise ClusterError(f"start broker {broker} in the loop of its cluster: await start_broker_async({broker})")
        asyncio.run_coroutine_threadsafe(self.start_broker_async(broker, rack=rack), self._loop).result()

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
        added.registered = True
        self.core.broker_changed()
        return added.id

    def add_broker(self, *, rack: str | None = None, port: int = 0) -> int:
        """Start one broker more, and return its number. Nothing is on it until topics are made, or replicas moved to it. In the cluster's own loop: `add_broker_async`."""
        if self._loop is None or threading.current_thread() is self._thread:
            raise ClusterError("add a broker in the loop of its cluster: await add_broker_async()")
        return asyncio.run_coroutine_threadsafe(self.add_broker_async(rack=rack, port=port), self._loop).result()

    def remove_broker(self, broker: int) -> None:
        """Stop a broker and forget it. Raises `ClusterError`, and leaves it as it is, while it has replicas: move them first."""
        self.call(lambda: self.core.remove_broker(broker))

    def restart_broker(self, broker: int, *, rack: str | None = None) -> None:
        """`stop_broker`, then `start_broker`."""
        self.stop_broker(broker)
        self.start_broker(broker, rack=rack)
