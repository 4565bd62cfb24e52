"""Our declarations equal the JSON schemas inside Kafka's jars, field by field."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.codecs.message import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    FieldSpec,
    Message,
    MessageSpec,
)
from quorate.codecs.messages import RECORD_TYPES, ConsumerProtocolAssignment, ConsumerProtocolSubscription
from quorate.codecs.metadata_records import METADATA_TYPES
from quorate.codecs.tags import OWN_TAG
from quorate.codecs.wire import ArrayType, StructType, Uuid, WireType, default_of
from tests.oracle.fixtures import need_oracle
from tests.oracle.schemas import Schema, SchemaField, facts, kafka_version, schema, schema_names

pytestmark = pytest.mark.oracle

ARTIFACTS = {
    CONSUMER_OFFSETS: "kafka-group-coordinator",
    SHARE_GROUP_STATE: "kafka-share-coordinator",
    TRANSACTION_STATE: "kafka-transaction-coordinator",
}
PROTOCOL = (ConsumerProtocolSubscription, ConsumerProtocolAssignment)

# Struct names have one namespace here, but one per message in Kafka. They are not on the wire.
RENAMED = {
    ("ConsumerProtocolSubscription", "TopicPartition"): "ProtocolTopicPartition",
    ("ConsumerProtocolAssignment", "TopicPartition"): "ProtocolTopicPartition",
    ("ShareGroupCurrentMemberAssignmentValue", "TopicPartitions"): "TopicPartition",
    ("StreamsGroupTargetAssignmentMemberValue", "TaskIds"): "TargetTaskIds",
    ("StreamsGroupTopologyValue", "TopicInfo"): "InternalTopic",
}


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    need_oracle()


def released(release: str | None) -> bool:
    """Return whether the release of the jars is `release` or later."""
    return release is None or _numbers(release) <= _numbers(kafka_version())


def _numbers(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def declared(topic: str) -> dict[str, tuple[int, MessageSpec]]:
    types = RECORD_TYPES[topic].values()
    return {spec.name: (t.type_id, spec) for t in types for spec in (t.key, t.value)}


def type_name(wire: WireType, message: str) -> str:
    if isinstance(wire, ArrayType):
        return f"[]{type_name(wire.element, message)}"
    kafkas = {ours: theirs for (owner, theirs), ours in RENAMED.items() if owner == message}
    return kafkas.get(wire.name, wire.name) if isinstance(wire, StructType) else wire.name


def as_schema_field(field: FieldSpec, message: str, versions: range) -> SchemaField:
    """Return our field in the form of a schema."""
    carried = range(max(field.versions.start, versions.start), min(field.versions.stop, versions.stop))
    inner = field.type.element if isinstance(field.type, ArrayType) else field.type
    fields = inner.spec.fields if isinstance(inner, StructType) else ()
    default = field.default
    if isinstance(default, Uuid):
        default = bytes(default)
    elif isinstance(default, Message) and default == default_of(field.type):
        default = f"<{type_name(field.type, message)}>"
    return SchemaField(
        name=field.json_name,
        type=type_name(field.type, message),
        versions=carried,
        nullable=range(max(carried.start, field.nullable_since), carried.stop) if field.nullable else range(0),
        tag=field.tag,
        default=default,
        ignorable=field.ignorable,
        map_key=field.map_key,
        fields=tuple(as_schema_field(f, message, carried) for f in fields if released(f.release)),
    )


def as_schema(spec: MessageSpec, kind: str, api_key: int | None) -> Schema:
    assert spec.versions is not None
    flexible = (
        range(0)
        if spec.flexible_since is None
        else range(max(spec.flexible_since, spec.versions.start), spec.versions.stop)
    )
    fields = tuple(as_schema_field(f, spec.name, spec.versions) for f in spec.fields if released(f.release))
    return Schema(spec.name, kind, api_key, spec.versions, flexible, fields)


@pytest.mark.parametrize("topic", ARTIFACTS)
def test_declarations_and_schemas_of_the_coordinators_are_the_same_set(topic: str) -> None:
    assert set(declared(topic)) == schema_names(ARTIFACTS[topic])


ALL = [(topic, name) for topic in ARTIFACTS for name in declared(topic)]


@pytest.mark.parametrize(("topic", "name"), ALL, ids=[name for _, name in ALL])
def test_declaration_equals_schema(topic: str, name: str) -> None:
    type_id, spec = declared(topic)[name]
    kind = "coordinator-key" if name.endswith("Key") else "coordinator-value"
    assert facts(as_schema(spec, kind, type_id)) == facts(schema(ARTIFACTS[topic], name))


@pytest.mark.parametrize("type_id", METADATA_TYPES)
def test_metadata_declaration_equals_schema(type_id: int) -> None:
    spec = METADATA_TYPES[type_id].spec
    assert facts(as_schema(spec, "metadata", type_id)) == facts(schema("kafka-metadata", spec.name, "metadata"))


@pytest.mark.parametrize("cls", PROTOCOL)
def test_protocol_declaration_equals_schema(cls: type[Message]) -> None:
    assert facts(as_schema(cls.spec, "data", None)) == facts(schema("kafka-clients", cls.spec.name))


def test_types_without_a_release_are_not_declared() -> None:
    assert set(RECORD_TYPES[CONSUMER_OFFSETS]) == set(range(24)) - {9, 18}


def test_fields_newer_than_the_jars_have_their_release() -> None:
    """The schemas really lack the later fields that the comparison excludes."""
    newer = [
        (topic, spec, f)
        for topic in ARTIFACTS
        for _, spec in declared(topic).values()
        for f in spec.fields
        if not released(f.release)
    ]
    for topic, spec, field in newer:
        known = schema(ARTIFACTS[topic], spec.name).fields
        assert field.json_name not in [f.name for f in known]
        assert field.tag not in [f.tag for f in known]


def tags_of(fields: tuple[SchemaField, ...]) -> list[int]:
    return [tag for f in fields for tag in ([] if f.tag is None else [f.tag]) + tags_of(f.fields)]


def test_tags_of_plug_ins_are_far_from_kafkas() -> None:
    for topic in ARTIFACTS:
        for name in declared(topic):
            assert max(tags_of(schema(ARTIFACTS[topic], name).fields), default=0) < OWN_TAG // 100


def test_only_a_quoted_null_is_a_null_default() -> None:
    """Kafka's generator ignores an unquoted null, as in classic member metadata."""
    members = schema("kafka-group-coordinator", "ConsumerGroupMemberMetadataValue").fields
    streams = schema("kafka-group-coordinator", "StreamsGroupMemberMetadataValue").fields
    assert {f.name: f.default for f in members}["classicMemberMetadata"] == "<ClassicMemberMetadata>"
    assert {f.name: f.default for f in streams}["userEndpoint"] is None


def test_comparison_includes_every_attribute() -> None:
    """A change of any single attribute changes the compared lines."""
    _, spec = declared(CONSUMER_OFFSETS)["ConsumerGroupMemberMetadataValue"]
    whole = as_schema(spec, "coordinator-value", 5)
    field = whole.fields[-1]
    changes: dict[str, Any] = {
        "name": "x",
        "type": "x",
        "versions": range(5),
        "nullable": range(5),
        "tag": 5,
        "default": 5,
        "ignorable": True,
        "map_key": True,
        "fields": (),
    }
    assert set(changes) == set(SchemaField.__dataclass_fields__)
    for fact, value in changes.items():
        changed = replace(whole, fields=(*whole.fields[:-1], replace(field, **{fact: value})))
        assert facts(changed) != facts(whole), fact
    for fact in ("name", "kind", "api_key", "versions", "flexible"):
        other: dict[str, Any] = {fact: range(7)}
        assert facts(replace(whole, **other)) != facts(whole), fact
