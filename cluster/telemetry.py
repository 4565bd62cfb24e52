"""Client telemetry of one broker (KIP-714): subscriptions and push intervals of client instances.

Follows Kafka's ClientMetricsManager. The configs of subscriptions are in `client_metrics`. Pushed
metrics are not decoded.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import google_crc32c

from quorate.assignors.java_order import JavaHashSet
from quorate.cluster.client_metrics import INTERVAL_MS, matches
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.compression import decompress
from quorate.codecs.configs import elements
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.codecs.api.broker import PushTelemetryRequest

COMPRESSION_TYPES: Final = (4, 3, 1, 2)
"""The compression types that brokers accept, preferred first: zstd, lz4, gzip, snappy.

Brokers also accept uncompressed metrics.
"""
_COMPRESSION_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
_RESERVED = frozenset({Uuid.ZERO, Uuid(bytes(15) + b"\x01")})
_MAX_INSTANCES = 16_384
_MIN_RETENTION_MS = 60_000
_MAX_PUSHES = 1_000
_ALL_METRICS = "*"


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """Metrics that a client pushed. `metrics`: as received, compressed by `compression_type`."""

    client_instance_id: Uuid
    client_id: str
    terminating: bool
    compression_type: int
    metrics: bytes


@dataclass(slots=True)
class ClientInstance:
    """A client instance and its subscription.

    `metrics`: prefixes, in Kafka's order. `version`: that of the configs from which the
    subscription was computed. Times are in ms.
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
        """Return whether the client may request its subscription now. If so, store the time."""
        if now_ms - max(self.requested_ms, self.pushed_ms) < self.push_interval_ms:
            return False
        self.requested_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Return whether the client may push metrics now. If so, store the time.

        A client may push after it requested its subscription, or after the push interval.
        """
        if self.requested_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.push_interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Telemetry:
    """The client instances of a broker.

    `received`: the metrics that were pushed last, if a plugin receives them.
    """

    def __init__(self) -> None:
        self.received: deque[PushedMetrics] = deque(maxlen=_MAX_PUSHES)
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()  # least recently used first

    def new_id(self, generate: Callable[[], Uuid]) -> Uuid:
        """Return an id that no client instance has."""
        while True:
            instance_id = generate()
            if instance_id not in self._instances and not str(instance_id).startswith("-"):
                return instance_id

    def remove(self, instance_id: Uuid) -> None:
        """Remove a client instance whose connection is closed."""
        self._instances.pop(instance_id, None)

    def instance(
        self,
        instance_id: Uuid,
        client: Mapping[str, str],
        subscriptions: Iterable[Mapping[str, str]],
        version: int,
        now_ms: int,
    ) -> tuple[ClientInstance, bool]:
        """Return a client instance, and whether its subscription is new or has changed."""
        instance = self._instances.get(instance_id)
        if instance is not None and now_ms >= instance.expires_ms:
            instance = None
        is_new = instance is None or instance.version < version
        if instance is None or is_new:
            attributes = {**client, "client_instance_id": str(instance_id)} if instance is None else instance.client
            instance = _subscribed(instance_id, attributes, subscriptions, version)
            self._instances[instance_id] = instance
            if len(self._instances) > _MAX_INSTANCES:
                self._instances.popitem(last=False)
        self._instances.move_to_end(instance_id)
        instance.expires_ms = now_ms + max(_MIN_RETENTION_MS, 3 * instance.push_interval_ms)
        return instance, is_new


def check_push(request: "PushTelemetryRequest", instance: ClientInstance, max_bytes: int, now_ms: int) -> None:
    """Raise `ApiError` for a rejected push, in the order of Kafka's validatePushRequest."""
    client = f"client [{request.client_instance_id}]"
    if instance.terminating:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{client} has already pushed with the terminating flag")
    if not instance.may_push(now_ms) and not request.terminating:
        raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{client} pushed before the end of its push interval")
    if request.subscription_id != instance.subscription_id:
        raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"{client} has no subscription {request.subscription_id}")
    if not 0 <= request.compression_type < len(_COMPRESSION_NAMES):
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression type {request.compression_type}")
    if len(request.metrics) > max_bytes:
        raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE, f"more than {max_bytes} bytes (telemetry.max.bytes)")


def check_payload(request: "PushTelemetryRequest", max_bytes: int) -> None:
    """Raise `DecompressionError` for metrics that are damaged, or larger than `max_bytes`."""
    if request.metrics and request.compression_type:
        decompress(_COMPRESSION_NAMES[request.compression_type], request.metrics, max_bytes)


def is_reserved(instance_id: Uuid) -> bool:
    """Return whether Kafka reserves the id, so that no client instance may have it."""
    return instance_id in _RESERVED


def _subscribed(
    instance_id: Uuid, client: Mapping[str, str], subscriptions: Iterable[Mapping[str, str]], version: int
) -> ClientInstance:
    """Return a client instance with the metrics of all subscriptions that match the client."""
    interval_ms = INTERVAL_MS
    metrics: JavaHashSet[str] = JavaHashSet()
    for configs in subscriptions:
        if matches(configs, client):
            for name in JavaHashSet.of(elements(configs.get("metrics", ""))):
                metrics.add(name)
            interval_ms = min(interval_ms, int(configs.get("interval.ms", INTERVAL_MS)))
    names = (_ALL_METRICS,) if _ALL_METRICS in metrics else tuple(metrics)
    subscription_id = _subscription_id(instance_id, names, interval_ms)
    return ClientInstance(instance_id, client, names, interval_ms, subscription_id, version)


def _subscription_id(instance_id: Uuid, metrics: tuple[str, ...], interval_ms: int) -> int:
    """Return CRC-32C of metrics and interval, XOR Java's hash of the client instance id."""
    crc: int = google_crc32c.value(f"[{', '.join(metrics)}]{interval_ms}".encode())
    halves = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
    unsigned = crc ^ ((halves >> 32) ^ halves) & 0xFFFFFFFF
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned
