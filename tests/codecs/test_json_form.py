"""Both JSON forms, round trips, and errors for invalid JSON."""

import json
from dataclasses import replace
from typing import Any, assert_type

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import (
    CoordinatorRecord,
    EncodeError,
    TaggedField,
    decode_record,
    decode_subscription,
    encode_protocol,
    encode_record,
    from_json,
    open_nested,
    to_json,
    to_kafka_json,
)
from quorate.codecs.consumer_protocol import OpenedBytes, decode_assignment
from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.messages import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    ProtocolTopicPartition,
    StreamsGroupMemberMetadataValue,
)
from quorate.codecs.sticky_user_data import (
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)
from tests.codecs.helpers.strategies import RECORD_VERSIONS, records_of, version_id
from tests.extent import portion

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=("a",), rack_id="r1", owned_partitions=(ProtocolTopicPartition(topic="a", partitions=(0, 2)),)
)
ASSIGNMENT = ConsumerProtocolAssignment(assigned_partitions=(ProtocolTopicPartition(topic="a", partitions=(1,)),))
OFFSET_KEY = OffsetCommitKey(group="g", topic="t", partition=0)


def classic_group(
    protocol_type: str = "consumer", subscription: bytes = encode_protocol(SUBSCRIPTION), assignment: bytes = b""
) -> GroupMetadataValue:
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=subscription,
        assignment=assignment,
    )
    return GroupMetadataValue(
        protocol_type=protocol_type, generation=1, protocol="range", leader="m", members=(member,)
    )


@pytest.mark.parametrize(("record_type", "version"), RECORD_VERSIONS, ids=version_id)
@given(data=st.data())
@settings(max_examples=portion(15))
def test_json_round_trip_gives_the_same_message(record_type: Any, version: int, data: st.DataObject) -> None:
    record = data.draw(records_of(record_type, version))
    parsed = json.loads(json.dumps(to_json(open_nested(record.value), version)))
    assert from_json(type(record.value), parsed, version) == record.value
    assert "unknown_tags" not in json.loads(json.dumps(to_kafka_json(record.value, version)))
    value = data.draw(records_of(record_type, version, unknown_tags=False)).value
    parsed = json.loads(json.dumps(to_kafka_json(value, version)))
    assert from_json(type(value), parsed, version) == value


def test_our_form_has_defaults_and_kafkas_has_none_of_tagged_fields() -> None:
    value = ConsumerGroupMetadataValue(epoch=3)
    assert to_json(value, 0) == {"epoch": 3, "metadata_hash": 0}
    assert to_kafka_json(value, 0) == {"epoch": 3}  # without the tagged field that has its default
    assert to_json(OffsetCommitValue(offset=1, metadata="", commit_timestamp=2), 2) == {
        "offset": 1,
        "metadata": "",
        "commit_timestamp": 2,
    }


def test_missing_fields_have_kafkas_default() -> None:
    member = from_json(ConsumerGroupMemberMetadataValue, {"clientId": "c"}, 0)
    assert member.rebalance_timeout_ms == -1
    assert member.classic_member_metadata == ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
    assert from_json(StreamsGroupMemberMetadataValue, {}, 0).user_endpoint is None


def test_nested_bytes_are_decoded_and_encoded_again() -> None:
    group = classic_group(assignment=encode_protocol(ASSIGNMENT, 1))
    opened = open_nested(group)
    assert opened == group  # the bytes are the same
    member = to_json(opened, 3)["members"][0]
    assert member["subscription"]["rack_id"] == "r1"
    assert member["subscription"]["version"] == 3
    assert member["assignment"] == {
        "version": 1,
        "assigned_partitions": [{"topic": "a", "partitions": [1]}],
        "user_data": None,
    }
    assert to_kafka_json(opened, 3) == to_kafka_json(group, 3)
    assert from_json(GroupMetadataValue, to_json(opened, 3), 3) == group


def test_newer_protocol_version_is_read_as_the_newest_known() -> None:
    data = b"\x00\x07" + encode_protocol(SUBSCRIPTION)[2:] + b"later"
    opened = decode_subscription(data)
    assert (opened.version, opened.message, opened.trailing) == (7, SUBSCRIPTION, b"later")
    group = classic_group(subscription=data)
    assert from_json(GroupMetadataValue, to_json(open_nested(group), 3), 3) == group


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x00", b"\xff\xff" + bytes(8), b"\x00\x01" + b"\x7f" * 8])
def test_undecodable_nested_bytes_stay_unchanged(data: bytes) -> None:
    group = classic_group(subscription=data)
    assert not isinstance(open_nested(group).members[0].subscription, OpenedBytes)
    with pytest.raises(DecodeError):
        decode_subscription(data)


