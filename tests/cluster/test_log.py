"""What producers can append to a partition, and what consumers see of it (KIP-98)."""

import pytest

from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch, read_batches
from quorate.coordinator.log import AppendError

NOW_MS = 1_700_000_000_000


def batch(count: int = 1, *, at_ms: int = NOW_MS, first: int = 0, **of_batch: object) -> bytes:
    records = [
        BatchRecord(offset=first + index, timestamp_ms=at_ms + index, key=None, value=b"v") for index in range(count)
    ]
    return encode_batch(records, **of_batch)  # type: ignore[arg-type]


def idempotent(sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False) -> bytes:
    return batch(count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)


def append(log: PartitionLog, data: bytes, **options: object) -> int:
    return log.append(data, leader_epoch=3, now_ms=NOW_MS, **options).base_offset  # type: ignore[arg-type]


def bases(log: PartitionLog, offset: int, max_bytes: int, *, until: int, at_least_one: bool = True) -> list[int]:
    """Return the base offsets of the batches in a fetch."""
    found = log.read(offset, max_bytes, until=until, at_least_one=at_least_one)
    return [one.header.base_offset for one in read_batches(found.records)]  # type: ignore[union-attr]


def refused(log: PartitionLog, data: bytes, **options: object) -> ErrorCode:
    before = (log.next_offset, log.size_bytes)
    with pytest.raises(AppendError) as refusal:
        append(log, data, **options)
    assert (log.next_offset, log.size_bytes) == before
    return refusal.value.code


def test_batches_get_the_next_offsets_and_the_leader_epoch() -> None:
    log = PartitionLog()
    assert [append(log, batch(3)), append(log, batch(2, compression="gzip")), log.next_offset] == [0, 3, 5]
    read = list(read_batches(b"".join(one.data for one in log)))
    assert [(one.header.base_offset, one.header.partition_leader_epoch) for one in read] == [(0, 3), (3, 3)]  # type: ignore[union-attr]


def test_log_append_time_sets_the_brokers_time_and_a_correct_crc() -> None:
    log = PartitionLog()
    append(log, batch(2, at_ms=5), append_time=True)
    (read,) = read_batches(next(iter(log)).data)
    assert [record.timestamp_ms for record in read.records()] == [NOW_MS, NOW_MS]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (batch()[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch(control=True), ErrorCode.INVALID_RECORD),
        (batch(last_offset_delta=5), ErrorCode.INVALID_RECORD),
    ],
    ids=["cut off", "damaged", "two", "control", "gaps"],
)
def test_invalid_batches_are_rejected(data: bytes, code: ErrorCode) -> None:
    assert refused(PartitionLog(), data) is code


def test_a_batch_that_is_too_large_is_rejected() -> None:
    assert refused(PartitionLog(), batch(), max_batch_bytes=60) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_duplicate_batch_is_appended_once_and_returns_the_same_offset() -> None:
    log = PartitionLog()
    for sequence in range(5):
        append(log, idempotent(sequence))
    assert [append(log, idempotent(sequence)) for sequence in range(5)] == [0, 1, 2, 3, 4]
    assert log.next_offset == 5
    append(log, idempotent(5))
    assert refused(log, idempotent(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # only five batches are cached


def test_a_sequence_gap_and_an_older_epoch_are_rejected() -> None:
    log = PartitionLog()
    append(log, idempotent(0, 3))
    assert refused(log, idempotent(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, idempotent(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, idempotent(0, epoch=1))
    assert refused(log, idempotent(3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_around_to_0() -> None:
    log = PartitionLog()
    append(log, idempotent(0x7FFFFFFE, 2))
    assert append(log, idempotent(0)) == 2


def test_read_committed_ends_before_the_first_open_transaction() -> None:
    log = PartitionLog()
    append(log, batch())
    append(log, idempotent(0, transactional=True))
    append(log, batch())
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert bases(log, 0, 1 << 20, until=log.last_stable_offset) == [0]
    log.append_marker(7, 0, commit=False, now_ms=NOW_MS, leader_epoch=3)
    assert log.last_stable_offset == 4
    assert log.aborted_between(0, 4) == [(7, 1)]
    assert log.aborted_between(0, 1) == []
    assert refused(log, idempotent(1, epoch=0)[:-1] + b"?") is ErrorCode.CORRUPT_MESSAGE


def test_a_read_returns_whole_batches_and_at_least_one_if_allowed() -> None:
    log = PartitionLog()
    for _ in range(4):
        append(log, batch(10))
    size = len(next(iter(log)).data)
    assert bases(log, 15, 2 * size + 5, until=40) == [10, 20]
    assert bases(log, 15, 1, until=40) == [10]
    assert bases(log, 15, 1, until=40, at_least_one=False) == []


def test_aborted_transactions_are_returned_up_to_the_next_index_entry() -> None:
    """Brokers include transactions after the fetched batches, up to the next index entry."""
    log = PartitionLog(LogConfig(index_interval_bytes=200))
    for _ in range(8):
        append(log, batch(1))
    size = len(next(iter(log)).data)
    assert list(log.active.offsets) == [3, 6]
    for offset, most, until in ((0, 1, 3), (2, 1, 3), (3, 1, 6), (0, 4 * size, 6), (6, 1, 8)):
        assert log.read(offset, most, until=8, at_least_one=True).looked_until == until
    assert log.read(3, 0, until=8, at_least_one=False).looked_until == 3
    assert log.read(3, 1 << 20, until=3, at_least_one=True).looked_until == -1
    log.roll(NOW_MS)
    append(log, batch(1))
    append(log, batch(1))
    assert log.read(7, 1, until=10, at_least_one=True).looked_until == 8


def test_deleted_records_are_removed_by_segment_and_set_the_start_offset() -> None:
    log = PartitionLog()
    size = append(log, batch(10)) or log.size_bytes
    append(log, batch(10))
    log.roll(NOW_MS)
    append(log, batch(10))
    log.delete_before(13)
    assert (log.start_offset, [one.base_offset for one in log], log.size_bytes) == (13, [10, 20], 3 * size)
    log.delete_before(20)
    assert (log.start_offset, [one.base_offset for one in log], log.size_bytes) == (20, [20], size)
    log.delete_before(30)
    assert (log.start_offset, [one.base_offset for one in log], log.size_bytes, log.next_offset) == (30, [], 0, 30)


def test_end_offsets_of_leader_epochs() -> None:
    log = PartitionLog()
    for epoch in (0, 0, 2, 5):
        log.append(batch(), leader_epoch=epoch, now_ms=NOW_MS)
    assert [log.end_of_epoch(epoch, 5) for epoch in (0, 1, 2, 4, 5, 9)] == [
        (0, 2),
        (0, 2),
        (2, 3),
        (2, 3),
        (5, 4),
        (-1, -1),
    ]
    assert PartitionLog().end_of_epoch(1, 0) == (-1, -1)


def test_an_epoch_without_records_begins_at_the_log_end() -> None:
    log = PartitionLog()
    assert [log.end_of_epoch(0, 0), log.epoch_of(0, 0)] == [(0, 0), 0]
    assert [log.end_of_epoch(0, 1), log.end_of_epoch(1, 1), log.epoch_of(0, 1)] == [(0, 0), (1, 0), 1]
    log.append(batch(), leader_epoch=1, now_ms=NOW_MS)
    assert [log.end_of_epoch(one, 3) for one in (1, 2, 3, 4)] == [(1, 1), (1, 1), (3, 1), (-1, -1)]
    assert [log.epoch_of(offset, 3) for offset in (0, 1)] == [1, 3]
    assert log.epochs == [(1, 0)]
