"""Reading of arbitrary files ends without exceptions, and both readers return the same.

Every test run has a limited number of examples; `make fuzz` runs longer.
"""

from pathlib import Path

import google_crc32c
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.codecs import decode_record
from quorate.codecs.batches import Batch, BatchProblem, BatchRecord, control_record, read_batches
from quorate.codecs.log import read_segment
from quorate.codecs.log.model import LogEntry, LogProblem
from tests.codecs.helpers.batch_strategies import batches
from tests.codecs.helpers.captures import PARTITIONS
from tests.extent import portion

SEGMENTS = [segment.read_bytes() for captured in PARTITIONS for segment in captured.segments]
LIMIT = 1 << 20

few = settings(max_examples=portion(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
many = settings(max_examples=20_000, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def broken_segments(draw: st.DrawFn) -> bytes:
    """Generate random bytes, captured segments and generated batches, with damage.

    Sometimes the CRC of the first batch is corrected, so that the damage passes the check.
    """
    kind = draw(st.sampled_from(["noise", "real", "real", "generated"]))
    if kind == "noise":
        return draw(st.binary(max_size=300))
    if kind == "generated":
        data = bytearray(b"".join(one.data for one in draw(st.lists(batches(), min_size=1, max_size=3))))
    else:
        segment = draw(st.sampled_from(SEGMENTS))
        first = draw(st.integers(0, 4))
        starts = [batch.header.position for batch in read_batches(segment)][first : first + 6]
        data = bytearray(segment[starts[0] : starts[-1]] if len(starts) > 1 else segment[:500])
    for _ in range(draw(st.integers(0, 4))):
        if not data:
            break
        at = draw(st.integers(0, min(len(data) - 1, 300)) | st.integers(0, len(data) - 1))
        length = draw(st.integers(1, 20))
        match draw(st.sampled_from(["set", "set", "flip", "cut", "insert", "repeat", "end", "zero"])):
            case "set":
                data[at] = draw(st.integers(0, 255))
            case "flip":
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + length]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=20))
            case "repeat":
                data[at:at] = data[at : at + length]
            case "end":
                del data[at:]
            case "zero":
                data[at : at + length] = bytes(len(data[at : at + length]))
    if draw(st.booleans()) and len(data) > 61 and data[16] == 2:
        end = min(len(data), max(61, 12 + int.from_bytes(data[8:12], signed=True)))
        data[17:21] = google_crc32c.value(bytes(data[21:end])).to_bytes(4)
    return bytes(data)


def check_batches(data: bytes) -> None:
    """Check that positions increase within the data, and that a batch or problem is at its end."""
    position = 0
    stopped = list(read_batches(data, max_batch_bytes=LIMIT))
    skipping = list(read_batches(data, max_batch_bytes=LIMIT, skip_corrupt=True))
    assert skipping[: len(stopped) - 1] == stopped[:-1]
    if stopped and isinstance(stopped[-1], BatchProblem):
        # Lost bytes end with the file without skip_corrupt, and at the next batch with it.
        assert skipping[len(stopped) - 1].position == stopped[-1].position
    else:
        assert skipping == stopped
    for found in skipping:
        at, size = (
            (found.header.position, found.header.size_bytes)
            if isinstance(found, Batch)
            else (found.position, found.size_bytes)
        )
        assert at == position
        assert 0 < size <= len(data) - at
        position += size
        if isinstance(found, Batch):
            assert found.data == data[at : at + size]
            *records, last = [None, *found.records()]
            assert all(isinstance(record, BatchRecord) for record in records[1:])
            assert last is None or isinstance(last, BatchRecord | BatchProblem)
    assert not data[position:].strip(b"\x00")


def check_entries(data: bytes, path: Path) -> None:
    """Check that `read_segment` returns the records of `read_batches`."""
    path.write_bytes(data)
    expected = []
    for batch in read_batches(data, max_batch_bytes=LIMIT, skip_corrupt=True):
        if isinstance(batch, BatchProblem):
            expected.append((batch.position, batch.reason))
            continue
        for record in batch.records():
            if isinstance(record, BatchProblem):
                expected.append((record.position, record.reason))
                continue
            decode = control_record if batch.header.control else decode_record
            meaning = decode(record.key, record.value)
            facts = (record.offset, record.timestamp_ms, record.sequence, record.headers, record.key, record.value)
            expected.append((*facts, batch.header.producer_id, meaning))
    ours = []
    for entry in read_segment(path, max_batch_bytes=LIMIT, skip_corrupt=True):
        if isinstance(entry, LogEntry):
            facts = (
                entry.offset,
                entry.timestamp_ms,
                entry.sequence,
                entry.headers,
                entry.key_bytes,
                entry.value_bytes,
            )
            ours.append((*facts, entry.producer_id, entry.record))
        elif entry.reason != "offsets out of order":
            ours.append((entry.position, entry.reason))
    assert ours == expected
    committed = list(read_segment(path, max_batch_bytes=LIMIT, isolation_level="read_committed"))
    assert all(isinstance(entry, LogEntry | LogProblem) for entry in committed)


@few
@given(data=broken_segments())
def test_reading_batches_never_raises(data):
    check_batches(data)


@few
@given(data=broken_segments())
def test_reading_segments_never_raises_and_agrees(tmp_path, data):
    check_entries(data, tmp_path / "some.log")


@pytest.mark.fuzz
@many
@given(data=broken_segments())
def test_reading_batches_for_longer(data):
    check_batches(data)


@pytest.mark.fuzz
@many
@given(data=broken_segments())
def test_reading_segments_for_longer(tmp_path, data):
    check_entries(data, tmp_path / "some.log")


@pytest.mark.parametrize("captured", [p for p in PARTITIONS if p.partition == 0], ids=str)
def test_segment_cut_at_any_byte_has_whole_batches_and_a_torn_tail(captured):
    """The rest after the last whole batch is one torn tail."""
    segment = captured.segments[0].read_bytes()[:1_500]
    whole = [batch for batch in read_batches(segment) if isinstance(batch, Batch)]
    ends = [0, *(batch.header.position + batch.header.size_bytes for batch in whole)]
    for cut in range(len(segment)):
        found = list(read_batches(segment[:cut]))
        whole = [one for one in found if isinstance(one, Batch)]
        assert len(whole) == sum(0 < end <= cut for end in ends)
        left = cut - ends[len(whole)]
        if segment[ends[len(whole)] : cut].strip(b"\x00"):
            (problem,) = found[len(whole) :]
            assert (problem.reason, problem.size_bytes) == ("torn tail", left)
