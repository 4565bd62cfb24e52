"""Encode and decode bodies of requests and responses, without their headers."""

from typing import TypeVar, overload

from quorate.codecs.api.lookup import api_of
from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.fast_encode import encode_message, span
from quorate.codecs.message import Message

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview


def encode_api(message: Message, version: int) -> bytes:
    """Encode the body of a request or response in one version, with the same bytes as Kafka.

    Raises `EncodeError` with the name of the field that the version cannot carry, or if the API
    does not have the version.
    """
    return encode_message(message, version)


@overload
def decode_api(which: type[M], data: Buffer, version: int, *, position: int = 0, strict: bool = False) -> M: ...


@overload
def decode_api(which: int | str, data: Buffer, version: int, *, position: int = 0, strict: bool = False) -> Message: ...


def decode_api(
    which: type[Message] | int | str, data: Buffer, version: int, *, position: int = 0, strict: bool = False
) -> Message:
    """Decode the message whose body starts at `position`, after the header.

    `which` is a request or response class, or an API key or name, which means its request. A
    bytearray or memoryview is copied. Unless `strict`, trailing bytes and wrong sizes of tagged
    fields are ignored, as in Kafka. Raises `DecodeError` if the bytes are not such a body, and
    `ValueError` for an API or version that is not declared.
    """
    spec = which.spec if isinstance(which, type) else api_of(which).request
    if spec.versions is None or version not in spec.versions:
        raise ValueError(f"{spec.name} has no version {version}; it has {span(spec.versions)}")
    raw = data if type(data) is bytes else bytes(memoryview(data))
    try:
        return message_decoder(spec, version, lenient=not strict)(raw, position)
    except Exception:  # noqa: BLE001  # any failure of the fast path: `decode_exactly` decodes or explains
        found, end = decode_exactly(spec, version, raw, position, spec.name, as_kafka_reads=not strict)
    if strict and end < len(raw):
        raise DecodeError(Reason.TRAILING, where=spec.name, position=end, detail=f"{len(raw) - end} of them")
    return found
