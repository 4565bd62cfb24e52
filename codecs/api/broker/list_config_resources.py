"""ListConfigResources v0–1. KIP-1142; v0 lists client metrics only (KIP-714)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@request(api_key=74, versions=range(0, 2), flexible_since=0)
class ListConfigResourcesRequest(Message):
    """Resources with configs, of some types."""

    resource_types: Array[Int8] = field(since=1, default=())


@struct
class ConfigResource(Message):
    """A resource with configs."""

    resource_name: String = ""
    resource_type: Int8 = field(since=1, default=16, ignorable=True)


@response(ListConfigResourcesRequest)
class ListConfigResourcesResponse(Message):
    """Resources with configs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Array[ConfigResource] = ()
