"""Regressions found by random requests (`bench/cluster_differential.py`): producing.

The expected responses are those of a broker of 4.3.1.
"""

from collections.abc import Callable
from typing import Any

import google_crc32c
import pytest

from quorate.cluster import EmbeddedCluster
from quorate.codecs.api.broker import (
    DeleteRecordsRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchProblem, BatchRecord, encode_batch, read_batches
from quorate.codecs.batches.model import TimestampType
from quorate.codecs.batches.v2 import CRC_START, HEADER, HEADER_BYTES
from quorate.codecs.message import TRANSACTION_STATE
from tests.cluster.helpers import batch_cases
from tests.cluster.helpers.wire import Wire
from tests.cluster.responses.requests import fetch_of
from tests.cluster.test_log import batch


def test_an_unknown_producer_must_begin_at_sequence_0_if_the_broker_adds_partitions(
    cluster: EmbeddedCluster, wire: Wire, topic: Any
) -> None:
    """Transaction version 2 of KIP-890.

    Brokers recognise such a producer by its first batch: the verification entry is kept until a
    batch is appended.
    """
    cluster.call(lambda: cluster.core.internal_topic(TRANSACTION_STATE))

    def writer(name: str) -> Callable[[int, int], int]:
        begun = wire.request(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5)

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
            requested = ProduceRequest(transactional_id=name, acks=-1, topic_data=topics)
            code: int = wire.request(requested, version).responses[0].partition_responses[0].error_code
            return code

        return write

    newer, older = writer(topic.name), writer(topic.name + "-older")
    assert [newer(12, 5), newer(12, 0), newer(12, 1)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0]
    assert [older(11, 5), older(12, 7)] == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert [older(12, 5), older(12, 6)] == [0, 0]


def test_a_producer_is_fenced_by_a_newer_one(cluster: EmbeddedCluster, wire: Wire, topic: Any) -> None:
    """A producer that bumped its own epoch may retry after a lost response (KIP-360)."""
    cluster.call(lambda: cluster.core.internal_topic(TRANSACTION_STATE))

    def begin(producer_id: int = -1, epoch: int = -1) -> tuple[int, int, int]:
        requested = InitProducerIdRequest(
            transactional_id=topic.name, transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
        )
        response = wire.request(requested, 4)
        return response.error_code, response.producer_id, response.producer_epoch

    _, producer_id, epoch = begin()
    assert begin() == (ErrorCode.NONE, producer_id, epoch + 1)
    assert begin(producer_id, epoch) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    for _ in range(2):
        assert begin(producer_id, epoch + 1) == (ErrorCode.NONE, producer_id, epoch + 2)


def test_markers_have_log_append_time_if_records_have(wire: Wire, topic: Any) -> None:
    config = AlterableConfig(name="message.timestamp.type", config_operation=0, value="LogAppendTime")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    wire.request(IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    topic.partitions[0].log.append_marker(8, 0, commit=True, now_ms=1, leader_epoch=0)
    fetched = wire.request(fetch_of(topic, 0, session_epoch=-1), 12).responses[0].partitions[0].records
    (read,) = read_batches(fetched)
    assert not isinstance(read, BatchProblem)
    assert (read.header.control, read.header.timestamp_type) == (True, TimestampType.LOG_APPEND_TIME)


def test_the_last_stable_offset_is_not_before_the_log_start_offset(
    cluster: EmbeddedCluster, wire: Wire, topic: Any
) -> None:
    log = topic.partitions[0].log
    record = BatchRecord(offset=0, timestamp_ms=1, key=b"k", value=b"v")
    data = encode_batch([record], transactional=True, producer_id=9, producer_epoch=0, base_sequence=0)
    for one in (data, batch(1), batch(1)):
        log.append(one, leader_epoch=0, now_ms=1)
    part = DeleteRecordsPartition(partition_index=0, offset=2)
    wire.request(DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic.name, partitions=(part,)),)), 2)
    latest = ListOffsetsTopic(name=topic.name, partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),))
    for isolation_level, offset in ((0, 3), (1, 2)):
        requested = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=(latest,))
        assert wire.request(requested, 8).topics[0].partitions[0].offset == offset


def _produce(wire: Wire, topic: Any, data: bytes) -> Any:
    topics = (TopicProduceData(name=topic.name, partition_data=(PartitionProduceData(index=0, records=data),)),)
    return wire.request(ProduceRequest(acks=-1, topic_data=topics), 9).responses[0].partition_responses[0]


