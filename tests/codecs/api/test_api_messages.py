"""Requests and responses in every version, compared with Kafka's schemas, bytes and JSON."""

import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from quorate.codecs.api import (
    OWN_KEYS,
    ConsumerGroupHeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    api_of,
    broker,
    decode_api,
    encode_api,
)
from quorate.codecs.api.broker import APIS, FetchResponse
from quorate.codecs.api.broker.fetch import FetchableTopicResponse, PartitionData
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.client_assignors import AnnouncedAssignors, ClientAssignor
from quorate.codecs.errors import DecodeError, EncodeError
from quorate.codecs.exact import decode_exactly, encode_exactly
from quorate.codecs.fast_encode import encode_message, encode_parts
from quorate.codecs.json_form import from_json, to_json, to_kafka_json
from quorate.codecs.message import MessageSpec
from quorate.codecs.tags import OWN_TAG, read_tags, written_tags
from tests.codecs.helpers.strategies import KAFKA, damaged, messages
from tests.codecs.test_schemas import as_schema, tags_of
from tests.extent import is_full, portion, sampled
from tests.oracle.client import Json, Oracle
from tests.oracle.fixtures import need_oracle
from tests.oracle.schemas import facts, schema

SPECS = [spec for api in APIS.values() for spec in (api.request, api.response)]
KAFKAS = [spec for api in APIS.values() if not api.own for spec in (api.request, api.response)]
EACH_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
EACH_MESSAGE = pytest.mark.parametrize("spec", KAFKAS, ids=lambda spec: spec.name)


def each_version(specs: list[MessageSpec]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("spec", "version"),
        [(spec, version) for spec in specs for version in spec.versions or ()],
        ids=lambda case: case.name if isinstance(case, MessageSpec) else f"v{case}",
    )


def versions(spec: MessageSpec) -> range:
    assert spec.versions is not None
    return spec.versions


def turning_points(spec: MessageSpec) -> list[int]:
    """Return all versions of group APIs, and the ones of other APIs at which the encoding changes.

    These include the first and the last one. Other tests cover all versions.
    """
    each = versions(spec)
    if not is_of_brokers(spec):
        return list(each)
    flexible = each.start if spec.flexible_since is None else spec.flexible_since
    return sorted({each[0], each[-1], *({flexible - 1, flexible} & set(each))})


def is_of_brokers(spec: MessageSpec) -> bool:
    return spec.cls.__module__.startswith(broker.__name__)


SOME_VERSIONS = pytest.mark.parametrize(
    ("spec", "version"), sampled([pytest.param(s, v, id=f"{s.name}-v{v}") for s in SPECS for v in turning_points(s)])
)
SOME_VERSIONS_OF_KAFKA = pytest.mark.parametrize(
    ("spec", "version"),
    [
        pytest.param(s, v, id=f"{s.name}-v{v}")
        for number, s in enumerate(KAFKAS)
        # In `make test` every other one: other tests draw a version for each example.
        for v in (turning_points(s) if is_full() else turning_points(s)[number % 2 :: 2] or turning_points(s))
    ],
)


