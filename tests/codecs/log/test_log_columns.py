"""Segments read as columns and entry by entry have the same records and problems."""

import threading
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import (
    CoordinatorRecord,
    LogProblem,
    as_kafka_reads,
    encode_record,
    extension,
    read_columns,
    read_log,
    read_tables,
)
from quorate.codecs.batches.model import BatchRecord, ControlRecord
from quorate.codecs.batches.writer import encode_batch
from quorate.codecs.columnar.schema import PROBLEMS
from quorate.codecs.log.batch_starts import batch_starts
from quorate.codecs.log.blocks import CRC_BYTES
from quorate.codecs.log.columns import CONTROL_RECORDS
from quorate.codecs.log.crc import all_intact
from quorate.codecs.log.model import LogError
from quorate.codecs.messages import OffsetCommitKey, OffsetCommitValue
from tests.codecs.columnar.test_columns import columns_of, problem_of
from tests.codecs.helpers.captures import CAPTURES, PARTITIONS
from tests.extent import is_full, portion

Rows = dict[str, list[Any]]

HOW = [
    (block_bytes, use_threads, isolation_level)
    for block_bytes, use_threads in ((16 << 20, True), (3000, True), (3000, False))
    for isolation_level in ("read_uncommitted", "read_committed")
]
"""Size of blocks, threads, and isolation level; `make test` has each pair of values, and two
of them for each capture.
"""
if not is_full():
    HOW = [HOW[0], HOW[1], HOW[2], HOW[5]]


