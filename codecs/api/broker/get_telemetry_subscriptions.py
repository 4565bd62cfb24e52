"""GetTelemetrySubscriptions v0. KIP-714. Flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String, Uuid


@request(api_key=71, versions=range(0, 1), flexible_since=0)
class GetTelemetrySubscriptionsRequest(Message):
    """A request for the metrics to push. `client_instance_id` is zero in the first one."""

    client_instance_id: Uuid = Uuid.ZERO


@response(GetTelemetrySubscriptionsRequest)
class GetTelemetrySubscriptionsResponse(Message):
    """The client's subscription.

    `requested_metrics`: prefixes of names, none for no metrics, "*" for all.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = Uuid.ZERO
    subscription_id: Int32 = 0
    accepted_compression_types: Array[Int8] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: Array[String] = ()
