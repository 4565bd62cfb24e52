"""`ClusterCore`: a cluster with its brokers: how it starts from a directory, and stops, and how brokers come and go."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from quorate.cluster.broker import Broker
from quorate.cluster.clock import Clock
from quorate.cluster.controller.controller import MetadataWriteError
from quorate.cluster.controller.records import config_records, feature_records
from quorate.cluster.errors import ClusterError
from quorate.cluster.faults import Faults
from quorate.cluster.features import check_levels, finalized
from quorate.cluster.log_config import LogConfig
from quorate.cluster.maintenance import Maintenance
from quorate.cluster.request_handler import RequestHandler
from quorate.cluster.security import Security
from quorate.cluster.shared import SharedCluster
from quorate.cluster.storage.data import DataDirectory, directory_error
from quorate.cluster.turns import at_once
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError
from quorate.coordinator.log import AppendError

__all__ = ["ClusterCore"]


class ClusterCore(SharedCluster):
    """A cluster.

    `notes`: what was said besides responses, the last thousands of it; `failures`: the first
    hundred tracebacks of faults of quorate's own, of which there were `failure_count`; `meter`:
    counts what is answered, if there is one.

    `racks`: broker id → rack; `properties`: brokers' settings by Kafka's names; `data`: the
    directory that everything is kept in, else it is in memory; `accept_data_loss`: start although
    data in it is missing or damaged, else that is a `ClusterError`; `start_notes`: what the start
    noticed in it; `seed`: of what is random (ids, places, choices). A directory with a cluster goes
    on with it. Raises `ClusterError` if it cannot be used.
    """

    def __init__(
        self,
        racks: Mapping[int, str | None],
        *,
        properties: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        accept_data_loss: bool = False,
        clock: Clock | None = None,
        security: Security | None = None,
        seed: int | None = None,
        on_note: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(properties, clock=clock, security=security, seed=seed, on_note=on_note)
        # What the owner of a cluster in this process does with topics, at once.
        self.create_topic = self.topic_control.create_topic
        self.internal_topic = self.topic_control.internal_topic
        self.delete_topic = self.topic_control.delete_topic
        self.add_partitions = self.partition_control.add_partitions
        self.reassign = self.partition_control.reassign
        self.faults = Faults(self.clock)
        self.brokers = {broker: self._broker(broker, rack) for broker, rack in sorted(racks.items())}
        self.maintenance = Maintenance(self.services, self.controller, self.logs, self.transactions)
        self.logs.on_unflushed = self.maintenance.unflushed
        if data is not None:
            self._load(data, accept_data_loss=accept_data_loss)
        if not self.state.features:
            self.controller.append(feature_records({}, finalized(self.broker_configs.coordinator.kafka_version)))
        self.start_notes = tuple(self.notes)

    def _load(self, path: str | PathLike[str], *, accept_data_loss: bool) -> None:
        """Replay the metadata in a directory, then open the logs of its partitions.

        Raises `ClusterError`.
        """
        data = DataDirectory(
            path,
            state=self.state,
            new_id=self.cluster_id,
            now_ms=self.clock.now_ms(),
            on_note=self.note,
            durable="log.flush.interval.messages" in self.broker_configs.properties,
            accept_data_loss=accept_data_loss,
        )
        try:
            self.logs.data = data
            self.cluster_id = data.cluster_id
            self._check_loaded(data)
            self._publish(self.state.take_delta())
            data.inspect(
                (
                    topic.name,
                    one.index,
                    topic.id,
                    one.replicas,
                    LogConfig.of(self.broker_configs, topic.config, -1).compact,
                )
                for topic in self.topics.values()
                for one in topic.partitions
            )
            self.state.forget_leaders()
            for topic in self.topics.values():
                at_once(self.logs.configuring(topic))
        except OSError as error:
            data.release()
            raise ClusterError(directory_error(path, error)) from None
        except BaseException:
            data.release()
            raise

    def _check_loaded(self, data: DataDirectory) -> None:
        """Raises `ClusterError` if brokers are missing, or are of a release that does not know the levels of the cluster's features."""
        known = self.state.brokers
        if missing := sorted(known.keys() - self.brokers.keys()):
            raise ClusterError(
                f"{data.path} is of a cluster with brokers {', '.join(map(str, known))}, there is no broker {missing[0]} now; "
                f"use {max(known)} brokers, or another directory"
            )
        try:
            check_levels(self.features, self.broker_configs.coordinator.kafka_version)
        except ConfigError as error:
            raise ClusterError(f"{data.path}: {error}, in another directory") from None
        for number, broker in known.items():
            if self.brokers[number].rack is None:
                self.brokers[number].rack = broker.rack

    @property
    def notes(self) -> list[str]:
        """What was said besides responses, the last thousands of it."""
        return self.reports.notes

    @property
    def failures(self) -> list[str]:
        """The first hundred tracebacks of faults of quorate's own."""
        return self.reports.failures

    @property
    def failure_count(self) -> int:
        """How many faults of quorate's own there were."""
        return self.reports.failure_count

    def _broker(self, number: int, rack: str | None) -> Broker:
        return Broker(self, number, rack, lambda broker: RequestHandler(broker, self.faults))

    # ---- life

    def started(self) -> None:
        """All brokers are up, in a loop that runs: they register, leaders are chosen, and logs are looked after.

        Raises `ClusterError` after `close`, and where the disk has no room.
        """
        data = self.data
        if data is not None and data.closed:
            raise ClusterError(f"{data.path} was closed; make another cluster with it")
        if data is not None:
            self.controller.log = data.metadata
        try:
            self.register(*(broker for broker in self.brokers.values() if broker.serving))
        except OSError as error:
            if data is None:
                raise
            raise ClusterError(directory_error(data.path, error)) from None
        self.maintenance.start()

    def register(self, *brokers: Broker) -> None:
        """Brokers have started."""
        self.broker_control.register((one.id, one.rack, one.host, one.port) for one in brokers)

    def stop_broker(self, broker: int) -> None:
        """Stop a broker: others lead in its place at once.

        Raises `ClusterError` for one that does not exist.
        """
        self.need_broker(broker).stop()
        self.broker_control.fence(broker)

    def add_broker(self, rack: str | None) -> Broker:
        """One more broker, with the next number, which is to start, then to be registered."""
        added = self._broker(max(self.brokers) + 1, rack)
        self.brokers = {**self.brokers, added.id: added}  # another one: somebody may be going through the old one
        return added

    def remove_broker(self, broker: int) -> None:
        """Stop a broker and forget it.

        Raises `ClusterError`, and leaves it as it is, while it has replicas, or if it is the last
        one.
        """
        self.controller.changes.finish()  # new partitions may have replicas on it
        found = self.need_broker(broker)
        replicas = sum(broker in one.replicas for topic in self.topics.values() for one in topic.partitions)
        if replicas:
            raise ClusterError(f"broker {broker} has replicas of {replicas} partitions; move them to others first")
        if len(self.brokers) == 1:
            raise ClusterError(f"broker {broker} is the last one; stop the cluster instead")
        found.stop()
        self.brokers = {number: one for number, one in self.brokers.items() if number != broker}
        self.broker_control.unregister(broker)

    def need_broker(self, broker: int) -> Broker:
        """A broker by id. Raises `ClusterError`."""
        found = self.brokers.get(broker)
        if found is None:
            known = ", ".join(map(str, self.brokers))
            raise ClusterError(f"there is no broker {broker}, only {known}")
        return found

    def close(self) -> None:
        """Stop in order, after the brokers: everything is on the disk if there is one."""
        self.maintenance.stop()
        self.turns.close()
        self.controller.changes.finish()
        self.transactions.runtime.close()
        self.groups.runtime.close()
        if self.data is not None:
            try:
                self.controller.write_pending()
                self.data.close()
            except (OSError, MetadataWriteError, AppendError) as error:
                self.note(f"{self.data.path} could not be closed in order: {error}; the next start recovers it")
            finally:
                self.data.release()

    # ---- the owner's changes

    def change_version(self, version: str) -> None:
        """Have brokers and coordinators be of another release of Kafka, on the same logs.

        The levels of features stay. Raises `ConfigError` or `ValueError` for a version that cannot
        be.
        """
        parsed = KafkaVersion.parse(version)
        check_levels(self.features, parsed)
        self.broker_configs.upgrade(parsed)
        self.controller.version += 1
        self.logs.broker_configs_changed()  # releases have defaults of their own
        for broker in self.brokers.values():
            broker.drop_clients()  # as brokers that restart do; clients ask for versions anew
        self.groups.runtime.restart()

    def change_features(self, levels: Mapping[str, int]) -> None:
        """Agree on other levels of features.

        What is not named is off. Raises `ApiError` if that cannot be written.
        """
        with self.controller.changes.at_once():
            self.controller.append(feature_records(self.features, levels))

    def change_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a topic, group, broker or subscription, which are taken to be valid.

        Raises `ApiError` if that cannot be written.
        """
        with self.controller.changes.at_once():
            old = self.state.configs_of(resource_type, name)
            self.controller.append(config_records(resource_type, name, old, configs))
