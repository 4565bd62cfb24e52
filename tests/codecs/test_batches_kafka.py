"""Batches against Kafka's own classes: what one side writes the other reads, and uncompressed bytes are the same."""

from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs.batches import (
    Batch,
    BatchProblem,
    BatchRecord,
    ProblemReason,
    encode_batch,
    encode_marker,
    read_batches,
)
from tests.codecs.batch_strategies import Written, batches
from tests.extent import portion
from tests.oracle.client import Oracle, OracleError

pytestmark = pytest.mark.oracle


def kafka_write(oracle: Oracle, written: Written) -> bytes:
    """The same batch by Kafka's MemoryRecordsBuilder."""
    names = {
        "log_append_time_ms": "logAppendTime",
        "producer_id": "producerId",
        "producer_epoch": "producerEpoch",
        "base_sequence": "baseSequence",
        "partition_leader_epoch": "partitionLeaderEpoch",
    }
    records = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": hexed(record.key),
            "value": hexed(record.value),
            "headers": [{"key": key, "value": hexed(value)} for key, value in record.headers],
        }
        for record in written.records
    ]
    fields = {names.get(name, name): value for name, value in written.arguments.items()}
    answer = oracle.call("writeBatch", baseOffset=written.records[0].offset, records=records, **fields)
    assert "error" not in answer, answer
    return bytes.fromhex(answer["hex"])


