"""`HANDLERS`: the table of APIs that brokers handle; and ApiVersions, which reports it.

ApiVersions v0–4 (KIP-511, KIP-584, KIP-1022): an API is reported if it is in the table and brokers
of the cluster's release have it. As in Kafka, the response to an unsupported version has version 0,
UNSUPPORTED_VERSION, and only the versions of ApiVersions. Produce is reported from version 0 on,
which librdkafka requires (KAFKA-18659), but rejected below version 3.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from quorate.cluster.apis import (
    Context,
    Handler,
    acls,
    alter_configs,
    cluster,
    configs,
    delegation_tokens,
    describe_transactions,
    features,
    fetch,
    find_coordinator,
    groups,
    list_config_resources,
    list_offsets,
    log_dirs,
    metadata,
    offset_for_leader_epoch,
    offsets,
    produce,
    quorum,
    quotas,
    replicas,
    sasl,
    scram,
    share_acknowledge,
    share_fetch,
    share_state,
    streams_group_heartbeat,
    telemetry,
    topics,
    transactions,
    unregister,
)
from quorate.cluster.authorization import cluster as cluster_rules
from quorate.cluster.authorization import groups as group_rules
from quorate.cluster.authorization import topics as topic_rules
from quorate.cluster.authorization.rules import (
    Rule,
    checked_by_handler,
    cluster_permission,
    controller_permission,
    group_permission,
    no_permission,
)
from quorate.cluster.authorizer import Operation
from quorate.cluster.broker import Broker
from quorate.cluster.frames import API_VERSIONS_KEY
from quorate.cluster.shared import SharedCluster
from quorate.codecs.api import (
    AlterShareGroupOffsetsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeGroupsRequest,
    DescribeShareGroupOffsetsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from quorate.codecs.api.broker import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeDelegationTokenRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    EndTxnRequest,
    ExpireDelegationTokenRequest,
    FetchRequest,
    FindCoordinatorRequest,
    GetTelemetrySubscriptionsRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListConfigResourcesRequest,
    ListOffsetsRequest,
    ListPartitionReassignmentsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    PushTelemetryRequest,
    RenewDelegationTokenRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
)
from quorate.codecs.api.broker.api_versions import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from quorate.codecs.api.declare import Api
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.lookup import api_of
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.codecs.releases import KafkaVersion, features_of, last_versions
from quorate.coordinator.share_state.requests import OPERATIONS

TELEMETRY: frozenset[int] = frozenset(
    api_of(one).key for one in (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)
)
"""Handled by all releases, but reported only if a plugin receives the clients' metrics."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NO_THROTTLING = "throttling: quotas are stored and described only"
_NO_TOKENS = "tokens: requests are rejected as by a broker without delegation.token.secret.key"


@dataclass(frozen=True, slots=True)
class HandledApi:
    """An API that brokers handle.

    `rule`: the required permissions. `lacks`: what of Kafka's behaviour is missing, for the
    documentation.
    """

    request: type[Message]
    handler: Handler
    rule: Rule
    lacks: str = ""

    @property
    def api(self) -> Api:
        """The API's declaration."""
        return api_of(self.request)


def api_versions(broker: Broker, request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Report the supported versions, and store the client's name and version."""
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.software = f"{name} {version}"
    cluster = broker.cluster
    if context.api_version >= 5 and (request.cluster_id is None) != (request.node_id == -1):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.cluster_id is not None and (request.cluster_id, request.node_id) != (cluster.cluster_id, broker.id):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)  # KIP-1242
    supported = features_of(cluster.broker_configs.kafka_version)
    return ApiVersionsResponse(
        api_keys=_keys(cluster),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=least, max_version=most)
            for name, (least, most, _) in supported.items()
            if least > 0 or context.api_version >= 4  # clients up to v3 cannot decode a minimum of 0 (KAFKA-17011)
        ),
        finalized_features_epoch=cluster.features_epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in cluster.features.items()
        ),
    )


