"""The consumer embedded protocol: version-prefixed subscriptions and assignments inside other messages' bytes fields.

Reading follows `ConsumerProtocol` of Kafka's clients: a version newer than 3 is read as version 3,
because newer ones may only append; a negative one is an error; bytes that follow are ignored. Group
coordinators treat these bytes as opaque, so they may also be another protocol's (Connect, Streams)
or damaged.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast

from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
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
    "decode_assignment",
    "decode_subscription",
    "encode_protocol",
    "open_nested",
]

ProtocolMessage: TypeAlias = ConsumerProtocolSubscription | ConsumerProtocolAssignment
M = TypeVar("M", bound=Message)

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type under which a group's member metadata and assignments are messages of this
module.
"""

NESTED: dict[tuple[type[Message], str], type[ProtocolMessage]] = {
    (MemberMetadata, "subscription"): ConsumerProtocolSubscription,
    (MemberMetadata, "assignment"): ConsumerProtocolAssignment,
    (ClassicProtocol, "metadata"): ConsumerProtocolSubscription,
}
"""Which bytes fields hold a protocol message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A protocol message as found in bytes.

    `version` is as written, `trailing` is what follows the newest version that we know.
    """

    version: int
    message: ProtocolMessage
    trailing: bytes = b""


class OpenedBytes(bytes):
    """The bytes of a field together with the message that was found in them.

    Encodes as what it is: the same bytes.
    """

    opened: Embedded

    def __new__(cls, data: bytes, opened: Embedded) -> "OpenedBytes":
        """Take the field's bytes and what was found in them."""
        made = super().__new__(cls, data)
        made.opened = opened
        return made

    def __reduce__(self) -> tuple[type["OpenedBytes"], tuple[bytes, Embedded]]:
        return OpenedBytes, (bytes(self), self.opened)

    def __repr__(self) -> str:
        return f"OpenedBytes({self.opened.message!r}, version={self.opened.version})"


def _decode(cls: type[ProtocolMessage], data: bytes, where: str) -> Embedded:
    data = bytes(data)  # a view would hand out views
    if len(data) < 2:
        raise DecodeError(Reason.TOO_SHORT, where=where, position=0, detail=data.hex())
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise DecodeError(Reason.UNKNOWN_VERSION, where=where, position=0, detail=str(version))
    assert cls.spec.versions is not None
    read_as = min(version, cls.spec.versions[-1])
    try:
        return Embedded(version=version, message=message_decoder(cls.spec, read_as, lenient=True)(data, 2))  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001  # whatever the fast path stumbled over: longer, damaged, or not UTF-8
        message, end = decode_exactly(cls.spec, read_as, data, 2, where, as_kafka_reads=True)
    return Embedded(version=version, message=message, trailing=data[end:])  # type: ignore[arg-type]


def decode_subscription(data: bytes) -> Embedded:
    """What a classic member sent as its metadata. Raises `DecodeError` (Kafka: SchemaException)."""
    return _decode(ConsumerProtocolSubscription, data, "subscription")


def decode_assignment(data: bytes) -> Embedded:
    """What a leader sent as a member's assignment.

    Raises `DecodeError` (Kafka: SchemaException).
    """
    return _decode(ConsumerProtocolAssignment, data, "assignment")


def encode_protocol(message: ProtocolMessage, version: int = 3) -> bytes:
    """Int16 version and message, as Kafka's generated classes write it. Raises `EncodeError`.

    Kafka's *clients* also sort a subscription's topics and owned partitions before they write it;
    that is the caller's business.
    """
    return version.to_bytes(2, "big") + encode_message(message, version)


def _open(data: bytes, cls: type[ProtocolMessage]) -> bytes:
    """The same bytes, opened if they are a message of `cls`."""
    try:
        return OpenedBytes(data, _decode(cls, data, "nested"))
    except DecodeError:
        return data  # another system's or damaged: the bytes themselves are the value


def open_nested(value: M) -> M:
    """The same value with its nested consumer protocol bytes opened in place (`OpenedBytes`).

    Members of a classic group are opened if its protocol type is "consumer"; bytes that cannot be
    read stay as they are. Other messages are returned as they are.
    """
    # The casts: mypy does not take `value`, narrowed to a class, for an M any more.
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
