"""What random requests to real brokers have found (`bench/cluster_differential.py`), kept true on the embedded cluster alone: each answer here is one that a broker of 4.3.1 gave."""

from collections.abc import Callable, Iterator
from typing import Any

import google_crc32c
import pytest

from quorate.cluster import EmbeddedCluster, ManualClock
from quorate.codecs import CONSUMER_OFFSETS, Uuid
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
    FetchRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    UpdateFeaturesRequest,
)
from quorate.codecs.api.broker.create_partitions import CreatePartitionsTopic
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfig
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from quorate.codecs.api.broker.delete_topics import DeleteTopicState
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic, ForgottenTopic
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.broker.offset_for_leader_epoch import OffsetForLeaderPartition, OffsetForLeaderTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.broker.update_features import FeatureUpdateKey
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestTopic
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from quorate.codecs.batches import BatchProblem, BatchRecord, encode_batch, read_batches
from quorate.codecs.batches.model import TimestampType
from quorate.codecs.batches.v2 import CRC_START, HEADER, HEADER_BYTES
from quorate.codecs.message import TRANSACTION_STATE
from tests.cluster.test_log import batch
from tests.cluster.wire import Wire

RANGE = JoinGroupRequestProtocol(name="range", metadata=b"")
LEVELS = {"kraft.version": 1, "nothing": 0, "share.version": 1}
ONE_EACH = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def cluster(clock: ManualClock) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties=ONE_EACH, seed=3, clock=clock) as made:
        made.call(lambda: made.core.internal_topic(CONSUMER_OFFSETS))
        yield made


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Any:
    """A topic of the test's own, with two partitions."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    return cluster.call(lambda: cluster.core.create_topic(name, partitions=2, replicas=1))


@pytest.fixture
def wire(cluster: EmbeddedCluster) -> Iterator[Wire]:
    with Wire(cluster.core.brokers[1].port) as made:
        yield made


# ---- topics and settings


def test_a_topic_that_is_named_by_its_id_and_by_its_name_is_refused_once_and_stays(wire: Wire, topic: Any) -> None:
    by_name, by_id = DeleteTopicState(name=topic.name), DeleteTopicState(name=None, topic_id=topic.id)
    for asked in ((by_name, by_id), (by_id, by_name)):
        (refused,) = wire.ask(DeleteTopicsRequest(topics=asked, timeout_ms=1000), 6).responses
        assert (refused.name, refused.topic_id, refused.error_code) == (
            topic.name,
            topic.id,
            ErrorCode.INVALID_REQUEST,
        )
    names = {one.name for one in wire.ask(MetadataRequest(topics=None), 9).topics}
    assert topic.name in names


def test_an_id_that_is_there_twice_and_its_name_are_each_refused(wire: Wire, topic: Any) -> None:
    by_name, by_id = DeleteTopicState(name=topic.name), DeleteTopicState(name=None, topic_id=topic.id)
    refused = wire.ask(DeleteTopicsRequest(topics=(by_id, by_id, by_name), timeout_ms=1000), 6).responses
    assert {(one.name, one.topic_id, one.error_code) for one in refused} == {
        (None, topic.id, ErrorCode.INVALID_REQUEST),
        (topic.name, topic.id, ErrorCode.INVALID_REQUEST),
    }


def _add(wire: Wire, topic: str, operation: int, value: str) -> int:
    config = AlterableConfig(name="cleanup.policy", config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=(config,))
    code: int = wire.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code
    return code


def _policy(wire: Wire, topic: str) -> str:
    asked = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=("cleanup.policy",))
    value: str = wire.ask(DescribeConfigsRequest(resources=(asked,)), 4).results[0].configs[0].value
    return value


def test_nothing_that_is_added_to_a_list_is_an_element_without_a_name(wire: Wire, topic: Any) -> None:
    assert _add(wire, topic.name, 2, "") == ErrorCode.INVALID_CONFIG
    assert _add(wire, "not-there", 2, "") == ErrorCode.INVALID_CONFIG  # looked at before the topic is
    assert _add(wire, topic.name, 2, "compact,") == ErrorCode.NONE  # but what Java drops at the end of a text is none
    assert _policy(wire, topic.name) == "delete,compact"
    assert _add(wire, topic.name, 3, "") == ErrorCode.NONE
    assert _add(wire, topic.name, 3, " delete") == ErrorCode.NONE  # another one, by its blank
    assert _policy(wire, topic.name) == "delete,compact"


def test_partitions_beyond_counting_fail_no_other_topic_if_their_own_settings_are_wrong(wire: Wire) -> None:
    def codes(value: str) -> list[int]:
        settings = (CreatableTopicConfig(name="message.timestamp.type", value=value),)
        most = CreatableTopic(name="most", num_partitions=2**31 - 1, replication_factor=1, configs=settings)
        other = CreatableTopic(name=f"beside-{value}", num_partitions=1, replication_factor=1)
        answer = wire.ask(CreateTopicsRequest(topics=(most, other), timeout_ms=1000), 7)
        return [one.error_code for one in answer.topics]

    assert codes("soon") == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert codes("CreateTime") == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@pytest.mark.parametrize(("count", "code"), [(10_002, 0), (10_003, -1), (2**31 - 1, -1)])
def test_so_many_partitions_may_be_added_as_the_controller_writes_at_once(
    wire: Wire, topic: Any, count: int, code: int
) -> None:
    more = CreatePartitionsTopic(name=topic.name, count=count, assignments=None)
    asked = CreatePartitionsRequest(topics=(more,), timeout_ms=1000, validate_only=True)
    assert wire.ask(asked, 3).results[0].error_code == code


@pytest.mark.parametrize("leader_epoch", [-1, -2, -(1 << 31)])
def test_only_a_leader_epoch_of_minus_1_is_none(wire: Wire, topic: Any, leader_epoch: int) -> None:
    part = OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch)
    asked = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic=topic.name, partitions=(part,)),))
    found = wire.ask(asked, 4).topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == ((-1, -1) if leader_epoch == -1 else (leader_epoch, 0))


@pytest.mark.parametrize(("version", "known"), [("3.9.2", True), ("4.0.2", True), ("4.3.1", False)])
def test_releases_up_to_4_0_go_on_telling_when_the_last_transaction_began(version: str, known: bool) -> None:
    with EmbeddedCluster(kafka_version=version, properties=ONE_EACH) as one:
        one.call(lambda: one.core.internal_topic(TRANSACTION_STATE))
        one.call(lambda: one.core.create_topic("t", partitions=1, replicas=1))
        producer_id, epoch = one.call(lambda: one.core.transactions.begin("x", 60_000, -1, -1))
        one.call(lambda: one.core.transactions.add("x", producer_id, epoch, [("t", 0)]))
        one.call(lambda: one.core.transactions.begin("x", 60_000, -1, -1))
        with Wire(one.core.brokers[1].port) as wire:
            (told,) = wire.ask(DescribeTransactionsRequest(transactional_ids=("x",)), 0).transaction_states
    assert told.transaction_state == "Empty"
    assert (told.transaction_start_time_ms > 0) is known


def test_metadata_of_a_topic_with_neither_name_nor_id_is_an_error_of_the_broker(wire: Wire, topic: Any) -> None:
    nothing, by_id = MetadataRequestTopic(name=None), MetadataRequestTopic(name=None, topic_id=topic.id)
    failed = wire.ask(MetadataRequest(topics=(nothing, MetadataRequestTopic(name=topic.name))), 12)
    assert [one.error_code for one in failed.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert failed.brokers == ()
    assert wire.ask(MetadataRequest(topics=(nothing, by_id)), 12).topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("election_type", [0, 1, 7, 127])
def test_of_no_partitions_leaders_are_elected_however(wire: Wire, election_type: int) -> None:
    asked = ElectLeadersRequest(election_type=election_type, topic_partitions=(), timeout_ms=1000)
    assert wire.ask(asked, 2).error_code == ErrorCode.NONE


def test_records_of_a_topic_with_no_policy_of_cleaning_may_be_deleted(wire: Wire, topic: Any) -> None:
    config = AlterableConfig(name="cleanup.policy", config_operation=0, value="")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    assert wire.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code == 0
    part = DeleteRecordsPartition(partition_index=0, offset=1)
    asked = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic.name, partitions=(part,)),), timeout_ms=1000)
    assert wire.ask(asked, 2).topics[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# ---- groups


def _commit(wire: Wire, group: str, topic: str, metadata: str) -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    asked = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=(part,)),),
    )
    code: int = wire.ask(asked, 8).topics[0].partitions[0].error_code
    return code


def test_a_group_of_a_refused_commit_is_told_of_once_something_else_was_written(wire: Wire, topic: Any) -> None:
    """Brokers tell of groups as of the last write (KIP-848's coordinator), and of this one nothing was written."""

    def listed() -> bool:
        described = wire.ask(DescribeGroupsRequest(groups=("refused",)), 5).groups[0].group_state
        found = "refused" in {one.group_id for one in wire.ask(ListGroupsRequest(), 4).groups}
        assert (described == "Empty") is found
        return found

    assert _commit(wire, "refused", topic.name, "m" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert not listed()
    assert _commit(wire, "another", topic.name, "m") == ErrorCode.NONE
    assert listed()


# ---- 3.9


@pytest.fixture(scope="module")
def old() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(kafka_version="3.9.2", properties=ONE_EACH, seed=3) as made:
        made.call(lambda: made.core.internal_topic(CONSUMER_OFFSETS))
        made.call(lambda: made.core.create_topic("orders", partitions=1, replicas=1))
        yield made


@pytest.fixture
def old_wire(old: EmbeddedCluster) -> Iterator[Wire]:
    with Wire(old.core.brokers[1].port) as made:
        yield made


def test_brokers_of_3_9_forget_groups_without_members_and_offsets_when_a_topic_goes(
    old: EmbeddedCluster, old_wire: Wire
) -> None:
    old.call(lambda: old.core.create_topic("gone", partitions=1, replicas=1))
    for group, topic in (("stays", "orders"), ("goes", "gone")):
        assert _commit(old_wire, group, topic, "m") == ErrorCode.NONE
    joining = JoinGroupRequest(
        group_id="nobody", session_timeout_ms=60_000, member_id="", protocol_type="consumer", protocols=(RANGE,)
    )
    assert old_wire.ask(joining, 4).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert {one.group_id for one in old_wire.ask(ListGroupsRequest(), 4).groups} == {"stays", "goes", "nobody"}
    old_wire.ask(DeleteTopicsRequest(topic_names=("gone",), timeout_ms=1000), 5)
    assert [one.group_id for one in old_wire.ask(ListGroupsRequest(), 4).groups] == ["stays"]


def test_brokers_of_3_9_change_the_features_that_they_can(old_wire: Wire) -> None:
    updates = tuple(FeatureUpdateKey(feature=name, max_version_level=level) for name, level in LEVELS.items())
    answer = old_wire.ask(UpdateFeaturesRequest(timeout_ms=1000, feature_updates=updates), 1)
    assert answer.error_code == ErrorCode.NONE
    assert {one.feature: one.error_code for one in answer.results} == {
        "kraft.version": ErrorCode.NONE,
        "nothing": ErrorCode.NONE,
        "share.version": ErrorCode.INVALID_UPDATE_VERSION,
    }


def test_brokers_of_3_9_tell_of_topics_of_which_nothing_is_asked_where_later_ones_do_not(old_wire: Wire) -> None:
    assert old_wire.ask(ListOffsetsRequest(topics=(ListOffsetsTopic(name="orders"),)), 7).topics[0].partitions == ()
    asked = (OffsetFetchRequestTopic(name="orders", partition_indexes=()),)
    assert old_wire.ask(OffsetFetchRequest(group_id="stays", topics=asked), 7).topics == ()


def test_offsets_that_are_refused_make_a_group_at_once_in_3_9(old: EmbeddedCluster, old_wire: Wire) -> None:
    old.call(lambda: old.core.internal_topic(TRANSACTION_STATE))
    assert _commit(old_wire, "too-long", "orders", "m" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    asked = TxnOffsetCommitRequest(
        transactional_id="nobody",
        group_id="of-nobody",
        producer_id=5,
        producer_epoch=0,
        topics=(TxnOffsetCommitRequestTopic(name="orders", partitions=(part,)),),
    )
    refused = old_wire.ask(asked, 2).topics[0].partitions[0].error_code
    assert refused == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert {"too-long", "of-nobody"} <= {one.group_id for one in old_wire.ask(ListGroupsRequest(), 4).groups}


def test_offsets_of_a_group_that_there_is_not_have_an_illegal_generation_in_3_9(old_wire: Wire) -> None:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = (OffsetCommitRequestTopic(name="orders", partitions=(part,)),)
    asked = OffsetCommitRequest(group_id="not-there", generation_id_or_member_epoch=0, member_id="me", topics=topics)
    assert old_wire.ask(asked, 9).topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


def test_records_may_be_far_ahead_of_their_time_and_segments_small_in_3_9(old_wire: Wire) -> None:
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="orders", configuration_keys=("message.timestamp.after.max.ms",)
    )
    (found,) = old_wire.ask(DescribeConfigsRequest(resources=(resource,)), 4).results[0].configs
    assert found.value == str(2**63 - 1)
    record = BatchRecord(offset=0, timestamp_ms=10**15, key=b"k", value=b"v")
    data = encode_batch([record])
    topics = (TopicProduceData(name="orders", partition_data=(PartitionProduceData(index=0, records=data),)),)
    produced = old_wire.ask(ProduceRequest(acks=-1, topic_data=topics), 9).responses[0].partition_responses[0]
    assert produced.error_code == ErrorCode.NONE
    config = AlterableConfig(name="segment.bytes", config_operation=0, value="14")
    changed = AlterConfigsResource(resource_type=2, resource_name="orders", configs=(config,))
    answer = old_wire.ask(IncrementalAlterConfigsRequest(resources=(changed,)), 1)
    assert answer.responses[0].error_code == ErrorCode.NONE


def test_each_group_without_a_name_is_refused_however_often_it_is_named(wire: Wire) -> None:
    found = wire.ask(ConsumerGroupDescribeRequest(group_ids=("", "not-there", "")), 1).groups
    assert [(one.group_id, one.error_code) for one in found] == [
        ("", ErrorCode.INVALID_GROUP_ID),
        ("", ErrorCode.INVALID_GROUP_ID),
        ("not-there", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


# ---- producing


def test_a_producer_that_is_not_known_begins_at_0_where_the_broker_adds_partitions(
    cluster: EmbeddedCluster, wire: Wire, topic: Any
) -> None:
    """KIP-890's second version. How it is told from clients before is by what came first: a broker remembers for whom it asked the coordinator, until it takes a batch."""
    cluster.call(lambda: cluster.core.internal_topic(TRANSACTION_STATE))

    def writer(name: str) -> Callable[[int, int], int]:
        begun = wire.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5)

        def write(version: int, sequence: int) -> int:
            record = BatchRecord(offset=0, timestamp_ms=-1, key=b"k", value=b"v")
            data = encode_batch(
                [record],
                transactional=True,
                producer_id=begun.producer_id,
                producer_epoch=begun.producer_epoch,
                base_sequence=sequence,
            )
            topics = (TopicProduceData(name=topic.name, partition_data=(PartitionProduceData(index=0, records=data),)),)
            asked = ProduceRequest(transactional_id=name, acks=-1, topic_data=topics)
            code: int = wire.ask(asked, version).responses[0].partition_responses[0].error_code
            return code

        return write

    newer, older = writer(topic.name), writer(topic.name + "-older")
    assert [newer(12, 5), newer(12, 0), newer(12, 1)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0]
    assert [older(11, 5), older(12, 7)] == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert [older(12, 5), older(12, 6)] == [0, 0]


def test_a_producer_that_another_one_followed_is_fenced(cluster: EmbeddedCluster, wire: Wire, topic: Any) -> None:
    """One that goes on by itself may ask again for what it was not answered (KIP-360)."""
    cluster.call(lambda: cluster.core.internal_topic(TRANSACTION_STATE))

    def begin(producer_id: int = -1, epoch: int = -1) -> tuple[int, int, int]:
        asked = InitProducerIdRequest(
            transactional_id=topic.name, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
        )
        answer = wire.ask(asked, 4)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    _, producer_id, epoch = begin()
    assert begin() == (ErrorCode.NONE, producer_id, epoch + 1)
    assert begin(producer_id, epoch) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    for _ in range(2):
        assert begin(producer_id, epoch + 1) == (ErrorCode.NONE, producer_id, epoch + 2)


def test_markers_have_the_time_of_appending_where_records_have_it(wire: Wire, topic: Any) -> None:
    config = AlterableConfig(name="message.timestamp.type", config_operation=0, value="LogAppendTime")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    wire.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    topic.partitions[0].log.append_marker(8, 0, commit=True, now_ms=1, leader_epoch=0)
    fetched = wire.ask(_fetch(topic, 0, session_epoch=-1), 12).responses[0].partitions[0].records
    (read,) = read_batches(fetched)
    assert not isinstance(read, BatchProblem)
    assert (read.header.control, read.header.timestamp_type) == (True, TimestampType.LOG_APPEND_TIME)


def test_what_is_stable_is_not_before_what_there_is(cluster: EmbeddedCluster, wire: Wire, topic: Any) -> None:
    log = topic.partitions[0].log
    record = BatchRecord(offset=0, timestamp_ms=1, key=b"k", value=b"v")
    data = encode_batch([record], transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
    for one in (data, batch(1), batch(1)):
        log.append(one, leader_epoch=0, now_ms=1)
    part = DeleteRecordsPartition(partition_index=0, offset=2)
    wire.ask(DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic.name, partitions=(part,)),)), 2)
    latest = ListOffsetsTopic(name=topic.name, partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),))
    for isolation_level, offset in ((0, 3), (1, 2)):
        asked = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=(latest,))
        assert wire.ask(asked, 8).topics[0].partitions[0].offset == offset


