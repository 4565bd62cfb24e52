"""What there is in a cluster, as values: what records of `__cluster_metadata` say one after the other, and which records lead from one state to another.

Applying the difference of two states to the first gives the second: so nothing in the cluster has to remember what it must write down.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from quorate.cluster.authorizer import Acl, Operation, PatternType, Permission, ResourceType
from quorate.cluster.quotas import Entity, Quotas
from quorate.cluster.scram import Credential
from quorate.codecs import Uuid
from quorate.codecs.message import Message
from quorate.codecs.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
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

__all__ = [
    "GROUP_CONFIG",
    "TOPIC_CONFIG",
    "BrokerFacts",
    "MetadataState",
    "PartitionFacts",
    "TopicFacts",
    "difference",
    "topic_difference",
]

TOPIC_CONFIG, BROKER_CONFIG, CLIENT_METRICS_CONFIG, GROUP_CONFIG = 2, 4, 16, 32
"""Types of resources with settings (ConfigResource.Type)."""
_PLAINTEXT = 0


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A broker: `epoch` is the offset of its registration, `directory` the id of its log directory."""

    rack: str | None
    host: str
    port: int
    directory: Uuid
    fenced: bool = False
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition: brokers with replicas, those in sync, the leader (-1: none) and its epoch."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int
    leader_epoch: int


