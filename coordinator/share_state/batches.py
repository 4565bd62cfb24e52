"""Merge of state batches (in Kafka: PersisterStateBatchCombiner).

Where batches overlap, the one that was delivered more often wins, then the one with the higher
state. So the order in which they arrive does not matter.
"""

from collections.abc import Iterator, Sequence

from quorate.codecs.messages.share_state import StateBatch
from quorate.coordinator.errors import ApiError, ErrorCode

_Priority = tuple[int, int]
"""Delivery count and delivery state."""


def combined(known: Sequence[StateBatch], new: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Return disjoint batches in the order of their offsets, without offsets below the start.

    `start_offset`: -1 if unknown. A single batch is returned as it is. Raises `ApiError` if the
    last offset of a batch is before its first, for which Kafka has an internal error.
    """
    pruned = [*_from(known, start_offset), *_from(new, start_offset)]
    return tuple(pruned) if len(pruned) < 2 else tuple(_swept(pruned))


def _from(batches: Sequence[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    """Yield batches cut off below the start offset."""
    for batch in batches:
        if start_offset == -1 or batch.last_offset >= start_offset <= batch.first_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield StateBatch(
                first_offset=start_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.delivery_state,
                delivery_count=batch.delivery_count,
            )


def _swept(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Sweep over the offsets at which batches begin and end; the winner covers those between."""
    events: list[tuple[int, bool, _Priority]] = []
    for batch in batches:
        priority = batch.delivery_count, batch.delivery_state
        events.append((batch.first_offset, True, priority))
        events.append((batch.last_offset + 1, False, priority))  # ends sort before beginnings
    events.sort()
    active: dict[_Priority, int] = {}
    runs: list[tuple[int, int, _Priority]] = []
    winner: _Priority | None = None
    since = events[0][0]
    for offset, begins, priority in events:
        if offset != since:
            if winner is not None:
                _extend(runs, since, offset - 1, winner)
            since = offset
        if begins:
            active[priority] = active.get(priority, 0) + 1
        elif priority not in active:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        elif active[priority] == 1:
            del active[priority]
        else:
            active[priority] -= 1
        winner = max(active) if active else None
    return [
        StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, (count, state) in runs
    ]


def _extend(runs: list[tuple[int, int, _Priority]], first: int, last: int, priority: _Priority) -> None:
    """Add a run, or extend the last one if it has the same priority and ends right before."""
    if runs and runs[-1][1] + 1 == first and runs[-1][2] == priority:
        runs[-1] = runs[-1][0], last, priority
    else:
        runs.append((first, last, priority))
