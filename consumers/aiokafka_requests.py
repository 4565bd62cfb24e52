"""quorate's requests over aiokafka's connections, and its errors as exceptions of aiokafka."""

from io import BytesIO
from typing import Any

from aiokafka import errors

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.lookup import api_of
from quorate.codecs.errors import QuorateError
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.message import Message
from quorate.consumers.frames import frame_of, read_correlation_id
from quorate.consumers.states import known_error

RETRIABLE = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_ID})


class GroupError(QuorateError, errors.KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """An error for which aiokafka has no exception, such as UNSUPPORTED_ASSIGNOR.

    `code` is Kafka's error code.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.retriable = code in RETRIABLE
        self._message = message

    def __reduce__(self) -> Any:
        return GroupError, (self.code, self._message)  # aiokafka copies exceptions


def error_for(code: int, message: str = "") -> errors.KafkaError:
    """Return the exception of an error code: aiokafka's own if there is one."""
    kind = errors.for_code(code)
    if kind is errors.UnknownError and code != errors.UnknownError.errno:
        return GroupError(known_error(code), message)
    return kind(message) if message else kind()


class _Header:
    def __init__(self, frame: bytes) -> None:
        self._frame = frame

    def encode(self) -> bytes:
        return self._frame


class _ResponseHeader:
    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id


class _Prepared:
    """A request in the version of one connection, as aiokafka's connection uses it."""

    def __init__(self, message: Message, version: int) -> None:
        self._message = message
        api = api_of(type(message))
        self.API_KEY, self.API_VERSION = api.key, version  # aiokafka's names
        self.RESPONSE_TYPE = self
        self._decode = message_decoder(api.response, version)

    def build_request_header(self, correlation_id: int, client_id: str) -> _Header:
        """Return the header and the body."""
        return _Header(frame_of(self._message, self.API_VERSION, correlation_id, client_id))

    def encode(self) -> bytes:
        """Return nothing: the body follows the header."""
        return b""

    def parse_response_header(self, data: BytesIO) -> _ResponseHeader:
        """Read the header of the response."""
        return _ResponseHeader(read_correlation_id(data.read(5)))

    def decode(self, data: BytesIO) -> Message:
        """Read the response."""
        return self._decode(data.read(), 0)

    def __repr__(self) -> str:
        return repr(self._message)


class AioRequest:
    """A request of `quorate.codecs.api`, in the newest version that the broker supports.

    Its response is the message of `quorate.codecs.api`. Only for flexible versions.
    """

    def __init__(self, message: Message, *, min_version: int = 0, max_version: int | None = None) -> None:
        self._message = message
        self._min_version = min_version
        self._max_version = max_version

    def prepare(self, versions: Any) -> _Prepared:
        """Choose the version. Raises `IncompatibleBrokerVersion`."""
        api = api_of(type(self._message))
        own = api.versions[-1] if self._max_version is None else self._max_version
        low, high = versions.get(api.key, (0, -1))
        version = min(own, high)
        if version < max(low, self._min_version):
            raise errors.IncompatibleBrokerVersion(f"the broker does not support {api.name} v{self._min_version}")
        return _Prepared(self._message, version)
