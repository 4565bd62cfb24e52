"""Frames and headers of requests and responses (KIP-482, KIP-511).

A frame is an int32 size, a header and a body. The header's version depends on the API and its
version.
"""

from struct import Struct

from quorate.codecs.api.broker import APIS
from quorate.codecs.api.declare import Api
from quorate.codecs.errors import QuorateError
from quorate.codecs.generate import read_uvarint
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message

_FIXED = Struct(">hhih")  # API key, version, correlation id, length of the client id
_RESPONSE = Struct(">ii")
_TAGGED_RESPONSE = Struct(">iib")
API_VERSIONS_KEY = 18

_KNOWN: dict[tuple[int, int], tuple[Api, bool, bool]] = {}
"""API key and version → API, and whether the headers of request and response have tagged fields;
filled on use.
"""


class FrameError(QuorateError, ValueError):
    """An invalid request; the broker closes the connection, as later bytes cannot be framed."""


@dataclass(slots=True)  # not frozen: one is made for each request
class Header:
    """The header of a request.

    `api`: `None` for an unknown API key. `body`: the position of the body. `known`: whether the API
    has the version. `tagged_response`: whether the response header has tagged fields. `request`:
    the decoded body, if available. `large`: the request was handled in several turns, so its
    response may be, too.
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    api: Api | None
    known: bool
    body: int
    tagged_response: bool = False
    request: Message | None = None
    large: bool = False


def read_header(frame: bytes) -> Header:
    """Decode the header of a request.

    Raises `FrameError` if it is truncated, or its client id is not UTF-8.
    """
    try:
        api_key, version, correlation_id, size = _FIXED.unpack_from(frame)
        position = _FIXED.size
        client_id = ""
        if size > 0:
            end = position + size
            if end > len(frame):
                raise FrameError(f"a request's client id has length {size}, but {len(frame) - position} bytes are left")
            client_id = frame[position:end].decode()
            position = end
        elif size < -1:
            raise FrameError(f"a request's client id has length {size}")
        found = _KNOWN.get((api_key, version)) or _look_up(api_key, version)
        api, tagged, tagged_response = found or (APIS.get(api_key), api_key == API_VERSIONS_KEY, False)
        if tagged:
            position = position + 1 if frame[position] == 0 else _skip_tags(frame, position)
    except UnicodeDecodeError:
        raise FrameError("a request's client id is not UTF-8") from None
    except (IndexError, ValueError) as error:
        raise error if isinstance(error, FrameError) else FrameError("a request ends within its header") from None
    except Exception as error:
        raise FrameError("a request ends within its header") from error
    return Header(api_key, version, correlation_id, client_id, api, found is not None, position, tagged_response)


def _look_up(api_key: int, version: int) -> tuple[Api, bool, bool] | None:
    api = APIS.get(api_key)
    if api is None or version not in api.versions:
        return None
    found = (api, api.request.is_flexible(version), api.response_header_version(version) == 1)
    _KNOWN[api_key, version] = found
    return found


def _skip_tags(frame: bytes, position: int) -> int:
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if size < 0 or position > len(frame):
            raise FrameError("a request ends within the tagged fields of its header")
    return position


def framed(header: Header, body: bytes | list[bytes]) -> bytes:
    """Return the frame of a response, whose body may come in pieces."""
    if isinstance(body, list):
        size = sum(map(len, body))
        if header.tagged_response:
            return b"".join([_TAGGED_RESPONSE.pack(size + 5, header.correlation_id, 0), *body])
        return b"".join([_RESPONSE.pack(size + 4, header.correlation_id), *body])
    if header.tagged_response:
        return _TAGGED_RESPONSE.pack(len(body) + 5, header.correlation_id, 0) + body
    return _RESPONSE.pack(len(body) + 4, header.correlation_id) + body