def _produce(wire: Wire, topic: Any, data: bytes) -> Any:
    topics = (TopicProduceData(name=topic.name, partition_data=(PartitionProduceData(index=0, records=data),)),)
    return wire.ask(ProduceRequest(acks=-1, topic_data=topics), 9).responses[0].partition_responses[0]


@pytest.mark.parametrize(
    ("at_ms", "policy", "code", "places"),
    [
        (-1, "CreateTime", ErrorCode.INVALID_TIMESTAMP, [0, 1]),
        (1, "CreateTime", ErrorCode.NONE, []),
        (1, "LogAppendTime", ErrorCode.INVALID_TIMESTAMP, [0, 1]),
    ],
)
def test_a_batch_that_says_it_has_the_brokers_time_is_taken_only_if_its_own_counts(
    cluster: EmbeddedCluster, wire: Wire, topic: Any, at_ms: int, policy: str, code: ErrorCode, places: Any
) -> None:
    config = AlterableConfig(name="message.timestamp.type", config_operation=0, value=policy)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    wire.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    records = [BatchRecord(offset=at, timestamp_ms=at_ms, key=b"k", value=b"v") for at in range(2)]
    found = _produce(wire, topic, encode_batch(records, log_append_time_ms=at_ms))
    assert (found.error_code, [one.batch_index for one in found.record_errors]) == (code, places)
    if code is ErrorCode.NONE:
        fetched = wire.ask(_fetch(topic, 0, session_epoch=-1), 12).responses[0].partitions[0].records
        (read,) = read_batches(fetched)
        assert not isinstance(read, BatchProblem)
        assert read.header.timestamp_type is TimestampType.CREATE_TIME