def hexed(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def kafka_read(oracle: Oracle, data: bytes) -> dict[str, Any]:
    try:
        return oracle.call("readSegment", hex=data.hex())
    except OracleError as error:
        # Not exceptions but java.lang.Errors, for a block that claims more than xerial's 512 MiB,
        # or than the JVM has.
        name = str(error).partition(":")[0]
        if name not in ("SnappyError", "OutOfMemoryError"):
            raise
        return {"batches": [], "validBytes": 0, "error": {"class": name}}


def header_as_kafka_tells(batch: Batch) -> dict[str, Any]:
    header = batch.header
    told = {
        "position": header.position,
        "sizeInBytes": header.size_bytes,
        "magic": header.magic,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "crc": header.crc,
        "valid": header.crc_valid,
        "compression": header.compression,
        "timestampType": header.timestamp_type,
        "maxTimestamp": header.max_timestamp_ms,
        "count": header.count,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "transactional": header.transactional,
        "control": header.control,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
    }
    if header.delete_horizon_ms is not None:
        told["deleteHorizonMs"] = header.delete_horizon_ms
    return told


def record_as_kafka_tells(record: BatchRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "sequence": record.sequence,
        "key": hexed(record.key),
        "value": hexed(record.value),
        "headers": [{"key": key, "value": hexed(value)} for key, value in record.headers],
    }


def assert_read_alike(oracle: Oracle, data: bytes) -> None:
    """Headers and records of undamaged bytes are what Kafka reads from them."""
    answer = kafka_read(oracle, data)
    ours = list(read_batches(data))
    for batch, told in zip(ours, answer["batches"], strict=True):
        assert isinstance(batch, Batch)
        records = told.pop("records")
        assert "error" not in told
        mine = header_as_kafka_tells(batch)
        if batch.header.magic < 2:
            # Kafka counts and finds the first offset by decompressing; our header says what is
            # written.
            for name in ("baseOffset", "count"):
                told.pop(name, None)
                mine.pop(name)
        assert mine == told
        assert [record_as_kafka_tells(record) for record in batch.records()] == records


@given(written=batches())
@settings(max_examples=portion(150))
def test_kafka_reads_what_we_write(oracle, written):
    assert_read_alike(oracle, written.data)


@given(written=batches())
@settings(max_examples=portion(150))
def test_we_read_what_kafka_writes(oracle, written):
    assert_read_alike(oracle, kafka_write(oracle, written))


@given(magic=st.sampled_from([0, 1, 2]), data=st.data())
@settings(max_examples=portion(150))
def test_uncompressed_bytes_are_those_of_kafka(oracle, magic, data):
    written = data.draw(batches(magic=magic, compression="none"))
    assert written.data == kafka_write(oracle, written)


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_are_those_of_kafka(oracle, commit):
    fields = {"baseOffset": 7, "producerId": 5, "producerEpoch": 3, "transactional": True, "partitionLeaderEpoch": 4}
    told = oracle.call(
        "writeBatch", control="COMMIT" if commit else "ABORT", coordinatorEpoch=9, timestamp=1_700_000_000_000, **fields
    )
    ours = encode_marker(
        commit=commit,
        offset=7,
        timestamp_ms=1_700_000_000_000,
        producer_id=5,
        producer_epoch=3,
        coordinator_epoch=9,
        partition_leader_epoch=4,
    )
    assert ours.hex() == told["hex"]


def test_a_delete_horizon_is_the_base_of_the_timestamps(oracle):
    """KIP-534: the cleaner writes the horizon into the base timestamp and counts the records' timestamps from it."""
    records = [BatchRecord(offset=3, timestamp_ms=1_700_000_000_000, key=b"k", value=None)]
    told = oracle.call(
        "writeBatch",
        baseOffset=3,
        deleteHorizonMs=1_700_086_400_000,
        records=[{"offset": 3, "timestamp": 1_700_000_000_000, "key": b"k".hex(), "value": None}],
    )
    ours = encode_batch(records, delete_horizon_ms=1_700_086_400_000)
    assert ours.hex() == told["hex"]
    (batch,) = read_batches(ours)
    assert batch.header.delete_horizon_ms == 1_700_086_400_000
    assert list(batch.records()) == records


# ---- damage


@given(written=st.lists(batches(magic=2), min_size=1, max_size=3), cut=st.integers(0, 200))
@settings(max_examples=portion(80))
def test_a_torn_tail_ends_where_kafka_ends(oracle, written, cut):
    data = b"".join(one.data for one in written)
    data = data[: max(0, len(data) - cut)]
    told = kafka_read(oracle, data)
    ours = list(read_batches(data))
    whole = [batch for batch in ours if isinstance(batch, Batch)]
    assert sum(batch.header.size_bytes for batch in whole) == told["validBytes"]
    problems = ours[len(whole) :]
    if not data[told["validBytes"] :].strip(b"\x00"):  # nothing, or the zeros that an offset begins with
        assert problems == []
    else:
        (problem,) = problems
        assert (problem.reason, problem.position) == (ProblemReason.TORN_TAIL, told["validBytes"])


@given(written=batches(), position=st.integers(0, 1 << 20), bit=st.integers(0, 7))
@settings(max_examples=portion(200))
def test_a_flipped_bit_is_noticed_where_kafka_notices_it(oracle, written, position, bit):
    """Kafka knows a bad CRC, a size that cannot be and a magic that it does not know.

    A flip in offset, leader epoch or length it takes.
    """
    data = bytearray(written.data)
    position %= len(data)
    data[position] ^= 1 << bit
    told = kafka_read(oracle, bytes(data))
    ours = next(read_batches(bytes(data)))
    if isinstance(ours, Batch):
        assert told["batches"][0]["valid"]
        return
    assert isinstance(ours, BatchProblem)
    if ours.reason is ProblemReason.TORN_TAIL:
        assert told["validBytes"] == 0
        assert not told["batches"]
    elif not told["batches"] and "error" not in told:  # a length beyond what Kafka was given: it waits for more
        assert ours.reason in (ProblemReason.TOO_LARGE, ProblemReason.NOT_A_LOG)
    elif ours.reason is ProblemReason.BAD_RECORDS:  # a negative offset, which no CRC covers: Kafka passes it on
        assert told["batches"][0]["lastOffset"] < 0
    else:
        assert "error" in told or not told["batches"][0]["valid"]


@given(
    written=batches(magic=2, compression="none"),
    edits=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3),
)
@settings(max_examples=portion(300))
def test_records_that_break_the_format_break_it_for_kafka(oracle, written, edits):
    """With a right CRC over wrong bytes: the same records come before the damage, and damage is what Kafka takes for damage."""
    data = bytearray(written.data)
    for position, byte in edits:
        data[57 + position % (len(data) - 57)] = byte  # record count and records
    (told,) = kafka_read(oracle, with_crc(data))["batches"]
    (batch,) = read_batches(with_crc(data))
    ours = list(batch.records())
    problem = ours.pop() if ours and isinstance(ours[-1], BatchProblem) else None
    if problem is not None and "left after the last" in problem.detail:
        # Kafka finds these bytes when it is asked for the last record, which it then keeps; in a
        # batch of no records it does not look.
        assert ("error" in told) == (len(ours) > 0)
        ours = ours[:-1]
    else:
        assert (problem is not None) == ("error" in told), (problem, told.get("error"))
    mine = [printable(record_as_kafka_tells(record)) for record in ours]
    for one, other in zip(mine, told["records"], strict=True):
        if one["offset"] < batch.header.base_offset:  # Java's sum overflows for a negative delta, which nobody writes
            other["sequence"] = one["sequence"]
    assert mine == told["records"]


def with_crc(data: bytearray) -> bytes:
    return bytes(data[:17] + google_crc32c.value(bytes(data[21:])).to_bytes(4) + data[21:])


def printable(told: dict[str, Any]) -> dict[str, Any]:
    """Bytes of header keys that are not UTF-8, which we keep, are U+FFFD in Java."""
    for header in told["headers"]:
        header["key"] = header["key"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return told
