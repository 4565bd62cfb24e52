"""`ClusterState`: what there is in a cluster.

Replaying records of `__cluster_metadata` changes it, and nothing else does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from quorate.cluster.authorizer import Acl, Acls, Operation, PatternType, Permission, ResourceType
from quorate.cluster.log import PartitionLog
from quorate.cluster.quotas import Quotas
from quorate.cluster.scram import Credential
from quorate.cluster.topics import INTERNAL, NO_LEADER, PartitionState, TopicState
from quorate.codecs import Uuid
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from quorate.coordinator.image import MetadataImage, TopicImage

__all__ = [
    "SAME_LEADER",
    "BrokerRegistration",
    "ClusterState",
    "Delta",
]

SAME_LEADER = -2
"""The leader of a `PartitionChangeRecord` that changes something else."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """What the controller knows of a broker, whether that runs or not.

    `directory`: the id of its log directory.
    """

    id: int
    rack: str | None
    host: str
    port: int
    directory: Uuid
    fenced: bool
    epoch: int

    @property
    def alive(self) -> bool:
        """Whether it may lead, and clients are told of it."""
        return not self.fenced


@dataclass(slots=True)
class Delta:
    """What records have changed since the last delta, for those who follow the cluster.

    `topics`: created, or with other partitions or replicas; `led`: with other leaders or replicas
    in sync; `configured`: with other configs; `removed`: topics that are gone; `brokers`:
    registrations changed; `broker_configs`, `group_configs`: whose configs did, by name.
    """

    topics: dict[Uuid, TopicState] = field(default_factory=dict)
    led: dict[Uuid, TopicState] = field(default_factory=dict)
    configured: dict[Uuid, TopicState] = field(default_factory=dict)
    removed: list[TopicState] = field(default_factory=list)
    brokers: bool = False
    features: bool = False
    client_metrics: bool = False
    broker_configs: set[str] = field(default_factory=set)
    group_configs: set[str] = field(default_factory=set)

    @property
    def of_image(self) -> bool:
        """Whether topics or brokers have changed."""
        return bool(self.topics or self.led or self.removed or self.brokers)


@dataclass(slots=True)
class ClusterState:
    """Everything that records say.

    `topics`: by name; `broker_configs`: by a broker's id, or "" for all; `next_producer_id`: the
    first that no producer can have had; `credentials`: by user and number of the mechanism;
    `delta`: what has changed since `take_delta`; `image`: topics and brokers at that time, as
    coordinators see them.

    `new_log`: gives a new partition, of a topic by its id, its log.
    """

    new_log: Callable[[Uuid, int], PartitionLog] = lambda topic_id, index: PartitionLog()
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    topics_by_id: dict[Uuid, TopicState] = field(default_factory=dict)
    partition_count: int = 0
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    client_metrics: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    credentials: dict[tuple[str, int], Credential] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)
    acls: Acls = field(default_factory=Acls)
    delta: Delta = field(default_factory=Delta)
    image: MetadataImage = MetadataImage.EMPTY
    _metric_names: dict[str, set[str]] = field(default_factory=dict)  # topics that come together may share one

    @property
    def alive(self) -> dict[int, str | None]:
        """Brokers that are up, with their racks."""
        return {one.id: one.rack for one in self.brokers.values() if not one.fenced}

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """A partition, if it exists."""
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None

    def has(self, partition: PartitionState) -> bool:
        """Whether a partition still exists: another topic may have the name by now."""
        return self.partition(partition.topic, partition.index) is partition

    def same_metric_name(self, topic: str) -> set[str]:
        """Topics that metrics could not tell from one of this name."""
        return self._metric_names.get(_metric_name(topic), set())

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """A resource's own configs. Raises `KeyError` for a topic that does not exist."""
        if resource_type == ConfigResourceType.TOPIC:
            return self.topics[name].config
        found: Mapping[int, Mapping[str, Mapping[str, str]]] = {
            ConfigResourceType.BROKER: self.broker_configs,
            ConfigResourceType.CLIENT_METRICS: self.client_metrics,
            ConfigResourceType.GROUP: self.group_configs,
        }
        return found[resource_type].get(name, {})

    def replay(self, *records: object) -> None:
        """Apply records.

        Those of other types change nothing. Raises `KeyError` or `IndexError` if one is about
        something that does not exist.
        """
        for record in records:
            function = _REPLAY.get(type(record))
            if function is not None:
                function(self, record)

    def take_delta(self) -> Delta:
        """What has changed since this was last called.

        It takes steps for what has changed, not for what there is: there may be thousands of
        topics.
        """
        delta, self.delta = self.delta, Delta()
        for topic in delta.led.values():
            topic.leadership += 1
        if not delta.of_image:
            return delta
        image = self.image
        if delta.brokers:
            image = image.with_brokers({one.id: one.rack for one in self.brokers.values()})
        topics = [_image_of(topic) for topic in delta.topics.values()]
        topics += [
            TopicImage(name=topic.name, id=topic_id, replicas=known.replicas, leadership=topic.leadership)
            for topic_id, topic in delta.led.items()
            if topic_id not in delta.topics
            and (known := image.topics.get(topic.name)) is not None
            and known.id == topic_id
        ]
        self.image = image.with_changed(topics, [one.name for one in delta.removed if one.name not in self.topics])
        return delta

    def forget_leaders(self) -> None:
        """After the log was loaded: no broker is up yet, and each leader that is elected gets another epoch."""
        for topic in self.topics_by_id.values():
            for partition in topic.partitions:
                partition.leader = NO_LEADER
        self.brokers = {number: replace(one, fenced=True) for number, one in self.brokers.items()}