def test_a_batch_that_comes_again_is_told_with_its_own_time(wire: Wire, topic: Any) -> None:
    begun = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
    record = BatchRecord(offset=0, timestamp_ms=1234, key=b"k", value=b"v")
    data = encode_batch([record], producer_id=begun.producer_id, producer_epoch=0, base_sequence=0)
    first, again = (_produce(wire, topic, data) for _ in range(2))
    assert (first.base_offset, first.log_append_time_ms) == (0, -1)
    assert (again.base_offset, again.log_append_time_ms) == (0, 1234)


def test_a_producer_goes_on_at_0_behind_a_marker_of_a_new_epoch(wire: Wire, topic: Any) -> None:
    topic.partitions[0].log.append_marker(77, 3, commit=True, now_ms=1, leader_epoch=0)
    record = BatchRecord(offset=0, timestamp_ms=-1, key=b"k", value=b"v")
    for sequence, code in ((5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (0, ErrorCode.NONE)):
        data = encode_batch([record], producer_id=77, producer_epoch=3, base_sequence=sequence)
        assert _produce(wire, topic, data).error_code == code


def test_a_compression_that_there_is_not_is_an_error_of_the_broker(wire: Wire, topic: Any) -> None:
    header = list(HEADER.unpack_from(data := batch(1)))
    header[5] |= 7
    changed = HEADER.pack(*header) + data[HEADER_BYTES:]
    header[4] = google_crc32c.value(changed[CRC_START:])
    found = _produce(wire, topic, HEADER.pack(*header) + data[HEADER_BYTES:])
    assert (found.error_code, found.log_start_offset) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)


