"""The states of records that a share group has fetched but not finished (KIP-932).

A batch has one state for all of its offsets, until they need different ones. A change of state that
has to be stored is a transition: it is either completed or rolled back when the share coordinator
responds.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType

from quorate.cluster.share.locks import AcquisitionLock

NO_MEMBER = ""


class RecordState(IntEnum):
    """The delivery state of a record, with its id in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # being written to the dead letter queue (KIP-1191)
    ARCHIVED = 4


AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState

TRANSITIONS: Mapping[RecordState, frozenset[RecordState]] = MappingProxyType(
    {
        AVAILABLE: frozenset({ACQUIRED}),
        ACQUIRED: frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED}),
        ACKNOWLEDGED: frozenset(),
        ARCHIVING: frozenset({AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED}),
        ARCHIVED: frozenset(),
    }
)
"""Kafka's `RecordState.validateTransition`. Records that become older than the start of the log are
archived from any state.
"""

TERMINAL = frozenset({ACKNOWLEDGED, ARCHIVED})
"""States of records that are never delivered again."""


class InFlightState:
    """The state of a batch, or of one offset.

    `member_id`: the member that acquired it, or `NO_MEMBER`. `lock`: its acquisition lock.
    """

    __slots__ = ("_before", "_is_final", "delivery_count", "lock", "member_id", "state")

    def __init__(
        self, state: RecordState, delivery_count: int, member_id: str, lock: AcquisitionLock | None = None
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        self._before: tuple[RecordState, int, str, int] | None = None
        self._is_final = False

    @property
    def in_transition(self) -> bool:
        """Whether a change of state is being stored."""
        return self._before is not None

    @property
    def is_free(self) -> bool:
        """Whether a member can acquire it."""
        return self.state is AVAILABLE and self._before is None

    def change(self, state: RecordState, limit: int, member_id: str = NO_MEMBER, *, dead_letters: bool = False) -> bool:
        """Change the state at once; return whether that was possible.

        Records that were delivered `limit` times are archived instead of released, through the
        dead letter queue if the group has one. Acquiring counts a delivery.
        """
        if self._before is not None:
            return False
        if state is AVAILABLE and self.delivery_count >= limit:
            state = ARCHIVING if dead_letters else ARCHIVED
        if state is self.state or state not in TRANSITIONS[self.state]:
            return False
        self.state = state
        if state is ACQUIRED:
            self.delivery_count += 1
        self.member_id = member_id
        return True

    def begin(self, state: RecordState, limit: int, *, dead_letters: bool = False) -> bool:
        """Begin a transition that ends an acquisition; return whether that was possible."""
        before = (self.state, self.delivery_count, self.member_id, limit)
        if not self.change(state, limit, dead_letters=dead_letters):
            return False
        self._before = before
        return True

    def complete(self) -> None:
        """Complete the transition, which was stored."""
        self.unlock()
        self._before = None

    def roll_back(self) -> None:
        """Undo the transition, which could not be stored.

        If the lock timed out meanwhile, the record is released instead.
        """
        if self._is_final:
            self.complete()
            return
        assert self._before is not None
        state, delivery_count, member_id, limit = self._before
        if self.lock is not None and self.lock.has_expired:
            self.state = ARCHIVED if delivery_count >= limit else AVAILABLE
            self.member_id = NO_MEMBER
            self.unlock()
        else:
            self.state, self.member_id = state, member_id
        self._before = None

    def archive(self) -> None:
        """Archive it from any state."""
        self._is_final = True
        self.state = ARCHIVED
        self.member_id = NO_MEMBER
        self.unlock()

    def unlock(self) -> None:
        """End the acquisition lock, if there is one."""
        if self.lock is not None:
            self.lock.cancel()
            self.lock = None


class InFlightBatch:
    """Consecutive offsets that were acquired together, from `first` to `last`, inclusive.

    `whole`: the state of all offsets, or `None` if `offsets` has one for each, in order.
    """

    __slots__ = ("first", "last", "offsets", "whole")

    def __init__(self, first: int, last: int, state: InFlightState) -> None:
        self.first = first
        self.last = last
        self.whole: InFlightState | None = state
        self.offsets: dict[int, InFlightState] = {}

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def states(self) -> Iterator[tuple[int, int, InFlightState]]:
        """Yield first offset, last offset and state of each part."""
        if self.whole is not None:
            yield self.first, self.last, self.whole
        else:
            for offset, state in self.offsets.items():
                yield offset, offset, state

    def is_inside(self, first: int, last: int) -> bool:
        """Return whether all of its offsets are between two offsets, inclusive."""
        return first <= self.first and self.last <= last


class InFlight:
    """The batches in flight, by first offset, in order."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: dict[int, InFlightBatch] = {}

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        """Yield the batches that are in flight now, in order."""
        return iter([self._batches[first] for first in self._firsts])

    @property
    def first(self) -> InFlightBatch:
        """The batch with the lowest offsets."""
        return self._batches[self._firsts[0]]

    @property
    def last(self) -> InFlightBatch:
        """The batch with the highest offsets."""
        return self._batches[self._firsts[-1]]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch; it replaces one with the same first offset."""
        if batch.first not in self._batches:
            if not self._firsts or batch.first > self._firsts[-1]:
                self._firsts.append(batch.first)
            else:
                insort(self._firsts, batch.first)
        self._batches[batch.first] = batch

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset."""
        index = bisect_right(self._firsts, offset)
        return self._batches[self._firsts[index - 1]] if index else None

    def after(self, offset: int) -> InFlightBatch | None:
        """Return the first batch that begins after an offset."""
        index = bisect_right(self._firsts, offset)
        return self._batches[self._firsts[index]] if index < len(self._firsts) else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin between two offsets, inclusive."""
        begin, end = bisect_left(self._firsts, first), bisect_right(self._firsts, last)
        return [self._batches[one] for one in self._firsts[begin:end]]

    def remove_before(self, batch: InFlightBatch, *, inclusive: bool) -> None:
        """Remove all batches before one, and with `inclusive` that batch."""
        end = bisect_left(self._firsts, batch.first) + inclusive
        for first in self._firsts[:end]:
            del self._batches[first]
        del self._firsts[:end]

    def clear(self) -> None:
        """Remove all batches."""
        self._firsts.clear()
        self._batches.clear()
