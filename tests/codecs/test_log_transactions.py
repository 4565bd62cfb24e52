"""What becomes of transactions when logs are read."""

from quorate.codecs.batches import ControlRecord, ProblemReason, encode_batch
from quorate.codecs.log import read_log, read_segment
from tests.codecs.segments import batch, damaged, marker, offsets, transactional

# ---- transactions

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


def test_read_uncommitted_gives_everything_with_the_markers(write):
    entries = list(read_log(write(LOG + OPEN)))
    assert offsets(entries) == list(range(13))
    assert [(entry.offset, entry.record.name) for entry in entries if isinstance(entry.record, ControlRecord)] == [
        (4, "ABORT"),
        (6, "COMMIT"),
        (7, "COMMIT"),
        (12, "COMMIT"),
    ]
    assert offsets(read_log(write(LOG), control_records=False)) == [0, 1, 2, 3, 5, 8]


def test_read_committed_leaves_out_aborted_transactions(write):
    """Only that one: the producer's later transaction was committed."""
    assert offsets(read_log(write(LOG), isolation_level="read_committed")) == [0, 3, 5, 8]
    with_markers = read_log(write(LOG), isolation_level="read_committed", control_records=True)
    assert offsets(with_markers) == [0, 3, 4, 5, 6, 7, 8]


def test_read_committed_ends_where_the_first_open_transaction_begins(write):
    """As a consumer does: even what was committed behind it waits (the last stable offset)."""
    assert offsets(read_log(write(LOG + OPEN), isolation_level="read_committed")) == [0, 3, 5, 8]
    done = OPEN + marker(3, 13, commit=True)
    assert offsets(read_log(write(LOG + done), isolation_level="read_committed")) == [0, 3, 5, 8, 9, 10, 11]


def test_transactions_run_across_segments(write):
    folder = write(transactional(1, 0), batch(100), marker(1, 200, commit=False) + batch(201))
    assert offsets(read_log(folder, isolation_level="read_committed")) == [100, 201]
    assert offsets(read_log(folder, isolation_level="read_committed", start_offset=100)) == [100, 201]
    (entry,) = read_segment(folder / f"{100:020}.log", isolation_level="read_committed")
    assert entry.offset == 100


def test_partitions_have_their_own_transactions(write, tmp_path):
    write(transactional(1, 0) + marker(1, 1, commit=False), folder="__consumer_offsets-0")
    write(transactional(1, 0) + marker(1, 1, commit=True), folder="__consumer_offsets-1")
    entries = list(read_log(tmp_path, isolation_level="read_committed"))
    assert [(entry.partition, entry.offset) for entry in entries] == [(1, 0)]


def test_a_batch_that_compaction_emptied_opens_no_transaction(write):
    """The cleaner keeps it for the producer's sequence number, and may have removed its marker already."""
    emptied = encode_batch([], base_offset=0, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert offsets(read_log(write(emptied + batch(1)), isolation_level="read_committed")) == [1]


def test_a_damaged_marker_settles_nothing(write):
    folder = write(damaged(transactional(1, 0), marker(1, 1, commit=True), batch(2)))
    (problem,) = read_log(folder, isolation_level="read_committed", skip_corrupt=True)
    assert problem.reason is ProblemReason.CRC_MISMATCH


def test_compressed_transactions(write):
    log = transactional(1, 0, compression="zstd") + marker(1, 1, commit=False) + transactional(1, 2, compression="lz4")
    assert offsets(read_log(write(log + marker(1, 3, commit=True)), isolation_level="read_committed")) == [2]


def test_a_problem_behind_the_last_stable_offset_is_still_reported(write):
    folder = write(batch(0) + transactional(1, 1) + batch(2)[:30])
    entry, problem = read_log(folder, isolation_level="read_committed")
    assert (entry.offset, problem.reason) == (0, ProblemReason.TORN_TAIL)
