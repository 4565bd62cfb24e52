"""Batches compared with those of Kafka's own classes; uncompressed ones have the same bytes."""

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
from tests.codecs.helpers.batch_strategies import Written, batches
from tests.codecs.helpers.captures import header_form
from tests.extent import portion
from tests.oracle.client import Oracle, OracleError

pytestmark = pytest.mark.oracle


def kafka_write(oracle: Oracle, written: Written) -> bytes:
    """Write the batch with Kafka's MemoryRecordsBuilder."""
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
    reply = oracle.call("writeBatch", baseOffset=written.records[0].offset, records=records, **fields)
    assert "error" not in reply, reply
    return bytes.fromhex(reply["hex"])


def hexed(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def kafka_read(oracle: Oracle, data: bytes) -> dict[str, Any]:
    try:
        return oracle.call("readSegment", hex=data.hex())
    except OracleError as error:
        # java.lang.Errors, for a block whose size exceeds xerial's 512 MiB or the JVM's memory.
        name = str(error).partition(":")[0]
        if name not in ("SnappyError", "OutOfMemoryError"):
            raise
        return {"batches": [], "validBytes": 0, "error": {"class": name}}


def oracle_record(record: BatchRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "sequence": record.sequence,
        "key": hexed(record.key),
        "value": hexed(record.value),
        "headers": [{"key": key, "value": hexed(value)} for key, value in record.headers],
    }


def assert_read_alike(oracle: Oracle, data: bytes) -> None:
    """Check that headers and records of undamaged bytes equal those that Kafka reads."""
    reply = kafka_read(oracle, data)
    ours = list(read_batches(data))
    for batch, expected in zip(ours, reply["batches"], strict=True):
        assert isinstance(batch, Batch)
        records = expected.pop("records")
        assert "error" not in expected
        mine = header_form(batch.header)
        if batch.header.magic < 2:
            # Kafka decompresses to find the first offset and the count; we use the header.
            for name in ("baseOffset", "count"):
                expected.pop(name, None)
                mine.pop(name)
        assert mine == expected
        assert [oracle_record(record) for record in batch.records()] == records


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
def test_uncompressed_bytes_equal_kafkas(oracle, magic, data):
    written = data.draw(batches(magic=magic, compression="none"))
    assert written.data == kafka_write(oracle, written)


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_equal_kafkas(oracle, commit):
    fields = {"baseOffset": 7, "producerId": 5, "producerEpoch": 3, "transactional": True, "partitionLeaderEpoch": 4}
    expected = oracle.call(
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
    assert ours.hex() == expected["hex"]


def test_a_delete_horizon_is_the_base_of_the_timestamps(oracle):
    """KIP-534: the cleaner writes the horizon as the base timestamp of the records."""
    records = [BatchRecord(offset=3, timestamp_ms=1_700_000_000_000, key=b"k", value=None)]
    expected = oracle.call(
        "writeBatch",
        baseOffset=3,
        deleteHorizonMs=1_700_086_400_000,
        records=[{"offset": 3, "timestamp": 1_700_000_000_000, "key": b"k".hex(), "value": None}],
    )
    ours = encode_batch(records, delete_horizon_ms=1_700_086_400_000)
    assert ours.hex() == expected["hex"]
    (batch,) = read_batches(ours)
    assert batch.header.delete_horizon_ms == 1_700_086_400_000
    assert list(batch.records()) == records


# ---- damage


@given(written=st.lists(batches(magic=2), min_size=1, max_size=3), cut=st.integers(0, 200))
@settings(max_examples=portion(80))
def test_torn_tail_begins_where_kafka_stops_reading(oracle, written, cut):
    data = b"".join(one.data for one in written)
    data = data[: max(0, len(data) - cut)]
    expected = kafka_read(oracle, data)
    ours = list(read_batches(data))
    whole = [batch for batch in ours if isinstance(batch, Batch)]
    assert sum(batch.header.size_bytes for batch in whole) == expected["validBytes"]
    problems = ours[len(whole) :]
    if not data[expected["validBytes"] :].strip(b"\x00"):  # nothing, or the first zeros of an offset
        assert problems == []
    else:
        (problem,) = problems
        assert (problem.reason, problem.position) == (ProblemReason.TORN_TAIL, expected["validBytes"])


@given(written=batches(), position=st.integers(0, 1 << 20), bit=st.integers(0, 7))
@settings(max_examples=portion(200))
def test_flipped_bit_is_detected_if_kafka_detects_it(oracle, written, position, bit):
    """Kafka detects a wrong CRC, an invalid size and an unknown magic.

    It accepts a changed offset, leader epoch or length.
    """
    data = bytearray(written.data)
    position %= len(data)
    data[position] ^= 1 << bit
    expected = kafka_read(oracle, bytes(data))
    ours = next(read_batches(bytes(data)))
    if isinstance(ours, Batch):
        assert expected["batches"][0]["valid"]
        return
    assert isinstance(ours, BatchProblem)
    if ours.reason is ProblemReason.TORN_TAIL:
        assert expected["validBytes"] == 0
        assert not expected["batches"]
    elif not expected["batches"] and "error" not in expected:  # Kafka waits for more bytes
        assert ours.reason in (ProblemReason.TOO_LARGE, ProblemReason.NOT_A_LOG)
    elif ours.reason is ProblemReason.BAD_RECORDS:  # a negative offset, which the CRC does not cover
        assert expected["batches"][0]["lastOffset"] < 0
    else:
        assert "error" in expected or not expected["batches"][0]["valid"]


@given(
    written=batches(magic=2, compression="none"),
    edits=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3),
)
@settings(max_examples=portion(300))
def test_invalid_records_with_a_valid_crc_are_rejected_as_by_kafka(oracle, written, edits):
    """Both sides return the same records before the damage."""
    data = bytearray(written.data)
    for position, byte in edits:
        data[57 + position % (len(data) - 57)] = byte  # record count and records
    (expected,) = kafka_read(oracle, with_crc(data))["batches"]
    (batch,) = read_batches(with_crc(data))
    ours = list(batch.records())
    problem = ours.pop() if ours and isinstance(ours[-1], BatchProblem) else None
    if problem is not None and "left after the last" in problem.detail:
        # Kafka detects these bytes when it reads the last record, and never in an empty batch.
        assert ("error" in expected) == (len(ours) > 0)
        ours = ours[:-1]
    else:
        assert (problem is not None) == ("error" in expected), (problem, expected.get("error"))
    mine = [printable(oracle_record(record)) for record in ours]
    for one, other in zip(mine, expected["records"], strict=True):
        if one["offset"] < batch.header.base_offset:  # Java's sum overflows for a negative delta
            other["sequence"] = one["sequence"]
    assert mine == expected["records"]


def with_crc(data: bytearray) -> bytes:
    return bytes(data[:17] + google_crc32c.value(bytes(data[21:])).to_bytes(4) + data[21:])


def printable(expected: dict[str, Any]) -> dict[str, Any]:
    """Replace invalid UTF-8 in header keys, which we keep, by Java's U+FFFD."""
    for header in expected["headers"]:
        header["key"] = header["key"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return expected