def each_or_every(third: int) -> pytest.MarkDecorator:
    """Parametrize with all messages, in `make test` with all of groups and a third of the others.

    The tests with versions as parameters cover all messages.
    """
    chosen = [s for n, s in enumerate(KAFKAS) if is_full() or not is_of_brokers(s) or n // 2 % 3 == third]
    return pytest.mark.parametrize("spec", chosen, ids=lambda spec: spec.name)


FEWER = settings(max_examples=portion(10))  # for each version of each message


def as_kafka_shows(body: Any) -> Any:
    """Replace record batches, as Kafka's JSON has only whether a message contains some."""
    if isinstance(body, list):
        return [as_kafka_shows(item) for item in body]
    if isinstance(body, dict):
        return {k: "" if k == "records" and v is not None else as_kafka_shows(v) for k, v in body.items()}
    return body


def line(op: str, spec: MessageSpec, version: int, **fields: Any) -> Json:
    """Return a line for the oracle."""
    kind = "request" if spec.name.endswith("Request") else "response"
    return {"op": op, "api": api_of(spec.cls).name, "kind": kind, "version": version, **fields}


def ask(oracle: Oracle, op: str, spec: MessageSpec, version: int, **fields: Any) -> Json:
    return oracle.call_many([line(op, spec, version, **fields)])[0]


# ---- the declarations


def test_all_group_apis_are_declared() -> None:
    of_brokers = {spec for spec in KAFKAS if is_of_brokers(spec)}
    assert {api.key: api.name for api in APIS.values() if not api.own and api.request not in of_brokers} == {
        8: "OffsetCommit",
        9: "OffsetFetch",
        11: "JoinGroup",
        12: "Heartbeat",
        13: "LeaveGroup",
        14: "SyncGroup",
        15: "DescribeGroups",
        16: "ListGroups",
        28: "TxnOffsetCommit",
        42: "DeleteGroups",
        47: "OffsetDelete",
        68: "ConsumerGroupHeartbeat",
        69: "ConsumerGroupDescribe",
        76: "ShareGroupHeartbeat",
        77: "ShareGroupDescribe",
        83: "InitializeShareGroupState",
        84: "ReadShareGroupState",
        85: "WriteShareGroupState",
        86: "DeleteShareGroupState",
        87: "ReadShareGroupStateSummary",
        88: "StreamsGroupHeartbeat",
        89: "StreamsGroupDescribe",
        90: "DescribeShareGroupOffsets",
        91: "AlterShareGroupOffsets",
        92: "DeleteShareGroupOffsets",
        93: "StreamsGroupTopologyDescriptionUpdate",
    }


def test_other_broker_apis_are_in_a_separate_package() -> None:
    assert sorted(name for name in broker.__all__ if name.endswith("Request")) == sorted(
        spec.name for spec in KAFKAS if is_of_brokers(spec) and spec.name.endswith("Request")
    )
    assert len(broker.__all__) == 101
    code = "import sys, quorate.codecs.api; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True).stdout
    assert "quorate.codecs.api" in loaded.split()
    assert "quorate.codecs.api.broker" not in loaded.split()


def test_our_own_apis_have_keys_outside_of_kafkas_range() -> None:
    assert {api.key: api.name for api in APIS.values() if api.own} == {
        20_848: "ConsumerGroupPrepareAssignment",
        20_849: "ConsumerGroupInstallAssignment",
    }
    assert all(api.own == (api.key >= OWN_KEYS) for api in APIS.values())


@pytest.mark.oracle
def test_the_tags_of_plug_ins_are_far_from_kafkas() -> None:
    need_oracle()
    for spec in KAFKAS:
        assert max(tags_of(schema("kafka-clients", spec.name).fields), default=0) < OWN_TAG // 100


@pytest.mark.parametrize("version", [0, 1])
def test_heartbeat_without_client_side_assignors_has_kafkas_bytes(version: int) -> None:
    """Client-side assignors are one tagged field, which is absent without them."""
    plain = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    announced = AnnouncedAssignors(client_assignors=(ClientAssignor(name="a", maximum_version=2, metadata=b"x"),))
    offered = replace(plain, unknown_tags=written_tags(announced))
    assert encode_api(plain, version)[-1:] == b"\0"
    assert encode_api(offered, version).startswith(encode_api(plain, version)[:-1] + b"\x01\xf0\xa2\x01")
    read = decode_api(ConsumerGroupHeartbeatRequest, encode_api(offered, version), version)
    assert read_tags(AnnouncedAssignors, read.unknown_tags) == announced
    assert to_kafka_json(offered, version) == to_kafka_json(plain, version)
    assert from_json(ConsumerGroupHeartbeatRequest, to_json(offered, version), version) == offered


@pytest.mark.oracle
@EACH_MESSAGE
def test_declaration_equals_schema(spec: MessageSpec) -> None:
    need_oracle()
    kind = "request" if spec.name.endswith("Request") else "response"
    assert facts(as_schema(spec, kind, api_of(spec.cls).key)) == facts(schema("kafka-clients", spec.name))


@pytest.mark.oracle
@EACH_MESSAGE
def test_defaults_and_headers_equal_kafkas(oracle: Oracle, spec: MessageSpec) -> None:
    """A message without any field set has Kafka's defaults, and its header equals Kafka's."""
    bare, api = spec.cls(), api_of(spec.cls)
    header = api.request_header_version if spec is api.request else api.response_header_version
    each = versions(spec)
    for version, written in zip(each, oracle.call_many(line("encodeApi", spec, v, body={}) for v in each), strict=True):
        assert (written["hex"], written["body"]) == (
            encode_api(bare, version).hex(),
            as_kafka_shows(to_kafka_json(bare, version)),
        ), f"v{version}"
        assert from_json(spec.cls, {}, version) == bare, f"v{version}"
        assert header(version) == written["headerVersion"], f"v{version}"


# ---- bytes and JSON


@SOME_VERSIONS
@FEWER
@given(data=st.data())
def test_encoded_messages_decode_to_the_same_values(spec: MessageSpec, version: int, data: st.DataObject) -> None:
    written = data.draw(messages(spec.cls, version))
    body = encode_api(written, version)
    assert decode_api(spec.cls, body, version, strict=True) == written
    assert from_json(spec.cls, to_json(written, version), version) == written
    # The construct layout decodes and encodes the same.
    assert encode_exactly(written, version) == body
    assert decode_exactly(spec, version, body, 0, spec.name) == (written, len(body))


@pytest.mark.oracle
@SOME_VERSIONS_OF_KAFKA
@FEWER
@given(data=st.data())
def test_kafka_writes_the_same_bytes_and_the_same_json(
    oracle: Oracle, spec: MessageSpec, version: int, data: st.DataObject
) -> None:
    ours = data.draw(messages(spec.cls, version, unknown_tags=False))
    body = to_kafka_json(ours, version)
    written = ask(oracle, "encodeApi", spec, version, body=body)
    assert (written["hex"], written["body"]) == (encode_api(ours, version).hex(), as_kafka_shows(body))
    assert from_json(spec.cls, body, version) == ours


@pytest.mark.oracle
@each_or_every(0)
@settings(max_examples=portion(20))
@given(data=st.data())
def test_unknown_tags_are_kept_where_kafka_keeps_them(oracle: Oracle, spec: MessageSpec, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(spec)))
    ours = data.draw(messages(spec.cls, version))
    body = encode_api(ours, version)
    read = ask(oracle, "decodeApi", spec, version, hex=body.hex())
    assert (read["rewritten"], read["remaining"]) == (body.hex(), 0)
    assert read["body"] == as_kafka_shows(to_kafka_json(ours, version))


