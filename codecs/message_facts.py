"""Declarations as JSON: record types, messages and fields, with an example of each.

An example has a value in every field of Kafka; `quorate.codecs.json_records` and
`quorate.codecs.json_form` read it.
"""

from typing import Any

from quorate.codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, NESTED
from quorate.codecs.json_form import to_json
from quorate.codecs.message import FieldSpec, Message, MessageSpec, RecordType
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, Uuid, WireType

_EXAMPLE_TEXTS = {
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
"""Example texts for fields for which the field's name is not a good one."""

_A_TIME_MS = 1_700_000_000_000
_TOPIC_ID = "Wvjv6DftQdG4PLIeBz7Ftg"


def type_facts(record_type: RecordType) -> dict[str, Any]:
    """Return a record type as JSON, without its fields."""
    return {
        "topic": record_type.topic,
        "type": record_type.type_id,
        "name": record_type.name,
        "versions": [record_type.versions[0], record_type.versions[-1]],
        "written": record_type.written,
        "since": record_type.since,
        "note": record_type.note,
    }


def message_facts(spec: MessageSpec) -> dict[str, Any]:
    """Return a message as JSON, with its fields and those of its structs."""
    assert spec.versions is not None
    return {
        "name": spec.name,
        "about": " ".join((spec.cls.__doc__ or "").split("\n\n")[0].split()),
        "versions": [spec.versions[0], spec.versions[-1]],
        "flexible_since": spec.flexible_since,
        "fields": [_field_facts(field, spec.versions) for field in spec.fields],
    }


def _field_facts(field: FieldSpec, versions: range) -> dict[str, Any]:
    carried = range(max(field.versions[0], versions[0]), min(field.versions[-1], versions[-1]) + 1)
    wire = field.type
    struct = wire.element if isinstance(wire, ArrayType) else wire
    facts: dict[str, Any] = {
        "name": field.name,
        "kafka_name": field.json_name,
        "type": wire.name,
        "versions": [carried[0], carried[-1]],
        "nullable": field.nullable,
        "tag": field.tag,
        "default": _json_default(field),
        "ignorable": field.ignorable,
        "since": field.release,
    }
    if isinstance(struct, StructType):
        facts["fields"] = [_field_facts(inner, carried) for inner in struct.spec.fields]
    return facts


def _json_default(field: FieldSpec) -> Any:
    default = field.default
    if isinstance(default, Message):
        return to_json(default, 0)
    if isinstance(default, Uuid):
        return str(default)
    return list(default) if isinstance(default, tuple) else default.decode() if isinstance(default, bytes) else default


def record_example(record_type: RecordType) -> dict[str, Any]:
    """Return an example record in the version that Kafka writes."""
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
    """Return an example of a message in its newest version, which is part of the object."""
    assert message.spec.versions is not None
    newest = message.spec.versions[-1]
    return {"version": newest, **_struct(message.spec, newest)}


def _struct(spec: MessageSpec, version: int) -> dict[str, Any]:
    return {field.name: _field(spec, field, version) for field in spec.fields if version in field.versions}


def _field(spec: MessageSpec, field: FieldSpec, version: int) -> Any:
    nested = NESTED.get((spec.cls, field.name))
    return message_example(nested) if nested is not None else _value(field.type, field.name, version)


def _value(wire: WireType, name: str, version: int) -> Any:
    match wire:
        case FixedType():
            return _A_TIME_MS if "timestamp" in name else 0 if wire.size < 4 or name == "partition" else 1
        case StringType():
            return _EXAMPLE_TEXTS.get(name, name.replace("_", "-"))
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
