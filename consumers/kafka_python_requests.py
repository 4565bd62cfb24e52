"""quorate's requests over kafka-python's connections, and newer versions of its own requests."""

import struct
from typing import Any

from kafka import errors

from quorate.codecs.api.body import encode_api
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.lookup import api_of
from quorate.codecs.errors import QuorateError
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.message import Message
from quorate.consumers.frames import frame_of, read_correlation_id


class GroupError(QuorateError, errors.BrokerResponseError):  # type: ignore[misc]  # kafka-python has no types
    """An error for which kafka-python has no exception, such as INVALID_REGULAR_EXPRESSION.

    `code` is Kafka's error code.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.errno = code.value
        self._message = message

    def __reduce__(self) -> Any:
        return GroupError, (self.code, self._message)


def error_for(code: ErrorCode, message: str) -> errors.KafkaError:
    """Return the exception of an error code: kafka-python's own if there is one."""
    kind = errors.kafka_errors.get(code)
    return GroupError(code, message) if kind is None else kind(message)


class _Header:
    """The header of a request, which kafka-python keeps to decode the response."""

    def __init__(self, request: "OwnRequest", correlation_id: int) -> None:
        self.correlation_id = correlation_id
        self.api_key = request.API_KEY
        self.api_version = request.API_VERSION
        self._request = request

    def get_response_class(self) -> "OwnRequest":
        return self._request


class _ResponseHeader:
    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id


class OwnRequest:
    """A request of `quorate.codecs.api`, as kafka-python's connection wants it.

    Its response is the message of `quorate.codecs.api`. Only for APIs that are flexible in all
    versions, such as ConsumerGroupHeartbeat. Raises `EncodeError` for a value of the wrong type.
    """

    def __init__(self, message: Message, *, min_version: int = 0) -> None:
        api = api_of(type(message))
        encode_api(message, api.versions[-1])  # a connection that is not ready yet would lose the error
        self.message = message
        self.name = api.name
        self.API_KEY = api.key  # kafka-python's name
        self.API_VERSION: int | None = None
        self.min_version = self._min_version = min_version
        self.max_version = self._max_version = api.versions[-1]
        self.header: _Header | None = None
        self._response = api.response
        self._client_id = ""

    def expect_response(self) -> bool:
        """Return True: there is a response."""
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        """Set the header."""
        self.header = _Header(self, correlation_id)
        self._client_id = client_id

    def encode(self, **_: Any) -> bytes:
        """Return the frame: its length, a request header v2, and the body."""
        assert self.API_VERSION is not None
        assert self.header is not None
        frame = frame_of(self.message, self.API_VERSION, self.header.correlation_id, self._client_id)
        return struct.pack(">i", len(frame)) + frame

    def parse_header(self, data: Any) -> _ResponseHeader:
        """Read a response header v1, without tagged fields."""
        return _ResponseHeader(read_correlation_id(data.read(5)))

    def decode(self, data: Any) -> Message:
        """Decode the response."""
        assert self.API_VERSION is not None
        return message_decoder(self._response, self.API_VERSION)(data.read(), 0)

    def __str__(self) -> str:
        return str(self.message)


class EpochManager:
    """kafka-python's connection manager, whose offset requests have the member's epoch.

    kafka-python limits OffsetCommit and OffsetFetch to version 8. Groups of the consumer protocol
    need version 9 (KIP-848). `member`: returns member id and epoch.
    """

    def __init__(self, manager: Any, member: Any) -> None:
        self._wrapped = manager
        self._member = member

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def send(self, request: Any, node_id: Any = None, **options: Any) -> Any:
        """Send a request; offset requests in version 9."""
        if isinstance(request, OwnRequest):
            return self._wrapped.send(request, node_id=node_id, **options)
        if request.name == "OffsetCommitRequest":
            request._max_version = 9
        elif request.name == "OffsetFetchRequest":
            member_id, epoch = self._member()
            if epoch > 0:
                request._max_version = 9
                for group in request.groups:
                    group.member_id, group.member_epoch = member_id, epoch
        return self._wrapped.send(request, node_id=node_id, **options)
