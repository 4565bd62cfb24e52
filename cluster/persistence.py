"""From a cluster to what is written down of it, and back: topics, leaders, settings, brokers (`quorate.cluster.storage.metadata_state`)."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from quorate.cluster.apis.versions import check_levels
from quorate.cluster.errors import ClusterError
from quorate.cluster.settings import ALL
from quorate.cluster.storage.data import DataDirectory
from quorate.cluster.storage.metadata_state import BrokerFacts, MetadataState, PartitionFacts, TopicFacts
from quorate.cluster.topics import Election, PartitionState, TopicState
from quorate.codecs import CONSUMER_OFFSETS, Uuid
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.config import ConfigError, GroupConfig

if TYPE_CHECKING:
    from quorate.cluster.core import ClusterCore

__all__ = ["INTERNAL", "facts_of", "restore", "state_of"]

INTERNAL: Mapping[str, tuple[str, Mapping[str, str]]] = {
    CONSUMER_OFFSETS: ("offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}),
    TRANSACTION_STATE: ("transaction.state.log", {"cleanup.policy": "compact", "compression.type": "uncompressed"}),
}
"""Topics that brokers write: the beginning of their settings' names, and the topic's own settings, besides `segment.bytes`."""

_FOLLOWED = frozenset(field.name.replace("_", ".") for field in fields(GroupConfig))


def restore(cluster: "ClusterCore", data: DataDirectory) -> None:
    """Have a new cluster be the one in a directory, without the logs: topics have no leaders until brokers are up, and then each a new epoch.

    Raises `ClusterError` if brokers are missing, or are of a release that does not know the levels of the cluster's features.
    """
    cluster.cluster_id = data.cluster_id
    state = data.metadata.state
    if missing := sorted(state.brokers.keys() - cluster.brokers.keys()):
        raise ClusterError(
            f"{data.path} is of a cluster with brokers {', '.join(map(str, state.brokers))}, there is no broker {missing[0]} now; "
            f"use {max(state.brokers)} brokers, or another directory"
        )
    cluster.features = dict(state.features) or cluster.features
    try:
        check_levels(cluster.features, cluster.settings.coordinator.kafka_version)
    except ConfigError as error:
        raise ClusterError(f"{data.path}: {error}, in another directory") from None
    for number, facts in state.brokers.items():
        if cluster.brokers[number].rack is None:
            cluster.brokers[number].rack = facts.rack
    for topic_id, known in state.topics.items():
        partitions = [
            PartitionState(known.name, index, one.replicas, one.in_sync, leader_epoch=one.leader_epoch)
            for index, one in enumerate(known.partitions)
        ]
        topic = TopicState(known.name, topic_id, partitions, dict(known.config), known.name in INTERNAL)
        cluster.enter(topic)
    for broker, settings in state.broker_configs.items():
        cluster.settings.change(int(broker) if broker else ALL, settings)
    for group, settings in state.groups.items():
        cluster.group_settings[group] = dict(settings)
        followed = {name: value for name, value in settings.items() if name in _FOLLOWED}
        cluster.group_configs[group] = GroupConfig().with_properties(followed)
    cluster.client_metrics = {name: dict(configs) for name, configs in state.client_metrics.items()}
    cluster.quotas = {entity: dict(quotas) for entity, quotas in state.quotas.items()}
    cluster.credentials.changed = dict(state.credentials)
    cluster.transactions.next_block = state.next_producer_id
    for acl_id, acl in state.acls.items():
        cluster.acls.add(acl_id, acl)


def facts_of(topic: TopicState, moved: Iterable[tuple[PartitionState, Election]] = ()) -> TopicFacts:
    """What is to be written down of a topic as it is now, or will be once some of its partitions have `moved`."""
    partitions = [PartitionFacts(one.replicas, one.in_sync, one.leader, one.leader_epoch) for one in topic.partitions]
    for one, (leader, in_sync) in moved:
        partitions[one.index] = PartitionFacts(one.replicas, in_sync, leader, one.leader_epoch + (leader != one.leader))
    return TopicFacts(topic.name, partitions, dict(topic.config))


def state_of(cluster: "ClusterCore", data: DataDirectory, *, only: Iterable[Uuid] | None = None) -> MetadataState:
    """What is to be written down of a cluster as it is now, with all topics, or `only` those with some ids, as far as they are there."""
    topics: Iterable[TopicState | None] = (
        cluster.topics.values() if only is None else map(cluster.topics_by_id.get, only)
    )
    return MetadataState(
        features=dict(cluster.features),
        brokers={
            one.id: BrokerFacts(one.rack, one.host, one.port, data.directory_id(one.id), not one.alive)
            for one in cluster.brokers.values()
            if one.registered
        },
        topics={topic.id: facts_of(topic) for topic in topics if topic is not None},
        groups=cluster.group_settings,
        client_metrics=cluster.client_metrics,
        broker_configs={
            "" if broker is ALL else str(broker): values for broker, values in cluster.settings.changed.items()
        },
        next_producer_id=cluster.transactions.next_block,
        credentials=cluster.credentials.changed,
        quotas=cluster.quotas,
        acls=cluster.acls.by_id,
    )
