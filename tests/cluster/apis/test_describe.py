"""APIs for administrators: producers, transactions, log sizes, config resources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.codecs.api.broker import (
    AddPartitionsToTxnRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListConfigResourcesRequest,
    ListTransactionsRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.add_partitions_to_txn import AddPartitionsToTxnTopic
from quorate.codecs.api.broker.describe_log_dirs import DescribableLogDirTopic
from quorate.codecs.api.broker.describe_producers import TopicRequest
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.message import TRANSACTION_STATE
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire

NOW_MS = 1_700_000_000_000


@pytest.fixture
def one(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """A broker with a data directory, a topic, and an open transaction with two records."""
    with EmbeddedCluster(properties=QUICK, data=tmp_path, seed=1) as cluster:
        core = cluster.core
        cluster.call(lambda: (core.internal_topic(TRANSACTION_STATE), core.create_topic("orders", partitions=2)))
        with Wire(core.brokers[1].port) as wire:
            begun = wire.request(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4)
            assert begun.error_code == 0
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t",
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_topics=(AddPartitionsToTxnTopic(name="orders", partitions=(1, 0)),),
            )
            assert (
                not wire.request(add, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
            records = encode_batch(
                [BatchRecord(offset=at, timestamp_ms=NOW_MS + at, key=None, value=b"v") for at in range(2)],
                producer_id=begun.producer_id,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            part = PartitionProduceData(index=0, records=records)
            request = ProduceRequest(
                transactional_id="t",
                acks=-1,
                timeout_ms=1000,
                topic_data=(TopicProduceData(name="orders", partition_data=(part,)),),
            )
            assert not wire.request(request, 9).responses[0].partition_responses[0].error_code
        yield cluster


@pytest.fixture
def wire(one: EmbeddedCluster) -> Iterator[Wire]:
    with Wire(one.core.brokers[1].port) as made:
        yield made


def test_producers_of_a_partition_are_described_with_their_open_transaction(wire: Wire) -> None:
    requested = (
        TopicRequest(name="orders", partition_indexes=(0, 1, 7)),
        TopicRequest(name="none", partition_indexes=(0,)),
    )
    orders, none = wire.request(DescribeProducersRequest(topics=requested), 0).topics
    (producer,) = orders.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (0, 0, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset, producer.coordinator_epoch) == (
        NOW_MS + 1,
        0,
        -1,
    )
    assert orders.partitions[1].active_producers == ()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.error_code for partition in (*orders.partitions, *none.partitions)] == [0, 0, unknown, unknown]


def test_transactions_are_described_by_id(wire: Wire) -> None:
    found, none, empty = wire.request(
        DescribeTransactionsRequest(transactional_ids=("t", "none", "")), 0
    ).transaction_states
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == (0, 0)
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("orders", (0, 1))]
    assert found.transaction_start_time_ms > NOW_MS
    assert (none.error_code, none.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "none")
    assert empty.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("filters", "version", "ids", "unknown"),
    [
        ({}, 0, ["t"], ()),
        ({"state_filters": ("Ongoing", "Odd")}, 0, ["t"], ("Odd",)),
        ({"state_filters": ("Odd",)}, 0, [], ("Odd",)),
        ({"state_filters": ("Empty",)}, 0, [], ()),
        ({"producer_id_filters": (0, 9)}, 0, ["t"], ()),
        ({"producer_id_filters": (9,)}, 0, [], ()),
        ({"duration_filter": 60_000}, 1, [], ()),
        ({"transactional_id_pattern": "[s-u]"}, 2, ["t"], ()),
        ({"transactional_id_pattern": "x.*"}, 2, [], ()),
    ],
)
def test_transactions_are_listed_by_filters(
    wire: Wire, filters: dict[str, object], version: int, ids: list[str], unknown: tuple[str, ...]
) -> None:
    found = wire.request(ListTransactionsRequest(**filters), version)  # type: ignore[arg-type]
    assert [transaction_state.transactional_id for transaction_state in found.transaction_states] == ids
    assert found.unknown_state_filters == unknown


def test_an_invalid_pattern_is_rejected(wire: Wire) -> None:
    found = wire.request(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert found.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_log_directories_report_log_sizes_and_free_space(wire: Wire, one: EmbeddedCluster, tmp_path: Path) -> None:
    (found,) = wire.request(DescribeLogDirsRequest(topics=None), 4).results
    assert found.log_dir == str(tmp_path / "broker-1")
    assert found.total_bytes >= found.usable_bytes > 0
    sizes = {
        (topic.name, part.partition_index): part.partition_size for topic in found.topics for part in topic.partitions
    }
    assert sizes["orders", 0] == (tmp_path / "broker-1" / "orders-0" / f"{0:020}.log").stat().st_size > 0
    assert sizes["orders", 1] == 0
    requested = (DescribableLogDirTopic(topic="orders", partitions=(1, 5)),)
    (found,) = wire.request(DescribeLogDirsRequest(topics=requested), 1).results
    assert [(topic.name, [part.partition_index for part in topic.partitions]) for topic in found.topics] == [
        ("orders", [1])
    ]


def test_config_resources_are_listed_by_type(wire: Wire, one: EmbeddedCluster) -> None:
    one.call(lambda: one.core.change_configs(ConfigResourceType.GROUP, "g", {"consumer.session.timeout.ms": "50000"}))

    def names(version: int, *types: int) -> list[tuple[int, str]]:
        found = wire.request(ListConfigResourcesRequest(resource_types=types), version)
        assert found.error_code == 0
        return [
            (config_resource.resource_type, config_resource.resource_name) for config_resource in found.config_resources
        ]

    assert names(1) == [(32, "g"), (8, "1"), (4, "1"), (2, TRANSACTION_STATE), (2, "orders")]
    assert names(1, 2, 32) == [(32, "g"), (2, TRANSACTION_STATE), (2, "orders")]
    assert names(0) == []
    refused = wire.request(ListConfigResourcesRequest(resource_types=(3,)), 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
