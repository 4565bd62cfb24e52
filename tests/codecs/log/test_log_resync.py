"""Damaged lengths: how they differ from a torn tail, and where reading continues."""

import gzip
import io
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorate.codecs import LogError, LogProblem, read_log
from quorate.codecs.batches import BatchRecord, ProblemReason, encode_batch, read_batches
from quorate.codecs.batches.frames import next_batch


def batch(*offsets: int, **fields: Any) -> bytes:
    return encode_batch([BatchRecord(offset=at, timestamp_ms=0, key=b"k", value=b"v" * 50) for at in offsets], **fields)


def with_length(data: bytes, length: int) -> bytes:
    return data[:8] + length.to_bytes(4, signed=True) + data[12:]


@pytest.fixture
def read(tmp_path):
    """Return a function that reads bytes as a file and returns record offsets and problems."""

    def read(data: bytes, **options: Any) -> tuple[list[int], list[LogProblem]]:
        path = tmp_path / "some.log"
        path.write_bytes(data)
        found = list(read_log(path, **options))
        problems = [entry for entry in found if isinstance(entry, LogProblem)]
        return [entry.offset for entry in found if not isinstance(entry, LogProblem)], problems

    return read


# ---- what is not a torn tail


def test_length_over_the_limit_and_the_file_is_no_torn_tail(read):
    data = batch(0) + with_length(batch(1), 500_000_000)
    offsets, (problem,) = read(data)
    assert offsets == [0]
    assert problem.reason is ProblemReason.TOO_LARGE
    assert problem.detail == (
        "the header says the batch has 500,000,012 bytes; the limit is 134,217,728, "
        f"and only {len(batch(1))} are left in the file"
    )


def test_length_beyond_the_file_before_whole_batches_is_damage(read):
    data = batch(0) + with_length(batch(1), 9_000_000) + batch(2) + batch(3)
    offsets, (problem,) = read(data)
    assert (offsets, problem.reason) == ([0], ProblemReason.BAD_LENGTH)
    assert (problem.position, problem.size_bytes) == (len(batch(0)), 3 * len(batch(0)))
    assert problem.detail.endswith(f"a whole batch begins {len(batch(1))} bytes later, at {2 * len(batch(0))}")


@pytest.mark.parametrize("left", [17, 61, 100])
def test_tail_that_does_not_begin_like_a_batch_is_no_torn_tail(read, left):
    spoiled = bytearray(batch(1, 2))
    spoiled[16] = 7
    offsets, (problem,) = read(batch(0) + bytes(spoiled[:left]))
    assert (offsets, problem.reason) == ([0], ProblemReason.BAD_LENGTH)
    assert problem.detail.endswith("; its magic would be 7")


# ---- other files


