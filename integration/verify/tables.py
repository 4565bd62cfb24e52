"""Fields of responses: ids, values that are not compared, arrays without an order.

For comparisons of two brokers, by field name, or by struct and field name.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from quorate.codecs.api.error_codes import ErrorCode

T = TypeVar("T")

IDS = {
    "topic_id": "topic",
    "producer_id": "producer",
    "current_producer_id": "producer",
    "v3_and_below_producer_id": "producer",
    "session_id": "session",
    "cluster_id": "cluster",
    "member_id": "member",
    "port": "port",
    "client_host": "host",
    "replica_directory_id": "directory",
    "JoinGroupResponse.leader": "member",
}
"""Fields with ids, by name or by struct and name, and the kind of id. Equal ids on one side must be
equal on the other.
"""

NOT_COMPARED = frozenset(
    {
        "throttle_time_ms",
        "error_message",
        "batch_index_error_message",
        "log_dir",
        "documentation",
        "finalized_features_epoch",
        "ShareGroupHeartbeatResponse.assignment",
        "DescribeLogDirsResult.total_bytes",
        "DescribeLogDirsResult.usable_bytes",
        "DescribeLogDirsPartition.partition_size",
    }
)
"""Texts for people, and values that depend on timing: the controller's progress, initialized share
partitions.
"""

NOT_COMPARED_OF = {
    "DescribeQuorum": frozenset({"leader_epoch", "high_watermark", "log_end_offset", "host", "port"}),
    "ShareGroupDescribe": frozenset({"assignment"}),
}
"""More fields of single APIs: how much a cluster has done, how often its controller was elected,
the addresses of controllers, of which the embedded cluster has none, and assignments of share
groups. Kafka's SimpleAssignor deals out partitions in the order of a `HashSet<TopicIdPartition>`,
so that generated topic ids decide which member gets which partition.
"""

SETS = frozenset(
    {
        "MetadataResponse.topics",
        "FetchResponse.responses",
        "ShareFetchResponse.responses",
        "ShareFetchableTopicResponse.partitions",
        "ShareAcknowledgeResponse.responses",
        "ShareAcknowledgeTopicResponse.partitions",
        "DescribeShareGroupOffsetsResponseGroup.topics",
        "DeleteShareGroupOffsetsResponse.responses",
        "InitializeShareGroupStateResponse.results",
        "ReadShareGroupStateResponse.results",
        "WriteShareGroupStateResponse.results",
        "DeleteShareGroupStateResponse.results",
        "ReadShareGroupStateSummaryResponse.results",
        "FetchableTopicResponse.partitions",
        "ConsumerGroupDescribeResponse.groups",
        "ShareGroupDescribeResponse.groups",
        "StreamsGroupDescribeResponse.groups",
        "EndpointToPartitions.active_partitions",
        "OffsetCommitResponse.topics",
        "OffsetCommitResponseTopic.partitions",
        "OffsetDeleteResponse.topics",
        "OffsetDeleteResponseTopic.partitions",
        "DescribeConfigsResult.configs",
        "CreatableTopicResult.configs",
        "ListGroupsResponse.groups",
        "ApiVersionsResponse.supported_features",
        "ApiVersionsResponse.finalized_features",
        "ListTransactionsResponse.transaction_states",
        "DescribeLogDirsResult.topics",
        "DescribeLogDirsTopic.partitions",
        "PartitionResponse.active_producers",
        "OffsetFetchResponse.topics",
        "OffsetFetchResponseGroup.topics",
        "OffsetFetchResponseTopic.partitions",
        "OffsetFetchResponseTopics.partitions",
        "ElectLeadersResponse.replica_election_results",
        "ReplicaElectionResult.partition_result",
        "ListOffsetsResponse.topics",
        "ListOffsetsTopicResponse.partitions",
        "OffsetForLeaderEpochResponse.topics",
        "OffsetForLeaderTopicResult.partitions",
        "AddPartitionsToTxnResponse.results_by_topic_v3_and_below",
        "AddPartitionsToTxnResult.topic_results",
        "AddPartitionsToTxnTopicResult.results_by_partition",
        "AddPartitionsToTxnResponse.results_by_transaction",
        "CreateTopicsResponse.topics",
        "DeleteTopicsResponse.responses",
        "CreatePartitionsResponse.results",
        "ProduceResponse.responses",
        "TopicProduceResponse.partition_responses",
        "DeleteRecordsResponse.topics",
        "DeleteRecordsTopicResult.partitions",
        "AlterPartitionReassignmentsResponse.responses",
        "AlterConfigsResponse.responses",
        "IncrementalAlterConfigsResponse.responses",
        "DescribeConfigsResponse.results",
        "TxnOffsetCommitResponse.topics",
        "TxnOffsetCommitResponseTopic.partitions",
        "DeleteGroupsResponse.results",
        "DescribeGroupsResponse.groups",
        "DescribedGroup.members",
        "ListConfigResourcesResponse.config_resources",
        "AlterReplicaLogDirsResponse.results",
        "AlterReplicaLogDirTopicResult.partitions",
        "DescribeProducersResponse.topics",
        "TopicResponse.partitions",
        "UpdateFeaturesResponse.results",
        "TransactionState.topics",
        "ListTransactionsResponse.unknown_state_filters",
        "TopicData.partitions",
        "DescribeClientQuotasResponse.entries",
        "EntryData.entity",
        "EntryData.values",
        "AlterClientQuotasResponse.entries",
        "DescribeUserScramCredentialsResponse.results",
        "DescribeUserScramCredentialsResult.credential_infos",
        "AlterUserScramCredentialsResponse.results",
        "DescribeAclsResponse.resources",
        "DescribeAclsResource.acls",
        "DeleteAclsFilterResult.matching_acls",
    }
)
"""Arrays whose order in Kafka depends on a hash table.

