"""Frames and headers: what stands around the bodies of requests and responses (KIP-482, KIP-511).

A frame is an int32 of its size, then a header, then a body. Which header it is depends on API and version.
"""

from dataclasses import dataclass
from struct import Struct

from quorate.codecs.api import APIS
from quorate.codecs.api.declare import Api
from quorate.codecs.fast_encode import encode_message
from quorate.codecs.message import Message

__all__ = ["FrameError", "Header", "encode_response", "read_header"]

_FIXED = Struct(">hhih")  # API key, version, correlation id, length of the client id
_RESPONSE = Struct(">ii")
API_VERSIONS_KEY = 18


class FrameError(ValueError):
    """Bytes that are no request: the connection is closed, as Kafka does, because nothing behind them can be trusted."""


@dataclass(slots=True)  # not frozen: one is made for each request
class Header:
    """Who asks for what. `api`: `None` for a key that nothing is declared for; `body`: where the body begins; `known`: whether the API has the version."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    api: Api | None
    known: bool
    body: int


def read_header(frame: bytes) -> Header:
    """The header of a request. Raises `FrameError` if it is cut off, or its client id is no text."""
    try:
        api_key, version, correlation_id, size = _FIXED.unpack_from(frame)
        position = _FIXED.size
        client_id = ""
        if size > 0:
            end = position + size
            if end > len(frame):
                raise FrameError(f"the client id of a request says {size} bytes, {len(frame) - position} are left")
            client_id = frame[position:end].decode()
            position = end
        elif size < -1:
            raise FrameError(f"the client id of a request says {size} bytes")
        api = APIS.get(api_key)
        known = api is not None and version in api.versions
        if api is not None and (api.request.is_flexible(version) if known else api_key == API_VERSIONS_KEY):
            position = _skip_tags(frame, position)
    except UnicodeDecodeError:
        raise FrameError("the client id of a request is not UTF-8") from None
    except (IndexError, ValueError) as error:
        raise error if isinstance(error, FrameError) else FrameError("a request ends within its header") from None
    except Exception as error:
        raise FrameError("a request ends within its header") from error
    return Header(api_key, version, correlation_id, client_id, api, known, position)


def _skip_tags(frame: bytes, position: int) -> int:
    count, position = _varint(frame, position)
    for _ in range(count):
        _, position = _varint(frame, position)
        size, position = _varint(frame, position)
        position += size
        if position > len(frame):
            raise FrameError("a request ends within the tagged fields of its header")
    return position


def _varint(frame: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise FrameError("a number in the header of a request has more than 5 bytes")


def encode_response(header: Header, version: int, response: Message) -> bytes:
    """The frame of a response; `version` is the request's, except for ApiVersions that the broker lacks, which is answered in version 0."""
    assert header.api is not None
    body = encode_message(response, version)
    if header.api.response_header_version(version) == 1:
        return _RESPONSE.pack(len(body) + 5, header.correlation_id) + b"\0" + body
    return _RESPONSE.pack(len(body) + 4, header.correlation_id) + body
