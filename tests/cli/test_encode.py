"""`quorate encode`: input, output and errors."""

import json

import pytest

from quorate.cli import text_input
from quorate.cli.encode import PROTOCOL_MESSAGES
from quorate.codecs import RECORD_TYPES, decode_assignment, decode_subscription, json_records
from quorate.codecs.sticky_user_data import decode_cooperative_sticky_user_data, decode_sticky_user_data

OFFSET = {"type": "OffsetCommit", "key": {"group": "g", "topic": "t", "partition": 1}, "value": {"offset": 7}}
OFFSET_KEY = "0001" + "000167" + "000174" + "00000001"
OFFSET_VALUE = "0004" + "0000000000000007" + "ffffffff" + "01" + "00" * 8 + "00"


def test_missing_fields_get_kafkas_defaults_in_the_version_that_kafka_writes(quorate):
    assert quorate("encode", json.dumps(OFFSET)).out == f"{OFFSET_KEY} {OFFSET_VALUE}\n"


@pytest.mark.parametrize(
    "change",
    [
        {"type": 1},
        {"type": "offsetcommit"},
        {"version": 4},
        {"topic": "__consumer_offsets"},
        {"offset": 5, "partition": 3, "timestamp_ms": 12, "name": "OffsetCommit"},
        {"value": {"offset": 7, "leaderEpoch": -1}},
    ],
)
def test_equivalent_documents_give_the_same_bytes(quorate, change):
    assert quorate("encode", json.dumps(OFFSET | change)).out == f"{OFFSET_KEY} {OFFSET_VALUE}\n"


def test_output_of_kafkas_formatters_is_accepted(quorate):
    value = {"version": 4, "data": {"offset": 7}}
    for name in ("type", "version"):
        form = {"key": {name: 1, "data": OFFSET["key"]}, "value": value}
        assert quorate("encode", json.dumps(form)).out == f"{OFFSET_KEY} {OFFSET_VALUE}\n"


def test_a_null_value_is_a_tombstone(quorate):
    for value in ({"value": None}, {"value": None, "version": None}):
        assert quorate("encode", json.dumps(OFFSET | value)).out == f"{OFFSET_KEY} null\n"


def test_an_older_version(quorate):
    old = OFFSET | {"version": 1, "value": {"offset": 7, "expire_timestamp": 9}}
    assert quorate("encode", json.dumps(old)).out == f"{OFFSET_KEY} 0001{7:016x}0000{0:016x}{9:016x}\n"


def test_input_from_an_argument_a_file_and_a_pipe(quorate, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(OFFSET, indent=2))
    expected = f"{OFFSET_KEY} {OFFSET_VALUE}\n"
    assert quorate("encode", path).out == expected
    assert quorate("encode", "-", stdin=path.read_text()).out == expected
    assert quorate("encode", stdin=path.read_text()).out == expected


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OFFSET) + "\n\n" + json.dumps(OFFSET),
        json.dumps(OFFSET, indent=1) + "\n" + json.dumps(OFFSET, indent=4) + "\n",
        json.dumps(OFFSET, indent=1) + json.dumps(OFFSET),
        json.dumps([OFFSET, OFFSET]),
        json.dumps([OFFSET, OFFSET], indent=2),
    ],
)
def test_several_records_in_any_layout(quorate, text):
    assert quorate("encode", stdin=text).out == f"{OFFSET_KEY} {OFFSET_VALUE}\n" * 2


def test_the_topic_follows_from_type_field_or_option(quorate):
    snapshot = {"type": "ShareSnapshot", "key": {"group_id": "g", "topic_id": "A" * 22, "partition": 0}, "value": None}
    by_name = quorate("encode", json.dumps(snapshot)).out
    assert by_name == "0000" + "000167" + "00" * 16 + "00000000" + " null\n"
    by_number = snapshot | {"type": 0}
    assert quorate("encode", json.dumps(by_number | {"topic": "__share_group_state"})).out == by_name
    assert quorate("encode", json.dumps(by_number), "--topic", "__share_group_state").out == by_name
    assert quorate("encode", json.dumps(by_number)).status == 1


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["--part", "key"], f"{OFFSET_KEY}\n"),
        (["--part", "value"], f"{OFFSET_VALUE}\n"),
        (["--format", "json"], f'{{"key_hex": "{OFFSET_KEY}", "value_hex": "{OFFSET_VALUE}"}}\n'),
        (["--format", "json", "--part", "key"], f'{{"key_hex": "{OFFSET_KEY}"}}\n'),
    ],
)
def test_output_formats(quorate, options, printed):
    assert quorate("encode", json.dumps(OFFSET), *options).out == printed