# ---- topics


def _topic(state: ClusterState, record: TopicRecord) -> None:
    name, topic_id = record.name, record.topic_id
    topic = TopicState(name, topic_id, [], internal=name in INTERNAL)
    state.topics[name] = state.topics_by_id[topic_id] = state.delta.topics[topic_id] = topic
    state._metric_names.setdefault(_metric_name(name), set()).add(name)


def _remove_topic(state: ClusterState, record: RemoveTopicRecord) -> None:
    topic = state.topics_by_id.pop(record.topic_id)
    if state.topics[topic.name] is topic:  # another topic has the name where records are lost
        del state.topics[topic.name]
        state._metric_names[_metric_name(topic.name)].discard(topic.name)
    state.partition_count -= len(topic.partitions)
    state.delta.topics.pop(topic.id, None)
    state.delta.removed.append(topic)


def _partition(state: ClusterState, record: PartitionRecord) -> None:
    topic_id, index = record.topic_id, record.partition_id
    topic = state.topics_by_id[topic_id]
    if index == len(topic.partitions):
        log = state.new_log(topic_id, index)
        topic.partitions.append(
            PartitionState(topic.name, index, record.replicas, record.isr, record.leader, record.leader_epoch, log)
        )
        state.partition_count += 1
    elif 0 <= index < len(topic.partitions):
        partition = topic.partitions[index]
        partition.replicas, partition.in_sync = record.replicas, record.isr
        partition.leader, partition.leader_epoch = record.leader, record.leader_epoch
    else:
        raise IndexError(index)
    state.delta.topics[topic_id] = topic


def _partition_change(state: ClusterState, record: PartitionChangeRecord) -> None:
    topic_id = record.topic_id
    topic = state.topics_by_id[topic_id]
    partition = topic.partitions[record.partition_id]
    if record.replicas is not None:
        partition.replicas = record.replicas
        state.delta.topics[topic_id] = topic
    if record.isr is not None:
        partition.in_sync = record.isr
    if record.leader != SAME_LEADER:
        partition.leader = record.leader
        partition.leader_epoch += 1
    state.delta.led[topic_id] = topic


def _image_of(topic: TopicState) -> TopicImage:
    replicas = tuple([partition.replicas for partition in topic.partitions])
    return TopicImage(name=topic.name, id=topic.id, replicas=replicas, leadership=topic.leadership)


def _metric_name(topic: str) -> str:
    """The name of a topic in names of metrics, where dots become underscores: two topics cannot share one."""
    return topic.replace(".", "_")


# ---- brokers


def _register_broker(state: ClusterState, record: RegisterBrokerRecord) -> None:
    end = record.end_points[0] if record.end_points else None
    known = record.broker_id in state.brokers
    state.brokers[record.broker_id] = BrokerRegistration(
        id=record.broker_id,
        rack=record.rack,
        host="" if end is None else end.host,
        port=0 if end is None else end.port,
        directory=record.log_dirs[0] if record.log_dirs else Uuid.ZERO,
        fenced=record.fenced,
        epoch=record.broker_epoch,
    )
    if not known:
        state.brokers = dict(sorted(state.brokers.items()))
    state.delta.brokers = True


