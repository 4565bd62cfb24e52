"""User data of Kafka's two sticky assignors: the bytes inside a subscription's `user_data`.

Neither carries a version. Readers of `sticky` try the newer layout first and then the older one, as
Kafka's `StickyAssignor` does.
"""

from quorate.codecs.errors import DecodeError
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.messages.protocol import CooperativeStickyAssignorUserData, StickyAssignorUserData
from quorate.codecs.records import encode_message

__all__ = [
    "decode_cooperative_sticky_user_data",
    "decode_sticky_user_data",
    "encode_cooperative_sticky_user_data",
    "encode_sticky_user_data",
]


def decode_sticky_user_data(data: bytes | None) -> StickyAssignorUserData:
    """What a member of a `sticky` group says it owned.

    Null, empty and unreadable data mean: nothing, at no generation (-1). Never raises.
    """
    data = bytes(data or b"")
    try:
        return message_decoder(StickyAssignorUserData.spec, 1)(data, 0)  # type: ignore[return-value]
    except Exception:  # noqa: BLE001, S110  # whatever the fast path stumbled over: longer, older, damaged, or not UTF-8
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
    """The bytes of `message`. Kafka orders topics by its hash map; the order given here is kept."""
    return encode_message(message, version)


def decode_cooperative_sticky_user_data(data: bytes | None) -> CooperativeStickyAssignorUserData | None:
    """The generation in a `cooperative-sticky` member's user data: `None` if there is none, -1 if it cannot be read, as in Kafka.

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
    """The bytes of `message`."""
    return encode_message(message, 0)