_APIS = (
    HandledApi(ProduceRequest, produce.produce, topic_rules.produce),
    # checked in the handler, by fetch sessions
    HandledApi(FetchRequest, fetch.fetch, checked_by_handler),
    HandledApi(ListOffsetsRequest, list_offsets.list_offsets, topic_rules.list_offsets),
    HandledApi(MetadataRequest, metadata.metadata, topic_rules.metadata),
    HandledApi(OffsetCommitRequest, offsets.offset_commit, group_rules.offset_commit),
    HandledApi(OffsetFetchRequest, offsets.offset_fetch, group_rules.offset_fetch),
    HandledApi(
        FindCoordinatorRequest,
        find_coordinator.find_coordinator,
        cluster_rules.find_coordinator,
    ),
    HandledApi(JoinGroupRequest, groups.about_one_group, group_permission(Operation.READ)),
    HandledApi(HeartbeatRequest, groups.about_one_group, group_permission(Operation.READ)),
    HandledApi(LeaveGroupRequest, groups.about_one_group, group_permission(Operation.READ)),
    HandledApi(SyncGroupRequest, groups.sync_group, group_rules.sync_group),
    HandledApi(DescribeGroupsRequest, groups.about_groups, group_rules.describe_groups),
    HandledApi(ListGroupsRequest, groups.list_groups, group_rules.list_groups),
    HandledApi(SaslHandshakeRequest, sasl.sasl_handshake, no_permission, lacks="mechanisms other than PLAIN and SCRAM"),
    HandledApi(ApiVersionsRequest, api_versions, no_permission),
    HandledApi(CreateTopicsRequest, topics.create_topics, topic_rules.create_topics),
    HandledApi(DeleteTopicsRequest, topics.delete_topics, topic_rules.delete_topics),
    HandledApi(DeleteRecordsRequest, topics.delete_records, topic_rules.delete_records),
    HandledApi(
        InitProducerIdRequest,
        transactions.init_producer_id,
        cluster_rules.init_producer_id,
        lacks="two-phase commit (KIP-939)",
    ),
    HandledApi(
        OffsetForLeaderEpochRequest,
        offset_for_leader_epoch.offset_for_leader_epoch,
        topic_rules.offset_for_leader_epoch,
    ),
    HandledApi(AddPartitionsToTxnRequest, transactions.add_partitions_to_txn, cluster_rules.add_partitions_to_txn),
    HandledApi(AddOffsetsToTxnRequest, transactions.add_offsets_to_txn, cluster_rules.add_offsets_to_txn),
    HandledApi(EndTxnRequest, transactions.end_txn, cluster_rules.end_txn),
    HandledApi(TxnOffsetCommitRequest, offsets.txn_offset_commit, group_rules.txn_offset_commit),
    # These reject unknown elements before they check permissions.
    HandledApi(DescribeAclsRequest, acls.describe_acls, checked_by_handler),
    HandledApi(CreateAclsRequest, acls.create_acls, checked_by_handler),
    HandledApi(DeleteAclsRequest, acls.delete_acls, checked_by_handler),
    HandledApi(
        DescribeConfigsRequest, configs.describe_configs, topic_rules.describe_configs, lacks="documentation; loggers"
    ),
    # The broker validates the request before the controller checks permissions.
    HandledApi(AlterConfigsRequest, alter_configs.alter_configs, checked_by_handler),
    HandledApi(AlterReplicaLogDirsRequest, log_dirs.alter_replica_log_dirs, cluster_permission(Operation.ALTER)),
    HandledApi(DescribeLogDirsRequest, log_dirs.describe_log_dirs, cluster_permission(Operation.DESCRIBE)),
    HandledApi(
        SaslAuthenticateRequest,
        sasl.sasl_authenticate,
        no_permission,
        lacks="sessions that end (connections.max.reauth.ms, KIP-368)",
    ),
    HandledApi(CreatePartitionsRequest, topics.create_partitions, topic_rules.create_partitions),
    HandledApi(
        CreateDelegationTokenRequest, delegation_tokens.create_delegation_token, checked_by_handler, lacks=_NO_TOKENS
    ),
    HandledApi(RenewDelegationTokenRequest, delegation_tokens.renew_delegation_token, no_permission, lacks=_NO_TOKENS),
    HandledApi(
        ExpireDelegationTokenRequest, delegation_tokens.expire_delegation_token, no_permission, lacks=_NO_TOKENS
    ),
    # Tokens are disabled, which Kafka checks before permissions.
    HandledApi(
        DescribeDelegationTokenRequest, delegation_tokens.describe_delegation_token, no_permission, lacks=_NO_TOKENS
    ),
    HandledApi(DeleteGroupsRequest, groups.about_groups, group_rules.delete_groups),
    HandledApi(ElectLeadersRequest, replicas.elect_leaders, controller_permission(Operation.ALTER)),
    HandledApi(IncrementalAlterConfigsRequest, alter_configs.incremental_alter_configs, checked_by_handler),
    HandledApi(
        AlterPartitionReassignmentsRequest,
        replicas.alter_partition_reassignments,
        controller_permission(Operation.ALTER),
    ),
    HandledApi(
        ListPartitionReassignmentsRequest,
        replicas.list_partition_reassignments,
        controller_permission(Operation.DESCRIBE),
    ),
    HandledApi(OffsetDeleteRequest, offsets.offset_delete, group_rules.offset_delete),
    HandledApi(
        DescribeClientQuotasRequest,
        quotas.describe_client_quotas,
        cluster_permission(Operation.DESCRIBE_CONFIGS),
        lacks=_NO_THROTTLING,
    ),
    HandledApi(
        AlterClientQuotasRequest,
        quotas.alter_client_quotas,
        cluster_permission(Operation.ALTER_CONFIGS),
        lacks=_NO_THROTTLING,
    ),
    HandledApi(
        DescribeUserScramCredentialsRequest,
        scram.describe_user_scram_credentials,
        cluster_permission(Operation.DESCRIBE),
    ),
    HandledApi(
        AlterUserScramCredentialsRequest, scram.alter_user_scram_credentials, controller_permission(Operation.ALTER)
    ),
    HandledApi(
        DescribeQuorumRequest,
        quorum.describe_quorum,
        cluster_permission(Operation.DESCRIBE),
        lacks="dedicated controllers: brokers' ports are returned; offsets, if data is in memory",
    ),
    HandledApi(
        UpdateFeaturesRequest,
        features.update_features,
        controller_permission(Operation.ALTER),
        lacks="dependencies between levels; downgrades of metadata.version",
    ),
    HandledApi(
        DescribeClusterRequest,
        cluster.describe_cluster,
        cluster_rules.describe_cluster,
        lacks="controllers (endpoint type 2)",
    ),
    HandledApi(DescribeProducersRequest, describe_transactions.describe_producers, topic_rules.describe_producers),
    HandledApi(UnregisterBrokerRequest, unregister.unregister_broker, controller_permission(Operation.ALTER)),
    HandledApi(
        DescribeTransactionsRequest, describe_transactions.describe_transactions, cluster_rules.describe_transactions
    ),
    HandledApi(ListTransactionsRequest, describe_transactions.list_transactions, cluster_rules.list_transactions),
    HandledApi(ConsumerGroupHeartbeatRequest, groups.heartbeat_with_topics, group_rules.group_heartbeat),
    HandledApi(ConsumerGroupDescribeRequest, groups.about_groups, group_rules.consumer_group_describe),
    HandledApi(GetTelemetrySubscriptionsRequest, telemetry.get_telemetry_subscriptions, no_permission),
    HandledApi(PushTelemetryRequest, telemetry.push_telemetry, no_permission),
    HandledApi(
        ListConfigResourcesRequest,
        list_config_resources.list_config_resources,
        cluster_permission(Operation.DESCRIBE_CONFIGS),
    ),
    # checked in the handler, page by page
    HandledApi(
        DescribeTopicPartitionsRequest,
        cluster.describe_topic_partitions,
        checked_by_handler,
        lacks="eligible leader replicas",
    ),
    HandledApi(ShareGroupHeartbeatRequest, groups.share_group_heartbeat, group_rules.group_heartbeat),
    HandledApi(ShareGroupDescribeRequest, groups.about_groups, group_rules.share_group_describe),
    # checked in the handlers, as their topics are those of a session
    HandledApi(ShareFetchRequest, share_fetch.share_fetch, checked_by_handler),
    HandledApi(ShareAcknowledgeRequest, share_acknowledge.share_acknowledge, checked_by_handler),
    *(
        HandledApi(request, share_state.share_state, cluster_permission(Operation.CLUSTER_ACTION))
        for request in OPERATIONS
    ),
    HandledApi(
        StreamsGroupHeartbeatRequest,
        streams_group_heartbeat.streams_group_heartbeat,
        group_rules.streams_group_heartbeat,
    ),
    HandledApi(StreamsGroupDescribeRequest, groups.about_groups, group_rules.streams_group_describe),
    HandledApi(DescribeShareGroupOffsetsRequest, groups.about_groups, group_rules.describe_share_group_offsets),
    HandledApi(AlterShareGroupOffsetsRequest, groups.alter_share_group_offsets, group_rules.alter_share_group_offsets),
    HandledApi(DeleteShareGroupOffsetsRequest, groups.about_one_group, group_rules.delete_share_group_offsets),
    HandledApi(
        StreamsGroupTopologyDescriptionUpdateRequest,
        groups.update_topology_description,
        group_permission(Operation.READ),
        lacks="plug-ins",
    ),
    HandledApi(
        UnregisterControllerRequest,
        unregister.unregister_controller,
        controller_permission(Operation.ALTER),
        lacks="registrations of controllers",
    ),
    HandledApi(ConsumerGroupPrepareAssignmentRequest, groups.about_one_group, group_permission(Operation.READ)),
    HandledApi(ConsumerGroupInstallAssignmentRequest, groups.about_one_group, group_permission(Operation.READ)),
)
HANDLERS: Mapping[type[Message], HandledApi] = MappingProxyType({one.request: one for one in _APIS})
"""Request type → handler and rule, in the order of API keys."""

