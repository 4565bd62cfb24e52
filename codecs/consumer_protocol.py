"""The consumer embedded protocol: versioned subscriptions and assignments inside bytes fields.

Decoding follows `ConsumerProtocol` of Kafka's clients. A version newer than 3 is read as version 3,
because newer ones may only append. A negative version is an error; trailing bytes are ignored.
Group coordinators treat these bytes as opaque, so they may also be of another protocol (Connect,
Streams) or damaged.
"""

from dataclasses import replace
from enum import StrEnum
from typing import TypeAlias, TypeVar, cast

from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.codecs.messages.classic_group import GroupMetadataValue, MemberMetadata
from quorate.codecs.messages.consumer_group import ClassicProtocol, ConsumerGroupMemberMetadataValue
from quorate.codecs.messages.protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from quorate.codecs.records import encode_message

__all__ = [
    "CONSUMER_PROTOCOL_TYPE",
    "NESTED",
    "Embedded",
    "OpenedBytes",
    "ProtocolMessage",
    "SubscriptionForm",
    "decode_assignment",
    "decode_subscription",
    "encode_protocol",
    "open_nested",
]

ProtocolMessage: TypeAlias = ConsumerProtocolSubscription | ConsumerProtocolAssignment
M = TypeVar("M", bound=Message)

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose metadata and assignments are messages of this module."""

NESTED: dict[tuple[type[Message], str], type[ProtocolMessage]] = {
    (MemberMetadata, "subscription"): ConsumerProtocolSubscription,
    (MemberMetadata, "assignment"): ConsumerProtocolAssignment,
    (ClassicProtocol, "metadata"): ConsumerProtocolSubscription,
}
"""The bytes fields that hold a protocol message, with its type."""


class SubscriptionForm(StrEnum):
    """Which of the two descriptions of the rack in subscriptions to follow (KIP-881)."""

    KAFKA = "kafka"
    """Kafka's since 3.5: subscriptions have a rack since version 3."""

    KIP_881 = "kip-881"
    """The one in the text of the KIP: since version 2. No release of Kafka uses it."""


RACK_SINCE = {SubscriptionForm.KAFKA: 3, SubscriptionForm.KIP_881: 2}
"""The first version of a subscription with a rack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A decoded protocol message.

    `version` is the one in the bytes; `trailing` are the bytes after the newest known version.
    """

    version: int
    message: ProtocolMessage
    trailing: bytes = b""


class OpenedBytes(bytes):
    """The bytes of a field, with the message that was decoded from them.

    It encodes to the same bytes.
    """

    opened: Embedded

    def __new__(cls, data: bytes, opened: Embedded) -> "OpenedBytes":
        """Create it from the bytes of the field and the decoded message."""
        created = super().__new__(cls, data)
        created.opened = opened
        return created

    def __reduce__(self) -> tuple[type["OpenedBytes"], tuple[bytes, Embedded]]:
        return OpenedBytes, (bytes(self), self.opened)

    def __repr__(self) -> str:
        return f"OpenedBytes({self.opened.message!r}, version={self.opened.version})"


def _decode(
    cls: type[ProtocolMessage], data: bytes, where: str, form: SubscriptionForm = SubscriptionForm.KAFKA
) -> Embedded:
    if not isinstance(data, bytes | bytearray | memoryview):  # bytes(5) would be five zeros
        raise TypeError(f"the {where} is of type {type(data).__name__}; bytes are expected")
    data = bytes(data)  # slices of a view would be views
    if len(data) < 2:
        raise DecodeError(Reason.TOO_SHORT, where=where, position=0, detail=data.hex())
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise DecodeError(Reason.UNKNOWN_VERSION, where=where, position=0, detail=str(version))
    assert cls.spec.versions is not None
    read_as = min(version, cls.spec.versions[-1])
    if cls is ConsumerProtocolSubscription and read_as >= RACK_SINCE[form]:
        read_as = cls.spec.versions[-1]  # the rack is the last field
    try:
        return Embedded(version=version, message=message_decoder(cls.spec, read_as, lenient=True)(data, 2))  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # any failure of the fast path: trailing bytes, damage, not UTF-8
        message, end = decode_exactly(cls.spec, read_as, data, 2, where, as_kafka_reads=True)
    return Embedded(version=version, message=message, trailing=data[end:])  # type: ignore[arg-type]


