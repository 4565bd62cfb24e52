"""`EmbeddedKafka`: `quorate.cluster` behind the interface that the containers have, so that a scenario runs on either.

What brokers in containers do in seconds, such as noticing that one does not answer, takes its configured time here, too; starting and stopping takes none.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from quorate.cluster import EmbeddedCluster, Security, make_certificate
from quorate.cluster.broker import LOOPBACK
from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import BrokerInfo, Cluster
from quorate.cluster.meter import Meter
from quorate.cluster.waiting import wait_for
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError
from quorate.coordinator.errors import ApiError
from quorate.integration.own_folder import OwnFolder

__all__ = ["EmbeddedKafka"]

_DEFAULTS: Mapping[str, object] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "broker.session.timeout.ms": 4000,
}
"""Those of the containers, as far as they mean something here."""

VERSION = str(KafkaVersion.NEWEST)
_USER = "quorate"
_MECHANISM = "SCRAM-SHA-512"


class EmbeddedKafka(Cluster):
    """A cluster in this process.

    `racks`: taken by turns for `brokers` brokers, one for each by default; `version`: the release that coordinators behave like;
    `properties`: brokers' settings by Kafka's names; `data`: the directory that everything is kept in, else it is in memory; `accept_data_loss`: start although data in it is missing or damaged; `ports`: of each broker; `host`, `advertised_host`: where they listen, and what clients are told; `security`: what
    clients need, and `client_config` has (`password`: of the user quorate, made up by default); `metered`: whether `embedded.core.meter` counts. Raises `ClusterError` for
    what cannot be.
    """

    def __init__(
        self,
        *,
        brokers: int | None = None,
        racks: Sequence[str | None] = ("a", "b", "c"),
        version: str = VERSION,
        properties: Mapping[str, object] | None = None,
        data: str | PathLike[str] | None = None,
        accept_data_loss: bool = False,
        ports: Sequence[int] | None = None,
        host: str = LOOPBACK,
        advertised_host: str | None = None,
        security: Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"] = "PLAINTEXT",
        password: str | None = None,
        metered: bool = False,
        timeout_ms: int = 60_000,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.timeout_ms = timeout_ms
        count = len(racks) if brokers is None else brokers
        self._version = version
        self._closed = False
        self._login: dict[str, Any] = {}
        self._folder: OwnFolder | None = None
        given = {**_DEFAULTS, "kafka.version": version, **(properties or {})}
        try:
            self.embedded = EmbeddedCluster(
                count,
                racks=list(islice(cycle(racks), count)) if racks else None,
                ports=ports,
                properties=given,
                data=data,
                accept_data_loss=accept_data_loss,
                host=host,
                advertised_host=advertised_host,
                security=None if security == "PLAINTEXT" else self._secured(security, password),
                on_note=on_progress,
            )
            if metered:
                self.embedded.core.meter = Meter()
            self.embedded.__enter__()
        except ConfigError as error:
            self._forget_files()
            raise ClusterError(str(error)) from None
        except ClusterError:
            self._forget_files()
            raise
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise

    def _secured(self, protocol: str, password: str | None) -> Security:
        """A certificate, and a user, made anew for each cluster, and good for nothing else."""
        context = None
        users = {}
        self._login = {"security_protocol": protocol}
        try:
            if protocol.endswith("SSL"):
                self._folder = OwnFolder()
                context, ca_file = make_certificate(self._folder.path)
                self._login["ssl_cafile"] = str(ca_file)
            if protocol.startswith("SASL"):
                users = {_USER: password or secrets.token_hex(16)}
                self._login |= {
                    "sasl_mechanism": _MECHANISM,
                    "sasl_plain_username": _USER,
                    "sasl_plain_password": users[_USER],
                }
                import scramp  # noqa: F401  # now, not when the first client logs in
        except ModuleNotFoundError as error:
            self._forget_files()
            raise ClusterError(
                f"{protocol} needs the package {error.name}", "install it: pip install 'quorate[secure]'"
            ) from None
        return Security(users=users, mechanisms=(_MECHANISM,), tls=context)

    def _forget_files(self) -> None:
        if self._folder is not None:
            self._folder.close()

    @property
    def client_config(self) -> dict[str, Any]:
        """Configuration by which kafka-python's clients reach the cluster, security included."""
        return {**super().client_config, **self._login}

    def _do(self, action: Callable[[], Any]) -> Any:
        """Do something in the cluster's thread; its clients are told anew."""
        self.close_admin()
        return self.embedded.call(action)

    @property
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""
        return [
            BrokerInfo(
                id=broker.id,
                rack=broker.rack,
                address=broker.address,
                version=self._version,
                state="stopped" if not broker.serving else "paused" if broker.frozen else "running",
            )
            for broker in self.embedded.core.brokers.values()
        ]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers."""
        return self.embedded.bootstrap_servers

    @property
    def answering_servers(self) -> str:
        """Addresses of the brokers that answer."""
        brokers = self.embedded.core.brokers.values()
        return ",".join(one.address for one in brokers if one.serving and not one.silent) or self.bootstrap_servers

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down: others lead in its place at once."""
        self.close_admin()
        self.embedded.stop_broker(broker)

    def start_broker(self, broker: int, *, rack: str | None = None) -> None:
        """Start a stopped broker, in another rack if one is given."""
        self.close_admin()
        self.embedded.start_broker(broker, rack=rack)

    def kill_broker(self, broker: int) -> None:
        """End a broker at once. Its connections close; that it is gone is noticed at once, too."""
        self.stop_broker(broker)

    def pause_broker(self, broker: int) -> None:
        """Freeze a broker: connections stay open and nothing answers."""
        self._do(lambda: self.embedded.core.need_broker(broker).freeze(True))

    def resume_broker(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self._do(lambda: self.embedded.core.need_broker(broker).freeze(False))

    def wait_fenced(self, broker: int) -> None:
        """Wait until others lead in a frozen broker's place."""
        found = self.embedded.core.need_broker(broker)
        wait_for(f"broker {broker} is fenced", lambda: found.fenced or not found.serving, self.timeout_ms)

    def cut(self, broker: int, *others: int) -> None:
        """Have nothing pass between a broker and the clients, or all other brokers. Between some brokers only there is nothing that could be cut."""
        core = self.embedded.core
        if others and set(others) | {broker} != set(core.brokers):
            raise ClusterError(
                f"brokers {broker} and {', '.join(map(str, others))} of an embedded cluster exchange nothing that could be cut",
                "cut a broker off from all others, or, without naming others, from clients; real brokers (--runtime docker) can be cut off from each other",
            )
        if others:
            self._do(lambda: core.need_broker(broker).lose_controller(True))
        else:
            self._do(lambda: core.need_broker(broker).cut(True))

    def heal(self) -> None:
        """Undo every `cut`."""

        def heal() -> None:
            for broker in self.embedded.core.brokers.values():
                broker.cut(False)
                broker.lose_controller(False)

        self._do(heal)

    def upgrade(self, version: str) -> None:
        """Have the coordinators behave like another release, on the same logs."""
        try:
            self._do(lambda: self.embedded.core.change_version(version))
        except (ConfigError, ValueError) as error:
            raise ClusterError(f"version {version} cannot be: {error}") from None
        self._version = version

    def logs(self, broker: int) -> str:
        """What a broker had to say beside its responses."""
        core = self.embedded.core

        def notes() -> list[str]:
            core.need_broker(broker)
            return list(core.notes)

        found = self.embedded.call(notes)
        mark = f"broker {broker}: "
        return "".join(f"{line.removeprefix(mark)}\n" for line in found if line.startswith(mark))

    def copy_segments(self, destination: Path, topic: str = "__consumer_offsets", *, broker: int | None = None) -> Path:
        """Write a topic's batches into folders TOPIC-PARTITION, as a broker's log directory has them."""

        def write() -> None:
            found = self.embedded.core.topics.get(topic)
            if found is None:
                raise ClusterError(f"there is no topic {topic}")
            for partition in found.partitions:
                if broker is not None and broker not in partition.replicas:
                    continue
                folder = destination / f"{topic}-{partition.index}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{partition.log.start_offset:020}.log").write_bytes(
                    b"".join(batch.data for batch in partition.log)
                )

        self.embedded.call(write)
        return destination

    def wait_ready(self) -> None:
        """Have `__consumer_offsets`, as brokers in containers do by then. Raises `ClusterError` if it cannot be made."""
        try:
            self.embedded.call(lambda: self.embedded.core.internal_topic(CONSUMER_OFFSETS))
        except ApiError as refusal:
            remedy = ("free some space",) if refusal.code is ErrorCode.KAFKA_STORAGE_ERROR else ()
            raise ClusterError(f"{CONSUMER_OFFSETS} cannot be made: {refusal}", *remedy) from None

    def close(self, *, grace_ms: int = 250) -> None:
        """End the cluster; answers that are there are still sent, for as long as `grace_ms`."""
        if self._closed:
            return
        self._closed = True
        self.close_admin()
        self.embedded.close(grace_ms=grace_ms)
        self._forget_files()
