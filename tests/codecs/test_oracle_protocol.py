"""Consumer protocol messages and sticky user data, compared with Kafka's own clients."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs.consumer_protocol import (
    Embedded,
    SubscriptionForm,
    decode_assignment,
    decode_subscription,
    encode_protocol,
)
from quorate.codecs.errors import DecodeError
from quorate.codecs.json_form import to_kafka_json
from quorate.codecs.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CooperativeStickyAssignorUserData,
    ProtocolTopicPartition,
    StickyAssignorUserData,
)
from quorate.codecs.sticky_user_data import (
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)
from tests.codecs.helpers.strategies import damaged, messages
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

Decode = Callable[[bytes], Embedded]
EACH_MESSAGE = pytest.mark.parametrize(
    ("op", "cls", "decode"),
    [
        ("subscription", ConsumerProtocolSubscription, decode_subscription),
        ("assignmentBytes", ConsumerProtocolAssignment, decode_assignment),
    ],
    ids=["subscription", "assignment"],
)
EACH_VERSION = pytest.mark.parametrize("version", range(4))
APPENDED = st.binary(max_size=20)

EXCEPTIONS = {"SchemaException", "RuntimeException", "IllegalArgumentException"}
"""Exceptions of Kafka's clients for damaged bytes. Only a buffer that ends too early and a negative
version are a SchemaException; other damage raises any exception of the generated class.
"""


def check_same_result(oracle: Oracle, op: str, decode: Decode, data: bytes) -> None:
    read = oracle.call(op, hex=data.hex())
    try:
        found = decode(data)
    except DecodeError:
        assert read["error"]["class"] in EXCEPTIONS, read
        return
    assert "error" not in read, (found, read)
    assert (read["version"], read["remaining"]) == (found.version, len(found.trailing))
    assert read["value"] == to_kafka_json(found.message, min(found.version, 3))


@EACH_MESSAGE
@EACH_VERSION
@given(data=st.data())
def test_both_sides_write_the_same_bytes_and_read_each_others(
    oracle: Oracle, op: str, cls: type[Any], decode: Decode, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    written = encode_protocol(message, version)
    assert oracle.call(op, version=version, value=to_kafka_json(message, version))["hex"] == written.hex()
    assert decode(written) == Embedded(version=version, message=message)
    check_same_result(oracle, op, decode, written)


@given(message=messages(ConsumerProtocolSubscription, 3))
def test_kafka_ignores_the_rack_of_version_2_in_the_form_of_the_kip(
    oracle: Oracle, message: ConsumerProtocolSubscription
) -> None:
    check_same_result(
        oracle, "subscription", decode_subscription, encode_protocol(message, 2, SubscriptionForm.KIP_881)
    )


@EACH_MESSAGE
@given(data=st.data(), version=st.integers(4, 0x7FFF), appended=APPENDED)
def test_newer_version_is_read_as_the_newest_known(
    oracle: Oracle, op: str, cls: type[Any], decode: Decode, data: st.DataObject, version: int, appended: bytes
) -> None:
    message = data.draw(messages(cls, 3))
    newer = version.to_bytes(2, "big") + encode_protocol(message, 3)[2:] + appended
    assert decode(newer) == Embedded(version=version, message=message, trailing=appended)
    check_same_result(oracle, op, decode, newer)


@EACH_MESSAGE
@EACH_VERSION
@settings(max_examples=portion(200))
@given(data=st.data())
def test_damaged_bytes_are_read_or_rejected_as_by_kafka(
    oracle: Oracle, op: str, cls: type[Any], decode: Decode, version: int, data: st.DataObject
) -> None:
    check_same_result(
        oracle, op, decode, data.draw(damaged(encode_protocol(data.draw(messages(cls, version)), version)))
    )


@EACH_MESSAGE
@pytest.mark.parametrize("data", ["", "00", "0000", "ffff", "8000", "0001", "7fff"])
def test_short_bytes_and_negative_versions_are_rejected_as_by_kafka(
    oracle: Oracle, op: str, cls: type[Any], decode: Decode, data: str
) -> None:
    check_same_result(oracle, op, decode, bytes.fromhex(data))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("0000000000", "SchemaException"),
        ("ffff", "SchemaException"),
        ("0000ffffffff", "SchemaException"),
        ("00007fffffff", "SchemaException"),
        ("00000000000000000001", "SchemaException"),
    ],
    ids=["ends too early", "negative version", "null", "more elements than bytes", "longer than what is left"],
)
def test_every_error_is_a_schema_exception_to_kafka(oracle: Oracle, data: str, error: str) -> None:
    """KAFKA-20570."""
    assert oracle.call("subscription", hex=data)["error"]["class"] == error
    with pytest.raises(DecodeError):
        decode_subscription(bytes.fromhex(data))


# ---- user data of the sticky assignors

partitions = st.lists(
    st.builds(
        ProtocolTopicPartition,
        topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
        partitions=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(tuple),
    ),
    max_size=4,
    unique_by=lambda owned: owned.topic,
).map(tuple)
generations = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-1, 0, 1])


def flat(message: StickyAssignorUserData) -> list[dict[str, Any]]:
    owned = to_kafka_json(message, 1)["previousAssignment"]
    return [{"topic": topic["topic"], "partition": number} for topic in owned for number in topic["partitions"]]


def kafkas_generation(message: StickyAssignorUserData | CooperativeStickyAssignorUserData | None) -> int | None:
    return None if message is None else message.generation


@given(owned=partitions, generation=generations)
def test_sticky_user_data_equals_that_of_kafkas_assignor(
    oracle: Oracle, owned: tuple[ProtocolTopicPartition, ...], generation: int
) -> None:
    message = StickyAssignorUserData(previous_assignment=tuple(o for o in owned if o.partitions), generation=generation)
    written = oracle.call("stickyUserData", partitions=flat(message), generation=generation)["hex"]
    theirs = decode_sticky_user_data(bytes.fromhex(written))
    # Kafka writes topics in the order of its hash map.
    assert sorted(theirs.previous_assignment, key=lambda o: o.topic) == sorted(
        message.previous_assignment, key=lambda o: o.topic
    )
    assert theirs.generation == generation
    assert encode_sticky_user_data(theirs).hex() == written


@pytest.mark.parametrize("version", [0, 1])
@given(owned=partitions, generation=generations)
def test_kafka_reads_our_sticky_user_data_of_both_versions(
    oracle: Oracle, version: int, owned: tuple[ProtocolTopicPartition, ...], generation: int
) -> None:
    message = StickyAssignorUserData(previous_assignment=owned, generation=generation if version else -1)
    written = encode_sticky_user_data(message, version)
    check_same_sticky(oracle, written)
    assert decode_sticky_user_data(written) == message


@settings(max_examples=portion(300))
@given(data=st.data())
def test_damaged_sticky_user_data_is_read_as_by_kafka(oracle: Oracle, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([0, 1]))
    whole = encode_sticky_user_data(data.draw(messages(StickyAssignorUserData, version)), version)
    check_same_sticky(oracle, data.draw(damaged(whole) | st.binary(max_size=30)))


@pytest.mark.parametrize("data", [None, "", "00", "00000000", "00000000000000ff", "ffffffff", "7fffffff"])
def test_unusual_sticky_user_data_is_read_as_by_kafka(oracle: Oracle, data: str | None) -> None:
    check_same_sticky(oracle, None if data is None else bytes.fromhex(data))


def check_same_sticky(oracle: Oracle, data: bytes | None) -> None:
    # Kafka distinguishes "no generation" (none, or version 0) from -1 (undecodable), but handles
    # them in the same way.
    read = oracle.call("stickyUserData", hex=None if data is None else data.hex())
    found = decode_sticky_user_data(data)
    assert (flat(found), found.generation) == (
        read["partitions"],
        -1 if read["generation"] is None else read["generation"],
    )


@given(generation=generations, appended=APPENDED)
def test_cooperative_sticky_user_data(oracle: Oracle, generation: int, appended: bytes) -> None:
    ask: dict[str, Any] = {"assignor": "cooperative-sticky"}
    written = encode_cooperative_sticky_user_data(CooperativeStickyAssignorUserData(generation=generation))
    assert oracle.call("stickyUserData", partitions=[], generation=generation, **ask)["hex"] == written.hex()
    read = oracle.call("stickyUserData", hex=(written + appended).hex(), **ask)
    assert (
        kafkas_generation(decode_cooperative_sticky_user_data(written + appended)) == generation == read["generation"]
    )


@pytest.mark.parametrize("data", [None, "", "0000", "00000007", "0000000700"])
def test_unusual_cooperative_sticky_user_data_is_read_as_by_kafka(oracle: Oracle, data: str | None) -> None:
    read = oracle.call("stickyUserData", assignor="cooperative-sticky", hex=data)
    found = decode_cooperative_sticky_user_data(None if data is None else bytes.fromhex(data))
    assert kafkas_generation(found) == read["generation"]