def decode_subscription(data: bytes, form: SubscriptionForm | str = SubscriptionForm.KAFKA) -> Embedded:
    """Decode the metadata that a classic member sent.

    With the form `KIP_881`, version 2 has a rack as version 3 has. Version 2 of Kafka's own
    clients, which ends before it, is then read without a rack. With the form `KAFKA`, the rack of
    version 2 is in `Embedded.trailing`.

    Raises `DecodeError` (Kafka: SchemaException), and `ValueError` for an unknown form.
    """
    form = SubscriptionForm(form)
    found = _decode(ConsumerProtocolSubscription, data, "subscription")
    if form is SubscriptionForm.KAFKA or found.version != RACK_SINCE[form] or not found.trailing:
        return found
    return _decode(ConsumerProtocolSubscription, data, "subscription", form)


def decode_assignment(data: bytes) -> Embedded:
    """Decode a member's assignment that the leader sent.

    Raises `DecodeError` (Kafka: SchemaException).
    """
    return _decode(ConsumerProtocolAssignment, data, "assignment")


def encode_protocol(
    message: ProtocolMessage, version: int = 3, form: SubscriptionForm | str = SubscriptionForm.KAFKA
) -> bytes:
    """Encode an int16 version and the message, as Kafka's generated classes.

    Kafka's *clients* also sort a subscription's topics and owned partitions before; the caller has
    to do that. `form`: whether version 2 of a subscription has a rack. Kafka's consumers ignore it
    there, because they ignore bytes after the fields of a version.

    Raises `EncodeError`, and `ValueError` for an unknown form.
    """
    has_rack = isinstance(message, ConsumerProtocolSubscription) and version >= RACK_SINCE[SubscriptionForm(form)]
    layout = max(version, RACK_SINCE[SubscriptionForm.KAFKA]) if has_rack else version
    return version.to_bytes(2, "big") + encode_message(message, layout)


def _open(data: bytes, cls: type[ProtocolMessage]) -> bytes:
    """Return the same bytes, as `OpenedBytes` if they are a message of `cls`."""
    try:
        return OpenedBytes(data, _decode(cls, data, "nested"))
    except DecodeError:
        return data  # another protocol, or damaged


def open_nested(value: M) -> M:
    """Return the same value with nested consumer protocol bytes decoded (`OpenedBytes`).

    Members of a classic group are decoded if its protocol type is "consumer". Bytes that cannot be
    decoded are left as they are, and so are other messages.
    """
    # The casts: mypy no longer accepts `value`, narrowed to a class, as an M.
    message: Message = value
    match message:
        case GroupMetadataValue(protocol_type=str(protocol_type), members=members) if (
            protocol_type == CONSUMER_PROTOCOL_TYPE
        ):
            opened = tuple(
                replace(
                    m,
                    subscription=_open(m.subscription, ConsumerProtocolSubscription),
                    assignment=_open(m.assignment, ConsumerProtocolAssignment),
                )
                for m in members
            )
            return cast(M, replace(message, members=opened))
        case ConsumerGroupMemberMetadataValue(classic_member_metadata=classic) if (
            classic is not None and classic.supported_protocols
        ):
            protocols = tuple(
                replace(p, metadata=_open(p.metadata, ConsumerProtocolSubscription))
                for p in classic.supported_protocols
            )
            migrated = replace(classic, supported_protocols=protocols)
            return cast(M, replace(message, classic_member_metadata=migrated))
    return value