def test_raw_bytes(start):
    for part, expected in (("key", OFFSET_KEY), ("value", OFFSET_VALUE)):
        done = start("encode", json.dumps(OFFSET), "--format", "raw", "--part", part).communicate()
        assert done == (bytes.fromhex(expected), b"")


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("{", "INPUT, line 1: not JSON: "),
        ("[1]", "INPUT, line 1, element 0: expected an object"),
        ("{}", "INPUT, line 1: key: expected an object"),
        (OFFSET | {"type": "OffsetComit"}, "INPUT, line 1: type: __consumer_offsets has no record type 'OffsetComit'"),
        ({"type": "Nope"}, "INPUT, line 1: type: __consumer_offsets has no record type 'Nope'"),
        ({"type": "OffsetCommit"}, "INPUT, line 1: key: expected an object"),
        (OFFSET | {"type": None}, "INPUT, line 1: type: missing"),
        (OFFSET | {"type": True}, "INPUT, line 1: type: __consumer_offsets has no record type True"),
        (
            OFFSET | {"type": 3, "name": "OffsetCommit"},
            "INPUT, line 1: name: 'OffsetCommit', but type 3 of __consumer_offsets is",
        ),
        (OFFSET | {"topic": "orders"}, "INPUT, line 1: topic: 'orders' is not one of __consumer_offsets"),
        (
            OFFSET | {"version": 5},
            "INPUT, line 1: version: OffsetCommitValue has no version 5; it has versions 0 to 4",
        ),
        (OFFSET | {"version": "4"}, "INPUT, line 1: version: OffsetCommitValue has no version '4'"),
        (OFFSET | {"vlaue": None}, "INPUT, line 1: vlaue: unknown"),
        (
            OFFSET | {"key": {"group": "g", "topc": "t"}},
            "INPUT, line 1: OffsetCommitKey has no field 'topc'; did you mean 'topic'?",
        ),
        (OFFSET | {"value": {"offset": 2**63}}, "INPUT, line 1: OffsetCommitValue.offset: "),
        (OFFSET | {"value": {"offset": "7"}}, "INPUT, line 1: OffsetCommitValue.offset: expected a whole number"),
        (OFFSET | {"key": None}, "INPUT, line 1: key: expected an object"),
        (
            {"type": "GroupMetadata", "key": {"group": "g"}},
            'INPUT, line 1: value: missing; "value": null makes a tombstone',
        ),
        ({"key": {"type": 2, "data": {"group": "g"}}}, "INPUT, line 1: value: missing"),
        ({"error": {"key_hex": "00"}}, "INPUT, line 1: error.value_hex: missing"),
        ("[" * 100_000, "INPUT, line 1: nested too deeply for a record"),
        ('{"a":\n' + "[" * 100_000, "INPUT, line 1: nested too deeply for a record"),
        ('{"type": 2, "value": ' + "9" * 5_000 + "}", "INPUT, line 1: a number has more than 4,300 digits"),
        ('{"type": 2,\n"value": ' + "9" * 5_000 + "}", "INPUT, line 1: a number has more than 4,300 digits"),
        ({"key": {"type": 1, "data": {}}, "value": {"offset": 1}}, 'INPUT, line 1: value: expected {"version": number'),
        (
            {"key": {"type": 1, "data": {}}, "value": None, "x": 1},
            "INPUT, line 1: x: Kafka's form has key and value only",
        ),
        ({"key": {}, "type": 1, "error": {"key_hex": "zz"}}, "INPUT, line 1: error.key_hex: expected hex"),
        (
            {"topic": {"a": 1}, "key": {}, "value": None},
            "INPUT, line 1: topic: {'a': 1} is not one of __consumer_offsets",
        ),
    ],
)
def test_errors_in_the_input_name_line_and_field(quorate, document, complaint):
    ended = quorate("encode", document if isinstance(document, str) else json.dumps(document))
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.splitlines()[0].startswith(f"error: {complaint}")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("/dev/zero", "a line is longer than"),
        ("objects", "without one object per line"),
    ],
)
def test_unlimited_input_is_refused(quorate, monkeypatch, tmp_path, source, complaint):
    """Issue 14: `quorate encode < /dev/zero` used all memory."""
    monkeypatch.setattr(text_input, "MAX_LINE_BYTES", 1_000)
    monkeypatch.setattr(json_records, "MAX_TEXT_BYTES", 1_000)
    if source == "objects":
        source = tmp_path / source
        source.write_text("{\n" * 2_000)
    ended = quorate("encode", str(source))
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {source}")
    assert complaint in ended.err


