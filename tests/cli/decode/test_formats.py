"""The formats of `quorate decode`, compared with the output of Kafka's formatters and with logs."""

import json
import re
from base64 import b64decode

import pytest

from quorate.codecs import RECORD_TYPES, Uuid, decode_record, to_json
from quorate.codecs.json_lines import _flat_writer
from quorate.codecs.messages import OffsetCommitValue
from tests.codecs.helpers.captures import PARTITIONS

partitions = pytest.mark.parametrize("captured", PARTITIONS, ids=str)

FORMATTERS = {
    "OffsetsMessageFormatter": {0, 1},
    "GroupMetadataMessageFormatter": {2},
    "ShareGroupMessageFormatter": set(range(10, 16)),
    "ShareGroupStateMessageFormatter": {0, 1},
    "TransactionLogMessageFormatter": {0},
}


def as_printed_by_that_release(captured, line):
    """Convert our line to the form of the release that printed the capture."""
    if captured.folder.parent.name == "classic-3.9":  # 3.9 calls the type a version
        return line.replace('{"key":{"type":', '{"key":{"version":', 1)
    if captured.folder.parent.name.startswith("upgrade"):  # 4.0.2 prints version 4 without knowing the tagged topic id
        return re.sub(r',"topicId":"[\w-]{22}"', "", line)
    return line


@partitions
@pytest.mark.parametrize("formatter", FORMATTERS)
def test_kafka_format_equals_the_output_of_kafkas_formatters(quorate, captured, formatter):
    printed = list(captured.lines(f"{formatter}.jsonl"))
    ours = quorate("decode", captured.folder, "--format", "kafka").lines
    mine = [line for line in ours if json.loads(line)["key"]["type"] in FORMATTERS[formatter]]
    assert len(mine) >= len(printed)
    assert [as_printed_by_that_release(captured, line) for line in mine[: len(printed)]] == printed


def test_every_formatter_was_compared():
    for formatter in FORMATTERS:
        assert sum(len(list(captured.lines(f"{formatter}.jsonl"))) for captured in PARTITIONS) > 20


@partitions
def test_kafka_format_prints_all_record_types(quorate, captured):
    records = [record for record in captured.oracle() if record["kind"] == "record" and "typeName" in record]
    ours = quorate("decode", captured.folder, "--format", "kafka").lines
    assert [json.loads(line) for line in ours] == [
        {
            "key": {"type": record["type"], "data": record["keyJson"]},
            "value": record["valueJson"] and {"version": record["valueVersion"], "data": record["valueJson"]},
        }
        for record in records
    ]


@pytest.mark.oracle
def test_kafka_format_of_unusual_records_is_that_of_kafka(quorate, oracle):
    """Escapes, unknown tags, trailing bytes, invalid UTF-8; records that Kafka omits or rejects."""

    def string(text):
        data = text if isinstance(text, bytes) else text.encode()
        return len(data).to_bytes(2, "big").hex() + data.hex()

    odd = "0001" + string('g\x01\x1f\x7fé\u2028<&>/"\\\\u001f\t\n\r\b\f\U0001f600') + string("t") + "00000001"
    offset = "00" * 8 + "00000001"
    lines = [
        (odd, "null"),
        (odd, "0003" + offset + string("\x1b[0m") + "00" * 8),
        (odd, "0001" + "00" * 8 + string("m") + "00" * 16),
        (odd, "0004" + offset + "026d" + "00" * 8 + "0105" + "0201ff"[:4] + "ff"),
        (odd, "0003" + offset + string("m") + "00" * 8 + "ffff"),
        (odd + "ff", "null"),
        ("0001" + string(b"\xc3(") + string(b"\xff\xfe\xf0\x9f") + "00000001", "null"),
        ("0000" + string("g") + string("t") + "00000001", "0000" + "00" * 8 + string("m") + "00" * 8),
        (odd, "0009" + "00" * 30),
        (odd, "0003"),
        ("0063" + "00" * 4, "null"),
        ("00", "null"),
        ("null", "0000"),
    ]
    ended = quorate("decode", "-", "--format", "kafka", stdin="".join(f"{key} {value}\n" for key, value in lines))
    expected = [
        oracle.call(
            "consoleFormat",
            formatter="OffsetsMessageFormatter",
            topic="__consumer_offsets",
            key=None if key == "null" else key,
            value=None if value == "null" else value,
        )["text"]
        for key, value in lines
    ]
    assert ended.lines == [text for text in expected if text]
    assert len(ended.lines) == 8
    assert ended.err == (
        "omitted, because Kafka's formatters print nothing for them: unknown value version (1), truncated (1), "
        "unknown record type (1), shorter than the int16 in front (1), null key (1); --format jsonl shows them\n"
    )


@partitions
def test_jsonl_encodes_back_to_the_bytes_of_the_log(quorate, captured):
    records = [record for record in captured.oracle() if record["kind"] == "record" and "typeName" in record]
    printed = quorate("decode", captured.folder, "--format", "jsonl").out
    assert quorate("encode", stdin=printed).lines == [
        f"{b64decode(record['key']).hex()} {'null' if record['value'] is None else b64decode(record['value']).hex()}"
        for record in records
    ]


@partitions
def test_kafka_format_encodes_back_to_the_bytes_of_the_log(quorate, captured):
    topic = ("--topic", captured.topic)  # Kafka's format does not contain it
    jsonl = quorate("decode", captured.folder, "--format", "jsonl").out
    kafka = quorate("decode", captured.folder, "--format", "kafka").out
    assert quorate("encode", *topic, stdin=kafka).out == quorate("encode", stdin=jsonl).out


