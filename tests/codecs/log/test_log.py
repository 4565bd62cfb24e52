"""Logs in files: finding segments, the order of entries, problems, bounds, and memory."""

import os
import subprocess
import sys
from pathlib import Path

import google_crc32c
import pytest

from quorate.codecs import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    MalformedRecord,
    UnknownRecord,
)
from quorate.codecs.batches import BatchRecord, ProblemReason, TimestampType, encode_batch
from quorate.codecs.log import read_log, read_segment
from quorate.codecs.log.model import LogEntry, LogError, LogProblem
from quorate.codecs.messages import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from tests.codecs.helpers.captures import CAPTURES
from tests.codecs.helpers.segments import batch, damaged, group_epoch, offsets

UPGRADE = CAPTURES / "upgrade-4.0-to-4.3-and-back"
SEGMENT = "00000000000000000000.log"


# ---- entries


def test_entry_has_the_attributes_of_its_batch(write):
    headers = (("trace", b"1"),)
    key, value = group_epoch(5)
    data = encode_batch(
        [
            BatchRecord(offset=7, timestamp_ms=1_700_000_000_000, key=key, value=None),
            BatchRecord(offset=9, timestamp_ms=1_700_000_000_001, key=key, value=value, headers=headers),
        ],
        producer_id=42,
        producer_epoch=3,
        base_sequence=10,
        transactional=True,
        partition_leader_epoch=8,
    )
    _, entry = read_log(write(data, folder="__consumer_offsets-17"))
    assert entry == LogEntry(
        topic=CONSUMER_OFFSETS,
        partition=17,
        offset=9,
        timestamp_ms=1_700_000_000_001,
        timestamp_type=TimestampType.CREATE_TIME,
        producer_id=42,
        producer_epoch=3,
        sequence=12,
        transactional=True,
        partition_leader_epoch=8,
        headers=headers,
        key_bytes=key,
        value_bytes=value,
        record=CoordinatorRecord(
            key=ConsumerGroupMetadataKey(group_id="g"), value=ConsumerGroupMetadataValue(epoch=5), version=0
        ),
    )
    with pytest.raises(AttributeError):
        entry.offset = 1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_entries_of_older_message_formats(write, magic, compression):
    data = batch(3, 4, 5, magic=magic, compression=compression)
    entries = list(read_log(write(data)))
    assert [entry.record.value.epoch for entry in entries] == offsets(entries) == [3, 4, 5]
    assert [entry.timestamp_ms for entry in entries] == ([3000, 4000, 5000] if magic else [-1, -1, -1])
    assert {(entry.producer_id, entry.sequence, entry.transactional) for entry in entries} == {(-1, -1, False)}


def test_undecodable_records_are_entries(write):
    data = encode_batch(
        [
            BatchRecord(offset=0, timestamp_ms=0, key=b"\x00\x63zz", value=b"\x00\x00"),
            BatchRecord(offset=1, timestamp_ms=0, key=group_epoch(1)[0], value=b"\x00\x09"),
            BatchRecord(offset=2, timestamp_ms=0, key=group_epoch(1)[0], value=b"\x00"),
            BatchRecord(offset=3, timestamp_ms=0, key=None, value=b"x"),
        ]
    )
    found = [type(entry.record) for entry in read_log(write(data))]
    assert found == [UnknownRecord, UnknownRecord, MalformedRecord, MalformedRecord]


def test_strict_raises_at_the_first_undecodable_record(write):
    data = batch(0) + encode_batch([BatchRecord(offset=1, timestamp_ms=0, key=b"\x00\x63", value=b"")])
    entries = read_log(write(data), strict=True)
    assert next(entries).offset == 0
    with pytest.raises(LogError, match=r"__consumer_offsets-0, offset 1: unknown record type.* 99"):
        next(entries)


# ---- finding segments


def test_segments_are_read_in_the_order_of_base_offsets(write):
    folder = write(batch(0, 1), batch(100), batch(2000, 2001), bases=[0, 100, 2000])
    assert offsets(read_log(folder)) == [0, 1, 100, 2000, 2001]


def test_other_files_next_to_segments_are_ignored(write):
    folder = write(batch(0))
    for name in (
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000100.log.deleted",
        "00000000000000000200.log.cleaned",
        "00000000000000000000.log.swap",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "copy of 00000000000000000400.log",
    ):
        (folder / name).write_bytes(batch(500))
    assert offsets(read_log(folder)) == [0]


def test_a_segment_that_the_cleaner_has_not_renamed_is_reported(write):
    folder = write(batch(0), batch(100))
    (folder / f"{100:020}.log").rename(folder / f"{100:020}.log.swap")
    problem, entry = read_log(folder)
    assert (problem.reason, problem.path.name) == (ProblemReason.UNREADABLE, f"{100:020}.log.swap")
    assert entry.offset == 0


