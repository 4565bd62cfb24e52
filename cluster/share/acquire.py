"""Acquisition: a member of a share group gets records, and a lock on them (KIP-932, KIP-1206).

New batches are acquired whole, and may exceed the maximum number of records for that. In mode
record-limit (KIP-1206) no more than the maximum is acquired. Records that were released are
acquired first.
"""

from collections.abc import Sequence
from typing import NamedTuple

from quorate.cluster.share.fetched import FetchedBatch, FetchedRecords
from quorate.cluster.share.in_flight import (
    ACQUIRED,
    AVAILABLE,
    NO_MEMBER,
    InFlightBatch,
    InFlightState,
)
from quorate.cluster.share.partition import SharePartition, SharePartitionStatus
from quorate.codecs.lazy_dataclass import dataclass

BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
"""Acquire modes."""

_MIN_THROTTLE_LIMIT = 2


class Acquired(NamedTuple):
    """Acquired offsets, inclusive, and how often they were delivered."""

    first: int
    last: int
    delivery_count: int


@dataclass(slots=True)
class Acquisition:
    """One acquisition of a member, and its result.

    `acquired`: in order; `count`: the number of offsets. `max_records`: how many may be acquired.
    `last_offset`: the last offset that may be acquired. `batch_size`: the number of records after
    which a new batch begins, at the next boundary of the log's batches.
    """

    partition: SharePartition
    member_id: str
    fetched: FetchedRecords
    is_limited: bool
    batch_size: int
    max_records: int
    last_offset: int
    acquired: list[Acquired]
    count: int = 0

    @property
    def left(self) -> int:
        """How many records may still be acquired."""
        return self.max_records - self.count

    def add(self, some: Sequence[Acquired], count: int) -> None:
        """Add acquired offsets."""
        self.acquired += some
        self.count += count


def acquire(
    partition: SharePartition,
    member_id: str,
    fetched: FetchedRecords,
    *,
    mode: int,
    batch_size: int,
    max_records: int,
    fetch_offset: int,
) -> tuple[list[Acquired], int]:
    """Acquire fetched records for a member; return them and their number.

    `fetch_offset`: where the fetch began. Records of aborted transactions are archived.
    """
    none: tuple[list[Acquired], int] = ([], 0)
    if partition.status is not SharePartitionStatus.ACTIVE or max_records <= 0 or not fetched.batches:
        return none
    newest = fetched.batches[-1].last_offset
    if newest < partition.start_offset:
        return none
    last_offset, max_records = _limits(partition, fetch_offset, max_records, newest)
    if max_records <= 0:
        return none
    run = Acquisition(partition, member_id, fetched, mode == RECORD_LIMIT, batch_size, max_records, last_offset, [])
    first = fetched.batches[0].base_offset
    _archive_skipped(partition, fetch_offset, first)
    begin = first
    floor = partition.in_flight.floor(first)
    if floor is None:
        begin = max(first, partition.start_offset)
    elif floor.last >= first:
        begin = floor.first
    if min(first, begin) > last_offset:
        return none
    known = partition.in_flight.between(min(first, begin), last_offset)
    if known:
        _acquire_known(run, known, first, begin)
    else:
        _acquire_new(run, begin, last_offset, max_records)
    if fetched.aborted and run.acquired:
        return _without_aborted(run)
    return run.acquired, run.count


def _limits(partition: SharePartition, fetch_offset: int, max_records: int, newest: int) -> tuple[int, int]:
    """Return the last offset and the number of records that may be acquired.

    With as many records in flight as allowed, only those can be acquired again.
    """
    allowed = min(max_records, partition.configs().partition_max_record_locks - partition.in_flight_count())
    if allowed > 0:
        return newest, allowed
    if fetch_offset > partition.end_offset:
        return newest, allowed
    again = min(max_records, partition.end_offset - fetch_offset + 1)
    return min(newest, partition.end_offset), again


