"""Quorate's ops without a shard: records, consumer protocol, sticky user data, metadata hash."""

import base64
from dataclasses import replace
from typing import Any

from quorate.assignors.sticky import user_data
from quorate.codecs import (
    CONSUMER_OFFSETS,
    RECORD_TYPES,
    CoordinatorRecord,
    DecodeError,
    EncodeError,
    Reason,
    Record,
    TaggedField,
    UnknownRecord,
    Uuid,
    as_kafka_reads,
    decode_assignment,
    decode_record,
    decode_subscription,
    encode_protocol,
    encode_record,
    from_json,
    to_kafka_json,
)
from quorate.codecs.message import Message, RecordType
from quorate.codecs.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    StickyAssignorUserData,
)
from quorate.codecs.sticky_user_data import (
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    encode_sticky_user_data,
)
from quorate.codecs.wire import readable
from quorate.coordinator import group_hash, topic_hash
from tests.differential.ops import OPS, BadInput, Json, need, op, unhex

__all__ = ["OPS"]

KAFKA = "4.4.0"
"""The release that responses are compared with."""


@op("versions")
def versions(request: Json) -> Json:
    return {"kafka": KAFKA}


@op("quit")
def quit_(request: Json) -> Json:
    return {}


# ---- records


def _type(topic: str, wanted: int | str) -> RecordType:
    if topic not in RECORD_TYPES:
        raise BadInput(f"no coordinator topic {topic}")
    for record_type in RECORD_TYPES[topic].values():
        if wanted in (record_type.type_id, record_type.name):
            return record_type
    raise BadInput(f"no record type {wanted} in {topic}")


@op("encode")
def encode(request: Json) -> Json:
    record_type = _type(request.get("topic", CONSUMER_OFFSETS), need(request, "type"))
    record = CoordinatorRecord(
        topic=record_type.topic,
        key=from_json(record_type.key.cls, request.get("key") or {}, 0),
        value=None,
        version=None,
    )
    if request.get("value") is not None:
        version = request.get("version", record_type.versions[-1])
        value = from_json(record_type.value.cls, request["value"], version)
        tags = tuple(TaggedField(tag["tag"], bytes.fromhex(tag["hex"])) for tag in request.get("unknownTags", ()))
        record = replace(record, value=replace(value, unknown_tags=tags), version=version)
    key_bytes, value_bytes = encode_record(record)
    return {"key": _hex(key_bytes), "value": _hex(value_bytes)}


@op("decode")
def decode(request: Json) -> Json:
    topic = request.get("topic", CONSUMER_OFFSETS)
    if topic not in RECORD_TYPES:
        raise BadInput(f"no coordinator topic {topic}")
    record = decode_record(unhex(request.get("key")), unhex(request.get("value")), topic=topic)
    readable = as_kafka_reads(record)
    if readable is None:
        assert not isinstance(record, CoordinatorRecord)
        return _decode_error(record)
    record = readable
    out: Json = {"type": record.name, "typeId": record.type_id, "k": to_kafka_json(record.key, 0), "v": None}
    if record.value is not None and record.version is not None:
        out |= {"version": record.version, "v": to_kafka_json(record.value, record.version)}
        if record.value.unknown_tags:
            out["unknownTags"] = [{"tag": tag.tag, "hex": tag.data.hex()} for tag in record.value.unknown_tags]
    return out | _rewritten(record)


def _rewritten(record: CoordinatorRecord) -> Json:
    """Return the bytes that Kafka would encode for the decoded record, or an error.

    Trailing bytes are lost. Kafka cannot encode all that it can decode.
    """
    bare = CoordinatorRecord(
        topic=record.topic, key=_as_read(record.key), value=_as_read(record.value), version=record.version
    )
    out: Json = {}
    try:
        out["rewrittenKey"] = _hex(encode_record(replace(bare, value=None, version=None))[0])
        if bare.value is not None and not _kafka_would_write(bare.value):
            raise EncodeError("unknown tags out of order")
        out["rewritten"] = _hex(encode_record(bare)[1])
    except EncodeError as error:
        out["rewriteError"] = {
            "code": -1,
            "name": "UNKNOWN_SERVER_ERROR",
            "class": "RuntimeException",
            "message": str(error),
        }
    return out


def _decode_error(record: Record) -> Json:
    if isinstance(record, UnknownRecord) and record.reason is Reason.UNKNOWN_TYPE:
        return {**_error("UnknownRecordTypeException", record.problem), "typeId": record.type_id}
    assert record.problem is not None
    # To Kafka, the value of another system has an unknown version.
    unknown = record.problem.reason in (Reason.UNKNOWN_VERSION, Reason.FOREIGN_VALUE)
    return _error("UnknownRecordVersionException" if unknown else "RuntimeException", record.problem)


def _error(java_class: str, problem: DecodeError) -> Json:
    return {"error": {"code": -1, "name": "UNKNOWN_SERVER_ERROR", "class": java_class, "message": str(problem)}}