def test_a_log_directory_is_read_by_topic_and_number(write, tmp_path):
    write(batch(0), folder="__consumer_offsets-10")
    write(batch(1), folder="__consumer_offsets-9")
    write(b"", folder="__share_group_state-0")
    write(b"not a log", folder="orders-0")
    write(batch(3), folder="__consumer_offsets-9.0a1b2c3d-delete")
    (tmp_path / "meta.properties").write_text("version=1\n")
    found = [(entry.topic, entry.partition, entry.offset) for entry in read_log(tmp_path)]
    assert found == [(CONSUMER_OFFSETS, 9, 1), (CONSUMER_OFFSETS, 10, 0)]


@pytest.mark.parametrize(
    ("chosen", "topics"),
    [
        ({}, {CONSUMER_OFFSETS, TRANSACTION_STATE}),
        ({"topics": [TRANSACTION_STATE]}, {TRANSACTION_STATE}),
        ({"topic": CONSUMER_OFFSETS}, {CONSUMER_OFFSETS}),
    ],
)
def test_topics_option_selects_in_a_log_directory(chosen, topics):
    assert {entry.topic for entry in read_log(CAPTURES / "transactions-4.3", **chosen)} == topics


def test_partition_option_selects_in_a_log_directory():
    entries = list(read_log(UPGRADE, partition=2))
    assert entries == list(read_log(UPGRADE / "__consumer_offsets-2"))
    with pytest.raises(LogError, match="folders such as __consumer_offsets-77"):
        read_log(UPGRADE, partition=77)


def test_copied_segment_is_read_as_consumer_offsets_of_an_unknown_partition(tmp_path):
    for name in ("copy.bin", "backup-2024/x.log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(batch(1))
        (entry,) = read_segment(path)
        assert (entry.topic, entry.partition) == (CONSUMER_OFFSETS, None)
    (entry,) = read_log(tmp_path / "backup-2024" / "x.log", topic=SHARE_GROUP_STATE, partition=4)
    assert (entry.topic, entry.partition) == (SHARE_GROUP_STATE, 4)


def test_partition_of_a_mirrored_topic_is_read_from_the_folder_name(write):
    folder = write(batch(1), folder="primary.__consumer_offsets-17")
    (entry,) = read_log(folder, topic=CONSUMER_OFFSETS)
    assert (entry.topic, entry.partition) == (CONSUMER_OFFSETS, 17)


def test_relative_path_is_resolved_to_find_the_partition(monkeypatch):
    monkeypatch.chdir(UPGRADE / "__consumer_offsets-2")
    assert {entry.partition for entry in read_log(SEGMENT)} == {2}
    assert {entry.partition for entry in read_log(".")} == {2}


@pytest.mark.parametrize(
    ("path", "arguments", "message"),
    [
        ("missing", {}, "no such file or folder"),
        (
            "empty",
            {},
            r"no segments; expected 0{20}\.log or the like, or folders such as __consumer_offsets-0 .*it is empty",
        ),
        ("other", {}, r"no segments.*\(it has orders-0, orders-1\)"),
        ("other/orders-0", {}, "is a partition of 'orders', not of a coordinator topic .*topic="),
        ("empty", {"topic": "orders"}, "'orders' is not a coordinator topic"),
        ("empty", {"topics": ["orders"]}, "'orders' is not a coordinator topic"),
        ("empty", {"isolation_level": "serializable"}, "isolation level 'serializable' is not known"),
    ],
)
def test_errors_are_raised_at_the_call_and_name_what_was_expected(tmp_path, path, arguments, message):
    (tmp_path / "empty").mkdir()
    for folder in ("other/orders-0", "other/orders-1"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / SEGMENT).write_bytes(batch(0))
    if "orders-0" in path:
        (tmp_path / "other" / "meta.properties").write_text("version=1\n")
    with pytest.raises(LogError, match=message) as caught:
        read_log(tmp_path / path, **arguments)
    assert caught.value.problem is None


def test_read_segment_requires_a_file(write):
    with pytest.raises(LogError, match="is a folder; read_log reads folders"):
        read_segment(write(batch(0)))


# ---- problems


def test_torn_tail_at_the_end_of_a_partition_is_reported(write):
    whole, torn = batch(0), batch(1, 2, 3)[:100]
    folder = write(whole + torn)
    first, problem = read_log(folder)
    assert first.offset == 0
    assert problem == LogProblem(
        path=folder / SEGMENT,
        topic=CONSUMER_OFFSETS,
        partition=0,
        position=len(whole),
        size_bytes=100,
        reason=ProblemReason.TORN_TAIL,
        detail=f"100 bytes are left at the end of the file; the header says the batch has {len(batch(1, 2, 3))} bytes",
        base_offset=None,
    )
    assert str(problem) == f"{folder / SEGMENT}, position {len(whole)}: {problem.detail}"


def test_truncated_segment_before_another_is_no_torn_tail(write):
    """Brokers write to the last segment only."""
    first, problem, last = read_log(write(batch(0) + batch(1, 2, 3)[:100], batch(100)))
    assert (first.offset, last.offset) == (0, 100)
    assert problem.reason is ProblemReason.CUT_OFF
    assert problem.detail.endswith("; a later segment follows, so no broker was still writing this one")


def test_wrong_crc_ends_its_file_without_skip_corrupt(write):
    folder = write(damaged(batch(0), batch(1), batch(2)), batch(100))
    first, problem, last = read_log(folder)
    assert (first.offset, last.offset) == (0, 100)
    assert (problem.reason, problem.position, problem.base_offset) == (ProblemReason.CRC_MISMATCH, len(batch(0)), 1)
    assert f"its header says {batch(1)[17:21].hex()}" in problem.detail
    skipping = list(read_log(folder, skip_corrupt=True))
    assert [entry.offset for entry in skipping if isinstance(entry, LogEntry)] == [0, 2, 100]
    assert skipping[1] == problem
    entries = read_log(folder, strict=True)
    next(entries)
    with pytest.raises(LogError, match="has CRC") as caught:
        next(entries)
    assert caught.value.problem == problem


def test_undecompressible_batch_is_skipped_alone(write):
    packed = batch(1, 2, compression="gzip")
    broken = bytearray(packed)
    broken[70:] = b"\x00" * len(broken[70:])
    broken[17:21] = google_crc32c.value(bytes(broken[21:])).to_bytes(4)
    first, problem, last = read_log(write(batch(0) + bytes(broken) + batch(3)))
    assert (first.offset, last.offset) == (0, 3)
    assert (problem.reason, problem.base_offset) == (ProblemReason.BAD_COMPRESSION, 1)


def test_decreasing_offsets_are_reported_and_read(write):
    first, problem, again, last = read_log(write(batch(5) + batch(3) + batch(4)))
    assert (first.offset, again.offset, last.offset) == (5, 3, 4)
    assert problem.reason is ProblemReason.OFFSET_ORDER
    assert problem.detail == "the batch begins at offset 3, the one before it ended at 5"


def test_order_of_offsets_is_checked_across_segments(write):
    found = list(read_log(write(batch(0, 150), batch(100))))
    assert [type(entry) for entry in found] == [LogEntry, LogEntry, LogProblem, LogEntry]


def test_deleted_file_is_reported_in_its_position(write):
    folder = write(batch(0), batch(100), batch(200))
    entries = read_log(folder)
    (folder / f"{100:020}.log").unlink()
    first, problem, last = entries
    assert (first.offset, last.offset) == (0, 200)
    assert (problem.reason, problem.path.name) == (ProblemReason.UNREADABLE, f"{100:020}.log")


def test_records_written_after_the_call_are_not_read(write):
    folder = write(batch(0))
    entries = read_log(folder)
    with (folder / SEGMENT).open("ab") as file:
        file.write(batch(1)[:50])
    assert offsets(entries) == [0]


def test_a_file_that_shrinks_is_a_torn_tail(write):
    folder = write(batch(0) + batch(1))
    entries = read_log(folder)
    os.truncate(folder / SEGMENT, len(batch(0)) + 10)
    first, problem = entries
    assert first.offset == 0
    assert (problem.reason, problem.size_bytes) == (ProblemReason.TORN_TAIL, 10)


# ---- bounds


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"start_offset": 3}, [3, 4, 100, 101]),
        ({"start_offset": 100}, [100, 101]),
        ({"end_offset": 3}, [0, 1, 2]),
        ({"start_offset": 1, "end_offset": 101}, [1, 2, 3, 4, 100]),
        ({"since_ms": 3_000}, [3, 4, 100, 101]),
        ({"until_ms": 3_000}, [0, 1, 2]),
        ({"since_ms": 1_000, "until_ms": 100_001}, [1, 2, 3, 4, 100]),
        ({"start_offset": 200}, []),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"magic": 1}, {"magic": 1, "compression": "gzip"}, {"compression": "zstd"}])
