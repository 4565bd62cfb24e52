"""DescribeQuorum v0–2 (KIP-642, KIP-836, KIP-853): describe the controllers.

Each broker is also a controller, as in Kafka's combined mode. The first live one is the leader.
"""

from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

from quorate.cluster.apis import Context
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs import Uuid
from quorate.codecs.api.broker import DescribeQuorumRequest, DescribeQuorumResponse
from quorate.codecs.api.broker.describe_quorum import Listener, Node, PartitionData, ReplicaState, TopicData
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__: list[str] = []

_METADATA = "__cluster_metadata"
_HAS_NODES = 2
_HAS_DIRECTORIES = 2


def describe_quorum(broker: "Broker", request: DescribeQuorumRequest, context: Context) -> Work[DescribeQuorumResponse]:
    """Describe the metadata partition. As in Kafka, any other requested partition rejects all."""
    cluster = broker.cluster
    known = len(request.topics) == 1 and [
        (topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions[:2]
    ] == [(_METADATA, 0)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for topic in request.topics:
        partitions = yield from map_in_turns(
            topic.partitions,
            lambda part: (
                _state(cluster, context)
                if known
                else PartitionData(partition_index=part.partition_index, error_code=unknown, error_message=unknown.text)
            ),
        )
        topics.append(TopicData(topic_name=topic.topic_name, partitions=partitions))
        yield None
    return DescribeQuorumResponse(
        topics=tuple(topics),
        nodes=tuple(
            Node(node_id=one.id, listeners=(Listener(name="CONTROLLER", host=one.host, port=one.port),))
            for one in cluster.state.brokers.values()
        )
        if known and context.api_version >= _HAS_NODES
        else (),
    )


def _directory(cluster: "SharedCluster", broker: int) -> Uuid:
    """Return the id of a controller's directory, which is reported since kraft.version 1 (KIP-853).

    It is derived from the cluster id and the broker id, so that it is stable.
    """
    return Uuid(uuid5(NAMESPACE_OID, f"{cluster.cluster_id} {broker}").bytes)


def _state(cluster: "SharedCluster", context: Context) -> PartitionData:
    now_ms = context.now_ms
    has_directories = cluster.features.get("kraft.version", 0) > 0 and context.api_version >= _HAS_DIRECTORIES
    end = 0 if cluster.data is None else cluster.data.metadata.log.next_offset
    return PartitionData(
        leader_id=cluster.controller_id,
        leader_epoch=1,
        high_watermark=end,
        current_voters=tuple(
            ReplicaState(
                replica_id=broker.id,
                replica_directory_id=_directory(cluster, broker.id) if has_directories else Uuid.ZERO,
                log_end_offset=end if broker.alive else -1,
                last_fetch_timestamp=now_ms if broker.alive else -1,
                last_caught_up_timestamp=now_ms if broker.alive else -1,
            )
            for broker in cluster.state.brokers.values()
        ),
    )
