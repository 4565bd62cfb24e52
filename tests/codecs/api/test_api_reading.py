"""Decoding of requests and responses: flags, headers, damage, JSON, and declarations."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    ListGroupsRequest,
    OffsetFetchRequest,
    StreamsGroupDescribeResponse,
    SyncGroupRequest,
    api_of,
    decode_api,
    encode_api,
)
from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.declare import Api, request, response
from quorate.codecs.api.streams_group_describe import DescribedGroup, Member
from quorate.codecs.errors import DecodeError, EncodeError
from quorate.codecs.exact import encode_exactly
from quorate.codecs.json_form import from_json, to_kafka_json
from quorate.codecs.message import Message, message, struct
from quorate.codecs.wire import Array, Bool, Int32, String
from tests.codecs.api.test_api_messages import EACH_API


@pytest.mark.parametrize("version", [0])
@pytest.mark.parametrize("not_a_flag", [1, 0, None, "false"])
def test_flags_must_be_true_or_false(not_a_flag: Any, version: int) -> None:
    groups = (DescribedGroup(members=(Member(), Member(is_classic=not_a_flag))),)
    with pytest.raises(EncodeError, match=r"groups\[0\]\.members\[1\]\.is_classic"):
        encode_api(StreamsGroupDescribeResponse(groups=groups), version)


def test_any_byte_except_zero_is_true() -> None:
    assert decode_api(OffsetFetchRequest, bytes.fromhex("01 07 00"), 8).require_stable is True


@message(versions=range(0, 1))
class Flags(Message):
    flags: Array[Bool]


def test_arrays_of_flags() -> None:
    flags = Flags(flags=(True, False) * 20)
    data = encode_api(flags, 0)
    assert data == (40).to_bytes(4, "big") + b"\x01\x00" * 20 == encode_exactly(flags, 0)
    assert decode_api(Flags, data, 0) == flags
    assert from_json(Flags, to_kafka_json(flags, 0), 0) == flags


def test_decoding_by_api_key_or_name_reads_a_request() -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    body = encode_api(heartbeat, 4)
    assert decode_api(12, body, 4) == decode_api("Heartbeat", body, 4) == heartbeat


def test_body_is_read_after_its_header_and_from_any_buffer() -> None:
    body = encode_api(HeartbeatResponse(error_code=27), 4)
    for data in (b"head" + body, bytearray(b"head" + body), memoryview(b"head" + body)):
        assert decode_api(HeartbeatResponse, data, 4, position=4) == HeartbeatResponse(error_code=27)


@pytest.mark.parametrize("no_bytes", [100, [0] * 100, "text"])
def test_input_other_than_a_buffer_is_rejected(no_bytes: Any) -> None:
    """`bytes` would accept numbers and lists of numbers."""
    with pytest.raises(TypeError):
        decode_api(HeartbeatResponse, no_bytes, 4)


def test_wrong_size_of_a_tagged_field_is_read_as_by_kafka_unless_strict() -> None:
    """Issue 14: `strict` accepted it."""
    body = encode_api(FetchRequest(cluster_id="c"), 12)
    assert body.endswith(bytes.fromhex("01 00 02 0263"))
    damaged = body[:-3] + b"\x4d" + body[-2:]
    assert decode_api(FetchRequest, damaged, 12) == FetchRequest(cluster_id="c")
    assert decode_api(FetchRequest, body, 12, strict=True) == FetchRequest(cluster_id="c")
    with pytest.raises(DecodeError, match=r"cluster_id .*: tag 0 has size 77, its content 2"):
        decode_api(FetchRequest, damaged, 12, strict=True)


def test_trailing_bytes_are_ignored_unless_strict() -> None:
    body = encode_api(HeartbeatResponse(error_code=27), 4) + b"more"
    assert decode_api(HeartbeatResponse, body, 4) == HeartbeatResponse(error_code=27)
    with pytest.raises(DecodeError, match=r"trailing bytes at byte 7 of the HeartbeatResponse: 4 of them"):
        decode_api(HeartbeatResponse, body, 4, strict=True)


def test_errors_name_the_field_version_or_api() -> None:
    with pytest.raises(DecodeError, match="truncated in member_id at byte 6 of the HeartbeatRequest"):
        decode_api(12, encode_api(HeartbeatRequest(group_id="g", member_id="m"), 4)[:7], 4)
    with pytest.raises(ValueError, match="HeartbeatRequest has no version 5; it has 0 to 4"):
        decode_api(12, b"", 5)
    with pytest.raises(ValueError, match=r"no API 4 is declared; known are .*Heartbeat \(12\)"):
        decode_api(4, b"", 0)
    with pytest.raises(ValueError, match="no API 'LeaderAndIsr' is declared"):
        api_of("LeaderAndIsr")
    with pytest.raises(ValueError, match="no API Member is declared"):
        api_of(Member)
    with pytest.raises(EncodeError, match="HeartbeatRequest has no version 5; it has 0 to 4"):
        encode_api(HeartbeatRequest(), 5)


@EACH_API
def test_an_api_is_found_by_key_name_and_class(api: Api) -> None:
    found = {api_of(which) for which in (api.key, api.name, api.request.cls, api.response.cls)}
    assert found == {api}
    assert api.request.versions == api.response.versions == api.versions
    with pytest.raises(ValueError, match=f"{api.name} has no version 99; it has "):
        api.request_header_version(99)
    with pytest.raises(ValueError, match=f"{api.name} has no version 99; it has "):
        api.response_header_version(99)


def test_json_fields_default_as_in_kafka_and_unknown_ones_are_rejected() -> None:
    body = {"groupId": "g", "topicPartitions": [{"partitions": [0]}]}
    found = from_json(ConsumerGroupHeartbeatRequest, body, 1)
    assert (found.group_id, found.rebalance_timeout_ms, found.subscribed_topic_names) == ("g", -1, None)
    assert found.topic_partitions is not None
    assert to_kafka_json(found, 0)["topicPartitions"] == [{"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "partitions": [0]}]
    with pytest.raises(EncodeError, match=r"topicPartitions\[0\] has no field 'partition'; did you mean 'partitions'"):
        from_json(ConsumerGroupHeartbeatRequest, {"topicPartitions": [{"partition": 1}]}, 1)
    with pytest.raises(EncodeError, match="requireStable: expected true or false, not a number"):
        from_json(OffsetFetchRequest, {"requireStable": 1}, 10)


def test_json_drops_or_rejects_fields_that_the_version_lacks_as_kafka() -> None:
    assert to_kafka_json(SyncGroupRequest(protocol_name="range"), 4).keys() == {
        "groupId",
        "generationId",
        "memberId",
        "groupInstanceId",
        "assignments",
    }
    with pytest.raises(EncodeError, match="ListGroupsRequest version 4 has no field types_filter"):
        to_kafka_json(ListGroupsRequest(types_filter=("share",)), 4)


def test_declaration_without_a_default_is_rejected() -> None:
    @struct
    class Topic(Message):
        name: String

    @request(api_key=30000, versions=range(0, 1))
    class ProbeRequest(Message):
        group_id: String = ""
        epoch: Int32

    @response(ProbeRequest)
    class ProbeResponse(Message):
        topics: Array[Topic] = ()

    # The declaration is checked when it is first read.
    with pytest.raises(TypeError, match=r"ProbeRequest\.epoch has no default"):
        _ = ProbeRequest.spec
    with pytest.raises(TypeError, match=r"Topic\.name has no default"):
        _ = ProbeResponse.spec

    with pytest.raises(TypeError, match="Probe: the class name must be that of its API with the suffix Request"):

        @request(api_key=30000, versions=range(0, 1))
        class Probe(Message):
            group_id: String = ""


def test_messages_are_values() -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g")
    assert replace(heartbeat, member_epoch=1) == ConsumerGroupHeartbeatRequest(group_id="g", member_epoch=1)
    assert hash(heartbeat) == hash(ConsumerGroupHeartbeatRequest(group_id="g"))
    with pytest.raises(AttributeError):
        heartbeat.group_id = "h"  # type: ignore[misc]
