"""Recorded logs of real brokers are decoded as by Kafka, and encoded to the same bytes."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.codecs import (
    RECORD_TYPES,
    CoordinatorRecord,
    decode_assignment,
    decode_record,
    decode_subscription,
    encode_record,
    open_nested,
    to_kafka_json,
)
from quorate.codecs.batches import (
    Batch,
    BatchHeader,
    BatchRecord,
    ControlRecord,
    control_record,
    encode_batch,
    encode_like,
    read_batches,
)
from quorate.codecs.log import read_log, read_segment
from quorate.codecs.log.model import LogEntry
from tests.codecs.helpers.captures import CAPTURES, PARTITIONS, CapturedPartition, header_form

partitions = pytest.mark.parametrize("captured", PARTITIONS, ids=str)

FORMATTER_TYPES = {
    "OffsetsMessageFormatter": {0, 1},
    "GroupMetadataMessageFormatter": {2},
    "ShareGroupMessageFormatter": {10, 11, 12, 13, 14, 15},
    "ShareGroupStateMessageFormatter": {0, 1},
    "TransactionLogMessageFormatter": {0},
}


def batches_of(captured: CapturedPartition) -> Iterator[tuple[Path, Batch, list[BatchRecord]]]:
    """Yield every batch with its records. Fails if bytes are left."""
    for segment in captured.segments:
        position = 0
        for batch in read_batches(segment.read_bytes()):
            assert isinstance(batch, Batch)
            assert batch.header.position == position
            records = list(batch.records())
            assert all(isinstance(record, BatchRecord) for record in records)
            yield segment, batch, records
            position += batch.header.size_bytes
        assert position == segment.stat().st_size


def entries_of(captured: CapturedPartition) -> list[LogEntry]:
    entries = list(read_log(captured.folder, strict=True))
    assert all(isinstance(entry, LogEntry) for entry in entries)
    return entries


def kafka_json(record: CoordinatorRecord) -> tuple[dict[str, Any], dict[str, Any] | None]:
    value = None if record.value is None else to_kafka_json(record.value, record.version)
    return to_kafka_json(record.key, 0), value


def test_all_captures_exist():
    folders = [folder for folder in CAPTURES.iterdir() if folder.is_dir()]
    assert (len(folders), len(PARTITIONS)) == (11, 46)


# ---- batches


@partitions
def test_batches_and_records_equal_what_kafka_read(captured):
    read = captured.oracle()
    for segment, batch, records in batches_of(captured):
        assert {"kind": "batch", "segment": segment.name, **header_form(batch.header)} == next(read)
        for record in records:
            expected = next(read)
            assert record == BatchRecord(
                offset=expected["offset"],
                timestamp_ms=expected["timestamp"],
                key=b64decode(expected["key"]),
                value=None if expected["value"] is None else b64decode(expected["value"]),
                sequence=record.sequence,
            )
            assert expected["headers"] == 0
    assert next(read, None) is None


@partitions
def test_encoding_batches_again_gives_the_same_bytes(captured):
    for _, batch, records in batches_of(captured):
        again = encode_like(batch.header, records)
        if batch.header.compression == "none":
            assert again == batch.data
        else:  # compressed bytes depend on the library, their content does not
            (reread,) = read_batches(again)
            assert list(reread.records()) == records
            assert reread.header.max_timestamp_ms == batch.header.max_timestamp_ms


@partitions
def test_batch_headers_are_computed_from_the_records_as_by_the_broker(captured):
    """`encode_batch` computes what the coordinator wrote, except for compacted batches."""
    compacted = captured.folder.parent.name == "compacted-4.3"
    for _, batch, records in batches_of(captured):
        header = batch.header
        if header.compression != "none" or compacted or header.magic < 2:
            continue
        assert batch.data == encode_batch(
            records,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.transactional,
            control=header.control,
            partition_leader_epoch=header.partition_leader_epoch,
        )


def test_captures_have_compacted_batches():
    """They contain batches with fewer records than offsets, and with a delete horizon."""
    headers = [
        batch.header
        for captured in PARTITIONS
        if captured.folder.parent.name == "compacted-4.3"
        for _, batch, _ in batches_of(captured)
    ]
    thinned = [header for header in headers if 0 < header.count <= header.last_offset_delta]
    with_horizon = [header for header in headers if header.delete_horizon_ms is not None]
    assert (len(headers), len(thinned), len(with_horizon)) == (55, 20, 17)
    assert all(header.base_timestamp_ms == header.delete_horizon_ms for header in with_horizon)


# ---- records


@partitions
def test_records_decode_to_what_kafka_decoded(captured):
    read = (line for line in captured.oracle() if line["kind"] == "record")
    for entry, expected in zip(entries_of(captured), read, strict=True):
        if isinstance(entry.record, ControlRecord):
            assert (entry.record.name, entry.record.coordinator_epoch) == (
                expected["control"],
                expected["coordinatorEpoch"],
            )
            continue
        assert isinstance(entry.record, CoordinatorRecord)
        assert entry.record.type_id == expected["type"]
        assert entry.record.version == expected.get("valueVersion")
        assert kafka_json(entry.record) == (bare(expected["keyJson"]), bare(expected.get("valueJson")))
        if "typeName" in expected:
            assert entry.record.name == expected["typeName"]


def bare(wrapped: dict[str, Any] | None) -> dict[str, Any] | None:
    """Unwrap the JSON of share and transaction coordinators from its type or version."""
    return wrapped["data"] if wrapped is not None and wrapped.keys() <= {"type", "version", "data"} else wrapped


@partitions
def test_records_encode_to_the_bytes_they_came_from(captured):
    for entry in entries_of(captured):
        if isinstance(entry.record, CoordinatorRecord):
            assert encode_record(entry.record) == (entry.key_bytes, entry.value_bytes)


@partitions
def test_console_formatters_printed_the_records_of_their_types(captured):
    """Lines are in order, up to where the formatter was stopped."""
    decoded = [entry.record for entry in entries_of(captured) if isinstance(entry.record, CoordinatorRecord)]
    for formatter, types in FORMATTER_TYPES.items():
        printed = [json.loads(line) for line in captured.lines(f"{formatter}.jsonl")]
        ours = [formatter_form(record) for record in decoded if record.type_id in types]
        if captured.folder.parent.name == "upgrade-4.0-to-4.3-and-back":
            ours = [without_topic_id(line) for line in ours]
        assert [with_type(line) for line in printed] == ours[: len(printed)]


def test_every_formatter_printed_values_and_tombstones():
    """Otherwise the test above would not cover some formatters."""
    printed = {formatter: [0, 0] for formatter in FORMATTER_TYPES}
    for captured in PARTITIONS:
        for formatter, counts in printed.items():
            for line in captured.lines(f"{formatter}.jsonl"):
                counts[json.loads(line)["value"] is None] += 1
    assert printed == {
        "OffsetsMessageFormatter": [1193, 82],
        "GroupMetadataMessageFormatter": [107, 4],
        "ShareGroupMessageFormatter": [80, 15],
        "ShareGroupStateMessageFormatter": [61, 6],
        "TransactionLogMessageFormatter": [160, 0],
    }


def formatter_form(record: CoordinatorRecord) -> dict[str, Any]:
    key, value = kafka_json(record)
    return {
        "key": {"type": record.type_id, "data": key},
        "value": None if value is None else {"version": record.version, "data": value},
    }


def without_topic_id(line: dict[str, Any]) -> dict[str, Any]:
    """Remove the topic id, a tag since 4.1: after the downgrade the formatters were of 4.0.2."""
    if line["value"] is not None:
        line["value"]["data"].pop("topicId", None)
    return line


def with_type(line: dict[str, Any]) -> dict[str, Any]:
    """Rename the field `version` of formatters up to 3.9, which is the type id (KAFKA-18301)."""
    key = dict(line["key"])
    key.setdefault("type", key.pop("version", None))
    return {"key": key, "value": line["value"]}


# ---- DumpLogSegments


@partitions
def test_dump_log_segments_printed_the_same_batches_and_records(captured):
    """Lines are equal, including positions, sizes, sequences, subscriptions and assignments."""
    printed = [line for line in captured.lines("dump.txt") if line.startswith(("baseOffset: ", "| offset: "))]
    ours = []
    for _, batch, records in batches_of(captured):
        ours.append(dump_batch_line(batch.header))
        ours += [dump_record_line(captured.topic, batch.header, record) for record in records]
    assert printed == ours


def java(flag: bool) -> str:
    return str(flag).lower()


def dump_batch_line(header: BatchHeader) -> str:
    horizon = header.delete_horizon_ms
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.partition_leader_epoch} "
        f"isTransactional: {java(header.transactional)} isControl: {java(header.control)} "
        f"deleteHorizonMs: OptionalLong{'.empty' if horizon is None else f'[{horizon}]'} position: {header.position} "
        f"{header.timestamp_type}: {header.max_timestamp_ms} size: {header.size_bytes} magic: {header.magic} "
        f"compresscodec: {header.compression} crc: {header.crc} isvalid: {java(header.crc_valid)}"
    )


def dump_record_line(topic: str, header: BatchHeader, record: BatchRecord) -> str:
    line = (
        f"| offset: {record.offset} {header.timestamp_type}: {record.timestamp_ms} keySize: {len(record.key)} "
        f"valueSize: {-1 if record.value is None else len(record.value)} sequence: {record.sequence} headerKeys: [] "
    )
    if header.control:
        marker = control_record(record.key, record.value)
        return f"{line}endTxnMarker: {marker.name} coordinatorEpoch: {marker.coordinator_epoch}"
    decoded = decode_record(record.key, record.value, topic=topic)
    key, value = kafka_json(decoded)
    if decoded.name == "GroupMetadata" and value is not None and value["protocolType"] == "consumer":
        for member in value["members"]:
            for field, decode in (("subscription", decode_subscription), ("assignment", decode_assignment)):
                embedded = decode(b64decode(member[field]))
                member[field] = to_kafka_json(embedded.message, embedded.version)
    payload = "<DELETE>" if value is None else compact({"version": str(decoded.version), "data": value})
    return f"{line}key: {compact({'type': str(decoded.type_id), 'data': key})} payload: {payload}"


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# ---- the log as a whole


@pytest.mark.parametrize("capture", sorted(path.name for path in CAPTURES.iterdir()))
def test_log_directory_has_the_entries_of_its_partitions(capture):
    together = list(read_log(CAPTURES / capture, strict=True))
    apart = [
        entry for captured in PARTITIONS if captured.folder.parent.name == capture for entry in entries_of(captured)
    ]
    assert together == apart
    assert {entry.topic for entry in together} <= RECORD_TYPES.keys()


@partitions
def test_single_segments_have_the_same_entries(captured):
    apart = [entry for segment in captured.segments for entry in read_segment(segment, strict=True)]
    assert apart == entries_of(captured)


def test_nested_bytes_of_every_captured_group_can_be_decoded():
    opened = 0
    for captured in PARTITIONS:
        for entry in entries_of(captured):
            record = entry.record
            if isinstance(record, CoordinatorRecord) and record.name == "GroupMetadata" and record.value is not None:
                for member in open_nested(record.value).members:
                    opened += hasattr(member.subscription, "opened") + hasattr(member.assignment, "opened")
    assert opened == 348
