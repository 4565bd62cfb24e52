"""GetTelemetrySubscriptions v0, PushTelemetry v0 (KIP-714): metrics of clients.

As in Kafka, ApiVersions lists both only if the broker has a plugin that receives metrics. Here that
is so if `metric.reporters` names a class other than Kafka's own. `Broker.telemetry.received` has
the metrics then.
"""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.telemetry import (
    COMPRESSION_TYPES,
    ClientInstance,
    PushedMetrics,
    check_payload,
    check_push,
    is_reserved,
)
from quorate.codecs import Uuid
from quorate.codecs.api.broker import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.compression import DecompressionError
from quorate.codecs.configs import elements
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

_KAFKAS_OWN = frozenset({"org.apache.kafka.common.metrics.JmxReporter"})
_FORGIVEN = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""After these errors a client may request its subscription again at once."""


def has_plugin(cluster: "SharedCluster") -> bool:
    """Return whether brokers have a plugin that receives clients' metrics."""
    return bool(set(elements(cluster.broker_configs.get("metric.reporters"))) - _KAFKAS_OWN)


def get_telemetry_subscriptions(
    broker: "Broker", request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    """Return the subscription of a client, and assign an instance id to a new client."""
    instance_id = request.client_instance_id
    if instance_id == Uuid.ZERO:
        instance_id = broker.telemetry.new_id(broker.cluster.new_uuid)
    instance = _instance(broker, instance_id, context)
    if not instance.may_request(context.now_ms) and instance.error not in _FORGIVEN:
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    instance.error = ErrorCode.NONE
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=COMPRESSION_TYPES,
        push_interval_ms=instance.push_interval_ms,
        telemetry_max_bytes=broker.cluster.broker_configs.number("telemetry.max.bytes", broker.id),
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )


def push_telemetry(broker: "Broker", request: PushTelemetryRequest, context: Context) -> PushTelemetryResponse:
    """Receive metrics that a client pushes."""
    if is_reserved(request.client_instance_id):
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    instance = _instance(broker, request.client_instance_id, context)
    max_bytes = broker.cluster.broker_configs.number("telemetry.max.bytes", broker.id)
    try:
        check_push(request, instance, max_bytes, context.now_ms)
    except ApiError as error:
        instance.error = error.code
        return PushTelemetryResponse(error_code=error.code)
    finally:
        instance.terminating = request.terminating
    instance.error = ErrorCode.NONE
    try:
        check_payload(request, max_bytes)
    except DecompressionError:
        instance.error = ErrorCode.INVALID_RECORD
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD)
    if request.metrics and has_plugin(broker.cluster):
        pushed = PushedMetrics(
            instance.id, context.client_id, request.terminating, request.compression_type, bytes(request.metrics)
        )
        broker.telemetry.received.append(pushed)
    return PushTelemetryResponse()


def _instance(broker: "Broker", instance_id: Uuid, context: Context) -> ClientInstance:
    cluster, connection = broker.cluster, context.connection
    name, _, version = connection.software.partition(" ")
    client = {
        "client_id": context.client_id,
        "client_software_name": name or "unknown",
        "client_software_version": version or "unknown",
        "client_source_address": connection.host.removeprefix("/"),
        "client_source_port": str(connection.port),
    }
    subscriptions = cluster.state.client_metrics.values()
    instance, is_new = broker.telemetry.instance(
        instance_id, client, subscriptions, cluster.client_metrics_version, context.now_ms
    )
    if is_new:
        connection.telemetry_id = instance_id
    return instance
