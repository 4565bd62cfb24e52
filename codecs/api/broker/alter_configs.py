"""AlterConfigs v0–2. KIP-133; replaces all of a resource's configs. v2 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String


@struct
class AlterableConfig(Message):
    """A config to change."""

    name: String = field(default="", map_key=True)
    value: String | None = ""


@struct
class AlterConfigsResource(Message):
    """A resource to change."""

    resource_type: Int8 = field(default=0, map_key=True)
    resource_name: String = field(default="", map_key=True)
    configs: Array[AlterableConfig] = ()


@request(api_key=33, versions=range(0, 3), flexible_since=2)
class AlterConfigsRequest(Message):
    """Configs that take the place of all that a resource has."""

    resources: Array[AlterConfigsResource] = ()
    validate_only: Bool = False


@struct
class AlterConfigsResourceResponse(Message):
    """The result for one resource."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@response(AlterConfigsRequest)
class AlterConfigsResponse(Message):
    """The result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResourceResponse] = ()
