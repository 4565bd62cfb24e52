"""Scripts have the same responses from quorate and Kafka, and differences are found."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import Uuid, encode_record, to_kafka_json
from quorate.codecs.wire import readable
from tests.codecs.helpers.strategies import KAFKA, damaged, records
from tests.differential.compare import compare
from tests.differential.driver import responses
from tests.extent import portion
from tests.oracle.client import Oracle

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).with_name("codecs.jsonl")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.differential", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)


def send(*lines: str) -> list[dict[str, Any]]:
    return list(responses(lines))


# ---- the command


@pytest.mark.oracle
@pytest.mark.usefixtures("oracle")
def test_sample_script_gives_the_same_responses() -> None:
    done = run(SAMPLE)
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{len(lines)} lines, 0 with differences\n", "")


@pytest.mark.oracle
@pytest.mark.usefixtures("oracle")
def test_differences_are_printed_and_fail(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"op":"groupHash","topics":{"a":1}}\n\n{"op":"commit"}\n')
    done = run(script)
    assert done.returncode == 1
    assert 'line 2: {"op":"commit"}' in done.stdout  # only Kafka's side has this op
    assert '    now\n        ours   "(absent)"\n        kafka  1700000000000\n' in done.stdout
    assert done.stdout.endswith("2 lines, 1 with differences\n")


def test_missing_script_prints_one_line() -> None:
    done = run("no-such.jsonl")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: no-such.jsonl: ")


def test_printing_quorates_responses_needs_no_kafka(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"op":"groupHash","topics":{}}\n{"op":"quit"}\n')
    done = run("--ours", script)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": 1, "op": "groupHash", "hash": 0, "hex": "0000000000000000"},
        {"id": 2, "op": "quit"},
    ]


# ---- generated scripts

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
racks = st.lists(st.none() | texts, max_size=3)
topics = st.sampled_from("abcdefghijklmnopqrstuvwxyz") | texts.filter(bool)


@st.composite
def codec_ops(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Generate ops for a generated record, and one of each other kind."""
    record = draw(records(release=KAFKA))
    key, value = encode_record(record)
    assert key is not None
    version = 0 if record.version is None else record.version
    value_json = None if record.value is None else to_kafka_json(record.value, version)
    broken = value if value is None else draw(damaged(value))
    tags = (
        [] if record.value is None else [{"tag": tag.tag, "hex": tag.data.hex()} for tag in record.value.unknown_tags]
    )
    return [
        {
            "op": "encode",
            "topic": record.topic,
            "type": record.name,
            "version": version,
            "key": to_kafka_json(record.key, 0),
            "value": value_json,
            "unknownTags": tags,
        },
        {"op": "decode", "topic": record.topic, "key": key.hex(), "value": None if value is None else value.hex()},
        {"op": "decode", "topic": record.topic, "key": key.hex(), "value": None if broken is None else broken.hex()},
        {"op": "subscription", "hex": draw(st.binary(max_size=20)).hex()},
        {
            "op": "stickyUserData",
            "partitions": [f"{t}-{n}" for n, t in enumerate(draw(st.lists(topics, max_size=40)))],
            "generation": draw(st.integers(-1, 9)),
        },
        {
            "op": "topicHash",
            "name": draw(texts.filter(bool)),
            "topicId": str(Uuid(draw(st.binary(min_size=16, max_size=16)))),
            "partitionRacks": draw(st.lists(racks, max_size=4)),
        },
        {
            "op": "groupHash",
            "topics": draw(st.dictionaries(texts, st.integers(-(2**63), 2**63 - 1).map(str), max_size=5)),
        },
    ]


@pytest.mark.oracle
@settings(max_examples=portion(300))
@given(ops=codec_ops())
def test_generated_scripts_give_the_same_responses(oracle: Oracle, ops: list[dict[str, Any]]) -> None:
    lines = [json.dumps({"id": number, **op}) for number, op in enumerate(ops)]
    for line, ours, kafka in zip(lines, send(*lines), oracle.exchange(lines), strict=True):
        assert compare(1, ours, kafka) == [], line