def _kafka_would_write(message: Message) -> bool:
    """Return whether unknown tags are ascending and below 2**31 - 1.

    Kafka decodes them in any order, but encodes only such ones.
    """
    tags = [tag.tag for tag in message.unknown_tags]
    ascending = all(before < after for before, after in zip([-1, *tags], [*tags, 2**31 - 1], strict=True))
    return ascending and all(
        _kafka_would_write(inner) for field in message.spec.fields for inner in _inner(getattr(message, field.name))
    )


def _as_read(value: Any) -> Any:
    """Return a message as Kafka has it in memory, without invalid UTF-8, which ours keeps."""
    match value:
        case str():
            return readable(value)
        case tuple():
            return tuple(_as_read(item) for item in value)
        case Message():
            return replace(value, **{field.name: _as_read(getattr(value, field.name)) for field in value.spec.fields})
    return value


def _inner(value: Any) -> list[Message]:
    return [item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, Message)]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


# ---- metadata of classic members


@op("subscription")
def subscription(request: Json) -> Json:
    return _protocol(request, ConsumerProtocolSubscription)


@op("assignmentBytes")
def assignment_bytes(request: Json) -> Json:
    return _protocol(request, ConsumerProtocolAssignment)


def _protocol(request: Json, cls: type[ConsumerProtocolSubscription] | type[ConsumerProtocolAssignment]) -> Json:
    if "hex" in request:
        data = bytes.fromhex(request["hex"])
        try:
            found = decode_subscription(data) if cls is ConsumerProtocolSubscription else decode_assignment(data)
        except DecodeError as problem:
            return _error("SchemaException", problem)
        return {
            "version": found.version,
            "remaining": len(found.trailing),
            "value": to_kafka_json(found.message, min(found.version, 3)),
        }
    version = request.get("version", 3)
    written = encode_protocol(from_json(cls, request.get("value") or {}, version), version)
    return {"hex": written.hex(), "base64": base64.b64encode(written).decode()}


@op("stickyUserData")
def sticky_user_data(request: Json) -> Json:
    cooperative = request.get("assignor", "sticky") == "cooperative-sticky"
    if "hex" in request:
        data = unhex(request["hex"])
        if cooperative:
            read = decode_cooperative_sticky_user_data(data)
            return {"partitions": [], "generation": None if read is None else read.generation}
        sticky = decode_sticky_user_data(data)
        topics = to_kafka_json(sticky, 1)["previousAssignment"]
        partitions = [
            {"topic": topic["topic"], "partition": number} for topic in topics for number in topic["partitions"]
        ]
        return {
            "partitions": partitions,
            "generation": None if _without_generation(data, sticky) else sticky.generation,
        }
    assigned = request.get("partitions")
    generation = request.get("generation", -1) if assigned is not None else -1
    if cooperative:
        return {"hex": user_data.cooperative_user_data(generation).hex()}
    if assigned is None:
        return {"hex": None}
    return {"hex": user_data.sticky_user_data(_topic_partitions(assigned), generation).hex()}


def _without_generation(data: bytes | None, read: StickyAssignorUserData) -> bool:
    """Return whether Kafka has no generation where ours is -1: for no user data or version 0.

    A generation of -1 in Kafka means undecodable user data.
    """
    if not data:
        return True
    return data.startswith(encode_sticky_user_data(read, 0)) and not data.startswith(encode_sticky_user_data(read, 1))


def _topic_partitions(listed: list[Any]) -> list[tuple[str, int]]:
    """Read "topic-0", {"topic", "partition"} or {"topic", "partitions"}, in order."""
    out: list[tuple[str, int]] = []
    for item in listed:
        if isinstance(item, str):
            topic, _, number = item.rpartition("-")
            out.append((topic, int(number)))
        else:
            out += [(item["topic"], number) for number in item.get("partitions", [item.get("partition")])]
    return out


# ---- metadata hash


@op("topicHash")
def topic_hash_(request: Json) -> Json:
    if "partitionRacks" in request:
        return _hash(topic_hash(Uuid.parse(need(request, "topicId")), need(request, "name"), request["partitionRacks"]))
    name, image = need(request, "topic"), request.get("image", {})
    racks = {broker["id"]: broker.get("rack") for broker in image.get("brokers", ())}
    for topic in image.get("topics", ()):
        if topic["name"] == name:
            given = topic["partitions"]
            replicas = [[] for _ in range(given)] if isinstance(given, int) else given
            # The hash ignores brokers that are not registered or have no rack.
            return _hash(
                topic_hash(
                    Uuid.parse(topic["id"]), name, [[racks.get(broker) for broker in replica] for replica in replicas]
                )
            )
    # Kafka's function returns 0 for a missing topic; the coordinator leaves such topics out.
    return _hash(0)


@op("groupHash")
def group_hash_(request: Json) -> Json:
    return _hash(group_hash({topic: int(value) for topic, value in need(request, "topics").items()}))


def _hash(value: int) -> Json:
    return {"hash": value, "hex": f"{value % (1 << 64):016x}"}
