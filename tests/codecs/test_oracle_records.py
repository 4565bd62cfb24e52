"""Records of every type and version, compared with Kafka's own serdes, also for damaged bytes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs.client_assignors import TargetOrigin
from quorate.codecs.errors import DecodeError, EncodeError, Reason
from quorate.codecs.json_form import from_json, to_kafka_json
from quorate.codecs.message import CONSUMER_OFFSETS, TRANSACTION_STATE, RecordType
from quorate.codecs.messages import (
    RECORD_TYPES,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataValue,
    TransactionLogKey,
    TransactionLogValue,
)
from quorate.codecs.records import (
    CoordinatorRecord,
    MalformedRecord,
    Record,
    UnknownRecord,
    as_kafka_reads,
    decode_record,
    encode_record,
)
from quorate.codecs.tags import read_tags
from quorate.codecs.wire import StructType, default_of
from tests.codecs.helpers.strategies import KAFKA, RECORD_VERSIONS, damaged, messages, records, records_of, version_id
from tests.extent import portion
from tests.oracle.client import Oracle, OracleError

pytestmark = pytest.mark.oracle

EACH_VERSION = pytest.mark.parametrize(("record_type", "version"), RECORD_VERSIONS, ids=version_id)
FEWER = settings(max_examples=portion(50))  # per version of a record type; `make fuzz` tries more


def hexed(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def result_of(record: Record) -> str:
    """Return the result of our decoder in the form of `kafkas_result`."""
    if as_kafka_reads(record) is not None:
        return "readable"
    assert not isinstance(record, CoordinatorRecord)
    if isinstance(record, UnknownRecord):
        return str(record.reason)
    # Kafka does not recognize values of other systems: to Kafka they have an unknown version.
    return str(Reason.UNKNOWN_VERSION) if record.reason is Reason.FOREIGN_VALUE else "unreadable"


def kafkas_result(read: dict[str, Any]) -> str:
    names = {
        "UnknownRecordTypeException": str(Reason.UNKNOWN_TYPE),
        "UnknownRecordVersionException": str(Reason.UNKNOWN_VERSION),
    }
    return names.get(read["error"]["class"], "unreadable") if "error" in read else "readable"


def is_utf8(json: Any) -> bool:
    return "\ufffd" not in repr(json)


def check_same_result(oracle: Oracle, topic: str, key: bytes | None, value: bytes | None) -> None:
    """Check that both sides decode the bytes to the same result, and that we encode them again."""
    read = oracle.call("decode", topic=topic, key=hexed(key), value=hexed(value))
    found = decode_record(key, value, topic=topic)
    assert encode_record(found) == (key, value)
    assert result_of(found) == kafkas_result(read), (found, read)
    record = as_kafka_reads(found)
    if record is None:
        return
    assert (record.name, record.version) == (read["type"], read.get("version"))
    key_json = to_kafka_json(record.key, 0)
    value_json = None if record.value is None or record.version is None else to_kafka_json(record.value, record.version)
    assert (key_json, value_json) == (read["k"], read["v"])
    if record.value is not None:
        assert read.get("unknownTags", []) == [
            {"tag": tag.tag, "hex": tag.data.hex()} for tag in record.value.unknown_tags
        ]
    # When Kafka encodes it again, trailing bytes and invalid UTF-8 are lost.
    if "rewriteError" not in read and is_utf8([read["k"], read["v"]]):
        bare = CoordinatorRecord(key=record.key, value=record.value, version=record.version, topic=topic)
        rewritten = read["rewritten"]
        assert encode_record(bare) == (
            bytes.fromhex(read["rewrittenKey"]),
            None if rewritten is None else bytes.fromhex(rewritten),
        )
        # Bytes that Kafka would encode differently are an error, or are kept.
        if isinstance(found, CoordinatorRecord) and value is not None and rewritten is not None:
            as_written = value.removesuffix(found.value_trailing) == bytes.fromhex(rewritten)
            assert (found.value_as_read is None) is as_written


@EACH_VERSION
@FEWER
@given(data=st.data())
def test_both_sides_write_the_same_bytes_and_read_each_others(
    oracle: Oracle, record_type: RecordType, version: int, data: st.DataObject
) -> None:
    record = data.draw(records_of(record_type, version, unknown_tags=False, release=KAFKA))
    assert record.value is not None
    key, value = encode_record(record)
    key_json, value_json = to_kafka_json(record.key, 0), to_kafka_json(record.value, version)

    written = oracle.call(
        "encode", topic=record.topic, type=record.name, version=version, key=key_json, value=value_json
    )
    assert (written["key"], written["value"]) == (hexed(key), hexed(value))
    read = oracle.call("decode", topic=record.topic, key=written["key"], value=written["value"])
    assert (read["type"], read["typeId"], read["version"]) == (record.name, record.type_id, version)
    assert (read["k"], read["v"]) == (key_json, value_json)
    assert decode_record(key, value, topic=record.topic, strict=True) == record
    assert from_json(type(record.value), value_json, version) == record.value


@EACH_VERSION
@FEWER
@given(data=st.data())
def test_unknown_tags_are_kept_where_kafka_keeps_them(
    oracle: Oracle, record_type: RecordType, version: int, data: st.DataObject
) -> None:
    record = data.draw(records_of(record_type, version, release=KAFKA))
    assert record.value is not None
    key, value = encode_record(record)
    read = oracle.call("decode", topic=record.topic, key=hexed(key), value=hexed(value))
    assert (read["rewrittenKey"], read["rewritten"]) == (hexed(key), hexed(value))
    assert read.get("unknownTags", []) == [{"tag": tag.tag, "hex": tag.data.hex()} for tag in record.value.unknown_tags]
    assert read["v"] == to_kafka_json(record.value, version)
    assert decode_record(key, value, topic=record.topic, strict=True) == record


@EACH_VERSION
@FEWER
@given(data=st.data())
def test_damaged_values_are_read_or_rejected_as_by_kafka(
    oracle: Oracle, record_type: RecordType, version: int, data: st.DataObject
) -> None:
    key, value = encode_record(data.draw(records_of(record_type, version, release=KAFKA)))
    assert value is not None
    check_same_result(oracle, record_type.topic, key, data.draw(damaged(value)))


@pytest.mark.parametrize("topic", RECORD_TYPES)
@given(data=st.data())
def test_damaged_keys_are_read_or_rejected_as_by_kafka(oracle: Oracle, topic: str, data: st.DataObject) -> None:
    key, value = encode_record(data.draw(records(topic, release=KAFKA)))
    assert key is not None
    check_same_result(oracle, topic, data.draw(damaged(key)), value)


@pytest.mark.parametrize("topic", RECORD_TYPES)
@given(data=st.data())
def test_any_bytes_are_read_or_rejected_as_by_kafka(oracle: Oracle, topic: str, data: st.DataObject) -> None:
    anything = st.none() | st.binary(max_size=60)
    type_id = st.integers(-1, 25).map(lambda number: number.to_bytes(2, "big", signed=True))
    version = st.integers(-1, 5).map(lambda number: number.to_bytes(2, "big", signed=True))
    key = data.draw(anything | st.builds(bytes.__add__, type_id, st.binary(max_size=20)))
    value = data.draw(anything | st.builds(bytes.__add__, version, st.binary(max_size=60)))
    check_same_result(oracle, topic, key, value)


@pytest.mark.fuzz
@settings(max_examples=20_000)
@given(data=st.data())
def test_damaged_records_are_read_or_rejected_as_by_kafka_in_long_runs(oracle: Oracle, data: st.DataObject) -> None:
    record = data.draw(records(release=KAFKA))
    key, value = encode_record(record)
    assert key is not None
    which = st.sampled_from(["key", "value", "both"]).map(str)
    part = data.draw(which) if value is not None else "key"
    key = data.draw(damaged(key)) if part != "value" else key
    value = data.draw(damaged(value)) if value is not None and part != "key" else value
    check_same_result(oracle, record.topic, key, value)


# ---- regressions and special cases


@pytest.mark.parametrize("topic", RECORD_TYPES)
@given(data=st.data())
def test_tombstones(oracle: Oracle, topic: str, data: st.DataObject) -> None:
    record = data.draw(records(topic).map(lambda record: replace(record, value=None, version=None)))
    key, value = encode_record(record)
    assert value is None
    written = oracle.call("encode", topic=topic, type=record.name, key=to_kafka_json(record.key, 0), value=None)
    assert (written["key"], written["value"]) == (hexed(key), None)
    check_same_result(oracle, topic, key, None)


METADATA_KEY = bytes.fromhex("000300026367")


def metadata_value(epoch_and_tags: str) -> bytes:
    return bytes.fromhex("0000" + epoch_and_tags)


@pytest.mark.parametrize(
    ("tags", "metadata_hash", "problem"),
    [
        ("01 00 09 0000000000000009", 9, "tag 0 has size 9, its content 8"),
        ("01 00 4d f4c0d617a910f4f9", -0x0B3F29E856EF0B07, "tag 0 has size 77, its content 8"),
        ("01 00 00 0000000000000009", 9, "tag 0 has size 0, its content 8"),
        ("01 00 ffffffff0f 0000000000000009", 9, "tag 0 has size -1, its content 8"),
    ],
    ids=[
        "too large",
        "beyond the value",
        "zero",
        "negative",
    ],
)
def test_damage_that_kafka_ignores_is_malformed_and_keeps_kafkas_value(
    oracle: Oracle, tags: str, metadata_hash: int, problem: str
) -> None:
    """Issue 14: it was accepted without a problem, and encoded to other bytes."""
    value = metadata_value("00000005" + tags)
    record = decode_record(METADATA_KEY, value)
    assert isinstance(record, MalformedRecord)
    assert (record.reason, record.problem.detail, record.version) == (Reason.BAD_TAG, problem, 0)
    assert record.value == ConsumerGroupMetadataValue(epoch=5, metadata_hash=metadata_hash)
    assert encode_record(record) == (METADATA_KEY, value)
    with pytest.raises(DecodeError, match=problem):
        decode_record(METADATA_KEY, value, strict=True)
    check_same_result(oracle, record.topic, METADATA_KEY, value)


@pytest.mark.parametrize(
    ("tags", "problem"),
    [("ffffffff0f", "-1 tagged fields"), ("808080807f", "-268435456 tagged fields")],
    ids=["minus one", "more bits than an int32 has"],
)
def test_negative_number_of_tags_is_malformed(oracle: Oracle, tags: str, problem: str) -> None:
    """Kafka before 4.4 took it for 0."""
    value = metadata_value("00000005" + tags)
    record = decode_record(METADATA_KEY, value)
    assert isinstance(record, MalformedRecord)
    assert (record.reason, record.problem.detail, record.value) == (Reason.BAD_TAG, problem, None)
    check_same_result(oracle, record.topic, METADATA_KEY, value)


@pytest.mark.parametrize("length", ["fffe", "8000"])
def test_length_below_minus_one_is_malformed_and_null_to_kafka(oracle: Oracle, length: str) -> None:
    """Issue 14."""
    key = bytes.fromhex("0002 0001 67")
    value = bytes.fromhex("0003 0001 63 00000001" + length + "ffff 0000000000000001 00000000")
    record = decode_record(key, value)
    assert isinstance(record, MalformedRecord)
    assert (record.reason, record.field, record.position) == (Reason.BAD_LENGTH, "protocol", 9)
    assert isinstance(record.value, GroupMetadataValue)
    assert record.value.protocol is None
    check_same_result(oracle, record.topic, key, value)


@pytest.mark.parametrize(
    ("tags", "metadata_hash"),
    [
        ("8100 00 08 0000000000000009", 9),
        ("01 8000 08 0000000000000009", 9),
        ("01 00 88808000 0000000000000009", 9),
        ("01 00 08 0000000000000000", 0),
        ("02 00 08 0000000000000009 00 08 00000000000000aa", 0xAA),
        ("02 05 01 aa 00 08 0000000000000009", 9),
        ("01 05 8100 aa", 0),
    ],
    ids=[
        "long count",
        "long tag",
        "long size",
        "a default",
        "the tag twice",
        "descending",
        "long size of an unknown tag",
    ],
)
def test_bytes_that_kafka_encodes_differently_are_kept(oracle: Oracle, tags: str, metadata_hash: int) -> None:
    """Issue 14. A changed value is encoded as by Kafka."""
    value = metadata_value("00000005" + tags)
    record = decode_record(METADATA_KEY, value + b"behind")
    assert isinstance(record, CoordinatorRecord)
    assert isinstance(record.value, ConsumerGroupMetadataValue)
    assert record.value.metadata_hash == metadata_hash
    assert encode_record(record) == (METADATA_KEY, value + b"behind")
    assert record.problem is not None
    assert record.problem.position == len(value)
    assert decode_record(METADATA_KEY, value, strict=True) == replace(record, value_trailing=b"")
    changed = replace(record, value=ConsumerGroupMetadataValue(epoch=6), value_trailing=b"")
    assert encode_record(changed) == (METADATA_KEY, metadata_value("00000006 00"))
    check_same_result(oracle, record.topic, METADATA_KEY, value)


def test_tag_of_a_plug_in_is_kept_as_unknown(oracle: Oracle) -> None:
    """As by Kafka, the tag is skipped by its size. Only the plug-in decodes its content."""
    key = bytes.fromhex("0006 0001 67")
    value = bytes.fromhex("0000 00000005 02 00 08 0000000000000007 f0a201 09 01 02 61 02 62 00 00 ffff")
    read = oracle.call("decode", key=hexed(key), value=hexed(value))
    record = decode_record(key, value)
    assert isinstance(record, CoordinatorRecord)
    expected = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=5, assignment_timestamp=7)
    assert replace(record.value, unknown_tags=()) == expected
    assert to_kafka_json(record.value, 0) == read["v"]
    assert encode_record(record) == (key, value)
    with pytest.raises(DecodeError, match="tag 20848 has size 9, its content 7"):
        read_tags(TargetOrigin, record.value.unknown_tags)
    assert read_tags(TargetOrigin, record.value.unknown_tags, strict=False) == TargetOrigin()


def test_trailing_bytes_are_ignored_by_kafka_and_kept_by_us(oracle: Oracle) -> None:
    key, value = METADATA_KEY + b"k", metadata_value("00000005 00") + b"v"
    read = oracle.call("decode", key=key.hex(), value=value.hex())
    assert (read["rewrittenKey"], read["rewritten"]) == (key[:-1].hex(), value[:-1].hex())
    record = decode_record(key, value)
    assert isinstance(record, CoordinatorRecord)
    assert (record.key_trailing, record.value_trailing) == (b"k", b"v")
    assert encode_record(record) == (key, value)
    with pytest.raises(DecodeError, match="trailing"):
        decode_record(key, value, strict=True)


@pytest.mark.parametrize(
    "data",
    [
        "ff",
        "61ff62",
        "c3",
        "e282",
        "f09f92",
        "c080",
        "e0a0",
        "f4908080",
        "eda080",
        "eda080edb080",
        "61edbfbf62",
        "edb0",
    ],
)
def test_invalid_utf8_has_kafkas_json_form_and_is_kept(oracle: Oracle, data: str) -> None:
    raw = bytes.fromhex(data)
    key = bytes.fromhex("0003") + len(raw).to_bytes(2, "big") + raw
    record = decode_record(key, None)
    assert isinstance(record, CoordinatorRecord)
    assert encode_record(record) == (key, None)
    assert to_kafka_json(record.key, 0) == oracle.call("decode", key=key.hex(), value=None)["k"]


def test_field_that_the_version_must_not_drop_is_rejected() -> None:
    """Kafka's error: "Attempted to write a non-default previousProducerId at version 0"."""
    key = TransactionLogKey(transactional_id="t")
    record = CoordinatorRecord(
        topic=TRANSACTION_STATE,
        key=key,
        value=replace(default_of(StructType(TransactionLogValue.spec)), previous_producer_id=5),
        version=0,
    )
    assert record.value is not None
    with pytest.raises(EncodeError, match="previous_producer_id"):
        encode_record(record)
    with pytest.raises(EncodeError, match="previous_producer_id"):
        to_kafka_json(record.value, 0)
    encode_record(replace(record, version=1))


