"""PushTelemetry v0. KIP-714. Flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message
from quorate.codecs.wire import Bool, Bytes, Int8, Int16, Int32, Uuid


@request(api_key=72, versions=range(0, 1), flexible_since=0)
class PushTelemetryRequest(Message):
    """A client's metrics, in OpenTelemetry's protobuf format.

    `terminating`: the client closes, and pushes for the last time.
    """

    client_instance_id: Uuid = Uuid.ZERO
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@response(PushTelemetryRequest)
class PushTelemetryResponse(Message):
    """Whether the broker accepted the metrics."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
