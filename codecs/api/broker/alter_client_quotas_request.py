"""What AlterClientQuotas is asked to change; apart, as Kafka calls parts of the request and of the response alike."""

from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bool, Float64, String

__all__ = ["EntityData", "EntryData", "OpData"]


@struct
class EntityData(Message):
    """`entity_type`: "user", "client-id" or "ip". `entity_name`: `None` is the default."""

    entity_type: String = ""
    entity_name: String | None = ""


@struct
class OpData(Message):
    """A quota that gets a value, or is taken back."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@struct
class EntryData(Message):
    """What is to change for somebody."""

    entity: Array[EntityData] = ()
    ops: Array[OpData] = ()