@pytest.mark.parametrize(("wanted", "kept"), [("producer", "lz4"), ("uncompressed", "none"), ("zstd", "zstd")])
def test_a_topic_that_has_a_compression_keeps_all_batches_in_it(
    cluster: EmbeddedCluster, wire: Wire, topic: Any, wanted: str, kept: str
) -> None:
    config = AlterableConfig(name="compression.type", config_operation=0, value=wanted)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    assert wire.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code == 0
    records = [BatchRecord(offset=at, timestamp_ms=at, key=b"k", value=b"v" * 50, sequence=at) for at in range(3)]
    data = encode_batch(records, compression="lz4", producer_id=5, producer_epoch=2, base_sequence=0)
    assert _produce(wire, topic, data).error_code == ErrorCode.NONE
    fetched = wire.ask(_fetch(topic, 0, session_epoch=-1), 12).responses[0].partitions[0].records
    (read,) = read_batches(fetched)
    assert not isinstance(read, BatchProblem)
    header = read.header
    assert (header.compression, header.producer_id, header.producer_epoch, header.base_sequence) == (kept, 5, 2, 0)
    assert list(read.records()) == records


def test_metadata_says_nothing_of_what_the_controller_will_refuse(wire: Wire, topic: Any) -> None:
    """A topic that is asked for first is made behind the answer, or is not, as one that metrics cannot tell from another."""
    wire.ask(MetadataRequest(topics=(MetadataRequestTopic(name="some.name"),)), 4)
    asked = MetadataRequest(topics=(MetadataRequestTopic(name="some_name"),), allow_auto_topic_creation=True)
    assert wire.ask(asked, 4).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- sessions of fetching