@pytest.fixture(params=["C", "Python"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read blocks with the loops in C, and with those in Python."""
    if request.param == "Python":
        monkeypatch.setattr(extension, "_extension", None)
    elif extension.extension() is None:
        pytest.skip("installed without a compiler")


def facts(problem: LogProblem) -> tuple[Any, ...]:
    return problem.path.name, problem.position, problem.size_bytes, problem.reason, problem.detail, problem.base_offset


def by_entries(path: Path, **options: Any) -> tuple[Rows, list[Any]]:
    rows: Rows = {}
    problems = []
    for entry in read_log(path, **options):
        if isinstance(entry, LogProblem):
            problems.append(facts(entry))
            continue
        log = (entry.topic, entry.partition, entry.offset, entry.timestamp_ms, entry.producer_id, entry.transactional)
        record = entry.record
        if isinstance(record, ControlRecord):
            rows.setdefault(CONTROL_RECORDS, []).append((*log, record.name, record.key_bytes, record.value_bytes))
            continue
        readable = as_kafka_reads(record)
        if readable is not None:
            rows.setdefault(readable.name, []).append((*log, without_row(columns_of(readable, 0))))
        if record.problem is not None:
            found = problem_of(record, 0, entry.key_bytes, entry.value_bytes)
            rows.setdefault(PROBLEMS, []).append((*log, without_row(found)))
    return rows, sorted(problems, key=str)


@cache
def entries_of(capture: Path, isolation_level: str, in_c: bool) -> tuple[Rows, list[Any]]:
    """Return the entries of a capture; `in_c`: what read them."""
    return by_entries(capture, isolation_level=isolation_level)


def by_columns(path: Path, **options: Any) -> tuple[Rows, list[Any]]:
    rows: Rows = {}
    problems = []
    for block in read_columns(path, **options):
        problems += [facts(problem) for problem in block.problems]
        for name, batch in block.batches.items():
            batch.validate(full=True)
            for row in batch.to_pylist():
                log = (
                    block.topic,
                    *(
                        row.pop(f"log_{fact}")
                        for fact in ("partition", "offset", "timestamp_ms", "producer_id", "transactional")
                    ),
                )
                own = (row["name"], row["key"], row["value"]) if name == CONTROL_RECORDS else (row,)
                rows.setdefault(name, []).append((*log, *own))
    return rows, sorted(problems, key=str)


def without_row(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name != "row"}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    ("capture", "block_bytes", "use_threads", "isolation_level"),
    [
        pytest.param(capture, *how, id="-".join(map(str, (capture.name, *how))))
        for number, capture in enumerate(sorted({p.folder.parent for p in PARTITIONS}))
        for how in (HOW if is_full() else HOW[1:3] if number % 2 else HOW[::3])
    ],
)
def test_captured_log_directories_have_equal_columns_and_entries(
    capture: Path, block_bytes: int, use_threads: bool, isolation_level: str
) -> None:
    found = by_columns(capture, block_bytes=block_bytes, use_threads=use_threads, isolation_level=isolation_level)
    assert found == entries_of(capture, isolation_level, extension.extension() is not None)


def test_reading_can_stop_after_any_block() -> None:
    threads = set(threading.enumerate())
    for most in (1, 3):
        blocks = read_columns(CAPTURES / "consumer-4.3", block_bytes=2000)
        for _, _ in zip(range(most), blocks, strict=False):
            pass
        blocks.close()  # type: ignore[attr-defined]  # a generator
    assert not set(threading.enumerate()) - threads  # threads of other tests may end


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(portion(60)))
def test_damaged_segments_have_equal_columns_and_entries(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    source = random.choice([segment for p in PARTITIONS for segment in p.segments])
    data = bytearray(source.read_bytes() * random.choice([1, 1, 2, 15]))
    for _ in range(random.choice([0, 1, 2, 5])):
        at = random.randrange(len(data) or 1)
        match random.randrange(6):
            case 0:
                del data[at:]
            case 1 if data:
                data[at] = random.randrange(256)
            case 2:
                data[at : at + random.randint(1, 30)] = random.randbytes(random.randint(0, 30))
            case 3:
                data += bytes(random.choice([3, 100, 100_000]))
            case 4:
                data += random.randbytes(random.randint(1, 100))
            case 5 if data:
                data[at] ^= 1 << random.randrange(8)
    folder = tmp_path / source.parent.name
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(data)
    options: dict[str, Any] = {
        "skip_corrupt": random.random() < 0.7,
        "isolation_level": random.choice(["read_uncommitted", "read_committed"]),
    }
    block_bytes = random.choice([16 << 20, 1000, 5000, 50_000])
    assert by_columns(folder, block_bytes=block_bytes, **options) == by_entries(folder, **options), f"seed {seed}"


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("cut", [1, 5, 16, 19, 40, 61, 99, 100, 143, 200])
@pytest.mark.parametrize("skip_corrupt", [False, True])
def test_segments_without_their_first_bytes_have_equal_columns_and_entries(
    cut: int, skip_corrupt: bool, tmp_path: Path
) -> None:
    source = CAPTURES / "upgrade-4.0-to-4.3-and-back" / "__consumer_offsets-1" / f"{0:020}.log"  # 14 kB
    folder = tmp_path / source.parent.name
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(source.read_bytes()[cut:])
    entries = by_entries(folder, skip_corrupt=skip_corrupt)
    for block_bytes in (1000, 16 << 20):
        assert by_columns(folder, skip_corrupt=skip_corrupt, block_bytes=block_bytes) == entries


def commits(count: int, random: Random) -> list[BatchRecord]:
    out = []
    for i in range(count):
        key = OffsetCommitKey(
            group=f"g{random.randrange(5)}", topic="t" * random.randint(1, 90), partition=random.randrange(9)
        )
        value = OffsetCommitValue(offset=i, metadata="m" * random.choice([0, 0, 7, 200, 9000]), commit_timestamp=i)
        raw = encode_record(CoordinatorRecord(key=key, value=value, version=4))
        out.append(
            BatchRecord(offset=i, timestamp_ms=1_700_000_000_000 + random.randrange(10**6), key=raw[0], value=raw[1])
        )
    return out


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("per_batch", [1, 3, 70, 900])
def test_batches_of_any_size_and_compression(per_batch: int, compression: str, tmp_path: Path) -> None:
    records = commits(1000, Random(per_batch))
    folder = tmp_path / "__consumer_offsets-4"
    folder.mkdir()
    parts = [records[i : i + per_batch] for i in range(0, len(records), per_batch)]
    (folder / "00000000000000000000.log").write_bytes(
        b"".join(encode_batch(part, compression=compression) for part in parts)
    )
    rows, problems = by_columns(folder)
    assert problems == []
    assert len(rows["OffsetCommit"]) == len(records)
    assert (rows, problems) == by_entries(folder)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_message_formats_and_record_headers_may_be_mixed(magic: int, tmp_path: Path) -> None:
    records = commits(40, Random(magic))
    with_headers = [
        BatchRecord(
            offset=r.offset,
            timestamp_ms=r.timestamp_ms,
            key=r.key,
            value=r.value,
            headers=(("h", b"1"), ("n", None)) if i % 3 else (),
        )
        for i, r in enumerate(records)
    ]
    parts = [
        encode_batch(records[:10], magic=magic),
        encode_batch(with_headers[10:30]),
        encode_batch(records[30:], compression="gzip"),
    ]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(b"".join(parts))
    rows, problems = by_columns(segment)
    assert len(rows["OffsetCommit"]) == 40
    assert (rows, problems) == by_entries(segment)


def test_tables_of_a_whole_capture() -> None:
    tables = read_tables(CAPTURES / "upgrade-4.0-to-4.3-and-back", dictionary=True)
    assert tables["ConsumerGroupPartitionMetadata"].column("tombstone").to_pylist().count(True) > 0
    frame = tables["OffsetCommit"].to_pandas()
    assert set(frame["group"]) >= {"ship-orders", "legacy-rr"}
    assert frame["log_partition"].nunique() > 1


def test_tables_of_a_damaged_log_are_rejected_without_skip_corrupt(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    good = [encode_batch([record]) for record in commits(3, Random(1))]
    segment.write_bytes(good[0] + good[1][:-1] + b"\xff" + good[2])
    with pytest.raises(LogError, match=r"(?s)CRC.*skip_corrupt=True"):
        read_tables(segment)
    assert read_tables(segment, skip_corrupt=True)["OffsetCommit"].column("log_offset").to_pylist() == [0, 2]


def test_tables_of_a_log_with_a_torn_tail_are_read(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    good = [encode_batch([record]) for record in commits(3, Random(1))]
    segment.write_bytes(b"".join(good)[:-5])
    assert read_tables(segment)["OffsetCommit"].num_rows == 2


@pytest.mark.usefixtures("loops")
def test_decompressed_data_is_read_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.codecs.log.blocks.ARENA_BYTES", 20_000)
    records = commits(600, Random(2))
    segment = tmp_path / "00000000000000000000.log"
    parts = [encode_batch(records[i : i + 20], compression=("zstd", "none", "gzip")[i % 3]) for i in range(0, 600, 20)]
    segment.write_bytes(b"".join(parts))
    blocks = list(read_columns(segment))
    assert len(blocks) > 10
    assert by_columns(segment) == by_entries(segment)


@pytest.mark.usefixtures("loops")
def test_batch_of_many_records_is_read_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment of 1,361 bytes with two million records took 1.26 GB of memory (issue 14)."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    batch = encode_batch(commits(2_500, Random(1)), compression="zstd")
    (folder / f"{0:020}.log").write_bytes(batch)
    whole = read_tables(folder)
    monkeypatch.setattr("quorate.codecs.log.columns._RECORDS_AT_ONCE", 1_000)
    rows = [sum(one.num_rows for one in block.batches.values()) for block in read_columns(folder)]
    assert rows == [1_000, 1_000, 500]
    assert read_tables(folder) == whole


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("max_batch_bytes", [150, 1000])
def test_batches_larger_than_the_limit_end_the_file(max_batch_bytes: int) -> None:
    for partition in PARTITIONS[:12]:
        assert by_columns(partition.folder, max_batch_bytes=max_batch_bytes) == by_entries(
            partition.folder, max_batch_bytes=max_batch_bytes
        )


# ---- the pieces


BODY = [*range(256), *[0] * 256, *[2] * 256]
"""Bytes of batches, many of value 2, which look like the magic byte of a batch."""


def frames(random: Random, count: int, longest: int) -> tuple[bytes, list[int]]:
    out = bytearray()
    starts = []
    for i in range(count):
        starts.append(len(out))
        body = bytes(random.choices(BODY, k=random.randint(49, longest)))
        out += i.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body[:4] + b"\x02" + body[5:]
    return bytes(out), starts


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(("count", "longest"), [(1, 60), (63, 80), (5000, 90), (3000, 700), (200, 9000)])
@pytest.mark.parametrize("seed", range(2))
def test_batch_search_equals_reading_one_by_one(count: int, longest: int, seed: int) -> None:
    block, starts = frames(Random(seed), count, longest)
    found, end = batch_starts(block)
    assert found.tolist() == starts
    assert end == len(block)
    found, end = batch_starts(block[:-1])
    assert found.tolist() == starts[:-1]
    assert end == starts[-1]


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("seed", range(5))
def test_invalid_length_ends_the_search(seed: int) -> None:
    random = Random(seed)
    block, starts = frames(random, 4000, 90)
    bad = random.randrange(len(starts))
    damaged = bytearray(block)
    damaged[starts[bad] + 8 : starts[bad] + 12] = random.choice(
        [b"\xff\xff\xff\xff", b"\x00\x00\x00\x0d", b"\x7f\xff\xff\xff"]
    )
    found, end = batch_starts(bytes(damaged))
    assert found.tolist() == starts[:bad]
    assert end == starts[bad]


@given(
    sizes=st.lists(st.integers(0, 400) | st.sampled_from([4095, 4096, 4097, 60_000]), min_size=1, max_size=40),
    before=st.integers(0, 100),
    after=st.integers(0, 100),
    seed=st.integers(0, 1 << 32),
)
@settings(max_examples=portion(150))
def test_one_computation_checks_all_crcs(sizes: list[int], before: int, after: int, seed: int) -> None:
    random = Random(seed)
    bodies = [random.randbytes(size) for size in sizes]
    block = bytearray(random.randbytes(before))
    starts, ends = [], []
    for body in bodies:
        starts.append(len(block))
        block += random.randbytes(21) + body
        ends.append(len(block))
    block += random.randbytes(after)
    start, end = np.array(starts), np.array(ends)
    claimed = np.array([google_crc32c.value(body) for body in bodies], dtype=np.uint32)
    assert all_intact(bytes(block), start, end, claimed, 21)

    which = random.randrange(len(sizes))
    wrong = claimed.copy()
    wrong[which] ^= np.uint32(1 << random.randrange(32))
    assert not all_intact(bytes(block), start, end, wrong, 21)
    if sizes[which]:
        block[random.randrange(starts[which] + 21, ends[which])] ^= 1 << random.randrange(8)
        assert not all_intact(bytes(block), start, end, claimed, 21)


@pytest.mark.usefixtures("loops")
def test_batches_longer_than_the_crc_block_are_checked(tmp_path: Path) -> None:
    record = commits(1, Random(5))[0]
    big = BatchRecord(offset=0, timestamp_ms=0, key=record.key, value=(record.value or b"") + bytes(CRC_BYTES))
    segment = tmp_path / "00000000000000000000.log"
    data = encode_batch([big]) + encode_batch(
        [BatchRecord(offset=1, timestamp_ms=0, key=record.key, value=record.value)]
    )
    segment.write_bytes(data)
    assert by_columns(segment) == by_entries(segment)
    segment.write_bytes(data[:CRC_BYTES] + b"\x01" + data[CRC_BYTES + 1 :])
    assert by_columns(segment)[1]
    assert by_columns(segment) == by_entries(segment)