@pytest.mark.parametrize(
    ("record_type", "version"), [case for case in RECORD_VERSIONS if len(case[0].versions) > 1], ids=version_id
)
@FEWER
@given(data=st.data())
def test_ignorable_fields_are_dropped_in_versions_without_them(
    record_type: RecordType, version: int, data: st.DataObject
) -> None:
    newest = data.draw(messages(record_type.value.cls, record_type.versions[-1], unknown_tags=False))
    lacking = [f for f in record_type.value.fields if version not in f.versions]
    plain = replace(newest, **{f.name: f.default for f in lacking})
    key = default_of(StructType(record_type.key))
    record = CoordinatorRecord(topic=record_type.topic, key=key, value=newest, version=version)
    if all(f.ignorable or getattr(newest, f.name) == f.default for f in lacking):
        assert encode_record(record) == encode_record(replace(record, value=plain))
        assert to_kafka_json(newest, version) == to_kafka_json(plain, version)
    else:
        with pytest.raises(EncodeError):
            encode_record(record)


@given(data=st.data())
def test_field_of_a_newer_kafka_is_an_unknown_tag_and_survives(oracle_4_3: Oracle, data: st.DataObject) -> None:
    """KIP-915: 4.3 keeps what 4.4 writes."""
    record_type = RECORD_TYPES[CONSUMER_OFFSETS][17]
    newer = [f for f in record_type.value.fields if f.release == "4.4"]
    assert [f.tag for f in newer] == [2, 3]
    record = data.draw(records_of(record_type, 0, unknown_tags=False))
    assert record.value is not None
    key, value = encode_record(record)
    read = oracle_4_3.call("decode", key=hexed(key), value=hexed(value))
    written = [f for f in newer if getattr(record.value, f.name) != f.default]
    assert read.get("unknownTags", []) == [
        {"tag": f.tag, "hex": getattr(record.value, f.name).to_bytes(4, "big", signed=True).hex()} for f in written
    ]
    assert read["rewritten"] == hexed(value)


@pytest.mark.parametrize("length", [32767, 32768])
def test_longest_string_is_read_and_written(oracle: Oracle, length: int) -> None:
    record = CoordinatorRecord(key=ConsumerGroupMetadataKey(group_id="a" * length), value=None, version=None)
    ask = {"op": "encode", "type": record.name, "key": to_kafka_json(record.key, 0), "value": None}
    if length <= 32767:
        assert oracle.call_many([ask])[0]["key"] == hexed(encode_record(record)[0])
    else:
        with pytest.raises(OracleError, match="too long"):
            oracle.call_many([ask])
        with pytest.raises(EncodeError, match="group_id"):
            encode_record(record)
