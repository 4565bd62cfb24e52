"""Declare the requests and responses of Kafka's APIs.

    @request(api_key=12, versions=range(0, 5), flexible_since=4)
    class HeartbeatRequest(Message): ...

    @response(HeartbeatRequest)
    class HeartbeatResponse(Message): ...

Every field has a default, as in Kafka's generated classes.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeVar, dataclass_transform

from quorate.codecs.fast_encode import span
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message, MessageSpec, declare, field, tagged
from quorate.codecs.wire import ArrayType, StructType

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Api:
    """One API of Kafka: its key (an int16), its name, and its two messages.

    `own` marks an API of quorate. Its key is at least `OWN_KEYS`, and a server reports it in
    ApiVersions only if its feature is enabled.
    """

    key: int
    name: str
    versions: range
    """Of both messages."""
    flexible_since: int | None
    messages: tuple[type[Message], type[Message]]
    own: bool = False

    @property
    def request(self) -> MessageSpec:
        """The declaration of the request."""
        return self.messages[0].spec

    @property
    def response(self) -> MessageSpec:
        """The declaration of the response."""
        return self.messages[1].spec

    def request_header_version(self, version: int) -> int:
        """Return the version of the header before a request body: 2 has tagged fields (KIP-482).

        Raises `ValueError` for a version that the API does not have.
        """
        self._check(version)
        return 2 if self._is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Return the version of the header before a response body: 1 has tagged fields (KIP-482).

        Raises `ValueError` for a version that the API does not have.
        """
        self._check(version)
        return 1 if self._is_flexible(version) and self.key != API_VERSIONS else 0

    def _is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def _check(self, version: int) -> None:
        if version not in self.versions:
            raise ValueError(f"{self.name} has no version {version}; it has {span(self.versions)}")


API_VERSIONS = 18
"""The header of its response never has tagged fields.

The client does not know yet which versions the broker supports (KIP-511).
"""

OWN_KEYS = 20_848
"""The first API key of quorate; Kafka's keys start at 0 and have reached 93."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, tagged))
def request(*, api_key: int, versions: range, flexible_since: int | None = None) -> Callable[[type[M]], type[M]]:
    """Declare the request of an API.

    The class is named for the API, with the suffix "Request". Keys from `OWN_KEYS` on are those of
    quorate's own APIs.
    """

    def declare_request(cls: type[M]) -> type[M]:
        built = _built(cls, versions, flexible_since, "Request")
        built.declared_api_key = api_key
        return built

    return declare_request


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, tagged))
def response(request: type[Message]) -> Callable[[type[M]], type[M]]:
    """Declare the response to `request`, with the same versions; this completes the API."""
    versions, flexible_since = request.declaration.versions, request.declaration.flexible_since

    def declare_response(cls: type[M]) -> type[M]:
        assert versions is not None
        built = _built(cls, versions, flexible_since, "Response")
        key = request.declared_api_key
        request.api = built.api = Api(
            key=key,
            name=request.__name__.removesuffix("Request"),
            versions=versions,
            flexible_since=flexible_since,
            messages=(request, built),
            own=key >= OWN_KEYS,
        )
        return built

    return declare_response


def _built(cls: type[M], versions: range, flexible_since: int | None, suffix: str) -> type[M]:
    if not cls.__name__.endswith(suffix):
        raise TypeError(f"{cls.__name__}: the class name must be that of its API with the suffix {suffix}")
    return declare(cls, versions, flexible_since, _check_defaults)


def _check_defaults(spec: MessageSpec) -> None:
    without = [f.name for f in dataclasses.fields(spec.cls) if f.default is dataclasses.MISSING]
    if without:
        raise TypeError(
            f"{spec.name}.{without[0]} has no default; fields of requests and responses require Kafka's default"
        )
    for f in spec.fields:
        inner = f.type.element if isinstance(f.type, ArrayType) else f.type
        if isinstance(inner, StructType):
            _check_defaults(inner.spec)
