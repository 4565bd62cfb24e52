"""Records in words, and the table that they stand in."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.decode.table import TableLines, cells_of, cut_end, cut_middle
from quorate.codecs import RECORD_TYPES, decode_record
from quorate.codecs.batches.model import ControlRecord, ProblemReason
from quorate.codecs.json_lines import HexEntry
from quorate.codecs.log import read_log
from quorate.codecs.log.model import LogProblem
from quorate.codecs.printable import brief_id, printable, spans, time_text
from quorate.codecs.record_text import _VALUES, RecordText
from tests.codecs.captures import PARTITIONS
from tests.codecs.strategies import records

ALL = [record_type for types in RECORD_TYPES.values() for record_type in types.values()]


def test_every_record_type_has_its_words():
    assert set(_VALUES) == {record_type.value.cls for record_type in ALL}


@pytest.mark.parametrize("captured", PARTITIONS, ids=str)
def test_every_record_of_every_capture_can_be_told(captured):
    words = RecordText()
    for entry in read_log(captured.folder):
        said = words.what(entry.record)
        assert said
        assert "object at 0x" not in said


def told(key, value):
    return RecordText().what(decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value)))


@pytest.mark.parametrize(
    ("key", "value", "said"),
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
        ("0007000167" + "00016d", "0000" + "01" + "00", "m: shall have nothing"),
        (
            "0008000167" + "00016d",
            "0000"
            + "00000005"
            + "00000004"
            + "01"
            + "02"
            + "00" * 16
            + "04"
            + "00000000" * 1
            + "00000001"
            + "00000005"
            + "00"
            + "01"
            + "00",
            "m: epoch 5 (was 4), unrevoked, has AAAAAAAAAAAAAAAAAAAAAA 0-1 5",
        ),
    ],
)
def test_words(key, value, said):
    assert told(key, value) == said


def test_topic_names_are_learnt_from_records_that_have_them(quorate, upgrade):
    lines = quorate("decode", upgrade / "__consumer_offsets-1", "--format", "table").lines
    target = [line for line in lines if "ConsumerGroupTargetAssignmentMember " in line]
    assert all("clicks.eu " in line and "orders " in line for line in target)


def test_transaction_markers(quorate, transactions):
    lines = quorate("decode", transactions, "--format", "table").lines
    assert any("transaction marker" in line and "COMMIT (coordinator epoch " in line for line in lines)
    assert any("OffsetCommit" in line and "· producer " in line for line in lines)
    assert sum(line.startswith("── ") for line in lines) == 2  # one heading for each topic


@pytest.mark.parametrize(
    ("items", "text"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([5, 0, 2, 1], "0-2 5"), ([1, 3, 5, 6], "1 3 5-6")]
)
def test_partitions_as_spans(items, text):
    assert spans(items) == text


def test_times_outside_of_the_calendar_are_numbers():
    assert time_text(0) == "1970-01-01 00:00:00.000"
    assert time_text(-1) == "1969-12-31 23:59:59.999"
    assert time_text(2**63 - 1) == str(2**63 - 1)


def test_only_what_can_be_printed_is():
    assert printable("a\x00\x1b[0m\u200b\ue000é日") == r"a\x00\x1b[0m\u200b\ue000é日"
    assert printable("\udcff") == r"\udcff"


# ---- the table


@given(st.text(), st.integers(1, 30))
def test_text_is_cut_to_its_width_and_never_without_a_mark(text, width):
    for cut in (cut_end(text, width), cut_middle(text, width)):
        assert cells_of(cut) <= width
        assert cut == text or "…" in cut


def test_both_ends_of_an_identifier_are_kept():
    assert cut_middle("ConsumerGroupTargetAssignmentMetadata", 20) == "ConsumerGroup…tadata"
    assert cut_end("ConsumerGroupTargetAssignmentMetadata", 20) == "ConsumerGroupTarget…"
    assert cut_middle("日本語日本語日本語", 9) == "日本語…語"


@given(st.lists(records(), min_size=1, max_size=5), st.integers(60, 200))
def test_no_row_is_wider_than_the_terminal(found, width):
    table = TableLines(width=width, colour=False, hold=False)
    for number, record in enumerate(found, 1):
        entry = HexEntry(topic=record.topic, line=number, key_bytes=b"", value_bytes=None, record=record)
        for line in "\n".join(table.lines(entry)).split("\n"):
            assert cells_of(line) <= width
            assert line.isprintable()


def test_problems_and_markers_of_any_kind_have_a_row():
    table = TableLines(width=None, colour=False)
    problem = LogProblem(
        path=Path("logs/x.log"),
        topic="__consumer_offsets",
        partition=None,
        position=12345,
        size_bytes=5,
        reason=ProblemReason.TORN_TAIL,
        detail="5 bytes are left",
        base_offset=None,
    )
    assert list(table.lines(problem)) == []  # it waits for others, to find good widths
    assert list(table.rest())[-1].split() == [
        "torn",
        "tail",
        "x.log",
        "position",
        "12,345:",
        "5",
        "bytes",
        "are",
        "left",
    ]
    unknown = ControlRecord(
        type_id=None, name="UNKNOWN", version=None, coordinator_epoch=None, key_bytes=b"", value_bytes=None
    )
    assert RecordText().what(unknown) == "UNKNOWN"


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ("xfgFzHx6Rs+m234T6Qszjw", "xfgFzHx6…"),
        ("consumer-1-0f9d1f3a-5a6e-4f0e-9d8e-0123456789ab", "consumer-1-0f9d1f3a…"),
        ("a-member-of-22-letters", "a-member-of-22-letters"),
        ("worker-1", "worker-1"),
    ],
)
def test_of_generated_member_ids_the_beginning_tells_them_apart(text, brief):
    assert brief_id(text) == brief


def test_a_narrow_table_names_types_that_have_no_number_and_days_in_headings():
    entry = HexEntry(
        topic="__consumer_offsets", line=1, key_bytes=None, value_bytes=b"", record=decode_record(None, b"")
    )
    lines = [*(table := TableLines(width=80, colour=False, hold=False)).lines(entry), *table.rest()]
    assert lines[0].split() == ["part", "offset", "time", "(UTC)", "id", "group", "what"]
    assert "not a record: null key" in lines[-1]
