"""Structs of AlterClientQuotasRequest; those of the response have the same names in Kafka."""

from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bool, Float64, String


@struct
class EntityData(Message):
    """`entity_type`: "user", "client-id" or "ip". `entity_name`: `None` is the default."""

    entity_type: String = ""
    entity_name: String | None = ""


@struct
class OpData(Message):
    """A quota to set or to remove."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@struct
class EntryData(Message):
    """Quota changes for one entity."""

    entity: Array[EntityData] = ()
    ops: Array[OpData] = ()