def test_errors_name_the_line_of_a_pipe(quorate):
    good, bad = json.dumps(OFFSET), json.dumps(OFFSET | {"value": {"offse": 1}})
    ended = quorate("encode", stdin=f"{good}\n\n{bad}\n")
    assert len(ended.lines) == 1
    assert ended.err.startswith(
        "error: standard input, line 3: OffsetCommitValue has no field 'offse'; did you mean 'offset'?"
    )
    ended = quorate("encode", stdin=f"{json.dumps(OFFSET, indent=1)}\n{bad}")
    assert "standard input, line 12: " in ended.err
    assert "standard input, line 2: not JSON" in quorate("encode", stdin=f"{good}\nnonsense\n").err
    assert "standard input, line 1: not UTF-8 text" in quorate("encode", stdin=b"\xff\xfe").err
    assert "standard input: contains no JSON" in quorate("encode", stdin="\n").err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no/such.json"], "no/such.json: cannot be read: No such file or directory"),
        (["{}", "--format", "raw"], "--format raw needs --part"),
        (["{}", "--message-version", "1"], "--message-version needs --message"),
        (["{}", "--message", "Foo"], "--message Foo: unknown message"),
        (["{}", "--message", "ConsumerProtocolSubscription", "--part", "key"], "--part is for records"),
        (
            ["{}", "--message", "ConsumerProtocolSubscription", "--message-version", "4"],
            "INPUT, line 1: version: ConsumerProtocolSubscription has no version 4",
        ),
        (
            ['{"topic": ""}', "--message", "consumerprotocolassignment"],
            "INPUT, line 1: ConsumerProtocolAssignment has no field",
        ),
    ],
)
def test_errors_in_the_options(quorate, arguments, complaint):
    ended = quorate("encode", *arguments)
    assert ended.status == 1
    assert ended.err.startswith(f"error: {complaint}")


def test_protocol_messages(quorate):
    subscription = '{"topics": ["orders"], "rack_id": "a"}'
    hexes = quorate("encode", "--message", "ConsumerProtocolSubscription", subscription).out
    opened = decode_subscription(bytes.fromhex(hexes))
    assert (opened.version, opened.message.topics, opened.message.rack_id) == (3, ("orders",), "a")
    older = quorate(
        "encode", "--message", "ConsumerProtocolSubscription", "--message-version", "1", '{"topics": ["orders"]}'
    ).out
    assert decode_subscription(bytes.fromhex(older)).version == 1
    said = quorate("encode", "--message", "ConsumerProtocolAssignment", '{"version": 2, "assigned_partitions": []}').out
    assert decode_assignment(bytes.fromhex(said)).version == 2


def test_a_subscription_of_version_2_has_a_rack_in_the_form_of_the_kip(quorate):
    subscription = ("--message", "ConsumerProtocolSubscription", '{"topics": ["orders"], "rack_id": "a", "version": 2}')
    kafka, kip = (
        bytes.fromhex(quorate("encode", *subscription, "--subscription-form", form).out)
        for form in ("kafka", "kip-881")
    )
    assert kip == kafka + b"\0\1a"
    ended = quorate("encode", "--subscription-form", "kip-881", '{"type": 0}')
    assert (ended.status, "--subscription-form needs --message ConsumerProtocolSubscription" in ended.err) == (1, True)


def test_user_data_of_the_sticky_assignors_has_no_version(quorate):
    sticky = '{"previous_assignment": [{"topic": "t", "partitions": [1]}], "generation": 5}'
    decoded = decode_sticky_user_data(
        bytes.fromhex(quorate("encode", "--message", "StickyAssignorUserData", sticky).out)
    )
    assert (decoded.generation, decoded.previous_assignment[0].partitions) == (5, (1,))
    cooperative = quorate("encode", "--message", "CooperativeStickyAssignorUserData", '{"generation": 6}').out
    assert decode_cooperative_sticky_user_data(bytes.fromhex(cooperative)).generation == 6


@pytest.mark.parametrize("name", PROTOCOL_MESSAGES)
def test_the_example_of_every_message_can_be_encoded(quorate, name):
    (facts,) = json.loads(quorate("records", name, "--json").out)
    assert quorate("encode", "--message", name, json.dumps(facts["example"])).status == 0


@pytest.mark.parametrize("topic", RECORD_TYPES)
def test_the_example_of_every_type_is_decoded_to_the_same(quorate, topic):
    for type_id, record_type in RECORD_TYPES[topic].items():
        (facts,) = json.loads(quorate("records", type_id, "--topic", topic, "--json").out)
        example = facts["example"]
        assert (example["topic"], example["name"]) == (topic, record_type.name)
        encoded = quorate("encode", json.dumps(example))
        assert encoded.status == 0, encoded.err
        shown = json.loads(quorate("decode", "-", "--topic", topic, stdin=encoded.out).out)
        assert {name: shown[name] for name in ("type", "name", "version", "key", "value")} == {
            name: example[name] for name in ("type", "name", "version", "key", "value")
        }