def _broker_registration_change(state: ClusterState, record: BrokerRegistrationChangeRecord) -> None:
    if record.fenced:
        known = state.brokers[record.broker_id]
        state.brokers[record.broker_id] = replace(known, fenced=record.fenced > 0)
        state.delta.brokers = True


def _unregister_broker(state: ClusterState, record: UnregisterBrokerRecord) -> None:
    del state.brokers[record.broker_id]
    state.delta.brokers = True


# ---- configs and features


def _config(state: ClusterState, record: ConfigRecord) -> None:
    kind, name = record.resource_type, record.resource_name
    if kind == ConfigResourceType.TOPIC:
        topic = state.topics[name]
        if record.value is None:
            topic.config.pop(record.name, None)
        else:
            topic.config[record.name] = record.value
        state.delta.configured[topic.id] = topic
    elif kind == ConfigResourceType.GROUP:
        _set_config(state.group_configs, record)
        state.delta.group_configs.add(name)
    elif kind == ConfigResourceType.BROKER:
        _set_config(state.broker_configs, record)
        state.delta.broker_configs.add(name)
    elif kind == ConfigResourceType.CLIENT_METRICS:
        _set_config(state.client_metrics, record)
        state.delta.client_metrics = True


def _set_config(configs: dict[str, dict[str, str]], record: ConfigRecord) -> None:
    """A resource without configs is not known at all (ConfigurationControlManager.replay)."""
    config = configs.setdefault(record.resource_name, {})
    if record.value is not None:
        config[record.name] = record.value
        return
    config.pop(record.name, None)
    if not config:
        del configs[record.resource_name]


def _feature_level(state: ClusterState, record: FeatureLevelRecord) -> None:
    if record.feature_level:
        state.features[record.name] = record.feature_level
    else:
        state.features.pop(record.name, None)
    state.delta.features = True


# ---- clients


def _producer_ids(state: ClusterState, record: ProducerIdsRecord) -> None:
    state.next_producer_id = record.next_producer_id


def _client_quota(state: ClusterState, record: ClientQuotaRecord) -> None:
    entity = frozenset((one.entity_type, one.entity_name) for one in record.entity)
    quotas = state.quotas.setdefault(entity, {})
    if record.remove:
        quotas.pop(record.key, None)
    else:
        quotas[record.key] = record.value
    if not quotas:
        del state.quotas[entity]


def _user_scram_credential(state: ClusterState, record: UserScramCredentialRecord) -> None:
    made = Credential(record.salt, record.stored_key, record.server_key, record.iterations)
    state.credentials[record.name, record.mechanism] = made


def _remove_user_scram_credential(state: ClusterState, record: RemoveUserScramCredentialRecord) -> None:
    del state.credentials[record.name, record.mechanism]


def _access_control_entry(state: ClusterState, record: AccessControlEntryRecord) -> None:
    acl = Acl(
        resource_type=ResourceType(record.resource_type),
        name=record.resource_name,
        pattern_type=PatternType(record.pattern_type),
        principal=record.principal,
        host=record.host,
        operation=Operation(record.operation),
        permission=Permission(record.permission_type),
    )
    state.acls.add(record.id, acl)


def _remove_access_control_entry(state: ClusterState, record: RemoveAccessControlEntryRecord) -> None:
    state.acls.remove(record.id)


_REPLAY: Mapping[type, Callable[[ClusterState, Any], None]] = {
    AccessControlEntryRecord: _access_control_entry,
    BrokerRegistrationChangeRecord: _broker_registration_change,
    ClientQuotaRecord: _client_quota,
    ConfigRecord: _config,
    FeatureLevelRecord: _feature_level,
    PartitionChangeRecord: _partition_change,
    PartitionRecord: _partition,
    ProducerIdsRecord: _producer_ids,
    RegisterBrokerRecord: _register_broker,
    RemoveAccessControlEntryRecord: _remove_access_control_entry,
    RemoveTopicRecord: _remove_topic,
    RemoveUserScramCredentialRecord: _remove_user_scram_credential,
    TopicRecord: _topic,
    UnregisterBrokerRecord: _unregister_broker,
    UserScramCredentialRecord: _user_scram_credential,
}
"""What each type of record does."""