def _archive_skipped(partition: SharePartition, fetch_offset: int, first: int) -> None:
    """Archive available records that the log no longer has: compaction removed their batches."""
    if not partition.in_flight or fetch_offset >= first:
        return
    floor = partition.in_flight.floor(fetch_offset)
    begin = floor.first if floor is not None and floor.last >= fetch_offset else fetch_offset
    skipped = partition.in_flight.between(begin, first - 1)
    if skipped and partition.archive(skipped, fetch_offset, first, AVAILABLE, counts=True):
        partition.find_next = True


def _acquire_known(run: Acquisition, known: Sequence[InFlightBatch], first: int, begin: int) -> None:
    """Acquire records among batches in flight, then new ones after them."""
    partition = run.partition
    gap_start = begin
    for batch in known:
        if run.left <= 0:
            break
        if partition.gap_is_open:
            if gap_start < batch.first:
                _acquire_new(run, gap_start, batch.first - 1, run.left)
            gap_start = batch.last + 1
            if run.left <= 0:
                break
        is_throttled = _must_throttle(partition, batch, first, run.last_offset)
        if is_throttled and run.count:
            run.max_records = 0
            break
        is_partial = not batch.is_inside(first, run.last_offset) or (run.is_limited and batch.size > run.left)
        if batch.whole is not None and not batch.whole.is_free:
            continue
        if is_partial or batch.whole is None or is_throttled:
            partition.split(batch)
            count = _acquire_offsets(run, batch, first)
            if is_throttled and count:
                run.max_records = 0
                break
            continue
        state = batch.whole
        if _take(run, batch.first, batch.last, state, partition.configs().delivery_count_limit):
            run.add((Acquired(batch.first, batch.last, state.delivery_count),), batch.size)
    last = partition.in_flight.between(known[0].first, run.last_offset)[-1].last
    if run.left > 0 and last < run.last_offset:
        _acquire_new(run, last + 1, run.last_offset, run.left)
    if run.acquired:
        partition.close_gap(run.acquired[-1].last + 1)


def _take(run: Acquisition, first: int, last: int, state: InFlightState, limit: int) -> bool:
    """Acquire available offsets; return whether that was possible."""
    if not state.change(ACQUIRED, limit, run.member_id):
        return False
    state.unlock()  # a batch that was split while its release was stored
    state.lock = run.partition.lock(first, last)
    return True


def _acquire_new(run: Acquisition, first: int, last: int, max_records: int) -> None:
    """Acquire offsets that are not in flight, from `first` to `last`."""
    partition = run.partition
    if not partition.in_flight and partition.end_offset > first:
        first = partition.end_offset
    if max_records < last - first + 1:
        end = _end_of_batch(run.fetched.batches, first + max_records - 1)
        last = min(end, last) if partition.gap_is_open else end
    if run.is_limited and last - first + 1 > max_records:
        acquired = [_add_part(run, first, last, first + max_records - 1)]
    else:
        acquired = _add_batches(run, first, last)
    if partition.in_flight.first.first == first:
        partition.start_offset = first
    partition.end_offset = max(partition.end_offset, last)
    if run.is_limited:
        last = acquired[0].last
    partition.close_gap(last + 1)
    run.add(acquired, last - first + 1)


def _end_of_batch(batches: Sequence[FetchedBatch], offset: int) -> int:
    """Return the last offset of the batch that contains an offset, or that offset."""
    containing: FetchedBatch | None = None
    for batch in batches:
        if offset < batch.base_offset:
            break
        containing = batch
    return max(offset, containing.last_offset) if containing is not None else offset


def _add_batches(run: Acquisition, first: int, last: int) -> list[Acquired]:
    """Add new batches of at least `batch_size` records, cut at boundaries of the log's batches."""
    found: list[Acquired] = []
    if not run.is_limited and last - first + 1 > run.batch_size:
        for batch in run.fetched.batches:
            if batch.base_offset > last:
                break
            if batch.base_offset - first >= run.batch_size:
                found.append(Acquired(first, batch.base_offset - 1, 1))
                first = batch.base_offset
    found.append(Acquired(first, last, 1))
    for one in found:
        lock = run.partition.lock(one.first, one.last)
        state = InFlightState(ACQUIRED, 1, run.member_id, lock)
        run.partition.in_flight.add(InFlightBatch(one.first, one.last, state))
    return found