@pytest.mark.oracle
@each_or_every(1)
@settings(max_examples=portion(20))
@given(data=st.data())
def test_version_rejects_the_same_values_as_in_kafka(oracle: Oracle, spec: MessageSpec, data: st.DataObject) -> None:
    """Encoding for another version rejects fields that are not ignorable, and nulls."""
    made_for, version = (data.draw(st.sampled_from(versions(spec))) for _ in range(2))
    ours = data.draw(messages(spec.cls, made_for, unknown_tags=False))
    body = to_kafka_json(ours, made_for)
    kafkas = ask(oracle, "encodeApi", spec, version, body=body, bodyVersion=made_for)
    if "error" in kafkas:
        with pytest.raises(EncodeError, match=f"{spec.name} version {version}: "):
            encode_api(ours, version)
    else:
        assert encode_api(ours, version).hex() == kafkas["hex"]
        assert as_kafka_shows(to_kafka_json(ours, version)) == kafkas["body"]
    # from_json keeps a field that the version lacks; encoding then rejects it.
    assert from_json(spec.cls, body, version) == ours


@pytest.mark.oracle
@each_or_every(2)
@settings(max_examples=portion(20), suppress_health_check=[HealthCheck.filter_too_much])  # long messages are filtered
@given(data=st.data())
def test_damaged_bytes_are_read_or_rejected_as_by_kafka(oracle: Oracle, spec: MessageSpec, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(spec)))
    body = data.draw(damaged(encode_api(data.draw(messages(spec.cls, version, release=KAFKA)), version)))
    assume(len(body) < 10_000)  # long data can have thousands of map entries with one key, which take Kafka 15 s
    read = ask(oracle, "decodeApi", spec, version, hex=body.hex())
    if "error" in read:
        with pytest.raises(DecodeError):
            decode_api(spec.cls, body, version)
        return
    ours = decode_api(spec.cls, body, version)
    assert as_kafka_shows(to_kafka_json(ours, version)) == read["body"]
    if "rewriteError" not in read and "\ufffd" not in repr(read["body"]):  # we keep invalid UTF-8
        assert encode_api(ours, version).hex() == read["rewritten"]
    if read["remaining"]:
        # Kafka also reads some damaged messages that only strict decoding rejects.
        try:
            decode_api(spec.cls, body[: -read["remaining"]], version, strict=True)
        except DecodeError as error:
            reason = re.escape(str(error))
        else:
            reason = "trailing bytes"
        with pytest.raises(DecodeError, match=reason):
            decode_api(spec.cls, body, version, strict=True)


