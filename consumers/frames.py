"""Headers of requests and responses, for clients that send quorate's requests as their own.

Only of APIs and versions that are flexible, such as ConsumerGroupHeartbeat.
"""

import struct

from quorate.codecs.api.body import encode_api
from quorate.codecs.api.lookup import api_of
from quorate.codecs.message import Message


def frame_of(message: Message, version: int, correlation_id: int, client_id: str) -> bytes:
    """Return a request header v2 and the body, without the length before them."""
    name = client_id.encode()
    fields = (api_of(type(message)).key, version, correlation_id, len(name))
    header = struct.pack(">hhih", *fields) + name + b"\0"  # no tagged fields
    return header + encode_api(message, version)


def read_correlation_id(header: bytes) -> int:
    """Return the correlation id of a response header v1 without tagged fields, of 5 bytes."""
    correlation_id: int = struct.unpack(">ib", header)[0]
    return correlation_id
