"""`ClusterState`: the metadata of a cluster, which only replayed records change."""

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from quorate.cluster.authorizer import Acl, Acls, Operation, PatternType, Permission, ResourceType
from quorate.cluster.log import PartitionLog
from quorate.cluster.quotas import Quotas
from quorate.cluster.scram import Credential
from quorate.cluster.topics import INTERNAL, NO_LEADER, PartitionState, TopicState
from quorate.codecs import Uuid
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.lazy_dataclass import dataclass
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

SAME_LEADER = -2
"""Leader of a `PartitionChangeRecord` that does not change the leader."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A registered broker, live or fenced. `directory`: the id of its log directory."""

    id: int
    rack: str | None
    host: str
    port: int
    directory: Uuid
    fenced: bool
    epoch: int

    @property
    def alive(self) -> bool:
        """Whether the broker is not fenced: it may lead, and clients see it."""
        return not self.fenced


@dataclass(slots=True)
class Delta:
    """What records have changed since the last delta.

    `topics`: new topics, or those with changed partitions or replicas. `led`: topics with changed
    leaders or in-sync replicas. `configured`: topics with changed configs. `removed`: deleted
    topics. `brokers`: whether a registration changed. `broker_configs`, `group_configs`: names of
    brokers and groups with changed configs.
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
    """The metadata of a cluster.

    `topics`: by name. `broker_configs`: by a broker's id, or "" for cluster-wide ones.
    `next_producer_id`: the first id that was not allocated. `credentials`: by user and mechanism
    code. `delta`: changes since `take_delta`. `image`: topics and brokers at that time, for
    coordinators. `new_log`: returns the log of a new partition, by topic id and index.
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
    _metric_names: dict[str, set[str]] = field(default_factory=dict)  # topics of one request may share one

    @property
    def alive(self) -> dict[int, str | None]:
        """Live brokers → their racks."""
        return {broker.id: broker.rack for broker in self.brokers.values() if not broker.fenced}

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """Return a partition, or `None` if it does not exist."""
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None

    def has(self, partition: PartitionState) -> bool:
        """Return whether a partition still exists, and no new topic has taken the name."""
        return self.partition(partition.topic, partition.index) is partition

    def same_metric_name(self, topic: str) -> set[str]:
        """Return the topics whose names collide with a name in metrics."""
        return self._metric_names.get(_metric_name(topic), set())

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return a resource's own configs. Raises `KeyError` for a topic that does not exist."""
        if resource_type == ConfigResourceType.TOPIC:
            return self.topics[name].config
        found: Mapping[int, Mapping[str, Mapping[str, str]]] = {
            ConfigResourceType.BROKER: self.broker_configs,
            ConfigResourceType.CLIENT_METRICS: self.client_metrics,
            ConfigResourceType.GROUP: self.group_configs,
        }
        return found[resource_type].get(name, {})

    def replay(self, *records: object) -> None:
        """Apply records. Unknown types are ignored.

        Raises `KeyError` or `IndexError` if a record refers to something that does not exist.
        """
        for record in records:
            function = _REPLAY.get(type(record))
            if function is not None:
                function(self, record)

    def take_delta(self) -> Delta:
        """Return what has changed since the last call.

        The time depends on the size of the changes, not on the number of topics.
        """
        delta, self.delta = self.delta, Delta()
        for topic in delta.led.values():
            topic.leadership += 1
        if not delta.of_image:
            return delta
        image = self.image
        if delta.brokers:
            image = image.with_brokers({broker.id: broker.rack for broker in self.brokers.values()})
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
        """Remove all leaders and fence all brokers, after the log was loaded.

        Each leader that is elected then has a new epoch.
        """
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
    if state.topics[topic.name] is topic:  # after a loss of records another topic may have the name
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
    """Return a topic's name in metrics, where dots become underscores. It must be unique."""
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
    """Set or delete a config. A resource without configs has no entry.

    In Kafka: ConfigurationControlManager.replay.
    """
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
    credential = Credential(record.salt, record.stored_key, record.server_key, record.iterations)
    state.credentials[record.name, record.mechanism] = credential


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
"""Type of a record → the function that applies it."""