@pytest.mark.parametrize("protocol_type", ["connect", "stream", ""])
def test_metadata_of_other_protocol_types_is_not_decoded(protocol_type: str) -> None:
    group = classic_group(protocol_type)
    assert open_nested(group) is group


def test_a_negative_protocol_version_is_an_error() -> None:
    with pytest.raises(DecodeError) as raised:
        decode_assignment(b"\xff\xfe" + bytes(8))
    assert raised.value.reason is Reason.UNKNOWN_VERSION


def test_classic_protocols_of_a_migrated_member_are_decoded() -> None:
    protocols = (
        ClassicProtocol(name="range", metadata=encode_protocol(SUBSCRIPTION, 2)),
        ClassicProtocol(name="other", metadata=b"?"),
    )
    value = from_json(ConsumerGroupMemberMetadataValue, {}, 0)
    value = replace(
        value,
        classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=9, supported_protocols=protocols),
    )
    range_protocol, other = to_json(open_nested(value), 0)["classic_member_metadata"]["supported_protocols"]
    assert range_protocol["metadata"]["owned_partitions"] == [{"topic": "a", "partitions": [0, 2]}]
    assert other["metadata"] == "Pw=="


@pytest.mark.parametrize(
    ("cls", "data", "version", "message"),
    [
        (ConsumerGroupMetadataValue, {"epcoh": 1}, 0, "no field 'epcoh'; did you mean 'epoch'"),
        (ConsumerGroupMetadataValue, {"zzz": 1}, 0, "no field 'zzz'; it has epoch, metadata_hash"),
        (
            ConsumerGroupMetadataValue,
            {"epoch": "1"},
            0,
            "ConsumerGroupMetadataValue.epoch: expected a whole number, not '1'",
        ),
        (ConsumerGroupMetadataValue, {"epoch": True}, 0, "a whole number"),
        (
            ConsumerGroupMetadataValue,
            {"epoch": 1 << 31},
            0,
            r"2147483648 does not fit int32 \(-2147483648 to 2147483647\)",
        ),
        (ConsumerGroupMetadataValue, {"epoch": None}, 0, "may not be null"),
        (ConsumerGroupMetadataValue, [1], 0, "expected an object, not an array"),
        (ConsumerGroupMetadataValue, {"unknown_tags": [{"tag": 1}]}, 0, "a list of"),
        (ConsumerGroupMetadataValue, {"unknown_tags": [{"tag": 1, "data": "", "size": 0}]}, 0, "a list of"),
        (ConsumerGroupMetadataValue, {"unknown_tags": {"tag": 1, "data": ""}}, 0, "a list of"),
        (ConsumerGroupMetadataValue, {"unknown_tags": None}, 0, "a list of"),
        (ConsumerGroupMetadataValue, {"unknown_tags": [5]}, 0, "a list of"),
        (
            ConsumerGroupMetadataValue,
            {"unknown_tags": [{"tag": "x", "data": ""}]},
            0,
            r"unknown_tags\[0\].tag: a tag is a whole number from 0 to 4294967295, not 'x'",
        ),
        (ConsumerGroupMetadataValue, {"unknown_tags": [{"tag": True, "data": ""}]}, 0, "not True"),
        (ConsumerGroupMetadataValue, {"unknown_tags": [{"tag": 1.5, "data": ""}]}, 0, "not 1.5"),
        (
            ConsumerGroupMetadataValue,
            {"unknown_tags": [{"tag": 1, "data": ""}, {"tag": 1 << 32, "data": ""}]},
            0,
            r"unknown_tags\[1\].tag: a tag .* not 4294967296",
        ),
        (ConsumerGroupMetadataValue, {"unknown_tags": [{"tag": -(1 << 31) - 1, "data": ""}]}, 0, "not -2147483649"),
        (
            ConsumerGroupMetadataValue,
            {"unknown_tags": [{"tag": 0, "data": ""}]},
            0,
            "0 is not unknown, it is the field metadata_hash",
        ),
        (
            ConsumerGroupMetadataValue,
            {"unknown_tags": [{"tag": 1, "data": "***"}]},
            0,
            r"unknown_tags\[0\].data: not base64",
        ),
        (
            ConsumerGroupMetadataValue,
            {"unknown_tags": [{"tag": 1, "data": 5}]},
            0,
            r"unknown_tags\[0\].data: expected base64 text",
        ),
        (OffsetCommitValue, {"topicId": "?"}, 4, "OffsetCommitValue.topicId: a uuid has 22"),
        (OffsetCommitValue, {"topicId": 5}, 4, "expected a base64url uuid, not a number"),
        (OffsetCommitValue, {"metadata": []}, 4, "expected a string, not an array"),
        (
            ConsumerGroupCurrentMemberAssignmentValue,
            {"assignedPartitions": [{"partitions": [1, "x"]}]},
            0,
            r"assignedPartitions\[0\].partitions\[1\]: expected a whole number",
        ),
        (ConsumerGroupCurrentMemberAssignmentValue, {"assignedPartitions": 5}, 0, "expected an array"),
        (GroupMetadataValue, {"members": [{"assignment": "***"}]}, 3, "not base64"),
        (GroupMetadataValue, {"members": [{"assignment": 5}]}, 3, "expected base64 text"),
        (GroupMetadataValue, {"members": [{"assignment": {"version": -1}}]}, 3, "from 0 to 32767"),
    ],
)
def test_invalid_json_is_rejected_with_its_path(cls: Any, data: Any, version: int, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        from_json(cls, data, version)


@pytest.mark.parametrize(
    "tags", ["02 05 01 aa 04 01 bb", "01 ffffffff07 00", "01 ffffffff0f 00"], ids=["descending", "2**31 - 1", "-1"]
)
def test_tags_that_kafka_would_not_write_are_kept_in_json(tags: str) -> None:
    key, value = bytes.fromhex("000300026367"), bytes.fromhex("0000 00000005" + tags)
    record = decode_record(key, value)
    assert isinstance(record, CoordinatorRecord)
    assert record.value is not None
    value_from_json = from_json(ConsumerGroupMetadataValue, json.loads(json.dumps(to_json(record.value, 0))), 0)
    assert encode_record(replace(record, value=value_from_json)) == (key, value)


def test_tags_may_be_unsigned_as_on_the_wire_or_signed_as_in_java() -> None:
    tags = [{"tag": tag, "data": "qg=="} for tag in (0xFFFFFFFF, -1)]
    (unsigned, signed) = from_json(ConsumerGroupMetadataValue, {"unknown_tags": tags}, 0).unknown_tags
    assert unsigned == signed == TaggedField(-1, b"\xaa")


def test_open_nested_keeps_the_type() -> None:
    assert_type(open_nested(classic_group()), GroupMetadataValue)
    assert type(open_nested(classic_group())) is GroupMetadataValue


def test_invalid_utf8_is_replaced_in_json() -> None:
    value = OffsetCommitValue(offset=1, metadata="a\udcff", commit_timestamp=0)
    assert to_json(value, 4)["metadata"] == "a\ufffd"
    assert encode_record(CoordinatorRecord(key=OFFSET_KEY, value=value, version=4))[1] is not None


def test_sticky_user_data() -> None:
    data = bytes.fromhex("00000002000362617200000001000000000003666f6f00000002000000020000000000000007")
    message = decode_sticky_user_data(data)
    previous = [(topic.topic, topic.partitions) for topic in message.previous_assignment]
    assert previous == [("bar", (0,)), ("foo", (2, 0))]
    assert message.generation == 7
    assert encode_sticky_user_data(message) == data
    version_0 = decode_sticky_user_data(data[:-4])  # has no generation
    assert (version_0.previous_assignment, version_0.generation) == (message.previous_assignment, -1)
    for undecodable in (None, b"", b"\x00\x01"):
        assert decode_sticky_user_data(undecodable).previous_assignment == ()
    cooperative = decode_cooperative_sticky_user_data(b"\x00\x00\x00\x05")
    assert cooperative is not None
    assert cooperative.generation == 5
    assert encode_cooperative_sticky_user_data(cooperative) == b"\x00\x00\x00\x05"
    assert decode_cooperative_sticky_user_data(None) is None
    assert decode_cooperative_sticky_user_data(b"\x01") is not None
