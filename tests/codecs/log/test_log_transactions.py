"""Isolation levels for transactions in logs."""

from io import BytesIO
from random import Random

import pytest

from quorate.codecs.batches import BatchRecord, ControlRecord, ProblemReason, encode_batch, encode_marker
from quorate.codecs.batches.frames import frames
from quorate.codecs.log import read_log, read_segment
from quorate.codecs.log.block_reader import transactions_in
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.transactions import scan
from tests.codecs.helpers.segments import batch, damaged, marker, offsets, transactional

LOG = b"".join(
    [
        batch(0),
        transactional(1, 1, 2),
        transactional(2, 3),
        marker(1, 4, commit=False),
        transactional(1, 5),
        marker(2, 6, commit=True),
        marker(1, 7, commit=True),
        batch(8),
    ]
)
OPEN = transactional(3, 9) + batch(10) + transactional(4, 11) + marker(4, 12, commit=True)


def test_read_uncommitted_returns_all_records_and_markers(write):
    entries = list(read_log(write(LOG + OPEN)))
    assert offsets(entries) == list(range(13))
    assert [(entry.offset, entry.record.name) for entry in entries if isinstance(entry.record, ControlRecord)] == [
        (4, "ABORT"),
        (6, "COMMIT"),
        (7, "COMMIT"),
        (12, "COMMIT"),
    ]
    assert offsets(read_log(write(LOG), control_records=False)) == [0, 1, 2, 3, 5, 8]


def test_read_committed_skips_aborted_transactions(write):
    """The producer's later, committed transaction is returned."""
    assert offsets(read_log(write(LOG), isolation_level="read_committed")) == [0, 3, 5, 8]
    with_markers = read_log(write(LOG), isolation_level="read_committed", control_records=True)
    assert offsets(with_markers) == [0, 3, 4, 5, 6, 7, 8]


def test_read_committed_ends_at_the_last_stable_offset(write):
    """As for a consumer, records after the start of an open transaction are not returned."""
    assert offsets(read_log(write(LOG + OPEN), isolation_level="read_committed")) == [0, 3, 5, 8]
    ended = OPEN + marker(3, 13, commit=True)
    assert offsets(read_log(write(LOG + ended), isolation_level="read_committed")) == [0, 3, 5, 8, 9, 10, 11]


def test_transactions_can_span_segments(write):
    folder = write(transactional(1, 0), batch(100), marker(1, 200, commit=False) + batch(201))
    assert offsets(read_log(folder, isolation_level="read_committed")) == [100, 201]
    assert offsets(read_log(folder, isolation_level="read_committed", start_offset=100)) == [100, 201]
    (entry,) = read_segment(folder / f"{100:020}.log", isolation_level="read_committed")
    assert entry.offset == 100


def test_transactions_are_tracked_by_partition(write, tmp_path):
    write(transactional(1, 0) + marker(1, 1, commit=False), folder="__consumer_offsets-0")
    write(transactional(1, 0) + marker(1, 1, commit=True), folder="__consumer_offsets-1")
    entries = list(read_log(tmp_path, isolation_level="read_committed"))
    assert [(entry.partition, entry.offset) for entry in entries] == [(1, 0)]


def test_batch_emptied_by_compaction_begins_no_transaction(write):
    """The log cleaner keeps the empty batch for its sequence number, and may remove its marker."""
    emptied = encode_batch([], base_offset=0, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert offsets(read_log(write(emptied + batch(1)), isolation_level="read_committed")) == [1]


def test_damaged_marker_ends_no_transaction(write):
    folder = write(damaged(transactional(1, 0), marker(1, 1, commit=True), batch(2)))
    (problem,) = read_log(folder, isolation_level="read_committed", skip_corrupt=True)
    assert problem.reason is ProblemReason.CRC_MISMATCH


def test_aborted_batches_may_be_compressed(write):
    log = transactional(1, 0, compression="zstd") + marker(1, 1, commit=False) + transactional(1, 2, compression="lz4")
    assert offsets(read_log(write(log + marker(1, 3, commit=True)), isolation_level="read_committed")) == [2]


def test_problem_after_the_last_stable_offset_is_reported(write):
    folder = write(batch(0) + transactional(1, 1) + batch(2)[:30])
    entry, problem = read_log(folder, isolation_level="read_committed")
    assert (entry.offset, problem.reason) == (0, ProblemReason.TORN_TAIL)


# ---- the index of transactions, read by batch and by block


def any_batch(random: Random, offset: int) -> tuple[bytes, int]:
    """Return a random batch and its number of offsets.

    It has data or a marker of one of four producers, or is another control batch, or is damaged.
    """
    producer = {"producer_id": random.randrange(4), "producer_epoch": 0}
    kind = random.choice(("marker", "compressed marker", "leader change", "emptied", "damaged", "data", "data", "data"))
    if kind in ("marker", "damaged"):
        data = encode_marker(commit=random.random() < 0.5, offset=offset, timestamp_ms=0, **producer)
        return (data[:-1] + bytes([data[-1] ^ 1]) if kind == "damaged" else data), 1
    if kind == "emptied":
        return encode_batch([], base_offset=offset, last_offset_delta=0, transactional=True, **producer), 1
    if kind in ("compressed marker", "leader change"):
        key = bytes((0, 0, 0, 2 if kind == "leader change" else random.randrange(2)))
        records = [BatchRecord(offset=offset, timestamp_ms=0, key=key, value=bytes(6))]
        compression = "gzip" if kind == "compressed marker" else "none"
        return encode_batch(records, compression=compression, transactional=True, control=True, **producer), 1
    count = random.randrange(1, 4)
    records = [BatchRecord(offset=offset + delta, timestamp_ms=0, key=b"k", value=b"v") for delta in range(count)]
    return encode_batch(records, base_sequence=0, transactional=random.random() < 0.8, **producer), count


@pytest.mark.parametrize("seed", range(25))
def test_transaction_index_is_equal_by_batch_and_by_block(write, seed):
    random, log, offset = Random(seed), b"", 0
    for _ in range(random.randrange(1, 120)):
        data, count = any_batch(random, offset)
        log, offset = log + data, offset + count
    expected = scan(frames(BytesIO(log), len(log)))
    (partition,) = find_partitions(write(log))
    for block_bytes in (300, 1 << 20):
        assert transactions_in(partition, skip_corrupt=False, block_bytes=block_bytes) == expected