def _add_part(run: Acquisition, first: int, last: int, until: int) -> Acquired:
    """Add a batch of which only offsets up to `until` are acquired."""
    partition = run.partition
    batch = InFlightBatch(first, last, InFlightState(ACQUIRED, 1, run.member_id))
    batch.whole = None
    delay_ms = partition.configs().record_lock_duration_ms
    for offset in range(first, last + 1):
        batch.offsets[offset] = (
            InFlightState(ACQUIRED, 1, run.member_id, partition.lock(offset, offset, delay_ms))
            if offset <= until
            else InFlightState(AVAILABLE, 0, NO_MEMBER)
        )
    partition.find_next = True
    partition.in_flight.add(batch)
    return Acquired(first, until, 1)


def _acquire_offsets(run: Acquisition, batch: InFlightBatch, first: int) -> int:
    """Acquire available offsets of a batch, each for itself; return their number.

    Records that failed often are delivered in smaller numbers: with each delivery above half of the
    limit the number halves, and at the last delivery a record is alone.
    """
    limit = run.partition.configs().delivery_count_limit
    throttled_from = throttle_limit(limit)
    most: int | None = None
    left = run.left
    found: list[Acquired] = []
    for offset, state in batch.offsets.items():
        if offset < first:
            continue
        if offset > run.last_offset:
            break
        if not state.is_free:
            continue
        count = state.delivery_count
        if limit > _MIN_THROTTLE_LIMIT and count == limit - 1 and found:
            break
        if count >= throttled_from and most is None:
            most = max(1, batch.size >> (count - throttled_from + 1))
        if not _take(run, offset, offset, state, limit):
            continue
        found.append(Acquired(offset, offset, state.delivery_count))
        if state.delivery_count == limit and limit > _MIN_THROTTLE_LIMIT:
            break
        if (run.is_limited and len(found) == left) or len(found) == most:
            break
    run.add(_joined(found), len(found))
    return len(found)


def _joined(some: Sequence[Acquired]) -> list[Acquired]:
    """Join consecutive offsets with the same delivery count."""
    joined: list[Acquired] = []
    for one in some:
        if joined and joined[-1].last + 1 == one.first and joined[-1].delivery_count == one.delivery_count:
            joined[-1] = joined[-1]._replace(last=one.last)
        else:
            joined.append(one)
    return joined


def throttle_limit(delivery_count_limit: int) -> int:
    """Return the delivery count from which on fewer records are delivered at once."""
    return max(_MIN_THROTTLE_LIMIT, (delivery_count_limit + 1) // 2)


def _must_throttle(partition: SharePartition, batch: InFlightBatch, first: int, last: int) -> bool:
    """Return whether records of a batch were delivered so often that fewer are acquired."""
    most = 0
    for begin, _, state in batch.states():
        if batch.whole is None and not first <= begin <= last:
            continue
        if state.is_free:
            most = max(most, state.delivery_count)
    return most >= throttle_limit(partition.configs().delivery_count_limit)


def _without_aborted(run: Acquisition) -> tuple[list[Acquired], int]:
    """Archive acquired records of aborted transactions, and leave them out of the result."""
    aborted = run.fetched.aborted_batches()
    partition = run.partition
    for batch in aborted:
        floor = partition.in_flight.floor(batch.base_offset)
        known = partition.in_flight.between(batch.base_offset if floor is None else floor.first, batch.last_offset)
        partition.archive(known, batch.base_offset, batch.last_offset + 1, ACQUIRED, counts=True)
    left = run.acquired
    for batch in aborted:
        left = [part for one in left for part in _cut(one, batch.base_offset, batch.last_offset)]
    return left, sum(one.last - one.first + 1 for one in left)


def _cut(one: Acquired, first: int, last: int) -> list[Acquired]:
    """Return the parts of acquired offsets outside of a range."""
    if one.last < first or last < one.first:
        return [one]
    before, after = one._replace(last=first - 1), one._replace(first=last + 1)
    return [part for part in (before, after) if part.first <= part.last]