def test_a_session_remembers_the_name_of_a_topic_that_goes(cluster: EmbeddedCluster, wire: Wire, topic: Any) -> None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    by_id = (FetchTopic(topic_id=topic.id, partitions=(part,)),)
    session = wire.ask(FetchRequest(max_wait_ms=0, session_epoch=0, topics=by_id), 13).session_id

    def code(epoch: int) -> int:
        asked = FetchRequest(max_wait_ms=0, session_id=session, session_epoch=epoch)
        found: int = wire.ask(asked, 13).responses[0].partitions[0].error_code
        return found

    cluster.call(lambda: cluster.core.delete_topic(topic.name))
    assert code(1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.call(lambda: cluster.core.create_topic(topic.name, partitions=1, replicas=1))
    assert code(2) == ErrorCode.INCONSISTENT_TOPIC_ID
    alone = wire.ask(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=by_id), 13)
    assert alone.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_aborted_transactions_are_not_told_where_there_is_no_room_for_a_batch(wire: Wire, topic: Any) -> None:
    for log in (one.log for one in topic.partitions):
        log.append(batch(1), leader_epoch=0, now_ms=1)
    parts = tuple(FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1) for at in (0, 1))
    topics = (FetchTopic(topic=topic.name, partitions=parts),)
    answer = wire.ask(FetchRequest(max_wait_ms=0, session_epoch=-1, isolation_level=1, topics=topics), 12)
    first, second = answer.responses[0].partitions
    assert (bool(first.records), first.aborted_transactions) == (True, ())
    assert (second.records, second.aborted_transactions) == (b"", None)


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_fetch_fails_as_a_whole_where_anything_is_told_behind_a_topic_without_an_id(
    wire: Wire, topic: Any, epoch: int
) -> None:
    part, another = (FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1 << 20) for at in (0, 1))
    nameless, strange = Uuid.ZERO, Uuid(b"\1" * 16)

    def code(*topics: tuple[Uuid, tuple[FetchPartition, ...]]) -> tuple[int, int]:
        asked = tuple(FetchTopic(topic_id=one, partitions=parts) for one, parts in topics)
        answer = wire.ask(FetchRequest(max_wait_ms=0, session_epoch=epoch, topics=asked), 13)
        return answer.error_code, len(answer.responses)

    assert code((nameless, (part,)), (topic.id, (part,))) == (ErrorCode.NONE, 2)  # what there is comes first
    assert code((strange, (part,)), (nameless, (part,))) == (ErrorCode.NONE, 2)
    assert code((nameless, (part,)), (strange, (part,))) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert code((nameless, (part, another))) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)