@pytest.mark.parametrize(
    ("at_ms", "policy", "code", "places"),
    [
        (-1, "CreateTime", ErrorCode.INVALID_TIMESTAMP, [0, 1]),
        (1, "CreateTime", ErrorCode.NONE, []),
        (1, "LogAppendTime", ErrorCode.INVALID_TIMESTAMP, [0, 1]),
    ],
)
def test_a_batch_with_log_append_time_is_accepted_only_in_topics_with_create_time(
    cluster: EmbeddedCluster, wire: Wire, topic: Any, at_ms: int, policy: str, code: ErrorCode, places: Any
) -> None:
    config = AlterableConfig(name="message.timestamp.type", config_operation=0, value=policy)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    wire.request(IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    records = [BatchRecord(offset=at, timestamp_ms=at_ms, key=b"k", value=b"v") for at in range(2)]
    found = _produce(wire, topic, encode_batch(records, log_append_time_ms=at_ms))
    assert (found.error_code, [record_error.batch_index for record_error in found.record_errors]) == (code, places)
    if code is ErrorCode.NONE:
        fetched = wire.request(fetch_of(topic, 0, session_epoch=-1), 12).responses[0].partitions[0].records
        (read,) = read_batches(fetched)
        assert not isinstance(read, BatchProblem)
        assert read.header.timestamp_type is TimestampType.CREATE_TIME


def test_a_duplicate_batch_returns_its_own_timestamp(wire: Wire, topic: Any) -> None:
    begun = wire.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
    record = BatchRecord(offset=0, timestamp_ms=1234, key=b"k", value=b"v")
    data = encode_batch([record], producer_id=begun.producer_id, producer_epoch=0, base_sequence=0)
    first, again = (_produce(wire, topic, data) for _ in range(2))
    assert (first.base_offset, first.log_append_time_ms) == (0, -1)
    assert (again.base_offset, again.log_append_time_ms) == (0, 1234)


def test_a_producer_continues_at_sequence_0_after_a_marker_of_a_new_epoch(wire: Wire, topic: Any) -> None:
    topic.partitions[0].log.append_marker(77, 3, commit=True, now_ms=1, leader_epoch=0)
    record = BatchRecord(offset=0, timestamp_ms=-1, key=b"k", value=b"v")
    for sequence, code in ((5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (0, ErrorCode.NONE)):
        data = encode_batch([record], producer_id=77, producer_epoch=3, base_sequence=sequence)
        assert _produce(wire, topic, data).error_code == code


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("count", [1, 3, 5, 2**31 - 1])
def test_a_wrong_record_count_is_rejected_and_the_log_is_unchanged(
    wire: Wire, topic: Any, count: int, compression: str
) -> None:
    """Issue 14.

    All faults of batches, and other topics: `tests/cluster/pair/test_batch_validation.py`.
    """
    two = [batch_cases.record(0), batch_cases.record(1)]
    found = _produce(wire, topic, batch_cases.batch(two, count=count, compression=compression))
    assert (found.error_code, found.error_message) == (ErrorCode.INVALID_RECORD, None)
    assert topic.partitions[0].log.next_offset == 0


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_cannot_be_decompressed_are_an_unknown_server_error(
    wire: Wire, topic: Any, compression: str
) -> None:
    """Issue 14. The log is unchanged."""
    cut = batch_cases.batch(compression=compression, packed=lambda body: body[: len(body) // 2])
    assert _produce(wire, topic, cut).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert topic.partitions[0].log.next_offset == 0


def test_a_batch_is_stored_with_the_maximum_timestamp_of_its_records(wire: Wire, topic: Any) -> None:
    """Issue 14: the header's value is ignored."""
    data = batch_cases.batch(base_ms=1000, max_ms=1005)
    assert _produce(wire, topic, data).error_code == ErrorCode.NONE
    (kept,) = topic.partitions[0].log
    assert kept.max_timestamp_ms == 1002
    (read,) = read_batches(kept.data)
    assert not isinstance(read, BatchProblem)
    assert read.header.max_timestamp_ms == 1002


def test_an_unknown_compression_is_an_unknown_server_error(wire: Wire, topic: Any) -> None:
    header = list(HEADER.unpack_from(data := batch(1)))
    header[5] |= 7
    changed = HEADER.pack(*header) + data[HEADER_BYTES:]
    header[4] = google_crc32c.value(changed[CRC_START:])
    found = _produce(wire, topic, HEADER.pack(*header) + data[HEADER_BYTES:])
    assert (found.error_code, found.log_start_offset) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)


@pytest.mark.parametrize(("wanted", "kept"), [("producer", "lz4"), ("uncompressed", "none"), ("zstd", "zstd")])
def test_a_topic_with_a_compression_type_recompresses_all_batches(
    cluster: EmbeddedCluster, wire: Wire, topic: Any, wanted: str, kept: str
) -> None:
    config = AlterableConfig(name="compression.type", config_operation=0, value=wanted)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=(config,))
    assert wire.request(IncrementalAlterConfigsRequest(resources=(resource,)), 1).responses[0].error_code == 0
    records = [BatchRecord(offset=at, timestamp_ms=at, key=b"k", value=b"v" * 50, sequence=at) for at in range(3)]
    data = encode_batch(records, compression="lz4", producer_id=5, producer_epoch=2, base_sequence=0)
    assert _produce(wire, topic, data).error_code == ErrorCode.NONE
    fetched = wire.request(fetch_of(topic, 0, session_epoch=-1), 12).responses[0].partitions[0].records
    (read,) = read_batches(fetched)
    assert not isinstance(read, BatchProblem)
    header = read.header
    assert (header.compression, header.producer_id, header.producer_epoch, header.base_sequence) == (kept, 5, 2, 0)
    assert list(read.records()) == records


def test_metadata_does_not_report_a_topic_that_the_controller_will_reject(wire: Wire, topic: Any) -> None:
    """A new topic is created after the response, or rejected because of a colliding name."""
    wire.request(MetadataRequest(topics=(MetadataRequestTopic(name="some.name"),)), 4)
    requested = MetadataRequest(topics=(MetadataRequestTopic(name="some_name"),), allow_auto_topic_creation=True)
    assert wire.request(requested, 4).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