@dataclass(slots=True)
class TopicFacts:
    """A topic with its partitions and its own settings."""

    name: str
    partitions: list[PartitionFacts] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class MetadataState:
    """Everything. `broker_configs`: by a broker's id, or "" for all; `next_producer_id`: the first that no producer can have had; `credentials`: by user and number of the mechanism."""

    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerFacts] = field(default_factory=dict)
    topics: dict[Uuid, TopicFacts] = field(default_factory=dict)
    groups: dict[str, dict[str, str]] = field(default_factory=dict)
    client_metrics: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    credentials: dict[tuple[str, int], Credential] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)
    acls: dict[Uuid, Acl] = field(default_factory=dict)
    _ids: dict[str, Uuid] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Topics by name, as far as records were applied."""

    def apply(self, record: object, offset: int) -> None:
        """What the record at an offset says. Records of other kinds change nothing. Raises `KeyError` or `IndexError` if it is about what is not there."""
        match record:
            # Those that large changes consist of come first.
            case TopicRecord():
                self.topics[record.topic_id] = TopicFacts(record.name)
                self._ids[record.name] = record.topic_id
            case RemoveTopicRecord():
                name = self.topics.pop(record.topic_id).name
                if self._ids.get(name) == record.topic_id:  # another topic has the name where records are lost
                    del self._ids[name]
            case PartitionRecord():
                partition = PartitionFacts(record.replicas, record.isr, record.leader, record.leader_epoch)
                partitions = self.topics[record.topic_id].partitions
                if record.partition_id < len(partitions):
                    partitions[record.partition_id] = partition
                elif record.partition_id == len(partitions):
                    partitions.append(partition)
                else:
                    raise IndexError(record.partition_id)
            case ConfigRecord():
                self._configure(record)
            case FeatureLevelRecord(feature_level=0):
                self.features.pop(record.name, None)
            case FeatureLevelRecord():
                self.features[record.name] = record.feature_level
            case RegisterBrokerRecord():
                end = record.end_points[0] if record.end_points else None
                self.brokers[record.broker_id] = BrokerFacts(
                    rack=record.rack,
                    host="" if end is None else end.host,
                    port=0 if end is None else end.port,
                    directory=record.log_dirs[0] if record.log_dirs else Uuid.ZERO,
                    fenced=record.fenced,
                    epoch=offset,
                )
            case BrokerRegistrationChangeRecord() if record.fenced:
                known = self.brokers[record.broker_id]
                self.brokers[record.broker_id] = replace(known, fenced=record.fenced > 0)
            case UnregisterBrokerRecord():
                del self.brokers[record.broker_id]
            case PartitionChangeRecord():
                self._change(record)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case ClientQuotaRecord():
                entity = frozenset((one.entity_type, one.entity_name) for one in record.entity)
                quotas = self.quotas.setdefault(entity, {})
                if record.remove:
                    quotas.pop(record.key, None)
                else:
                    quotas[record.key] = record.value
                if not quotas:
                    del self.quotas[entity]
            case UserScramCredentialRecord():
                made = Credential(record.salt, record.stored_key, record.server_key, record.iterations)
                self.credentials[record.name, record.mechanism] = made
            case RemoveUserScramCredentialRecord():
                del self.credentials[record.name, record.mechanism]
            case AccessControlEntryRecord():
                self.acls[record.id] = Acl(
                    resource_type=ResourceType(record.resource_type),
                    name=record.resource_name,
                    pattern_type=PatternType(record.pattern_type),
                    principal=record.principal,
                    host=record.host,
                    operation=Operation(record.operation),
                    permission=Permission(record.permission_type),
                )
            case RemoveAccessControlEntryRecord():
                del self.acls[record.id]

    def replace_topic(self, topic_id: Uuid, topic: TopicFacts | None) -> None:
        """Do what the records of `topic_difference` do, all at once. The state keeps `topic`."""
        if topic is not None:
            self.topics[topic_id] = topic
            self._ids[topic.name] = topic_id
        elif (old := self.topics.pop(topic_id, None)) is not None and self._ids.get(old.name) == topic_id:
            del self._ids[old.name]

    def _change(self, record: PartitionChangeRecord) -> None:
        partitions = self.topics[record.topic_id].partitions
        was = partitions[record.partition_id]
        partitions[record.partition_id] = PartitionFacts(
            replicas=was.replicas if record.replicas is None else record.replicas,
            in_sync=was.in_sync if record.isr is None else record.isr,
            leader=was.leader if record.leader == -2 else record.leader,
            leader_epoch=was.leader_epoch + (record.leader != -2),
        )

    def _configure(self, record: ConfigRecord) -> None:
        if record.resource_type == TOPIC_CONFIG:
            config = self.topics[self._ids[record.resource_name]].config
        elif (kept := self._named(record.resource_type)) is not None:
            config = kept.setdefault(record.resource_name, {})
            if record.value is None and config.keys() <= {record.name}:
                del kept[record.resource_name]
        else:
            return
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value

    def _named(self, resource_type: int) -> dict[str, dict[str, str]] | None:
        """The configs of a type of resources other than topics, by name."""
        return {
            GROUP_CONFIG: self.groups,
            BROKER_CONFIG: self.broker_configs,
            CLIENT_METRICS_CONFIG: self.client_metrics,
        }.get(resource_type)


def difference(
    old: MetadataState, new: MetadataState, offset: int, *, only: Collection[Uuid] | None = None
) -> Iterator[Message]:
    """The records that lead from one state to another, the first of which will be at `offset`. Brokers' epochs in `new` are not looked at.

    `only`: ids of the topics that can differ; `new` need not have the others.
    """
    for place, record in enumerate(_records(old, new, only), offset):
        yield replace(record, broker_epoch=place) if isinstance(record, RegisterBrokerRecord) else record


def _records(old: MetadataState, new: MetadataState, only: Collection[Uuid] | None) -> Iterator[Message]:
    for name, level in new.features.items():
        if old.features.get(name) != level:
            yield FeatureLevelRecord(name=name, feature_level=level)
    for name in old.features.keys() - new.features.keys():
        yield FeatureLevelRecord(name=name, feature_level=0)
    yield from _brokers(old, new)
    for topic_id in old.topics if only is None else only:
        if topic_id not in new.topics:
            yield from topic_difference(topic_id, old.topics.get(topic_id), None, new.brokers)
    for topic_id, topic in new.topics.items():
        yield from topic_difference(topic_id, old.topics.get(topic_id), topic, new.brokers)
    for kind, earlier, later in (
        (GROUP_CONFIG, old.groups, new.groups),
        (BROKER_CONFIG, old.broker_configs, new.broker_configs),
        (CLIENT_METRICS_CONFIG, old.client_metrics, new.client_metrics),
    ):
        for whose in dict.fromkeys((*earlier, *later)):
            yield from _settings(kind, whose, earlier.get(whose, {}), later.get(whose, {}))
    for entity in dict.fromkeys((*old.quotas, *new.quotas)):
        yield from _quotas(entity, old.quotas.get(entity, {}), new.quotas.get(entity, {}))
    for name, mechanism in old.credentials.keys() - new.credentials.keys():
        yield RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
    for (name, mechanism), one in new.credentials.items():
        if old.credentials.get((name, mechanism)) != one:
            yield UserScramCredentialRecord(
                name=name,
                mechanism=mechanism,
                salt=one.salt,
                stored_key=one.stored_key,
                server_key=one.server_key,
                iterations=one.iterations,
            )
    for acl_id in old.acls.keys() - new.acls.keys():
        yield RemoveAccessControlEntryRecord(id=acl_id)
    for acl_id, acl in new.acls.items():
        if acl_id not in old.acls:  # an ACL never changes
            yield AccessControlEntryRecord(
                id=acl_id,
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
    if old.next_producer_id != new.next_producer_id:
        yield ProducerIdsRecord(broker_id=min(new.brokers, default=0), next_producer_id=new.next_producer_id)


def topic_difference(
    topic_id: Uuid, old: TopicFacts | None, new: TopicFacts | None, brokers: Mapping[int, BrokerFacts]
) -> Iterator[Message]:
    """The records that lead a topic from one state to another. `None`: it does not exist."""
    if new is None:
        if old is not None:
            yield RemoveTopicRecord(topic_id=topic_id)
        return
    if old is None:
        yield TopicRecord(name=new.name, topic_id=topic_id)
    yield from _settings(TOPIC_CONFIG, new.name, {} if old is None else old.config, new.config)
    for index, partition in enumerate(new.partitions):
        was = old.partitions[index] if old is not None and index < len(old.partitions) else None
        if was != partition:
            yield _partition(topic_id, index, was, partition, brokers)


def _brokers(old: MetadataState, new: MetadataState) -> Iterator[Message]:
    for number, known in old.brokers.items():
        if number not in new.brokers:
            yield UnregisterBrokerRecord(broker_id=number, broker_epoch=known.epoch)
    for number, broker in new.brokers.items():
        was = old.brokers.get(number)
        if was is None or replace(was, fenced=broker.fenced, epoch=broker.epoch) != broker:
            yield RegisterBrokerRecord(
                broker_id=number,
                incarnation_id=Uuid.ZERO,
                broker_epoch=-1,
                end_points=(
                    BrokerEndpoint(name="PLAINTEXT", host=broker.host, port=broker.port, security_protocol=_PLAINTEXT),
                ),
                features=(),
                rack=broker.rack,
                fenced=broker.fenced,
                log_dirs=(broker.directory,),
            )
        elif was.fenced != broker.fenced:
            fenced = 1 if broker.fenced else -1
            yield BrokerRegistrationChangeRecord(broker_id=number, broker_epoch=was.epoch, fenced=fenced)


def _settings(kind: int, name: str, old: dict[str, str], new: dict[str, str]) -> Iterator[Message]:
    for setting in dict.fromkeys((*old, *new)):
        if old.get(setting) != new.get(setting):
            yield ConfigRecord(resource_type=kind, resource_name=name, name=setting, value=new.get(setting))


def _quotas(entity: Entity, old: dict[str, float], new: dict[str, float]) -> Iterator[Message]:
    whose = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str))
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield ClientQuotaRecord(entity=whose, key=key, value=new.get(key, 0.0), remove=key not in new)


def _partition(
    topic_id: Uuid, index: int, old: PartitionFacts | None, new: PartitionFacts, brokers: Mapping[int, BrokerFacts]
) -> Message:
    # A record can raise the leader's epoch by one at a time: if it went up more often since, the partition is described anew.
    step = 0 if old is None else new.leader_epoch - old.leader_epoch
    if old is None or step not in (0, 1) or (step == 0 and old.leader != new.leader):
        return PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=new.replicas,
            isr=new.in_sync,
            removing_replicas=(),
            adding_replicas=(),
            leader=new.leader,
            leader_epoch=new.leader_epoch,
            partition_epoch=new.leader_epoch,
            directories=tuple(brokers[one].directory if one in brokers else Uuid.ZERO for one in new.replicas),
        )
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=None if old.in_sync == new.in_sync else new.in_sync,
        leader=new.leader if step else -2,
        replicas=None if old.replicas == new.replicas else new.replicas,
    )