def test_a_limit_below_0_is_an_error_where_there_are_records(wire: Wire, topic: Any) -> None:
    for log in (one.log for one in topic.partitions):
        log.append(batch(1), leader_epoch=0, now_ms=1)
    answer = wire.ask(_fetch(topic, 0, 1, session_epoch=-1, max_bytes=-1), 12)
    parts = {part.partition_index: part for part in answer.responses[0].partitions}
    assert parts[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert parts[1].error_code == ErrorCode.NONE
    assert parts[1].records  # of what is left, 0 bytes, the first batch is given all the same


def _fetch(topic: Any, *partitions: int, forgotten: tuple[int, ...] = (), **options: Any) -> FetchRequest:
    parts = tuple(FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1 << 20) for one in partitions)
    return FetchRequest(
        max_wait_ms=options.pop("max_wait_ms", 0),
        min_bytes=1,
        topics=(FetchTopic(topic=topic.name, partitions=parts),) if parts else (),
        forgotten_topics_data=(ForgottenTopic(topic=topic.name, partitions=forgotten),) if forgotten else (),
        **options,
    )


def _indexes(response: Any) -> list[int]:
    return [part.partition_index for one in response.responses for part in one.partitions]


def test_a_session_that_forgets_its_last_partition_is_over(wire: Wire, topic: Any) -> None:
    session = wire.ask(_fetch(topic, 0, session_epoch=0), 12).session_id
    last = wire.ask(_fetch(topic, forgotten=(0,), session_id=session, session_epoch=1), 12)
    assert (last.error_code, last.session_id, last.responses) == (ErrorCode.NONE, 0, ())
    after = wire.ask(_fetch(topic, 0, session_id=session, session_epoch=2), 12)
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_whose_session_went_on_without_it_is_told_so(
    cluster: EmbeddedCluster, clock: ManualClock, wire: Wire, topic: Any
) -> None:
    """Another connection forgets the partition that this one waits for."""
    session = wire.ask(_fetch(topic, 0, 1, session_epoch=0), 12).session_id
    wire.send(_fetch(topic, session_id=session, session_epoch=1, max_wait_ms=1000), 12)
    with Wire(cluster.core.brokers[1].port) as other:
        gone_on = other.ask(_fetch(topic, forgotten=(0,), session_id=session, session_epoch=2), 12)
    assert gone_on.error_code == ErrorCode.NONE
    cluster.call(lambda: clock.advance(1000))
    waited = wire.receive(FetchRequest, 12)
    assert (waited.error_code, waited.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session)
    assert not cluster.core.failures


