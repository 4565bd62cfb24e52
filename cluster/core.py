"""`ClusterCore`: a cluster: what its brokers share, its controller, and its coordinators. There is no network in it.

Everything happens in one thread, that of the loop which the brokers run in; so nothing here needs locks, and a change is seen by all brokers at once.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from os import PathLike
from random import Random
from typing import Any
from uuid import UUID

from quorate.cluster.apis.versions import check_levels, finalized
from quorate.cluster.authorizer import Authorizer
from quorate.cluster.broker import Broker
from quorate.cluster.clock import Clock, RealClock
from quorate.cluster.controller.brokers import BrokerControl
from quorate.cluster.controller.controller import Controller, NotWrittenError
from quorate.cluster.controller.partitions import PartitionControl
from quorate.cluster.controller.records import config_records, feature_records
from quorate.cluster.controller.state import ClusterState, Delta
from quorate.cluster.controller.topics import TopicControl
from quorate.cluster.errors import ClusterError
from quorate.cluster.faults import Faults
from quorate.cluster.groups import GroupCoordinators
from quorate.cluster.log_config import LogConfig
from quorate.cluster.log_manager import LogManager
from quorate.cluster.maintenance import Maintenance
from quorate.cluster.meter import Meter
from quorate.cluster.scram import ScramCredentials
from quorate.cluster.security import Security
from quorate.cluster.settings import ALL, Settings
from quorate.cluster.storage.data import DataDirectory, why_unusable
from quorate.cluster.topics import TopicState
from quorate.cluster.transactions import TransactionCoordinators
from quorate.cluster.turns import Turns, at_once
from quorate.codecs import Uuid
from quorate.codecs.printable import brief
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError, GroupConfig
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import AppendError

__all__ = ["ClusterCore"]

_MOST_NOTES = 10_000
"""A client that is refused over and over again must not fill the memory with what is said of it."""

_MOST_NOTE = 2_000
"""Characters in a line of a note."""
_MOST_TRACE = 20_000
_MOST_FAILURES = 100
_FOLLOWED = frozenset(one.name.replace("_", ".") for one in fields(GroupConfig))
"""Configs of groups that coordinators follow; others are only shown."""


class ClusterCore:
    """A cluster. `notes`: what was said besides responses, the last thousands of it; `failures`: the first hundred tracebacks of faults of quorate's own, of which there were `failure_count`; `meter`: counts what is answered, if there is one.

    `racks`: broker id → rack; `properties`: brokers' settings by Kafka's names; `data`: the directory that everything is kept in, else it is in memory; `accept_data_loss`: start although
    data in it is missing or damaged, else that is a `ClusterError`; `start_notes`: what the start noticed in it; `seed`: of what is random (ids, places, choices). A directory with a cluster goes on with it. Raises `ClusterError` if it cannot be used.
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
        self.settings = Settings.of(properties or {})
        levels = finalized(self.settings.coordinator.kafka_version)  # before a directory is touched: it may be refused
        self.clock: Clock = clock or RealClock()
        self.meter: Meter | None = None
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.failure_count = 0
        self._on_note = on_note or (lambda text: None)
        self.random = Random(seed)
        self.cluster_id = str(self.new_uuid())
        self.turns = Turns(partial(self.failed, "a large request"))

        self.state = ClusterState()
        self.logs = LogManager(self.state, self.settings, self.clock, self.note)
        self.state.new_log = self.logs.new_log
        self.controller = Controller(self.state, self.logs, self.clock, self.note, self._publish)
        self.topic_control = TopicControl(
            self.controller, self.logs, self.settings, self.turns, self.random, self.new_uuid
        )
        self.partition_control = PartitionControl(self.controller, self.logs, self.topic_control)
        self.broker_control = BrokerControl(self.controller, self.logs)
        # What the owner of a cluster in this process does with topics, at once.
        self.create_topic = self.topic_control.create_topic
        self.internal_topic = self.topic_control.internal_topic
        self.delete_topic = self.topic_control.delete_topic
        self.add_partitions = self.partition_control.add_partitions
        self.reassign = self.partition_control.reassign
        self.features_epoch = 0  # goes up with each change: clients take no older ones
        self.client_metrics_version = 0  # how often subscriptions have changed
        self.group_configs: dict[str, GroupConfig] = {}

        self.authorizer = Authorizer.of(self.settings.properties, self.state.acls)
        self.security = security or Security()
        self.credentials = ScramCredentials(self.security.users, self.security.mechanisms, self.state.credentials)
        self.faults = Faults(self)
        self.brokers = {broker: Broker(self, broker, rack) for broker, rack in sorted(racks.items())}
        self.image = MetadataImage.EMPTY
        self.groups = GroupCoordinators(self)
        self.transactions = TransactionCoordinators(self)
        self.maintenance = Maintenance(self)
        self.logs.on_unflushed = self.maintenance.unflushed
        if data is not None:
            self._load(data, accept_data_loss=accept_data_loss)
        if not self.state.features:
            self.controller.append(feature_records({}, levels))
        self.start_notes = tuple(self.notes)

    def _load(self, path: str | PathLike[str], *, accept_data_loss: bool) -> None:
        """Replay the metadata in a directory, then open the logs of its partitions. Raises `ClusterError`."""
        data = DataDirectory(
            path,
            state=self.state,
            new_id=self.cluster_id,
            now_ms=self.clock.now_ms(),
            on_note=self.note,
            durable="log.flush.interval.messages" in self.settings.properties,
            accept_data_loss=accept_data_loss,
        )
        try:
            self.logs.data = data
            self.cluster_id = data.cluster_id
            self._check_loaded(data)
            self._publish(self.state.take_delta())
            data.inspect(
                (topic.name, one.index, topic.id, one.replicas, LogConfig.of(self.settings, topic.config, -1).compact)
                for topic in self.topics.values()
                for one in topic.partitions
            )
            self.state.forget_leaders()
            for topic in self.topics.values():
                at_once(self.logs.configuring(topic))
        except OSError as error:
            data.release()
            raise ClusterError(why_unusable(path, error)) from None
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
            check_levels(self.features, self.settings.coordinator.kafka_version)
        except ConfigError as error:
            raise ClusterError(f"{data.path}: {error}, in another directory") from None
        for number, broker in known.items():
            if self.brokers[number].rack is None:
                self.brokers[number].rack = broker.rack

    def new_uuid(self) -> Uuid:
        """A random id."""
        return Uuid(UUID(int=self.random.getrandbits(128), version=4).bytes)

    def note(self, text: str, trace: str = "") -> None:
        """Report what no response can say, in one line, which may be followed by a traceback.

        Clients choose names and ids in it: nothing in it acts on a terminal, and it has a largest size.
        """
        text = brief(text, _MOST_NOTE)
        if trace:
            text += ":\n" + "\n".join(brief(line, _MOST_NOTE) for line in trace[-_MOST_TRACE:].splitlines())
        if len(self.notes) >= _MOST_NOTES:
            del self.notes[: _MOST_NOTES // 2]
        self.notes.append(text)
        self._on_note(text)

    def failed(self, what: str, error: BaseException, where: str = "") -> None:
        """Report that something failed by a fault of quorate's own, count it, and keep its traceback. `where`: the note begins with it."""
        trace = "".join(traceback.format_exception(error))
        self.note(f"{where}{what} failed, which is a fault of quorate's", trace)
        self.failure_count += 1
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(trace[-_MOST_TRACE:])

    # ---- what there is

    @property
    def data(self) -> DataDirectory | None:
        """The directory that everything is kept in; `None` if it is in memory."""
        return self.logs.data

    @property
    def topics(self) -> dict[str, TopicState]:
        """The topics by name."""
        return self.state.topics

    @property
    def topics_by_id(self) -> dict[Uuid, TopicState]:
        """The topics by id."""
        return self.state.topics_by_id

    @property
    def features(self) -> dict[str, int]:
        """The levels of features."""
        return self.state.features

    @property
    def alive(self) -> dict[int, str | None]:
        """Brokers that are up, with their racks."""
        return self.state.alive

    @property
    def controller_id(self) -> int:
        """The broker that clients are told is the controller: the first that is up. -1 if none is."""
        return min(self.alive, default=-1)

    # ---- following the controller

    def _publish(self, delta: Delta) -> None:
        """Metadata has changed: everything that follows it does, in the same step."""
        if delta.features:
            self.features_epoch += 1
        if delta.client_metrics:
            self.client_metrics_version += 1
        for group in delta.group_configs:
            self._follow_group_config(group)
        for broker in delta.broker_configs:
            values = self.state.broker_configs.get(broker, {})
            self.settings.change(int(broker) if broker else ALL, values)
        if delta.broker_configs:
            self.logs.settings_changed()
            self.groups.settings_changed()
        for topic in delta.led.values():
            topic.leadership += 1
        if delta.topics or delta.led or delta.removed or delta.brokers:
            self._publish_image(delta)
        if delta.led or delta.removed or delta.brokers:
            self.groups.runtime.leaders_changed()
            self.transactions.runtime.leaders_changed()

    def _follow_group_config(self, group: str) -> None:
        configs = self.state.group_configs.get(group)
        if configs is None:
            self.group_configs.pop(group, None)
        else:
            followed = {name: value for name, value in configs.items() if name in _FOLLOWED}
            self.group_configs[group] = GroupConfig().with_properties(followed)

    def _publish_image(self, delta: Delta) -> None:
        """Have the coordinators see topics and brokers as they are now.

        What it takes grows with what changed, not with what there is: there may be thousands of topics.
        """
        image = self.image
        if delta.brokers:
            image = image.with_brokers({one.id: one.rack for one in self.state.brokers.values()})
        topics = [_image_of(topic) for topic in delta.topics.values()]
        topics += [
            TopicImage(name=topic.name, id=topic_id, replicas=known.replicas, leadership=topic.leadership)
            for topic_id, topic in delta.led.items()
            if topic_id not in delta.topics
            and (known := image.topics.get(topic.name)) is not None
            and known.id == topic_id
        ]
        gone = [topic.name for topic in delta.removed if topic.name not in self.topics]
        self.image = image.with_changed(topics, gone)
        self.groups.runtime.image_changed(self.image)

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
            raise ClusterError(why_unusable(data.path, error)) from None
        self.maintenance.start()

    def register(self, *brokers: Broker) -> None:
        """Brokers have started."""
        self.broker_control.register((one.id, one.rack, one.host, one.port) for one in brokers)

    def stop_broker(self, broker: int) -> None:
        """Stop a broker: others lead in its place at once. Raises `ClusterError` for one that does not exist."""
        self.need_broker(broker).stop()
        self.broker_control.fence(broker)

    def add_broker(self, rack: str | None) -> Broker:
        """One more broker, with the next number, which is to start, then to be registered."""
        added = Broker(self, max(self.brokers) + 1, rack)
        self.brokers = {**self.brokers, added.id: added}  # another one: somebody may be going through the old one
        return added

    def remove_broker(self, broker: int) -> None:
        """Stop a broker and forget it. Raises `ClusterError`, and leaves it as it is, while it has replicas, or if it is the last one."""
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
            except (OSError, NotWrittenError, AppendError) as error:
                self.note(f"{self.data.path} could not be closed in order: {error}; the next start recovers it")
            finally:
                self.data.release()

    # ---- the owner's changes

    def change_version(self, version: str) -> None:
        """Have brokers and coordinators be of another release of Kafka, on the same logs. The levels of features stay. Raises `ConfigError` or `ValueError` for a version that cannot be."""
        parsed = KafkaVersion.parse(version)
        check_levels(self.features, parsed)
        self.settings.coordinator = replace(self.settings.coordinator, kafka_version=parsed)
        self.controller.version += 1
        self.logs.settings_changed()  # releases have defaults of their own
        for broker in self.brokers.values():
            broker.drop_clients()  # as brokers that restart do; clients ask for versions anew
        self.groups.runtime.restart()

    def change_features(self, levels: Mapping[str, int]) -> None:
        """Agree on other levels of features. What is not named is off. Raises `ApiError` if that cannot be written."""
        with self.controller.changes.at_once():
            self.controller.append(feature_records(self.features, levels))

    def change_configs(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a topic, group, broker or subscription, which are taken to be valid. Raises `ApiError` if that cannot be written."""
        with self.controller.changes.at_once():
            old = self.state.configs_of(resource_type, name)
            self.controller.append(config_records(resource_type, name, old, configs))


def _image_of(topic: TopicState) -> TopicImage:
    replicas = tuple([partition.replicas for partition in topic.partitions])
    return TopicImage(name=topic.name, id=topic.id, replicas=replicas, leadership=topic.leadership)
