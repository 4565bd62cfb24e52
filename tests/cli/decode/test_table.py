"""The table of records: widths, transaction markers, problems."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.decode.table import TableLines, cells_of, cut_end, cut_middle
from quorate.codecs import decode_record
from quorate.codecs.batches.model import ControlRecord, ProblemReason
from quorate.codecs.json_lines import HexEntry
from quorate.codecs.log.model import LogProblem
from quorate.codecs.record_text import RecordText
from tests.codecs.helpers.strategies import records


def test_topic_names_are_learnt_from_earlier_records(quorate, upgrade):
    lines = quorate("decode", upgrade / "__consumer_offsets-1", "--format", "table").lines
    target = [line for line in lines if "ConsumerGroupTargetAssignmentMember " in line]
    assert all("clicks.eu " in line and "orders " in line for line in target)


def test_transaction_markers(quorate, transactions):
    lines = quorate("decode", transactions, "--format", "table").lines
    assert any("transaction marker" in line and "COMMIT (coordinator epoch " in line for line in lines)
    assert any("OffsetCommit" in line and "· producer " in line for line in lines)
    assert sum(line.startswith("── ") for line in lines) == 2  # one heading for each topic


@given(st.text(), st.integers(1, 30))
def test_cut_text_has_a_mark_and_fits_its_width(text, width):
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
    assert list(table.lines(problem)) == []  # buffered until there are enough rows for the widths
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


def test_a_narrow_table_has_names_of_types_without_id_and_days_in_headings():
    entry = HexEntry(
        topic="__consumer_offsets", line=1, key_bytes=None, value_bytes=b"", record=decode_record(None, b"")
    )
    lines = [*(table := TableLines(width=80, colour=False, hold=False)).lines(entry), *table.rest()]
    assert lines[0].split() == ["part", "offset", "time", "(UTC)", "id", "group", "what"]
    assert "not a record: null key" in lines[-1]
