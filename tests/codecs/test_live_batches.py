"""Whole batches from kafka-python have the records that kafka-python decodes itself."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.live_batches import WholeBatches, block_of_polled, leader_epochs, return_batches

AT = TopicPartition("__consumer_offsets", 3)


def batch(first: int, count: int, **options: Any) -> bytes:
    return encode_batch(
        [
            BatchRecord(
                offset=first + place,
                timestamp_ms=1_800_000_000_000 + 7 * place,
                key=f"key-{first + place}".encode(),
                value=None if place % 3 == 1 else b"v" * (first + place),
            )
            for place in range(count)
        ],
        **options,
    )


def polled(kind: Any, data: bytes, fetch_offset: int, aborted: list[Any]) -> list[Any]:
    records = kind(
        fetch_offset,
        AT,
        MemoryRecords(data),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=aborted,
    )
    return records.take(1_000_000)


TRANSACTION = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("fetch_offset", [0, 4])
@pytest.mark.parametrize("is_aborted", [False, True])
def test_batches_have_the_records_that_kafka_python_decodes(compression, fetch_offset, is_aborted):
    data = (
        batch(0, 3, compression=compression)
        + batch(4, 2, compression=compression, partition_leader_epoch=5)
        + batch(6, 2, **TRANSACTION)
        + encode_marker(commit=not is_aborted, offset=8, timestamp_ms=0, producer_id=9, producer_epoch=0)
        + batch(9, 1, partition_leader_epoch=6)
    )
    data = data[len(batch(0, 3, compression=compression)) if fetch_offset else 0 :]
    aborted = [SimpleNamespace(producer_id=9, first_offset=6)] if is_aborted else []
    expected = polled(Fetcher.PartitionRecords, data, fetch_offset, aborted)
    consumer: Any = SimpleNamespace(_fetcher=SimpleNamespace(PartitionRecords=Fetcher.PartitionRecords))
    return_batches(consumer)
    found = polled(consumer._fetcher.PartitionRecords, data, fetch_offset, aborted)
    assert all(isinstance(record.key, WholeBatches) for record in found)
    assert found[-1].offset == 9
    block = block_of_polled(found, AT.topic, AT.partition)
    assert (block.topic, block.partition) == AT
    rows = [
        (int(block.offset[row]), int(block.timestamp_ms[row]), block.keys.bytes_at(row), block.values.bytes_at(row))
        for row in range(len(block))
    ]
    assert rows == [(one.offset, one.timestamp, one.key, one.value) for one in expected]
    assert block.producer_id.tolist() == [-1] * len(rows)
    assert leader_epochs(found) == leader_epochs(expected)
    mixed = block_of_polled([*found[:1], *expected[-1:]], AT.topic, AT.partition)
    assert mixed.offset.tolist()[-1] == 9


def fetched(data: bytes) -> Any:
    consumer: Any = SimpleNamespace(_fetcher=SimpleNamespace(PartitionRecords=Fetcher.PartitionRecords))
    return_batches(consumer)
    return consumer._fetcher.PartitionRecords(0, AT, MemoryRecords(data), check_crcs=True)


def test_batches_before_a_damaged_one_are_returned_and_it_is_reported():
    damaged = bytearray(batch(5, 2))
    damaged[-1] ^= 1
    records = fetched(batch(0, 3) + batch(3, 2) + damaged + batch(7, 1))
    (found,) = records.take(1_000_000)
    assert block_of_polled([found], AT.topic, AT.partition).offset.tolist() == [0, 1, 2, 3, 4]
    assert records.next_fetch_offset == 5
    with pytest.raises(CorruptRecordError, match="offset 5 failed crc check"):
        records.take(1_000_000)


def test_old_formats_among_batches_and_an_incomplete_one_at_the_end():
    old = MemoryRecordsBuilder(magic=1, compression_type=0, batch_size=1000, offset=2)
    old.append(timestamp=7, key=b"k", value=None)
    old.close()
    records = fetched(batch(0, 2) + old.buffer() + batch(3, 1) + batch(4, 1)[:50])
    block = block_of_polled(records.take(1_000_000), AT.topic, AT.partition)
    assert block.offset.tolist() == [0, 1, 2, 3]
    assert (block.keys.bytes_at(2), block.values.bytes_at(2), int(block.timestamp_ms[2])) == (b"k", None, 7)
    assert records.next_fetch_offset == 4


def test_a_fetch_of_control_batches_only_moves_the_position():
    records = fetched(encode_marker(commit=True, offset=0, timestamp_ms=0, producer_id=9, producer_epoch=0))
    assert records.take(1_000_000) == []
    assert records.next_fetch_offset == 1


def test_a_kafka_python_without_these_classes_returns_records():
    consumer: Any = SimpleNamespace(_fetcher=SimpleNamespace())
    return_batches(consumer)
    assert not hasattr(consumer._fetcher, "PartitionRecords")
    (record,) = polled(Fetcher.PartitionRecords, batch(4, 1), 4, [])
    block = block_of_polled([record], AT.topic, AT.partition)
    assert (block.keys.bytes_at(0), block.offset.tolist()) == (b"key-4", [4])
