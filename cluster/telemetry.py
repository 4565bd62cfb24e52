"""Client telemetry of one broker (KIP-714): each client's subscription and request intervals.

Follows Kafka's ClientMetricsManager. `client_metrics` has the configs of subscriptions. The pushed
metrics are not decoded.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import google_crc32c

from quorate.assignors.java_order import JavaHashSet
from quorate.cluster.client_metrics import INTERVAL_MS, matches
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.compression import decompress
from quorate.codecs.configs import elements
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.codecs.api.broker import PushTelemetryRequest

__all__ = ["COMPRESSION_TYPES", "Instance", "Pushed", "Telemetry", "check_payload", "check_push", "is_reserved"]

COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: the types that brokers accept, preferred first. Uncompressed metrics are
accepted, too.
"""
_KNOWN_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")
_RESERVED = frozenset({Uuid.ZERO, Uuid(bytes(15) + b"\x01")})
_MOST_INSTANCES = 16_384
_LEAST_KEPT_MS = 60_000
_PUSHES_KEPT = 1_000
_ALL = "*"


@dataclass(frozen=True, slots=True)
class Pushed:
    """Metrics that a client pushed. `metrics`: as received, compressed by `compression_type`."""

    client_instance_id: Uuid
    client_id: str
    terminating: bool
    compression_type: int
    metrics: bytes


@dataclass(slots=True)
class Instance:
    """A client instance.

    `metrics`: prefixes, in Kafka's order. `version`: that of the configs that the subscription was
    computed from. Times are in ms.
    """

    id: Uuid
    client: Mapping[str, str]
    metrics: tuple[str, ...]
    push_interval_ms: int
    subscription_id: int
    version: int
    requested_ms: int = 0
    pushed_ms: int = 0
    terminating: bool = False
    error: ErrorCode = ErrorCode.NONE
    expires_ms: int = 0

    def may_request(self, now_ms: int) -> bool:
        """Return whether the client may request its subscription now; if so, store the time."""
        if now_ms - max(self.requested_ms, self.pushed_ms) < self.push_interval_ms:
            return False
        self.requested_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Return whether the client may push metrics now; if so, store the time.

        It may after a request for its subscription, or after the push interval.
        """
        if self.requested_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.push_interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Telemetry:
    """The client instances of a broker.

    `received`: the last pushed metrics, if a plugin receives them.
    """

    def __init__(self) -> None:
        self.received: deque[Pushed] = deque(maxlen=_PUSHES_KEPT)
        self._instances: OrderedDict[Uuid, Instance] = OrderedDict()  # least recently used first

    def new_id(self, make: Callable[[], Uuid]) -> Uuid:
        """Return an id that no client instance has."""
        while True:
            number = make()
            if number not in self._instances and not str(number).startswith("-"):
                return number

    def forget(self, instance: Uuid) -> None:
        """Remove a client instance whose connection is closed."""
        self._instances.pop(instance, None)

    def instance(
        self,
        number: Uuid,
        client: Mapping[str, str],
        subscriptions: Iterable[Mapping[str, str]],
        version: int,
        now_ms: int,
    ) -> tuple[Instance, bool]:
        """Return a client instance, and whether its subscription is new or has changed."""
        found = self._instances.get(number)
        if found is not None and now_ms >= found.expires_ms:
            found = None
        made = found is None or found.version < version
        if found is None or made:
            properties = {**client, "client_instance_id": str(number)} if found is None else found.client
            found = _subscribed(number, properties, subscriptions, version)
            self._instances[number] = found
            if len(self._instances) > _MOST_INSTANCES:
                self._instances.popitem(last=False)
        self._instances.move_to_end(number)
        found.expires_ms = now_ms + max(_LEAST_KEPT_MS, 3 * found.push_interval_ms)
        return found, made


def check_push(request: "PushTelemetryRequest", instance: Instance, most_bytes: int, now_ms: int) -> None:
    """Raise `ApiError` for a rejected push, in the order of Kafka's validatePushRequest."""
    whose = f"[{request.client_instance_id}]"
    if instance.terminating:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"client {whose} has already pushed with the terminating flag")
    if not instance.may_push(now_ms) and not request.terminating:
        raise ApiError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"client {whose} pushed before the end of its push interval"
        )
    if request.subscription_id != instance.subscription_id:
        raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"client {whose} has another subscription")
    if not 0 <= request.compression_type < len(_KNOWN_TYPES):
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {request.compression_type}")
    if len(request.metrics) > most_bytes:
        raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE, f"more than {most_bytes} bytes (telemetry.max.bytes)")


def check_payload(request: "PushTelemetryRequest", most_bytes: int) -> None:
    """Raise `DecompressionError` for metrics that are damaged, or larger than `most_bytes`."""
    if request.metrics and request.compression_type:
        decompress(_KNOWN_TYPES[request.compression_type], request.metrics, most_bytes)


def is_reserved(number: Uuid) -> bool:
    """Return whether the id is reserved."""
    return number in _RESERVED


def _subscribed(
    number: Uuid, client: Mapping[str, str], subscriptions: Iterable[Mapping[str, str]], version: int
) -> Instance:
    interval_ms = INTERVAL_MS
    metrics: JavaHashSet[str] = JavaHashSet()
    for one in subscriptions:
        if matches(one, client):
            for name in JavaHashSet.of(elements(one.get("metrics", ""))):
                metrics.add(name)
            interval_ms = min(interval_ms, int(one.get("interval.ms", INTERVAL_MS)))
    names = (_ALL,) if _ALL in metrics else tuple(metrics)
    return Instance(number, client, names, interval_ms, _subscription_id(number, names, interval_ms), version)


def _subscription_id(number: Uuid, metrics: tuple[str, ...], interval_ms: int) -> int:
    """Return CRC-32C of metrics and interval, XOR Java's hash of the client instance id."""
    crc: int = google_crc32c.value(f"[{', '.join(metrics)}]{interval_ms}".encode())
    halves = int.from_bytes(number[:8], "big") ^ int.from_bytes(number[8:], "big")
    found = crc ^ ((halves >> 32) ^ halves) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found
