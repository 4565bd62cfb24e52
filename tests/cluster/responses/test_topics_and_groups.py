"""Regressions found by random requests (`bench/cluster_differential.py`): topics, configs, groups.

The expected responses are those of a broker.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from quorate.codecs.api.broker import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeTransactionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    UpdateFeaturesRequest,
)
from quorate.codecs.api.broker.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from quorate.codecs.api.broker.create_topics import CreatableReplicaAssignment, CreatableTopic
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from quorate.codecs.api.broker.delete_topics import DeleteTopicState
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.broker.list_offsets import ListOffsetsTopic
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.broker.offset_for_leader_epoch import OffsetForLeaderPartition, OffsetForLeaderTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.broker.update_features import FeatureUpdateKey
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestTopic
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.message import TRANSACTION_STATE
from tests.cluster.helpers.wire import Wire

RANGE = JoinGroupRequestProtocol(name="range", metadata=b"")
LEVELS = {"kraft.version": 1, "nothing": 0, "share.version": 1}
ONE_EACH = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


# ---- topics and configs


def test_a_topic_to_delete_by_id_and_by_name_is_rejected_once(wire: Wire, topic: Any) -> None:
    by_name, by_id = DeleteTopicState(name=topic.name), DeleteTopicState(name=None, topic_id=topic.id)
    for requested in ((by_name, by_id), (by_id, by_name)):
        (refused,) = wire.request(DeleteTopicsRequest(topics=requested, timeout_ms=1000), 6).responses
        assert (refused.name, refused.topic_id, refused.error_code) == (
            topic.name,
            topic.id,
            ErrorCode.INVALID_REQUEST,
        )
    names = {one.name for one in wire.request(MetadataRequest(topics=None), 9).topics}
    assert topic.name in names


def test_a_duplicate_id_and_the_name_of_its_topic_are_each_rejected(wire: Wire, topic: Any) -> None:
    by_name, by_id = DeleteTopicState(name=topic.name), DeleteTopicState(name=None, topic_id=topic.id)
    refused = wire.request(DeleteTopicsRequest(topics=(by_id, by_id, by_name), timeout_ms=1000), 6).responses
    assert {(one.name, one.topic_id, one.error_code) for one in refused} == {
        (None, topic.id, ErrorCode.INVALID_REQUEST),
        (topic.name, topic.id, ErrorCode.INVALID_REQUEST),
    }


def _add(wire: Wire, topic: str, operation: int, value: str) -> int:
    config = AlterableConfig(name="cleanup.policy", config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=(config,))
    code: int = wire.request(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code
    return code


def _policy(wire: Wire, topic: str) -> str:
    requested = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=("cleanup.policy",))
    value: str = wire.request(DescribeConfigsRequest(resources=(requested,)), 4).results[0].configs[0].value
    return value


def test_an_empty_text_appended_to_a_list_is_an_empty_element(wire: Wire, topic: Any) -> None:
    assert _add(wire, topic.name, 2, "") == ErrorCode.INVALID_CONFIG
    assert _add(wire, "not-there", 2, "") == ErrorCode.INVALID_CONFIG  # checked before the topic
    assert _add(wire, topic.name, 2, "compact,") == ErrorCode.NONE  # but Java drops trailing empty parts
    assert _policy(wire, topic.name) == "delete,compact"
    assert _add(wire, topic.name, 3, "") == ErrorCode.NONE
    assert _add(wire, topic.name, 3, " delete") == ErrorCode.NONE  # another element, because of the blank
    assert _policy(wire, topic.name) == "delete,compact"


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        (
            ((1, 2), (1,)),
            "a partition with 1 replica(s), but this is not consistent with previous partitions, which have 2",
        ),
        (((1, 2), (2, 2)), "the broker 2 more than once"),
        (((3,), (1,)), "broker 3, but no such broker is registered"),
        (((2, 1), ()), "an empty replica list"),
    ],
)
def test_manual_assignments_are_checked_as_recorded_of_two_real_brokers(
    assignment: tuple[tuple[int, ...], ...], problem: str
) -> None:
    """Recorded of Kafka 4.4.0 with two brokers, also for partitions that are added to a topic."""
    manual = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in enumerate(assignment)
    )
    new = CreatableTopic(name="manual", num_partitions=-1, replication_factor=-1, assignments=manual)
    more = CreatePartitionsTopic(
        name="y",
        count=2 + len(assignment),
        assignments=tuple(CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignment),
    )
    with EmbeddedCluster(brokers=2) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        cluster.create_topic("y", partitions=2, replicas=2)
        (created,) = wire.request(CreateTopicsRequest(topics=(new,), timeout_ms=1000), 7).topics
        (added,) = wire.request(CreatePartitionsRequest(topics=(more,), timeout_ms=1000), 3).results
        cluster.stop_broker(2)
        (fenced,) = wire.request(
            CreateTopicsRequest(
                topics=(replace(new, assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=(2,)),)),)
            ),
            7,
        ).topics
    assert (created.error_code, added.error_code) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT,) * 2
    assert f"The manual partition assignment includes {problem}" in created.error_message
    assert fenced.error_message == (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
    )


@pytest.mark.parametrize(("count", "code"), [(10_002, 0), (10_003, -1), (2**31 - 1, -1)])
def test_added_partitions_are_limited_by_the_controllers_batch_size(
    wire: Wire, topic: Any, count: int, code: int
) -> None:
    more = CreatePartitionsTopic(name=topic.name, count=count, assignments=None)
    requested = CreatePartitionsRequest(topics=(more,), timeout_ms=1000, validate_only=True)
    assert wire.request(requested, 3).results[0].error_code == code


@pytest.mark.parametrize("leader_epoch", [-1, -2, -(1 << 31)])
def test_only_leader_epoch_minus_1_means_none(wire: Wire, topic: Any, leader_epoch: int) -> None:
    part = OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch)
    requested = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic=topic.name, partitions=(part,)),))
    found = wire.request(requested, 4).topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == ((-1, -1) if leader_epoch == -1 else (leader_epoch, 0))


@pytest.mark.parametrize(("version", "known"), [("3.9.2", True), ("4.0.2", True), ("4.3.1", False)])
def test_releases_up_to_4_0_keep_the_start_time_of_the_last_transaction(version: str, known: bool) -> None:
    with EmbeddedCluster(version=version, properties=ONE_EACH) as one:
        one.call(lambda: one.core.internal_topic(TRANSACTION_STATE))
        one.call(lambda: one.core.create_topic("t", partitions=1, replicas=1))
        producer_id, epoch = one.call(lambda: one.core.transactions.init_producer_id("x", 60_000, -1, -1))
        one.call(lambda: one.core.transactions.add_partitions("x", producer_id, epoch, [("t", 0)]))
        one.call(lambda: one.core.transactions.init_producer_id("x", 60_000, -1, -1))
        with Wire(one.core.brokers[1].port) as wire:
            (reported,) = wire.request(DescribeTransactionsRequest(transactional_ids=("x",)), 0).transaction_states
    assert reported.transaction_state == "Empty"
    assert (reported.transaction_start_time_ms > 0) is known


def test_metadata_of_a_topic_with_neither_name_nor_id_is_an_unknown_server_error(wire: Wire, topic: Any) -> None:
    nothing, by_id = MetadataRequestTopic(name=None), MetadataRequestTopic(name=None, topic_id=topic.id)
    failed = wire.request(MetadataRequest(topics=(nothing, MetadataRequestTopic(name=topic.name))), 12)
    assert [one.error_code for one in failed.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert failed.brokers == ()
    assert wire.request(MetadataRequest(topics=(nothing, by_id)), 12).topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("election_type", [0, 1, 7, 127])
def test_an_election_without_partitions_accepts_any_election_type(wire: Wire, election_type: int) -> None:
    requested = ElectLeadersRequest(election_type=election_type, topic_partitions=(), timeout_ms=1000)
    assert wire.request(requested, 2).error_code == ErrorCode.NONE


def test_records_of_a_topic_with_an_empty_cleanup_policy_can_be_deleted(wire: Wire, topic: Any) -> None:
    config = AlterableConfig(name="cleanup.policy", config_operation=0, value="")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    assert wire.request(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code == 0
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    requested = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic.name, partitions=(part,)),), timeout_ms=1000)
    assert wire.request(requested, 2).topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# ---- groups


def _commit(wire: Wire, group: str, topic: str, metadata: str) -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    requested = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=(part,)),),
    )
    code: int = wire.request(requested, 8).topics[0].partitions[0].error_code
    return code


def test_the_group_of_a_rejected_commit_is_listed_after_another_write(wire: Wire, topic: Any) -> None:
    """Coordinators list groups as of the last write (KIP-848), and this group has none."""

    def listed() -> bool:
        described = wire.request(DescribeGroupsRequest(groups=("refused",)), 5).groups[0].group_state
        found = "refused" in {group.group_id for group in wire.request(ListGroupsRequest(), 4).groups}
        assert (described == "Empty") is found
        return found

    assert _commit(wire, "refused", topic.name, "m" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert not listed()
    assert _commit(wire, "another", topic.name, "m") == ErrorCode.NONE
    assert listed()


# ---- 3.9


@pytest.fixture(scope="module")
def old() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(version="3.9.2", properties=ONE_EACH, seed=3) as made:
        made.call(lambda: made.core.internal_topic(CONSUMER_OFFSETS))
        made.call(lambda: made.core.create_topic("orders", partitions=1, replicas=1))
        yield made


@pytest.fixture
def old_wire(old: EmbeddedCluster) -> Iterator[Wire]:
    with Wire(old.core.brokers[1].port) as made:
        yield made


def test_brokers_of_3_9_remove_empty_groups_when_a_topic_is_deleted(old: EmbeddedCluster, old_wire: Wire) -> None:
    old.call(lambda: old.core.create_topic("gone", partitions=1, replicas=1))
    for group, topic in (("stays", "orders"), ("goes", "gone")):
        assert _commit(old_wire, group, topic, "m") == ErrorCode.NONE
    joining = JoinGroupRequest(
        group_id="nobody", session_timeout_ms=60_000, member_id="", protocol_type="consumer", protocols=(RANGE,)
    )
    assert old_wire.request(joining, 4).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert {one.group_id for one in old_wire.request(ListGroupsRequest(), 4).groups} == {"stays", "goes", "nobody"}
    old_wire.request(DeleteTopicsRequest(topic_names=("gone",), timeout_ms=1000), 5)
    assert [one.group_id for one in old_wire.request(ListGroupsRequest(), 4).groups] == ["stays"]


def test_brokers_of_3_9_apply_the_valid_feature_updates(old_wire: Wire) -> None:
    updates = tuple(FeatureUpdateKey(feature=name, max_version_level=level) for name, level in LEVELS.items())
    response = old_wire.request(UpdateFeaturesRequest(timeout_ms=1000, feature_updates=updates), 1)
    assert response.error_code == ErrorCode.NONE
    assert {result.feature: result.error_code for result in response.results} == {
        "kraft.version": ErrorCode.NONE,
        "nothing": ErrorCode.NONE,
        "share.version": ErrorCode.INVALID_UPDATE_VERSION,
    }


def test_brokers_of_3_9_treat_topics_without_partitions_differently(old_wire: Wire) -> None:
    assert old_wire.request(ListOffsetsRequest(topics=(ListOffsetsTopic(name="orders"),)), 7).topics[0].partitions == ()
    requested = (OffsetFetchRequestTopic(name="orders", partition_indexes=()),)
    assert old_wire.request(OffsetFetchRequest(group_id="stays", topics=requested), 7).topics == ()


def test_rejected_offsets_create_a_visible_group_in_3_9(old: EmbeddedCluster, old_wire: Wire) -> None:
    old.call(lambda: old.core.internal_topic(TRANSACTION_STATE))
    assert _commit(old_wire, "too-long", "orders", "m" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    requested = TxnOffsetCommitRequest(
        transactional_id="nobody",
        group_id="of-nobody",
        producer_id=5,
        producer_epoch=0,
        topics=(TxnOffsetCommitRequestTopic(name="orders", partitions=(part,)),),
    )
    refused = old_wire.request(requested, 2).topics[0].partitions[0].error_code
    assert refused == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert {"too-long", "of-nobody"} <= {group.group_id for group in old_wire.request(ListGroupsRequest(), 4).groups}


def test_a_commit_to_an_unknown_group_is_an_illegal_generation_in_3_9(old_wire: Wire) -> None:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = (OffsetCommitRequestTopic(name="orders", partitions=(part,)),)
    requested = OffsetCommitRequest(
        group_id="not-there", generation_id_or_member_epoch=0, member_id="me", topics=topics
    )
    assert old_wire.request(requested, 9).topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


def test_3_9_accepts_far_future_timestamps_and_small_segments(old_wire: Wire) -> None:
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="orders", configuration_keys=("message.timestamp.after.max.ms",)
    )
    (found,) = old_wire.request(DescribeConfigsRequest(resources=(resource,)), 4).results[0].configs
    assert found.value == str(2**63 - 1)
    record = BatchRecord(offset=0, timestamp_ms=10**15, key=b"k", value=b"v")
    data = encode_batch([record])
    topics = (TopicProduceData(name="orders", partition_data=(PartitionProduceData(index=0, records=data),)),)
    produced = old_wire.request(ProduceRequest(acks=-1, topic_data=topics), 9).responses[0].partition_responses[0]
    assert produced.error_code == ErrorCode.NONE
    config = AlterableConfig(name="segment.bytes", config_operation=0, value="14")
    changed = AlterConfigsResource(resource_type=2, resource_name="orders", configs=(config,))
    response = old_wire.request(IncrementalAlterConfigsRequest(resources=(changed,)), 1)
    assert response.responses[0].error_code == ErrorCode.NONE


def test_each_empty_group_id_is_rejected(wire: Wire) -> None:
    found = wire.request(ConsumerGroupDescribeRequest(group_ids=("", "not-there", "")), 1).groups
    assert [(one.group_id, one.error_code) for one in found] == [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("", ErrorCode.INVALID_GROUP_ID),
        ("not-there", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
