"""DescribeClientQuotas v0–1. KIP-546. v1 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bool, Float64, Int8, Int16, Int32, String


@struct
class ComponentData(Message):
    """A filter for entities. `entity_type`: "user", "client-id" or "ip".

    `match_type`: 0 the entity named `match`, 1 the default, 2 any named entity or the default.
    """

    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@request(api_key=48, versions=range(0, 2), flexible_since=1)
class DescribeClientQuotasRequest(Message):
    """The entities to describe. `strict`: only those with exactly the types in `components`."""

    components: Array[ComponentData] = ()
    strict: Bool = False


@struct
class EntityData(Message):
    """`entity_name`: `None` is the default."""

    entity_type: String = ""
    entity_name: String | None = ""


@struct
class ValueData(Message):
    """A quota."""

    key: String = ""
    value: Float64 = 0.0


@struct
class EntryData(Message):
    """The quotas of one entity."""

    entity: Array[EntityData] = ()
    values: Array[ValueData] = ()


@response(DescribeClientQuotasRequest)
class DescribeClientQuotasResponse(Message):
    """The matching quotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: Array[EntryData] | None = ()