def test_offset_bounds_apply_within_batches(write, bounds, expected, fields):
    folder = write(batch(0, 1, **fields) + batch(2, 3, 4, **fields), batch(100, 101, **fields))
    assert offsets(read_log(folder, **bounds)) == expected


def test_segments_before_the_start_offset_are_not_opened(write):
    folder = write(b"rubbish that would be a problem", batch(100))
    assert offsets(read_log(folder, start_offset=100)) == [100]


# ---- what it costs

MEASURE = """
import resource, sys
from quorate.codecs.log import read_log
count = sum(1 for _ in read_log(sys.argv[1], isolation_level="read_committed"))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_log(write):
    """Ten copies of a segment take no more memory than one (`ru_maxrss`, in kilobytes on Linux)."""
    block = b"".join(batch(*range(n, n + 50)) for n in range(0, 20_000, 50))
    once = write(block, folder="once/__consumer_offsets-0")
    often = write(*[block] * 12, folder="often/__consumer_offsets-0", bases=range(12))

    def measure(folder: Path) -> tuple[int, int]:
        command = [sys.executable, "-P", "-c", MEASURE, str(folder)]
        return tuple(map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()))

    (few, small), (many, large) = measure(once), measure(often)
    assert few == 20_000
    assert many > 12 * few
    assert large < small + 8_000


def test_reading_logs_imports_no_heavy_packages():
    heavy = "{'numpy', 'pyarrow', 'kafka', 'construct', 'rich'}"
    code = f"import sys, quorate.codecs.log.entries; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
