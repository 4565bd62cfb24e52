"""`ClusterCore`: a cluster with its brokers: start, stop, and changes of brokers."""

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


class ClusterCore(SharedCluster):
    """An embedded cluster without a thread of its own.

    `notes`: the last thousands of reports; `failures`: the first hundred tracebacks of internal
    errors, `failure_count` their number; `meter`: counts requests, if set.

    `racks`: broker id → rack. `properties`: brokers' configs, by Kafka's names. `data`: the data
    directory; without it, data is in memory. A cluster that it contains is started again.
    `accept_data_loss`: start although data in the directory is missing or damaged. `start_notes`:
    reports of the start. `seed`: for random ids, replica placement and choices. Raises
    `ClusterError` if the directory cannot be used.
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
        # Changes of topics by the cluster's owner, which run at once.
        self.create_topic = self.topic_control.create_topic
        self.internal_topic = self.topic_control.internal_topic
        self.delete_topic = self.topic_control.delete_topic
        self.add_partitions = self.partition_control.add_partitions
        self.reassign = self.partition_control.reassign
        for notice in self.broker_configs.ignored:
            self.note(notice)
        self.faults = Faults(self.clock)
        self.brokers = {broker: self._broker(broker, rack) for broker, rack in sorted(racks.items())}
        self.maintenance = Maintenance(self.services, self.controller, self.logs, self.transactions, self.share_state)
        self.logs.on_unflushed = self.maintenance.unflushed
        if data == "":
            raise ClusterError("data is empty: give a directory, or None for a cluster in memory")
        if data is not None:
            self._load(data, accept_data_loss=accept_data_loss)
        if not self.state.features:
            self.controller.append(feature_records({}, finalized(self.broker_configs.coordinator.kafka_version)))
        self.start_notes = tuple(self.notes)

    def _load(self, path: str | PathLike[str], *, accept_data_loss: bool) -> None:
        """Replay the metadata in a data directory, then open the logs of its partitions.

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
                    partition.index,
                    topic.id,
                    partition.replicas,
                    LogConfig.of(self.broker_configs, topic.config, -1).compact,
                )
                for topic in self.topics.values()
                for partition in topic.partitions
            )
            self.state.forget_leaders()
            for topic in self.topics.values():
                at_once(self.logs.configure(topic))
        except OSError as error:
            data.release()
            raise ClusterError(directory_error(path, error)) from None
        except BaseException:
            data.release()
            raise

    def _check_loaded(self, data: DataDirectory) -> None:
        """Raise `ClusterError` if brokers are missing, or do not support the finalized features."""
        known = self.state.brokers
        if missing := sorted(known.keys() - self.brokers.keys()):
            raise ClusterError(
                f"{data.path} belongs to a cluster with brokers {', '.join(map(str, known))}, "
                f"but broker {missing[0]} is missing; "
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
        """The last thousands of reports."""
        return self.reports.notes

    @property
    def failures(self) -> list[str]:
        """The first hundred tracebacks of internal errors."""
        return self.reports.failures

    @property
    def failure_count(self) -> int:
        """The number of internal errors."""
        return self.reports.failure_count

    def _broker(self, number: int, rack: str | None) -> Broker:
        return Broker(self, number, rack, lambda broker: RequestHandler(broker, self.faults))

    # ---- start and stop

    def started(self) -> None:
        """Complete the start in a running loop: register brokers, elect leaders, begin maintenance.

        All brokers must listen. Raises `ClusterError` after `close`, and if the disk is full.
        """
        data = self.data
        if data is not None and data.closed:
            raise ClusterError(f"the cluster of {data.path} was closed; create another one with this directory")
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
        """Register brokers that have started."""
        self.broker_control.register((broker.id, broker.rack, broker.host, broker.port) for broker in brokers)

    def stop_broker(self, broker: int) -> None:
        """Stop and fence a broker; its leaderships move at once.

        Raises `ClusterError` if it does not exist.
        """
        self.need_broker(broker).stop()
        self.broker_control.fence(broker)

    def add_broker(self, rack: str | None) -> Broker:
        """Create a broker with the next id, which must then be started and registered."""
        added = self._broker(max(self.brokers) + 1, rack)
        self.brokers = {**self.brokers, added.id: added}  # a copy: the old one may be being iterated
        return added

    def remove_broker(self, broker: int) -> None:
        """Stop and unregister a broker.

        Raises `ClusterError`, and changes nothing, if it has replicas or is the last broker.
        """
        self.controller.changes.finish()  # pending changes may place replicas on it
        found = self.need_broker(broker)
        replicas = sum(broker in partition.replicas for topic in self.topics.values() for partition in topic.partitions)
        if replicas:
            raise ClusterError(
                f"broker {broker} has replicas of {replicas} partitions; move them to other brokers first"
            )
        if len(self.brokers) == 1:
            raise ClusterError(f"broker {broker} is the last broker; stop the cluster instead")
        found.stop()
        self.brokers = {number: one for number, one in self.brokers.items() if number != broker}
        self.broker_control.unregister(broker)

    def need_broker(self, broker: int) -> Broker:
        """Return a broker by id. Raises `ClusterError` if it does not exist."""
        found = self.brokers.get(broker)
        if found is None:
            known = ", ".join(map(str, self.brokers))
            raise ClusterError(f"broker {broker!r} does not exist; brokers: {known}")
        return found

    def close(self) -> None:
        """Shut down cleanly, after the brokers: flush everything to the data directory, if any."""
        self.maintenance.stop()
        self.turns.close()
        self.controller.changes.finish()
        self.transactions.runtime.close()
        self.share_state.runtime.close()
        self.groups.runtime.close()
        if self.data is not None:
            try:
                self.controller.write_pending()
                self.data.close()
            except (OSError, MetadataWriteError, AppendError) as error:
                self.note(f"{self.data.path} could not be closed cleanly: {error}; the next start recovers it")
            finally:
                self.data.release()

    # ---- changes by the cluster's owner

    def change_version(self, version: str) -> None:
        """Change the release of brokers and coordinators, on the same logs.

        Feature levels stay. Raises `ConfigError` or `ValueError` for an unsupported version.
        """
        parsed = KafkaVersion.parse(version)
        check_levels(self.features, parsed)
        self.broker_configs.upgrade(parsed)
        self.controller.version += 1
        self.logs.broker_configs_changed()  # releases differ in default configs
        for broker in self.brokers.values():
            broker.drop_clients()  # as when brokers restart; clients then request ApiVersions again
        self.groups.runtime.restart()

    def change_features(self, levels: Mapping[str, int]) -> None:
        """Finalize feature levels; features that are not named are disabled.

        Raises `ApiError` if the change cannot be written.
        """
        with self.controller.changes.at_once():
            self.controller.append(feature_records(self.features, levels))

    def change_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a topic, group, broker or subscription, without validation.

        Raises `ApiError` if the change cannot be written.
        """
        with self.controller.changes.at_once():
            old = self.state.configs_of(resource_type, name)
            self.controller.append(config_records(resource_type, name, old, configs))
