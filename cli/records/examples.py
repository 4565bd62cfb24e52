"""An example for each message, made from its declaration: JSON that `quorate encode` accepts, with something in every field that is Kafka's."""

from typing import Any

from quorate.codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, NESTED
from quorate.codecs.message import FieldSpec, Message, MessageSpec, RecordType
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, WireType

__all__ = ["message_example", "record_example"]

_WORDS = {
    "group": "my-group",
    "group_id": "my-group",
    "topic": "orders",
    "topic_name": "orders",
    "topics": "orders",
    "subscribed_topic_names": "orders",
    "protocol_type": CONSUMER_PROTOCOL_TYPE,
    "protocol": "range",
    "server_assignor": "uniform",
    "client_host": "/127.0.0.1",
    "regular_expression": "orders.*",
    "subscribed_topic_regex": "orders.*",
    "metadata": "",
}
"""Words for fields where the field's own name would be a strange one."""

_A_TIME_MS = 1_700_000_000_000
_TOPIC_ID = "Wvjv6DftQdG4PLIeBz7Ftg"


def record_example(record_type: RecordType) -> dict[str, Any]:
    """A whole record, in the version that Kafka writes."""
    version = record_type.versions[-1] if record_type.written is None else record_type.written
    return {
        "topic": record_type.topic,
        "type": record_type.type_id,
        "name": record_type.name,
        "version": version,
        "key": _struct(record_type.key, 0),
        "value": _struct(record_type.value, version),
    }


def message_example(message: type[Message]) -> dict[str, Any]:
    """A message that stands alone, in its newest version, which the object says."""
    assert message.spec.versions is not None
    newest = message.spec.versions[-1]
    return {"version": newest, **_struct(message.spec, newest)}


def _struct(spec: MessageSpec, version: int) -> dict[str, Any]:
    return {field.name: _field(spec, field, version) for field in spec.fields if version in field.versions}


def _field(spec: MessageSpec, field: FieldSpec, version: int) -> Any:
    if field.own:  # so that the record is one of Kafka's
        return [] if field.default == () else field.default
    nested = NESTED.get((spec.cls, field.name))
    return message_example(nested) if nested is not None else _value(field.type, field.name, version)


def _value(wire: WireType, name: str, version: int) -> Any:
    match wire:
        case FixedType():
            return _A_TIME_MS if "timestamp" in name else 0 if wire.size < 4 or name == "partition" else 1
        case StringType():
            return _WORDS.get(name, name.replace("_", "-"))
        case BytesType():
            return ""
        case ArrayType(FixedType()):
            return [0, 1]
        case ArrayType(element):
            return [_value(element, name, version)]
        case StructType(spec):
            return _struct(spec, version)
        case _:
            return _TOPIC_ID