@partitions
def test_jsonl_has_topic_partition_offset_and_timestamp(quorate, captured):
    records = [record for record in captured.oracle() if record["kind"] == "record"]
    printed = [json.loads(line) for line in quorate("decode", captured.folder, "--format", "jsonl").lines]
    assert [(o["topic"], o["partition"], o["offset"], o["timestamp_ms"]) for o in printed] == [
        (captured.topic, captured.partition, record["offset"], record["timestamp"]) for record in records
    ]


def test_jsonl_decodes_nested_bytes_and_shows_tombstones(quorate, upgrade):
    printed = [
        json.loads(line) for line in quorate("decode", upgrade, "--format", "jsonl", "--group", "legacy-rr").lines
    ]
    members = next(o for o in printed if o["name"] == "GroupMetadata" and o["value"]["members"])["value"]["members"]
    assert members[0]["subscription"] == {"version": 0, "topics": ["orders", "payments"], "user_data": ""}
    assert members[0]["assignment"]["assigned_partitions"] == []

    (tombstone,) = quorate("decode", upgrade, "--format", "jsonl", "--group", "bill-orders", "--tombstones").lines
    assert json.loads(tombstone) == {
        "topic": "__consumer_offsets",
        "partition": 1,
        "offset": 35,
        "timestamp_ms": 1795247978322,
        "type": 4,
        "name": "ConsumerGroupPartitionMetadata",
        "version": None,
        "key": {"group_id": "bill-orders"},
        "value": None,
    }


def test_jsonl_shows_transactions(quorate, transactions):
    printed = [json.loads(line) for line in quorate("decode", transactions, "--format", "jsonl").lines]
    commits = [o for o in printed if "producer_id" in o and "control" not in o]
    markers = [o for o in printed if "control" in o]
    assert {o["name"] for o in commits} == {"OffsetCommit"}
    assert {o["control"]["type"] for o in markers} == {"COMMIT", "ABORT"}
    assert all(o["control"]["coordinator_epoch"] >= 0 and o["producer_epoch"] >= 0 for o in markers)
    assert all("producer_id" not in o for o in printed if o["topic"] == "__transaction_state")


@pytest.mark.parametrize(
    ("line", "error", "others"),
    [
        (
            "0063abcd 00",
            {"reason": "unknown record type", "where": "key", "position": 0, "field": "", "detail": "99"},
            {"type": 99, "name": None, "version": None, "key": None},
        ),
        (
            "0002000167 0009",
            {
                "reason": "unknown value version",
                "where": "value",
                "position": 0,
                "field": "",
                "detail": "9 of GroupMetadata",
            },
            {"type": 2, "name": "GroupMetadata", "version": 9, "key": {"group": "g"}},
        ),
        (
            "0003000167 000000",
            {"reason": "truncated", "where": "value", "position": 2, "field": "epoch"},
            {"type": 3, "name": "ConsumerGroupMetadata", "version": None, "key": {"group_id": "g"}},
        ),
        (
            "0003000167 000000000005 00",
            None,
            None,
        ),
        (
            "0003000167 00000000000500beef",
            {"reason": "trailing bytes", "where": "value", "position": 7, "field": "", "detail": "beef"},
            {"type": 3, "version": 0, "key": {"group_id": "g"}, "value": {"epoch": 5, "metadata_hash": 0}},
        ),
        (
            "null 0000",
            {"reason": "null key", "where": "key", "position": 0, "field": ""},
            {"type": None, "name": None, "key": None},
        ),
    ],
)
def test_jsonl_shows_undecodable_records_with_their_bytes(quorate, line, error, others):
    ended = quorate("decode", "-", "--format", "jsonl", stdin=line)
    if error is None:
        assert ended.status == 1
        return
    shown = json.loads(ended.out)
    assert ended.status == 0
    assert shown["error"].items() >= error.items()
    assert shown.items() >= others.items()
    key, value = line.split()
    assert (shown["error"]["key_hex"] or "null", shown["error"]["value_hex"]) == (key, value)
    assert quorate("encode", stdin=ended.out).out.split() == [key, value]


def test_the_fast_path_for_flat_values_equals_to_json():
    """The fast path for values without lists must not differ from `to_json`."""
    flat = 0
    for types in RECORD_TYPES.values():
        for record_type in types.values():
            for version in record_type.versions:
                write = _flat_writer(record_type.value, version)
                value = record_type.value.cls(**{field.name: field.default for field in record_type.value.fields})
                if write is not None:
                    flat += 1
                    assert json.loads(write(value)) == to_json(value, version)
    assert flat >= 10

    value = OffsetCommitValue(
        offset=-(2**63),
        leader_epoch=2**31 - 1,
        metadata='"\\\n\x1f',
        commit_timestamp=-1,
        topic_id=Uuid(bytes(range(16))),
    )
    assert json.loads(_flat_writer(OffsetCommitValue.spec, 4)(value)) == to_json(value, 4)


def test_invalid_utf8_is_shown_as_in_java(quorate):
    key, value = "0001" + "0002c328" + "000174" + "00000001", "0003" + "00" * 12 + "0002c328" + "00" * 8
    shown = json.loads(quorate("decode", "-", "--format", "jsonl", stdin=f"{key} {value}").out)
    assert shown["key"]["group"] == shown["value"]["metadata"] == "\ufffd("
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)).problem is None


def test_the_table_is_the_default_only_on_terminals(quorate, upgrade):
    assert quorate("decode", upgrade, "--limit", "1").out.startswith('{"topic":')