MISSING: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        27: ("WriteTxnMarkers", "only brokers send it; transaction coordinators write markers to the logs directly"),
        80: ("AddRaftVoter", "there are no voters of a controller quorum"),
        81: ("RemoveRaftVoter", "there are no voters of a controller quorum"),
    }
)
"""API key → name and reason, of the APIs of Kafka's brokers that embedded ones lack."""


@lru_cache(maxsize=16)
def _versions(version: KafkaVersion, own: bool) -> dict[int, range]:
    last = last_versions(version)
    table = {}
    for handled in HANDLERS.values():
        api = handled.api
        if api.own:
            if own:
                table[api.key] = api.versions
        elif api.key in TELEMETRY:
            table[api.key] = api.versions
        elif api.key in last:
            table[api.key] = range(api.versions.start, min(api.versions[-1], last[api.key]) + 1)
    return table


def advertised(cluster: SharedCluster) -> dict[int, range]:
    """Return API key → versions that clients may use, also of APIs that are not reported.

    Those of KIP-848's client-side assignors only if they are enabled.
    """
    config = cluster.broker_configs.coordinator
    return _versions(config.kafka_version, config.group_consumer_client_assignors_enable)


def _keys(cluster: SharedCluster) -> tuple[ApiVersion, ...]:
    produce = api_of(ProduceRequest).key
    hidden = frozenset() if telemetry.has_plugin(cluster) else TELEMETRY
    return tuple(
        ApiVersion(api_key=key, min_version=0 if key == produce else each[0], max_version=each[-1])
        for key, each in sorted(advertised(cluster).items())
        if key not in hidden
    )


def unsupported(cluster: SharedCluster) -> ApiVersionsResponse:
    """Return the response to an unsupported version of ApiVersions, which is sent in version 0."""
    own = advertised(cluster)[API_VERSIONS_KEY]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=API_VERSIONS_KEY, min_version=own[0], max_version=own[-1]),),
    )
