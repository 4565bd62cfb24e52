"""All readers return the same for the extreme offsets, timestamps, epochs and producer ids."""

from pathlib import Path
from typing import Any

import pytest

from quorate.codecs import LogEntry, LogProblem, read_log, read_segment, read_tables
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.raw import read_raw
from quorate.coordinator.history import Moment, events
from tests.codecs.helpers.segments import group_epoch
from tests.codecs.log.test_log_columns import by_columns, by_entries

LAST = (1 << 63) - 1
FIRST = -(1 << 63)
TIMES = [FIRST, -2, -1, 0, LAST - 1, LAST]
FOLDER = "__consumer_offsets-3"


def record(offset: int, timestamp_ms: int = 5) -> BatchRecord:
    return BatchRecord(offset=offset, timestamp_ms=timestamp_ms, key=group_epoch(7)[0], value=group_epoch(7)[1])


def segment(tmp_path: Path, *batches: bytes) -> Path:
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


def offsets(entries: Any) -> list[int | None]:
    return [entry.offset if isinstance(entry, LogEntry) else None for entry in entries]


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_largest_offset_is_read(tmp_path: Path, magic: int, compression: str, isolation_level: Any) -> None:
    """Issue 14: `read_log` skipped the record, `read_tables` returned it."""
    stored = [record(offset, -1 if magic == 0 else 5) for offset in (LAST - 1, LAST)]
    folder = segment(
        tmp_path,
        encode_batch([record(0, -1 if magic == 0 else 5)], magic=magic),
        *(encode_batch([one], magic=magic, compression=compression) for one in stored),
    )
    log = folder / f"{0:020}.log"
    assert offsets(read_log(folder, isolation_level=isolation_level)) == [0, LAST - 1, LAST]
    assert offsets(read_segment(log, isolation_level=isolation_level)) == [0, LAST - 1, LAST]
    table = read_tables(folder, isolation_level=isolation_level)["ConsumerGroupMetadata"]
    assert table["log_offset"].to_pylist() == [0, LAST - 1, LAST]
    assert by_columns(folder, isolation_level=isolation_level) == by_entries(folder, isolation_level=isolation_level)
    assert offsets(read_log(folder, start_offset=LAST)) == [LAST]
    assert offsets(read_log(folder, start_offset=1, end_offset=LAST)) == [LAST - 1]
    assert offsets(read_log(folder, since_ms=-1)) == [0, LAST - 1, LAST]
    assert [block.offset.tolist() for block in read_raw(find_partitions(folder)[0])] == [[0, LAST - 1, LAST]]


@pytest.mark.parametrize("log_append_time_ms", [None, FIRST, LAST])
@pytest.mark.parametrize("timestamp_ms", TIMES)
def test_extreme_timestamps_are_read(tmp_path: Path, timestamp_ms: int, log_append_time_ms: int | None) -> None:
    wanted = timestamp_ms if log_append_time_ms is None else log_append_time_ms
    folder = segment(tmp_path, encode_batch([record(5, timestamp_ms)], log_append_time_ms=log_append_time_ms))
    for options in ({}, {"start_offset": 1}, {"end_offset": 6}, {"since_ms": wanted}):
        assert [(e.offset, e.timestamp_ms) for e in read_log(folder, **options) if isinstance(e, LogEntry)] == [
            (5, wanted)
        ]
    assert offsets(read_log(folder, until_ms=wanted)) == []
    assert by_columns(folder) == by_entries(folder)
    # The history of the group has it, too.
    assert [event.timestamp_ms for event in events(read_log(folder))] == [wanted]
    assert len(list(Moment(timestamp_ms=wanted).cut(read_log(folder)))) == 1


@pytest.mark.parametrize("epoch", [-(1 << 31), -2, -1, 0, (1 << 31) - 1])
@pytest.mark.parametrize("producer_id", [FIRST, -2, -1, 0, LAST])
def test_extreme_producer_ids_and_epochs_are_read(tmp_path: Path, epoch: int, producer_id: int) -> None:
    facts: dict[str, Any] = {
        "partition_leader_epoch": epoch,
        "producer_id": producer_id,
        "producer_epoch": max(-(1 << 15), min(epoch, (1 << 15) - 1)),
        "base_sequence": epoch,
    }
    folder = segment(tmp_path, encode_batch([record(0), record(1)], **facts), encode_batch([record(LAST)], **facts))
    found = list(read_log(folder))
    assert [e.partition_leader_epoch for e in found if isinstance(e, LogEntry)] == [epoch] * 3
    assert by_columns(folder) == by_entries(folder)


def test_offsets_after_the_largest_wrap_around_like_java_longs(tmp_path: Path) -> None:
    folder = segment(tmp_path, encode_batch([record(0), record(2)], base_offset=0), b"")
    log = folder / f"{0:020}.log"
    log.write_bytes((LAST - 1).to_bytes(8) + log.read_bytes()[8:])  # the CRC does not cover the base offset
    assert offsets(read_log(folder)) == [LAST - 1, FIRST]
    assert by_columns(folder) == by_entries(folder)


def test_records_after_the_largest_offset_are_out_of_order_for_all_readers(tmp_path: Path) -> None:
    folder = segment(tmp_path, encode_batch([record(LAST)]), encode_batch([record(7)]))
    problems = [entry for entry in read_log(folder) if isinstance(entry, LogProblem)]
    assert [str(problem.reason) for problem in problems] == ["offsets out of order"]
    assert by_columns(folder) == by_entries(folder)