OTHERS = {
    "gzip": gzip.compress(batch(0) * 20),
    "jpeg": bytes.fromhex("ffd8ffe000104a46494600010100000100010000") + Random(1).randbytes(5_000),
    "text": b"Nov 21 12:14:15 broker-1 kafka: started\n" * 30,
    "short text": b"hello",
    "one byte": b"x",
    "png": bytes.fromhex("89504e470d0a1a0a0000000d49484452") + Random(2).randbytes(500),
    "a possible length": b"UU\0\0\0\0\0\0" + (100).to_bytes(4) + Random(3).randbytes(500),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_file_that_is_no_log_is_reported(read, kind):
    offsets, (problem,) = read(OTHERS[kind])
    assert (offsets, problem.reason, problem.position) == ([], ProblemReason.NOT_A_LOG, 0)
    assert problem.detail.startswith("this is not a log segment, or its beginning is damaged")
    assert ("it is gzip-compressed, decompress it first" in problem.detail) == (kind == "gzip")
    _, problems = read(OTHERS[kind], skip_corrupt=True)
    assert problems[0].reason is ProblemReason.NOT_A_LOG


@pytest.mark.parametrize("data", [b"", b"\0", bytes(5_000)], ids=["empty", "a zero", "zeros"])
def test_empty_and_preallocated_files_are_valid_logs(read, data):
    assert read(data) == ([], [])


def test_log_with_a_damaged_first_length_is_read(read):
    offsets, (problem,) = read(with_length(batch(0), -3) + batch(1))
    assert (offsets, problem.reason) == ([], ProblemReason.BAD_LENGTH)


# ---- a beginning that is missing


@pytest.mark.parametrize("cut", [1, 7, 12, 16, 30, 61, 70, 110])
def test_file_without_its_first_bytes_is_not_read_as_one_large_batch(read, cut):
    data = (batch(3, 4) + batch(5) + batch(6))[cut:]
    first = len(batch(3, 4)) - cut
    offsets, (problem,) = read(data)
    assert (offsets, problem.reason) == ([], ProblemReason.NO_BEGINNING)
    assert (problem.position, problem.size_bytes, problem.rest_lost) == (0, len(data), False)
    assert problem.detail == (
        "the file does not begin with a batch, its first bytes are missing or overwritten; "
        f"the first whole batch begins at {first}, with offset 5"
    )
    offsets, (problem,) = read(data, skip_corrupt=True)
    assert (offsets, problem.reason, problem.size_bytes) == ([5, 6], ProblemReason.NO_BEGINNING, first)


@pytest.mark.parametrize("magic", [2, 3])
@pytest.mark.parametrize("length", [14, 100, 700])
def test_wrong_length_does_not_skip_whole_batches(read, length, magic):
    """The length ends inside the file. Only the offset before it shows that it is wrong."""
    garbage = b"UU" + bytes(6) + length.to_bytes(4) + bytes([0, 0, 0, 0, magic]) + Random(6).randbytes(40)
    offsets, (problem,) = read(garbage + b"".join(batch(at) for at in range(9)), skip_corrupt=True)
    assert (offsets, problem.reason) == ([*range(9)], ProblemReason.NO_BEGINNING)
    assert problem.size_bytes == len(garbage)


def test_valid_batch_with_an_unlikely_offset_is_read(read):
    offsets, problems = read(b"\x01" + batch(0)[1:])
    assert (offsets, problems) == ([1 << 56], [])
    offsets, (problem,) = read(b"\x80" + batch(0)[1:] + batch(1))
    assert problem.reason is ProblemReason.BAD_RECORDS


# ---- continuing after damage


@pytest.mark.parametrize("length", [-1, 0, 13, 9_000_000, 2**31 - 1])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_skip_corrupt_continues_at_the_next_batch_with_a_valid_crc(read, length, magic):
    bad = with_length(batch(1, magic=magic), length)
    crc_too = bytearray(batch(2))
    crc_too[-1] ^= 1
    data = batch(0) + bad + bytes(crc_too) + batch(3) + with_length(batch(4), length) + batch(5)
    offsets, (first, second) = read(data, skip_corrupt=True)
    assert offsets == [0, 3, 5]
    assert (first.position, first.size_bytes) == (len(batch(0)), len(bad) + len(crc_too))
    assert (second.size_bytes, second.rest_lost) == (len(batch(4)), False)


def test_batches_far_after_the_damage_are_found(read):
    """The search covers several blocks of the file, and batches across blocks."""
    big = encode_batch([BatchRecord(offset=9, timestamp_ms=0, key=None, value=bytes(3_000_000))])
    data = batch(0) + with_length(batch(1), -1) + Random(4).randbytes(2_500_000) + big + batch(10)
    offsets, (problem,) = read(data, skip_corrupt=True)
    assert (offsets, problem.size_bytes) == ([0, 9, 10], len(batch(1)) + 2_500_000)


def test_rest_of_the_file_is_lost_without_another_batch(read):
    data = batch(0) + with_length(batch(1), -1) + Random(5).randbytes(3_000)
    offsets, (problem,) = read(data, skip_corrupt=True)
    assert (offsets, problem.rest_lost) == ([0], True)
    assert problem.size_bytes == len(data) - len(batch(0))


def test_markers_after_the_damage_end_transactions(read):
    def open_at(offset: int) -> bytes:
        return batch(offset, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)

    data = batch(0) + with_length(batch(1), -1) + open_at(2) + batch(3)
    offsets, _ = read(data, skip_corrupt=True, isolation_level="read_committed")
    assert offsets == [0]


def test_search_time_is_bounded_with_many_false_headers():
    one = with_length(batch(0), 900_000)[:61]
    posing = one * 60_000
    started = time.thread_time()  # not wall time: other processes use the machine, too
    assert next_batch(posing, 0, io.BytesIO(b""), len(posing)) is None
    assert time.thread_time() - started < 5


def test_read_batches_continues_after_damage():
    whole, problem, following = read_batches(batch(0) + with_length(batch(1), -1) + batch(2), skip_corrupt=True)
    assert (whole.header.base_offset, problem.reason, following.header.base_offset) == (0, ProblemReason.BAD_LENGTH, 2)


# ---- folders


def test_empty_path_is_rejected():
    with pytest.raises(LogError, match="the path is empty"):
        read_log("")
    for path in (None, 5, b"kafka-logs"):
        with pytest.raises(TypeError, match=f"path={path!r}: give the path of a segment file"):
            read_log(path)


def test_a_folder_that_cannot_be_read_does_not_stop_the_others(tmp_path, monkeypatch):
    for number in range(3):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(batch(number))
    closed = tmp_path / "__consumer_offsets-1"
    iterdir = Path.iterdir

    def raising(path: Path) -> Iterator[Path]:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", raising)
    first, problem, last = read_log(tmp_path)
    assert (first.offset, last.offset) == (0, 2)
    assert (problem.reason, problem.path, problem.partition) == (ProblemReason.UNREADABLE, closed, 1)
    assert problem.detail == "the folder cannot be read: Permission denied"


@pytest.mark.parametrize("kind", ["compressed", "folder", "link"])
@pytest.mark.parametrize("inside", [False, True])
def test_what_stands_for_a_segment_and_is_none_is_a_problem(tmp_path, kind, inside):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(batch(0))
    (folder / "00000000000000000000.log.gz").write_bytes(b"a copy")
    path = folder / "00000000000000000007.log"
    match kind:
        case "compressed":
            path = path.with_name(path.name + ".gz")
            path.write_bytes(gzip.compress(batch(7)))
            detail = "the file is compressed; decompress it first"
        case "folder":
            path.mkdir()
            detail = "a folder has the name of a segment"
        case "link":
            path.symlink_to("nowhere")
            detail = "is a link to nowhere, which does not exist"
    problem, entry = read_log(folder if inside else tmp_path)
    assert (problem.reason, problem.path, problem.detail) == (ProblemReason.UNREADABLE, path, detail)
    assert entry.offset == 0
