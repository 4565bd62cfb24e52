"""`SharePartition`: the records of one partition that one share group has in flight (KIP-932).

It has no I/O: the clock, the store of its state and the group's configs are handed in. Other
modules of this package acquire and acknowledge records. State changes of acquired records are
stored first, and rolled back if that fails.

The module is longer than others, because all operations must agree on the same few offsets.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import NamedTuple

from quorate.cluster.clock import Clock
from quorate.cluster.share.in_flight import (
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    TERMINAL,
    InFlight,
    InFlightBatch,
    InFlightState,
    RecordState,
)
from quorate.cluster.share.locks import AcquisitionLock
from quorate.cluster.share.store import (
    DELIVERED_TOO_OFTEN,
    DONE,
    NO_DEAD_LETTERS,
    NO_OFFSET,
    REJECTED,
    DeadLetters,
    ShareConfigs,
    ShareError,
    ShareOutcome,
    StateStore,
    StoredState,
    stored_error,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.share_state import StateBatch
from quorate.coordinator.results import Pending


class SharePartitionStatus(Enum):
    """Whether the state of the share-partition is loaded."""

    EMPTY = "empty"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"


@dataclass(slots=True)
class GapWindow:
    """Offsets without stored state between stored batches, while they are the newest in flight.

    They were acquired by a former leader, and never finished. `start`: the first such offset that
    was not fetched again.
    """

    end: int
    start: int


class Transition(NamedTuple):
    """A state that changes, and what is stored of it. `cause`: if it becomes a dead letter."""

    state: InFlightState
    stored: StateBatch
    cause: str = DELIVERED_TOO_OFTEN


class SharePartition:
    """The state of a partition for a share group.

    `name`: for messages. `leader_epoch`: that of the partition when this was created. `store`:
    reads and writes the state. `configs`: returns the group's configs. `reset_offset`: returns the
    start offset of a new group (`share.auto.offset.reset`); may raise `ShareError`. `on_change`:
    called when waiting fetches may find more records. `dead_letters`: the group's queue of them.

    `start_offset`: the first offset that is not finished. `end_offset`: the last offset that was
    fetched, or the next one to fetch if nothing is in flight.
    """

    def __init__(
        self,
        name: str,
        leader_epoch: int,
        clock: Clock,
        store: StateStore,
        configs: Callable[[], ShareConfigs],
        reset_offset: Callable[[], int],
        on_change: Callable[[], object] = lambda: None,
        dead_letters: DeadLetters = NO_DEAD_LETTERS,
    ) -> None:
        self.name = name
        self.leader_epoch = leader_epoch
        self.clock = clock
        self._store = store
        self.configs = configs
        self.status = SharePartitionStatus.EMPTY
        self.start_offset = 0
        self.end_offset = 0
        self.state_epoch = 0
        self.in_flight = InFlight()
        self.gap: GapWindow | None = None
        self.find_next = False
        self.delivery_complete_count = 0
        self._reset_offset = reset_offset
        self._on_change = on_change
        self.dead_letters = dead_letters
        self._held: list[Callable[[], None]] | None = None

    # ---- loading

    def initialize(self) -> Pending[ShareOutcome]:
        """Load the stored state, unless that was done already."""
        loaded: Pending[ShareOutcome] = Pending()
        if self.status is SharePartitionStatus.EMPTY:
            self.status = SharePartitionStatus.INITIALIZING
            self._store.read(self.leader_epoch).on_complete(lambda stored: loaded.complete(self._load(stored)))
        else:
            loaded.complete(self._not_loaded())
        return loaded

    def _not_loaded(self) -> ShareOutcome:
        match self.status:
            case SharePartitionStatus.ACTIVE:
                return DONE
            case SharePartitionStatus.FAILED:
                return ShareOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, f"Share partition failed to load {self.name}")
            case SharePartitionStatus.FENCED:
                return ShareOutcome(ErrorCode.LEADER_NOT_AVAILABLE, f"Share partition is fenced {self.name}")
        return ShareOutcome(ErrorCode.LEADER_NOT_AVAILABLE, f"Share partition is already initializing {self.name}")

    def _load(self, stored: StoredState) -> ShareOutcome:
        if self.status is SharePartitionStatus.FENCED:
            return self._not_loaded()
        try:
            archiving = self._take(stored)
        except ShareError as error:
            self.status = SharePartitionStatus.FAILED
            return error.outcome
        self.status = SharePartitionStatus.ACTIVE
        limit = self.configs().delivery_count_limit
        self._bury([one if one.stored.delivery_count >= limit else one._replace(cause=REJECTED) for one in archiving])
        return DONE

    def _take(self, stored: StoredState) -> list[Transition]:
        """Take the stored state; return what a former leader was archiving. Raises `ShareError`."""
        if stored.outcome.code:
            raise ShareError(*stored_error(stored.outcome))
        self.start_offset = self._reset_offset() if stored.start_offset == NO_OFFSET else stored.start_offset
        self.state_epoch = stored.state_epoch
        gap_start, last = NO_OFFSET, self.start_offset - 1
        archiving: list[Transition] = []
        for batch in stored.batches:
            if batch.first_offset < self.start_offset or batch.last_offset < batch.first_offset:
                raise ShareError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to initialize the share partition {self.name}"
                )
            if gap_start == NO_OFFSET and batch.first_offset > last + 1:
                gap_start = last + 1
            last = batch.last_offset
            state = _known_state(batch.delivery_state)
            in_flight = InFlightState(state, batch.delivery_count, "")
            self.in_flight.add(InFlightBatch(batch.first_offset, last, in_flight))
            if state is ARCHIVING:
                archiving.append(Transition(in_flight, batch))
            if state in TERMINAL:
                self.delivery_complete_count += last - batch.first_offset + 1
        if not self.in_flight:
            self.end_offset = self.start_offset
            return archiving
        self.find_next = True
        self.end_offset = self.in_flight.last.last
        if gap_start != NO_OFFSET:
            self.gap = GapWindow(self.end_offset, gap_start)
        self.move_start()
        return archiving

    def fence(self) -> None:
        """End the use of this object, because the broker no longer leads the partition."""
        self.status = SharePartitionStatus.FENCED

    # ---- what to fetch

    @property
    def gap_is_open(self) -> bool:
        """Whether offsets without stored state may be left in the gap window."""
        return self.gap is not None and self.gap.end == self.end_offset

    def close_gap(self, until: int) -> None:
        """Record that the offsets of the gap window up to `until`, exclusive, were fetched."""
        if self.gap is not None:
            if self.gap_is_open and until <= self.gap.end:
                self.gap.start = until
            else:
                self.gap = None

    @property
    def next_fetch_offset(self) -> int:
        """The offset of the first available record, or the end of what was fetched."""
        if not self.in_flight or self.start_offset > self.in_flight.last.last:
            self.find_next = False
            return self.end_offset
        if self.find_next:
            found = self._first_available()
            if found is not None:
                return found
            self.find_next = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        gap_start = self.gap.start if self.gap is not None and self.gap_is_open else None
        for batch in self.in_flight:
            if gap_start is not None:
                if batch.first > gap_start:
                    return gap_start
                gap_start = max(batch.last + 1, gap_start)
            for first, _, state in batch.states():
                if state.is_free:
                    return first
        return None

    def in_flight_count(self) -> int:
        """Return the number of offsets between the start offset and the end of what was fetched."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    def can_acquire(self) -> bool:
        """Return whether a fetch could acquire records, if the log has any."""
        if self.next_fetch_offset != self.end_offset + 1:
            return True
        return self.in_flight_count() < self.configs().partition_max_record_locks

    # ---- locks

    def lock(self, first: int, last: int, delay_ms: int | None = None) -> AcquisitionLock:
        """Return a new acquisition lock of offsets; by default for the group's duration."""
        if delay_ms is None:
            delay_ms = self.configs().record_lock_duration_ms
        return AcquisitionLock(self.clock, delay_ms, partial(self.lock_expired, first, last))

    def split(self, batch: InFlightBatch) -> None:
        """Give each offset of a batch a state of its own. Locks keep their timeouts."""
        whole = batch.whole
        if whole is None:
            return
        lock = whole.lock
        delay_ms = None if lock is None else lock.left_ms
        for offset in range(batch.first, batch.last + 1):
            own = None if delay_ms is None else self.lock(offset, offset, delay_ms)
            batch.offsets[offset] = InFlightState(whole.state, whole.delivery_count, whole.member_id, own)
        whole.unlock()
        batch.whole = None

    def split_at_start(self, batch: InFlightBatch) -> None:
        """Split an acquired batch that the start offset has moved into."""
        whole = batch.whole
        if whole is not None and whole.state is ACQUIRED and batch.first < self.start_offset <= batch.last:
            self.split(batch)

    def lock_expired(self, first: int, last: int) -> None:
        """Release offsets whose acquisition lock timed out.

        Unlike other changes this is not rolled back if it cannot be stored.
        """
        floor = self.in_flight.floor(first)
        if floor is None:
            return
        limit, dead_letters = self.configs().delivery_count_limit, self.dead_letters.enabled()
        stored: list[StateBatch] = []
        archiving: list[Transition] = []
        for batch in self.in_flight.between(floor.first, last):
            self.split_at_start(batch)
            is_whole = batch.whole is not None
            for begin, end, state in batch.states():
                if not is_whole and begin < first:
                    continue
                if not is_whole and begin > last:
                    break
                released = ARCHIVED if end < self.start_offset else AVAILABLE
                if state.state is not ACQUIRED or not state.change(released, limit, dead_letters=dead_letters):
                    continue
                stored.append(_state_batch(begin, end, state))
                state.unlock()
                if state.state is AVAILABLE:
                    self.find_next = True
                elif state.state is ARCHIVING:
                    archiving.append(Transition(state, stored[-1]))
                if state.state in TERMINAL:
                    self.delivery_complete_count += self._unfinished_in(begin, end)
        if stored:
            self._write(stored).on_complete(partial(self._expiry_stored, archiving))
            self._on_change()

    def _expiry_stored(self, archiving: Sequence[Transition], _: ShareOutcome) -> None:
        self.move_start()
        self._bury(archiving)

    # ---- storing changes

    def begin(
        self, first: int, last: int, state: InFlightState, to: RecordState, cause: str = DELIVERED_TOO_OFTEN
    ) -> Transition | None:
        """Begin the transition of a batch or offset; `None` if its state does not allow it."""
        if not state.begin(to, self.configs().delivery_count_limit, dead_letters=self.dead_letters.enabled()):
            return None
        if state.state in TERMINAL:
            self.delivery_complete_count += self._unfinished_in(first, last)
        return Transition(state, _state_batch(first, last, state), cause)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Store changed states after the block: a broker continues before they are stored."""
        held: list[Callable[[], None]] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for store in held:
                store()

    def store(self, transitions: Sequence[Transition], done: Pending[ShareOutcome]) -> None:
        """Store changed states, then complete or roll back their transitions."""
        if not transitions:
            done.complete(DONE)
            return
        if self._held is not None:
            self._held.append(partial(self.store, transitions, done))
            return

        def written(outcome: ShareOutcome) -> None:
            moved = False
            if outcome.code:
                self.roll_back(transitions)
            else:
                for state, _, _ in transitions:
                    state.complete()
                    if state.state is AVAILABLE:
                        self.find_next = True
                moved = self.move_start()
            done.complete(outcome)
            if moved:
                self._on_change()
            if not outcome.code:
                self._bury([one for one in transitions if one.state.state is ARCHIVING])

        self._write([one.stored for one in transitions]).on_complete(written)

    def _bury(self, letters: Sequence[Transition]) -> None:
        """Write records to the dead letter queue, then archive them.

        As in Kafka, a fenced share-partition does so, too, although the next leader may repeat it.
        """
        for state, stored, cause in letters:
            first, last, count = stored.first_offset, stored.last_offset, stored.delivery_count
            self.dead_letters.write(first, last, count, cause)
            state.archive()
            self.delivery_complete_count += self._unfinished_in(first, last)
            self._write([_state_batch(first, last, state)]).on_complete(self._buried)

    def _buried(self, _: ShareOutcome) -> None:
        if self.move_start():
            self._on_change()

    def roll_back(self, transitions: Sequence[Transition]) -> None:
        """Undo transitions that were not stored."""
        for state, stored, _ in transitions:
            state.roll_back()
            if state.state is AVAILABLE:
                self.find_next = True
            if stored.delivery_state in TERMINAL and state.state not in TERMINAL:
                self.delivery_complete_count -= self._unfinished_in(stored.first_offset, stored.last_offset)

    def _write(self, batches: Sequence[StateBatch]) -> Pending[ShareOutcome]:
        written: Pending[ShareOutcome] = Pending()
        self._store.write(
            leader_epoch=self.leader_epoch,
            state_epoch=self.state_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            batches=batches,
        ).on_complete(lambda outcome: written.complete(ShareOutcome(*stored_error(outcome)) if outcome.code else DONE))
        return written

    def _unfinished_in(self, first: int, last: int) -> int:
        """Return how many offsets of a range are not before the start offset."""
        return max(last - max(self.start_offset, first) + 1, 0)

    # ---- moving the start offset

    def move_start(self) -> bool:
        """Move the start offset after finished records, and forget those.

        Returns whether it moved.
        """
        if not self.can_move_start():
            return False
        finished, count = self._finished()
        if finished == NO_OFFSET:
            return False
        last = self.in_flight.last.last
        if finished == last:
            self.start_offset = self.end_offset = last + 1
            self.in_flight.clear()
            self.delivery_complete_count = 0
            return True
        batch = self.in_flight.floor(finished)
        assert batch is not None
        if finished == batch.last:
            following = self.in_flight.after(finished)
            assert following is not None
            self.start_offset = max(following.first, self.start_offset)
            if self.gap is not None and self.gap_is_open:
                self.start_offset = min(self.gap.start, self.start_offset)
        else:
            self.start_offset = max(finished + 1, self.start_offset)
        self.delivery_complete_count -= count
        self.in_flight.remove_before(batch, inclusive=finished == batch.last)
        return True

    def can_move_start(self) -> bool:
        """Return whether the record at the start offset is finished."""
        batch = self.in_flight.floor(self.start_offset)
        if batch is None:
            return False
        state = batch.whole or batch.offsets.get(self.start_offset)
        return state is not None and not state.in_transition and state.state in TERMINAL

    def _finished(self) -> tuple[int, int]:
        """Return the last offset before the first unfinished one, and how many are counted."""
        finished, count = NO_OFFSET, 0
        for batch in self.in_flight:
            if self.gap is not None and self.gap_is_open and batch.last >= self.gap.start:
                break
            for first, last, state in batch.states():
                if state.in_transition or state.state not in TERMINAL:
                    return finished, count
                finished = last
                count += self._unfinished_in(first, last)
        return finished, count

    def log_start_moved(self, log_start_offset: int) -> None:
        """Archive available records before the new start of the log, and begin there."""
        if log_start_offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = log_start_offset
            self.delivery_complete_count = 0
            return
        finished = sum(
            max(min(log_start_offset - 1, last) - max(self.start_offset, first) + 1, 0)
            for batch in self.in_flight
            if batch.first < log_start_offset
            for first, last, state in batch.states()
            if state.state in TERMINAL
        )
        if self.archive(list(self.in_flight), self.start_offset, log_start_offset, AVAILABLE, counts=False):
            self.find_next = True
        self.start_offset = log_start_offset
        self.delivery_complete_count -= finished
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive(
        self, batches: Sequence[InFlightBatch], first: int, until: int, from_state: RecordState, *, counts: bool
    ) -> bool:
        """Archive offsets from `first` to `until`, exclusive, that are in a state.

        Returns whether there were any. `counts`: add them to the delivery complete count.
        """
        found = False
        for batch in batches:
            if batch.first >= until:
                break
            if batch.whole is not None and not batch.is_inside(first, until - 1):
                if batch.whole.state is not from_state:
                    continue
                self.split(batch)
            for begin, end, state in batch.states():
                if end < first or state.state is not from_state:
                    continue
                if begin >= until:
                    break
                state.archive()
                found = True
                if counts:
                    self.delivery_complete_count += end - begin + 1
        return found


def _known_state(number: int) -> RecordState:
    try:
        return RecordState(number)
    except ValueError:
        raise ShareError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown record state id: {number}") from None


def _state_batch(first: int, last: int, state: InFlightState) -> StateBatch:
    return StateBatch(
        first_offset=first, last_offset=last, delivery_state=int(state.state), delivery_count=state.delivery_count
    )