Those of share groups (4.4), by the class of the table:

- ShareFetch and ShareAcknowledge, topics and partitions: Scala's `mutable.HashMap` and from five
  entries on `immutable.HashMap`, by `TopicIdPartition`, whose hash has the topic id
- DescribeShareGroupOffsets, DeleteShareGroupOffsets and the five APIs of share state, topics only:
  `HashMap<Uuid, ...>`. Partitions are in a `HashMap<Integer, ...>`, and so in a fixed order.
- ShareGroupDescribe, groups: `HashMap<TopicPartition, ...>`, by the group's coordinator
"""

SETS_ONCE = frozenset({"MetadataResponseTopic.partitions"})
"""More such arrays of releases before 4.3."""

SETS_OF_DENIED = frozenset({"DescribeTopicPartitionsResponse.topics"})
"""Arrays in which only topics that the client may not read are in the order of a hash table."""


def sorted_denied(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """Sort the items with TOPIC_AUTHORIZATION_FAILED; all others keep their places."""
    items = list(items)
    denied = iter(sorted((item for item in items if _is_denied(item)), key=key))
    return [next(denied) if _is_denied(item) else item for item in items]


def _is_denied(item: object) -> bool:
    return getattr(item, "error_code", None) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


PLACEMENT = frozenset(
    {
        "controller_id",
        "eligible_leader_replicas",
        "heartbeat_interval_ms",
        "acquisition_lock_timeout_ms",
        "host",
        "in_sync_replicas",
        "isr_nodes",
        "last_known_elr",
        "leader_id",
        "node_endpoints",
        "node_id",
        "nodes",
        "offline_replicas",
        "port",
        "rack",
        "replica_nodes",
        "client_host",
        "CreatableTopicResult.configs",
        "DescribeClusterResponse.brokers",
        "LeaderIdAndEpoch.leader_epoch",
        "MetadataResponse.brokers",
        "MetadataResponsePartition.leader_epoch",
    }
)
"""Fields that depend on the brokers of a cluster, on their configs, and on where partitions are."""
