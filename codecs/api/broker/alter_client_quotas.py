"""AlterClientQuotas v0–1. KIP-546. v1 flexible."""

from quorate.codecs.api.broker import alter_client_quotas_request as request_structs
from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String


@struct
class EntityData(Message):
    """`entity_type`: "user", "client-id" or "ip". `entity_name`: `None` is the default."""

    entity_type: String = ""
    entity_name: String | None = ""


@request(api_key=49, versions=range(0, 2), flexible_since=1)
class AlterClientQuotasRequest(Message):
    """The quotas to alter."""

    entries: Array[request_structs.EntryData] = ()
    validate_only: Bool = False


@struct
class EntryData(Message):
    """The result."""

    error_code: Int16 = 0
    error_message: String | None = ""
    entity: Array[EntityData] = ()


@response(AlterClientQuotasRequest)
class AlterClientQuotasResponse(Message):
    """One result for each that was named."""

    throttle_time_ms: Int32 = 0
    entries: Array[EntryData] = ()
