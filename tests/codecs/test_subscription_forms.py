"""Racks of subscriptions since version 2, as the text of KIP-881 says, and since 3, as in Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.codecs import SubscriptionForm, decode_subscription, encode_protocol
from quorate.codecs.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.codecs.helpers.strategies import messages

KIP = SubscriptionForm.KIP_881
ORDERS = ConsumerProtocolSubscription(topics=("orders",), generation_id=5, rack_id="a")
IN_KAFKA = bytes.fromhex("0002000000010006" + b"orders".hex() + "ffffffff0000000000000005")
RACK_A = bytes.fromhex("000161")


def test_version_2_has_the_rack_last():
    assert encode_protocol(ORDERS, 2) == IN_KAFKA
    assert encode_protocol(ORDERS, 2, KIP) == IN_KAFKA + RACK_A
    assert encode_protocol(ORDERS, 2, "kip-881") == IN_KAFKA + RACK_A
    without_rack = ConsumerProtocolSubscription(topics=("orders",), generation_id=5)
    assert encode_protocol(without_rack, 2, KIP) == IN_KAFKA + b"\xff\xff"


def test_each_form_reads_version_2_of_the_other():
    data = IN_KAFKA + RACK_A
    in_kip, in_kafka = decode_subscription(data, KIP), decode_subscription(data)
    assert (in_kip.version, in_kip.message, in_kip.trailing) == (2, ORDERS, b"")
    assert (in_kafka.version, in_kafka.message.rack_id, in_kafka.trailing) == (2, None, RACK_A)
    assert decode_subscription(IN_KAFKA, KIP) == decode_subscription(IN_KAFKA)
    assert decode_subscription(data + b"more", KIP).trailing == b"more"


@given(messages(ConsumerProtocolSubscription, 3))
def test_version_2_of_the_kip_loses_nothing(message):
    found = decode_subscription(encode_protocol(message, 2, KIP), KIP)
    assert (found.version, found.message, found.trailing) == (2, message, b"")


@pytest.mark.parametrize("version", [0, 1, 3])
@given(data=st.data())
def test_other_versions_are_the_same_in_both_forms(version, data):
    message = data.draw(messages(ConsumerProtocolSubscription, version))
    assert encode_protocol(message, version, KIP) == encode_protocol(message, version)
    encoded = encode_protocol(message, version)
    assert decode_subscription(encoded, KIP) == decode_subscription(encoded)


def test_assignments_have_one_form():
    assignment = ConsumerProtocolAssignment(assigned_partitions=())
    assert encode_protocol(assignment, 2, KIP) == encode_protocol(assignment, 2)


def test_unknown_form_is_rejected():
    with pytest.raises(ValueError, match="kip-882"):
        encode_protocol(ORDERS, 2, "kip-882")
    with pytest.raises(ValueError, match="kip-882"):
        decode_subscription(IN_KAFKA, "kip-882")
