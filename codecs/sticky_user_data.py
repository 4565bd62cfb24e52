"""User data of Kafka's two sticky assignors: the bytes inside a subscription's `user_data`.

Neither contains a version. For `sticky`, the newer layout is tried first and then the older one, as
in Kafka's `StickyAssignor`.
"""

from quorate.codecs.errors import DecodeError
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.messages.protocol import CooperativeStickyAssignorUserData, StickyAssignorUserData
from quorate.codecs.records import encode_message


def decode_sticky_user_data(data: bytes | None) -> StickyAssignorUserData:
    """Decode the partitions that a member of a `sticky` group owned.

    Null, empty and unreadable data mean none, at no generation (-1). Never raises.
    """
    data = bytes(data or b"")
    try:
        return message_decoder(StickyAssignorUserData.spec, 1)(data, 0)  # type: ignore[return-value]
    except Exception:  # noqa: BLE001, S110  # any failure of the fast path: older, damaged, or not UTF-8
        pass
    for version in (1, 0):
        try:
            message, _ = decode_exactly(StickyAssignorUserData.spec, version, data, 0, "user data")
        except DecodeError:
            continue
        assert isinstance(message, StickyAssignorUserData)
        return message
    return StickyAssignorUserData(previous_assignment=())


def encode_sticky_user_data(message: StickyAssignorUserData, version: int = 1) -> bytes:
    """Encode `message`. Topics keep their order; Kafka uses the order of its hash map."""
    return encode_message(message, version)


def decode_cooperative_sticky_user_data(data: bytes | None) -> CooperativeStickyAssignorUserData | None:
    """Decode the generation of a `cooperative-sticky` member.

    Returns `None` without user data. As in Kafka, the generation is -1 if the data cannot be read.
    Never raises.
    """
    if data is None:
        return None
    try:
        message, _ = decode_exactly(CooperativeStickyAssignorUserData.spec, 0, data, 0, "user data")
    except DecodeError:
        return CooperativeStickyAssignorUserData()
    assert isinstance(message, CooperativeStickyAssignorUserData)
    return message


def encode_cooperative_sticky_user_data(message: CooperativeStickyAssignorUserData) -> bytes:
    """Encode `message`."""
    return encode_message(message, 0)
