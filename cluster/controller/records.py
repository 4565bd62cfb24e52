"""Records of `__cluster_metadata`: those of a change, and those of a snapshot."""

from collections.abc import Iterator, Mapping

from quorate.cluster.authorizer import Acl
from quorate.cluster.controller.state import (
    SAME_LEADER,
    BrokerRegistration,
    ClusterState,
)
from quorate.cluster.quotas import Entity
from quorate.cluster.scram import Credential
from quorate.cluster.topics import Election, PartitionState, TopicState
from quorate.codecs import Uuid
from quorate.codecs.configs import ConfigResourceType
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
    TopicRecord,
    UserScramCredentialRecord,
)

_PLAINTEXT = 0


def snapshot(state: ClusterState) -> Iterator[Message]:
    """Yield the records that recreate a state from an empty one."""
    yield from feature_records({}, state.features)
    yield from map(registration_record, state.brokers.values())
    for topic in state.topics_by_id.values():
        yield from topic_records(topic, state.brokers)
    for kind, configs in (
        (ConfigResourceType.GROUP, state.group_configs),
        (ConfigResourceType.BROKER, state.broker_configs),
        (ConfigResourceType.CLIENT_METRICS, state.client_metrics),
    ):
        for name, config in configs.items():
            yield from config_records(kind, name, {}, config)
    for entity, quotas in state.quotas.items():
        yield from quota_records(entity, {}, quotas)
    for (user, mechanism), credential in state.credentials.items():
        yield credential_record(user, mechanism, credential)
    for acl_id, acl in state.acls.by_id.items():
        yield acl_record(acl_id, acl)
    if state.next_producer_id:
        yield ProducerIdsRecord(broker_id=min(state.brokers, default=0), next_producer_id=state.next_producer_id)


def feature_records(old: Mapping[str, int], new: Mapping[str, int]) -> Iterator[Message]:
    """Yield a record for each feature whose level changes. Level 0 disables a feature."""
    for name in dict.fromkeys((*old, *new)):
        if old.get(name, 0) != new.get(name, 0):
            yield FeatureLevelRecord(name=name, feature_level=new.get(name, 0))


def config_records(kind: int, name: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Message]:
    """Yield a record for each config of a resource that changes."""
    for config in dict.fromkeys((*old, *new)):
        if old.get(config) != new.get(config):
            yield ConfigRecord(resource_type=kind, resource_name=name, name=config, value=new.get(config))


def quota_records(entity: Entity, old: Mapping[str, float], new: Mapping[str, float]) -> Iterator[Message]:
    """Yield a record for each quota of an entity that changes."""
    named = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=str))
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield ClientQuotaRecord(entity=named, key=key, value=new.get(key, 0.0), remove=key not in new)


def credential_record(user: str, mechanism: int, credential: Credential) -> Message:
    """Return the record of a user's credential for a mechanism."""
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def acl_record(acl_id: Uuid, acl: Acl) -> Message:
    """Return the record of an ACL."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


# ---- topics


def topic_records(topic: TopicState, brokers: Mapping[int, BrokerRegistration]) -> Iterator[Message]:
    """Yield the records of a topic with its configs and partitions."""
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    yield from config_records(ConfigResourceType.TOPIC, topic.name, {}, topic.config)
    for partition in topic.partitions:
        yield partition_record(topic.id, partition, brokers)


def partition_record(topic_id: Uuid, partition: PartitionState, brokers: Mapping[int, BrokerRegistration]) -> Message:
    """Return the record of a partition."""
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.in_sync,
        removing_replicas=(),
        adding_replicas=(),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.leader_epoch,
        directories=tuple(
            brokers[replica].directory if replica in brokers else Uuid.ZERO for replica in partition.replicas
        ),
    )


def election_record(
    topic_id: Uuid, partition: PartitionState, election: Election, replicas: tuple[int, ...] | None = None
) -> Message:
    """Return the record that changes a partition's leader or in-sync replicas.

    `replicas`: the new ones, if they change.
    """
    leader, in_sync = election
    return PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        isr=None if in_sync == partition.in_sync else in_sync,
        leader=SAME_LEADER if leader == partition.leader else leader,
        replicas=replicas,
    )


# ---- brokers


def registration_record(broker: BrokerRegistration) -> Message:
    """Return the record of a broker's registration."""
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=Uuid.ZERO,
        broker_epoch=broker.epoch,
        end_points=(
            BrokerEndpoint(name="PLAINTEXT", host=broker.host, port=broker.port, security_protocol=_PLAINTEXT),
        ),
        features=(),
        rack=broker.rack,
        fenced=broker.fenced,
        log_dirs=(broker.directory,),
    )


def fence_record(broker: BrokerRegistration, *, fenced: bool) -> Message:
    """Return the record that fences or unfences a broker."""
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1 if fenced else -1)
