"""Records as text."""

import pytest

from quorate.codecs import RECORD_TYPES, decode_record
from quorate.codecs.log import read_log
from quorate.codecs.record_text import _VALUES, RecordText
from tests.codecs.helpers.captures import PARTITIONS

ALL = [record_type for types in RECORD_TYPES.values() for record_type in types.values()]


def test_every_record_type_has_a_text():
    assert set(_VALUES) == {record_type.value.cls for record_type in ALL}


@pytest.mark.parametrize("captured", PARTITIONS, ids=str)
def test_every_captured_record_has_a_text(captured):
    texts = RecordText()
    for entry in read_log(captured.folder):
        text = texts.what(entry.record)
        assert text
        assert "object at 0x" not in text


def test_states_of_streams_members_are_numbered_from_1():
    texts = texts_of_capture("streams-4.3", "StreamsGroupCurrentMemberAssignment")
    assert any(text.endswith("epoch 2 (previous 0), stable, no assigned tasks") for text in texts)
    assert any(", unreleased tasks, no assigned tasks" in text for text in texts)
    assert any(", unrevoked tasks, assigned 0: 0-1 @3, 1: 0 @3, pending revocation 0: 2 @3," in text for text in texts)


def test_subtopologies_read_source_topics_and_repartition_topics():
    texts = texts_of_capture("streams-4.3", "StreamsGroupTopology")
    assert any("subtopology 0 reads words; subtopology 1 reads " in text for text in texts)
    assert not any("no topics" in text for text in texts)


def texts_of_capture(capture, name):
    texts = RecordText()
    entries = [
        entry
        for partition in PARTITIONS
        if partition.folder.parent.name == capture
        for entry in read_log(partition.folder)
    ]
    return [texts.what(entry.record) for entry in entries if entry.record.name == name and entry.record.value]


def text_of(key, value):
    return RecordText().what(decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value)))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (
            "000100016700017400000003",
            "0003" + f"{1042:016x}" + "00000005" + "0000" + "00" * 8,
            "t-3 → 1,042 (leader epoch 5)",
        ),
        (
            "000100016700017400000003",
            "0003" + f"{7:016x}" + "ffffffff" + "00026d21" + "00" * 8,
            't-3 → 7, metadata "m!"',
        ),
        (
            "000100016700017400000003",
            "0001" + f"{7:016x}" + "0000" + "00" * 8 + f"{1795248000123:016x}",
            "t-3 → 7, expires 2026-11-21 08:00:00.123",
        ),
        ("000100016700017400000003", None, "t-3: tombstone"),
        ("0002000167", None, "tombstone"),
        ("0003000167", "00000000000700", "epoch 7"),
        ("0003000167", "000000000007010008" + "ff" * 8, "epoch 7, metadata hash 0xffffffffffffffff"),
        ("0003000167", "00000000000700beef", "epoch 7 · trailing bytes at byte 7 of the value: beef"),
        ("0003000167", "0000", "truncated in epoch at byte 2 of the value"),
        ("0063", None, "unknown record type at byte 0 of the key: 99"),
        ("0007000167" + "00016d", "0000" + "01" + "00", "m: target assignment empty"),
        (
            "0008000167" + "00016d",
            "0000"
            + "00000005"
            + "00000004"
            + "01"
            + "02"
            + "00" * 16
            + "04"
            + "00000000"
            + "00000001"
            + "00000005"
            + "00"
            + "01"
            + "00",
            "m: epoch 5 (previous 4), unrevoked partitions, assigned AAAAAAAAAAAAAAAAAAAAAA 0-1 5",
        ),
    ],
)
def test_text_of_records(key, value, text):
    assert text_of(key, value) == text
