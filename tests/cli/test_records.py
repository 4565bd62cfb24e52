"""`quorate records`: the declared record types and fields."""

import json

import pytest

from quorate.cli.encode import PROTOCOL_MESSAGES
from quorate.codecs import RECORD_TYPES

ALL = [record_type for types in RECORD_TYPES.values() for record_type in types.values()]


def test_the_list_has_every_record_type_below_its_topic(quorate):
    lines = quorate("records").lines
    for topic, types in RECORD_TYPES.items():
        start = lines.index(f"── {topic} ──")
        for line, (type_id, record_type) in zip(lines[start + 1 :], sorted(types.items()), strict=False):
            assert line.split()[:2] == [str(type_id), record_type.name]
    assert len(lines) == 1 + len(RECORD_TYPES) + len(ALL)


def test_the_list_of_one_topic(quorate):
    assert len(quorate("records", "--topic", "__share_group_state").lines) == 4


def test_versions_written_and_since(quorate):
    facts = {one["name"]: one for one in json.loads(quorate("records", "--json").out)}
    assert set(facts) == {record_type.name for record_type in ALL}
    assert facts["OffsetCommit"] == {
        "topic": "__consumer_offsets",
        "type": 1,
        "name": "OffsetCommit",
        "versions": [0, 4],
        "written": 4,
        "since": "0.9",
        "note": "",
    }
    assert facts["GroupMetadata"]["written"] == 3
    assert facts["ConsumerGroupPartitionMetadata"]["written"] is None


@pytest.mark.parametrize("record_type", ALL, ids=lambda record_type: record_type.name)
def test_every_field_is_described(quorate, record_type):
    (facts,) = json.loads(quorate("records", record_type.name, "--json").out)
    for part, spec in (("key", record_type.key), ("value", record_type.value)):
        assert [f["name"] for f in facts[part]["fields"]] == [f.name for f in spec.fields]
        assert [f["tag"] for f in facts[part]["fields"]] == [f.tag for f in spec.fields]
    shown = quorate("records", record_type.name).out
    assert all(f" {field.name} " in shown for field in record_type.value.fields)
    for name in (record_type.name.lower(), record_type.key.name, record_type.value.name):
        assert quorate("records", name).out == shown


def test_fields_are_shown_with_versions_tags_and_defaults(quorate):
    def words(name):
        return {
            line.split()[0]: " ".join(line.split()[1:])
            for line in quorate("records", name).lines
            if line.startswith("  ")
        }

    assert words("OffsetCommit") == {
        "group": "string",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "leader_epoch": "int32 versions 3-4 default -1",
        "metadata": "string",
        "commit_timestamp": "int64",
        "expire_timestamp": "int64 version 1 default -1",
        "topic_id": 'uuid version 4 tag 0, default "AAAAAAAAAAAAAAAAAAAAAA", since 4.1',
    }
    member = words("ConsumerGroupMemberMetadata")
    assert member["rack_id"] == "string nullable"
    default = '{"session_timeout_ms": 0, "supported_protocols": []}'
    assert member["classic_member_metadata"] == f"ClassicMemberMetadata nullable, tag 0, default {default}"
    assert words("ConsumerGroupMetadata")["metadata_hash"] == "int64 tag 0, default 0, since 4.1"


def test_fields_of_structs_are_indented_below_theirs(quorate):
    lines = quorate("records", "ConsumerGroupPartitionMetadata").lines
    start = next(index for index, line in enumerate(lines) if line.startswith("  topics"))
    assert [len(line) - len(line.lstrip()) for line in lines[start : start + 7]] == [2, 4, 4, 4, 4, 6, 6]
    (facts,) = json.loads(quorate("records", "4", "--topic", "__consumer_offsets", "--json").out)
    (topics,) = facts["value"]["fields"]
    assert topics["type"] == "[]TopicMetadata"
    assert [f["name"] for f in topics["fields"][-1]["fields"]] == ["partition", "racks"]


def test_an_id_selects_that_type_of_every_topic(quorate):
    assert [one["name"] for one in json.loads(quorate("records", "0", "--json").out)] == [
        "LegacyOffsetCommit",
        "ShareSnapshot",
        "TransactionLog",
    ]


@pytest.mark.parametrize("name", PROTOCOL_MESSAGES)
def test_protocol_messages(quorate, name):
    ended = quorate("records", name)
    assert ended.lines[0] == name
    assert all(f"  {field.name} " in ended.out for field in PROTOCOL_MESSAGES[name].spec.fields)


def test_an_unknown_name_suggests_the_closest_match(quorate):
    ended = quorate("records", "ConsumerGroupMetadat")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(
        "error: unknown record type 'ConsumerGroupMetadat'\n       did you mean ConsumerGroupMetadata"
    )
    assert "in __transaction_state" in quorate("records", "OffsetCommit", "--topic", "__transaction_state").err