# ---- the driver's protocol


def test_ids_are_the_callers_or_numbers_of_lines_that_are_not_blank() -> None:
    got = send(
        '{"op":"groupHash","topics":{}}',
        "",
        '{"op":"groupHash","topics":{},"id":{"any":1}}',
        '{"op":"many","ops":[{"op":"x"}]}',
    )
    assert [response["id"] for response in got] == [1, {"any": 1}, 3]
    assert got[2]["answers"][0]["id"] == "3.0"


def test_invalid_lines_are_driver_errors_and_the_script_continues() -> None:
    bad = [
        *("{", "[]", "5", '{"op":"nope"}', "{}", '{"op":"encode"}', '{"op":"many"}'),
        '{"op":"encode","type":3,"version":9,"value":{}}',
        '{"op":"decode","key":"zz"}',
        '{"op":"decode","topic":"t","key":"00"}',
        '{"op":"topicHash","partitionRacks":[],"name":"t","topicId":"x"}',
    ]
    got = send(*bad, '{"op":"versions"}')
    assert [response["error"]["driver"] for response in got[:-1]] == [True] * len(bad)
    assert got[-1]["kafka"] == "4.4.0"


def test_no_response_follows_quit() -> None:
    assert send('{"op":"quit"}', '{"op":"versions"}') == [{"id": 1, "op": "quit"}]


# ---- the comparison


@pytest.mark.parametrize(
    ("ours", "kafka", "where"),
    [
        ({"v": {"a": [1, {"b": 2}]}}, {"v": {"a": [1, {"b": 3}]}}, "v.a[1].b"),
        ({"v": [1]}, {"v": [1, 2]}, "v[1]"),
        ({"v": None}, {}, "v"),
        ({}, {"v": None}, "v"),
        ({"v": 1}, {"v": True}, "v"),
        ({"v": 0}, {"v": False}, "v"),
        ({"v": "1"}, {"v": 1}, "v"),
        ({"error": {"class": "RuntimeException"}}, {"error": {"class": "UnknownRecordTypeException"}}, "error.class"),
        ({"error": {"driver": True}}, {"error": {"code": 5}}, "error.code"),
        ({"error": {"code": 5, "name": "A"}}, {"error": {"code": 6, "name": "A"}}, "error.code"),
        ({"op": "versions", "kafka": "4.3.1"}, {"op": "versions", "kafka": "4.4.0"}, "kafka"),
        ({"answers": [{"error": {"driver": True}}]}, {"answers": [{}]}, "answers[0].error"),
    ],
)
def test_every_difference_is_found(ours: dict[str, Any], kafka: dict[str, Any], where: str) -> None:
    assert where in [difference.path for difference in compare(1, ours, kafka)]


@pytest.mark.parametrize(
    ("ours", "kafka"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"error": {"driver": True, "message": "x"}}, {"error": {"driver": True, "message": "y", "class": "z"}}),
        (
            {"error": {"code": -1, "class": "RuntimeException"}},
            {"error": {"code": -1, "class": "SchemaException", "cause": "c"}},
        ),
        ({"op": "versions", "kafka": "4.4.0"}, {"op": "versions", "kafka": "4.4.0", "java": "17"}),
    ],
    ids=["order of names", "bad input", "the exception's class", "java's version"],
)
def test_values_that_only_one_side_has_are_ignored(ours: dict[str, Any], kafka: dict[str, Any]) -> None:
    assert compare(1, ours, kafka) == []


# ---- Java


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("ff", "\ufffd"),
        ("c080", "\ufffd" * 2),
        ("eda080", "\ufffd"),
        ("61edb0", "a\ufffd"),
        ("eda08041", "\ufffdA"),
        ("f4908080", "\ufffd" * 4),
        ("c3a9", "é"),
    ],
)
def test_invalid_utf8_is_shown_as_by_java(data: str, shown: str) -> None:
    assert readable(bytes.fromhex(data).decode("utf-8", "surrogateescape")) == shown