def test_null_is_rejected_in_versions_without_nullable_fields() -> None:
    everything = OffsetFetchRequest(group_id="g", topics=None)
    assert decode_api(OffsetFetchRequest, encode_api(everything, 2), 2) == everything
    with pytest.raises(
        EncodeError, match="OffsetFetchRequest version 1: null in a field that may not be null in topics"
    ):
        encode_api(everything, 1)
    with pytest.raises(DecodeError, match="null in a field that may not be null in topics"):
        decode_api(OffsetFetchRequest, encode_api(everything, 2), 1)
    with pytest.raises(EncodeError, match="protocol_name"):
        encode_api(JoinGroupResponse(protocol_name=None), 6)


def test_removed_field_is_rejected_in_later_versions_unless_ignorable() -> None:
    leaving = LeaveGroupRequest(group_id="g", member_id="m")
    assert decode_api(LeaveGroupRequest, encode_api(leaving, 2), 2) == leaving
    with pytest.raises(EncodeError, match="member_id"):
        encode_api(leaving, 3)
    named = OffsetFetchRequest(
        groups=(OffsetFetchRequestGroup(group_id="g", topics=(OffsetFetchRequestTopics(name="t"),)),)
    )
    assert decode_api(OffsetFetchRequest, encode_api(named, 10), 10).groups[0].topics == (OffsetFetchRequestTopics(),)
    # Only versions 2 to 7 have an error for the whole response; others drop it silently.
    failed = OffsetFetchResponse(error_code=16)
    assert [decode_api(OffsetFetchResponse, encode_api(failed, v), v).error_code for v in (1, 2, 7, 8)] == [
        0,
        16,
        16,
        0,
    ]


@each_version([APIS[0].request, APIS[1].response])
@given(data=st.data())
def test_a_message_in_parts_has_the_same_bytes(spec: MessageSpec, version: int, data: st.DataObject) -> None:
    message = data.draw(messages(spec.cls, version))
    assert b"".join(encode_parts(message, version)) == encode_message(message, version)


@pytest.mark.parametrize("version", [4, 12, 18])
def test_record_batches_are_not_copied_for_a_message_in_parts(version: int) -> None:
    batches = [bytes(100), bytes(200)]
    partitions = tuple(PartitionData(partition_index=index, records=each) for index, each in enumerate(batches))
    parts = encode_parts(FetchResponse(responses=(FetchableTopicResponse(partitions=partitions),)), version)
    assert [each for each in parts if len(each) >= 100] == batches
    assert all(any(part is batch for part in parts) for batch in batches)