def test_a_session_begins_with_its_first_answer(
    cluster: EmbeddedCluster, clock: ManualClock, wire: Wire, topic: Any
) -> None:
    sessions = cluster.core.brokers[1].fetch_sessions
    before = len(sessions)
    wire.send(_fetch(topic, 0, session_epoch=0, max_wait_ms=1000), 12)
    with Wire(cluster.core.brokers[1].port) as other:
        other.ask(MetadataRequest(topics=()), 9)  # behind it
    assert len(sessions) == before
    cluster.call(lambda: clock.advance(1000))
    assert wire.receive(FetchRequest, 12).session_id > 0
    assert len(sessions) == before + 1


def test_a_partition_that_got_records_first_stays_first_in_a_new_session(
    cluster: EmbeddedCluster, wire: Wire, topic: Any
) -> None:
    for one in topic.partitions:
        cluster.call(lambda log=one.log: log.append(batch(1), leader_epoch=0, now_ms=1))
    session = wire.ask(_fetch(topic, 0, 1, session_epoch=0, max_bytes=1), 12).session_id
    for epoch, index in enumerate((0, 1, 0), start=1):
        told = wire.ask(_fetch(topic, session_id=session, session_epoch=epoch, max_bytes=1), 12)
        assert _indexes(told) == [index]


def test_only_sessions_that_are_stale_or_old_and_smaller_make_room_for_others() -> None:
    clock = ManualClock()
    with EmbeddedCluster(properties={"max.incremental.fetch.session.cache.slots": 1}, clock=clock) as one:
        made = one.call(lambda: one.core.create_topic("t", partitions=2, replicas=1))
        with Wire(one.core.brokers[1].port) as wire:
            first = wire.ask(_fetch(made, 0, session_epoch=0), 12).session_id
            assert wire.ask(_fetch(made, 0, 1, session_epoch=0), 12).session_id == 0
            one.call(lambda: clock.advance(120_001))
            assert wire.ask(_fetch(made, session_id=first, session_epoch=1), 12).session_id == first
            assert wire.ask(_fetch(made, 0, session_epoch=0), 12).session_id == 0  # not more than it
            larger = wire.ask(_fetch(made, 0, 1, session_epoch=0), 12).session_id
            assert larger > 0
            one.call(lambda: clock.advance(120_001))
            assert wire.ask(_fetch(made, 0, session_epoch=0), 12).session_id > larger
