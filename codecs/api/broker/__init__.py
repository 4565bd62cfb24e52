"""Requests and responses of further broker APIs, in all versions of Kafka 4.4, one module per API.

This is a separate package, so that coordinating groups does not load it. Its `APIS` also contains
the APIs of group coordination, by key. Structs inside messages are in the modules of their APIs,
under Kafka's names.
"""

from collections.abc import Mapping

from quorate.codecs.api import table
from quorate.codecs.api.broker.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from quorate.codecs.api.broker.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from quorate.codecs.api.broker.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from quorate.codecs.api.broker.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from quorate.codecs.api.broker.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from quorate.codecs.api.broker.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from quorate.codecs.api.broker.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from quorate.codecs.api.broker.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorate.codecs.api.broker.create_acls import CreateAclsRequest, CreateAclsResponse
from quorate.codecs.api.broker.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from quorate.codecs.api.broker.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from quorate.codecs.api.broker.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorate.codecs.api.broker.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from quorate.codecs.api.broker.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from quorate.codecs.api.broker.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorate.codecs.api.broker.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from quorate.codecs.api.broker.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from quorate.codecs.api.broker.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from quorate.codecs.api.broker.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.codecs.api.broker.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from quorate.codecs.api.broker.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from quorate.codecs.api.broker.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from quorate.codecs.api.broker.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from quorate.codecs.api.broker.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from quorate.codecs.api.broker.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from quorate.codecs.api.broker.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from quorate.codecs.api.broker.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from quorate.codecs.api.broker.end_txn import EndTxnRequest, EndTxnResponse
from quorate.codecs.api.broker.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from quorate.codecs.api.broker.fetch import FetchRequest, FetchResponse
from quorate.codecs.api.broker.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from quorate.codecs.api.broker.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from quorate.codecs.api.broker.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorate.codecs.api.broker.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorate.codecs.api.broker.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from quorate.codecs.api.broker.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from quorate.codecs.api.broker.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from quorate.codecs.api.broker.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from quorate.codecs.api.broker.metadata import MetadataRequest, MetadataResponse
from quorate.codecs.api.broker.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from quorate.codecs.api.broker.produce import ProduceRequest, ProduceResponse
from quorate.codecs.api.broker.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from quorate.codecs.api.broker.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from quorate.codecs.api.broker.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from quorate.codecs.api.broker.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from quorate.codecs.api.broker.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from quorate.codecs.api.broker.share_fetch import ShareFetchRequest, ShareFetchResponse
from quorate.codecs.api.broker.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.codecs.api.broker.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from quorate.codecs.api.broker.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorate.codecs.api.declare import Api

__all__ = [
    "APIS",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
]

APIS: Mapping[int, Api] = table.by_key(
    (
        *(api.messages[0] for api in table.APIS.values()),
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        AlterClientQuotasRequest,
        AlterConfigsRequest,
        AlterPartitionReassignmentsRequest,
        AlterReplicaLogDirsRequest,
        AlterUserScramCredentialsRequest,
        ApiVersionsRequest,
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
)
"""API key → API, of all that are declared."""
