"""Loads a log by columns, with the same result as `CoordinatorState.replay`, but much faster.

A log of 76 MB, 800,000 commits of 5,000 keys, takes 0.3 s of CPU, and 4.7 s record by record; a log
of 1 MB takes less than 0.1 s either way (2026-11). Most records of `__consumer_offsets` are commits
that later ones overwrite. These are skipped, and the others are replayed.
`quorate.coordinator.bulk_block` explains why the state is the same, down to the order of Kafka's
maps. Needs pyarrow (`pip install quorate[arrow]`).
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from os import PathLike
from typing import Protocol, TypeAlias

import numpy as np

try:
    import pyarrow  # noqa: F401  # the modules below need it
except ImportError:
    raise ImportError("quorate.coordinator.bulk needs pyarrow: pip install 'quorate[arrow]'") from None

from quorate.codecs import (
    CONSUMER_OFFSETS,
    CoordinatorRecord,
    LogError,
    MalformedRecord,
    UnknownRecord,
    Uuid,
    decode_record,
)
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.raw import RawBlock, read_raw
from quorate.codecs.record_text import learn_names
from quorate.coordinator import bulk_commits
from quorate.coordinator.bulk_block import (
    Barriers,
    Commits,
    FoundCommits,
    Other,
    barrier_or_transaction,
    commits_of,
    needed_commits,
    others_of,
    without_offsets,
)
from quorate.coordinator.bulk_commits import Merged, merged
from quorate.coordinator.bulk_values import topic_names
from quorate.coordinator.state import CoordinatorState

__all__ = [
    "AnyRecord",
    "BulkLoad",
    "BulkObserver",
    "CommitWriter",
    "Mark",
    "blocks_upto",
    "load_state",
    "replay_blocks",
    "replay_in_steps",
]

MOST_KEPT = 1 << 16
"""Number of kept records after which they are replayed, which limits memory and steps."""

Mark: TypeAlias = tuple[int, Callable[[int], None]]
"""A position in the log, and what to call there, with 0."""

AnyRecord: TypeAlias = CoordinatorRecord | UnknownRecord | MalformedRecord

_EVENTS_PER_STEP = 200
"""Records that are replayed in one step, if not all of them are commits."""


class BulkObserver(Protocol):
    """Notices what a load replays, between the records of the log."""

    def commits(self, block: RawBlock, base: int, found: FoundCommits) -> Iterable[Mark]:
        """Return calls for positions in the log (row i of a block has `base` + 2i + 1).

        `found`: see `commits_of`. Called before the state has the block.
        """
        ...

    def record(self, other: Other, record: AnyRecord) -> None:
        """Replay a record other than a plain commit."""
        ...

    def marker(self, producer_id: int, *, commit: bool) -> None:
        """Notice the end of a transaction, before it is replayed."""
        ...


class CommitWriter(Protocol):
    """Puts the merged commits of several blocks into a state."""

    def put_all(self, state: CoordinatorState, commits: Merged) -> Iterator[None]:
        """Put all commits into the state, in steps. No other record lies between them."""
        ...

    def commits_into(
        self, state: CoordinatorState, commits: Merged
    ) -> tuple[Callable[[int], None], Callable[[int], None]]:
        """Return functions that put a row into the state, and that repeat a put in its map."""
        ...


def replay_blocks(
    state: CoordinatorState,
    blocks: Iterable[RawBlock],
    *,
    strict: bool = False,
    names: dict[Uuid, str] | None = None,
    observer: BulkObserver | None = None,
    writer: CommitWriter = bulk_commits,
    offsets: bool = True,
) -> None:
    """Replay blocks of one partition's log in order, as if record by record.

    `strict`: as for `CoordinatorState.replay`. `names`: is updated with topic names by id.
    `observer`: is notified in the order of the log. `writer`: for states with other maps.
    Without `offsets`, the state has the same groups, but no useful offsets, and is read faster.
    Problems of the log are skipped. Raises `ValueError` for a block of another topic.
    """
    load = BulkLoad(state, strict=strict, names=names, observer=observer, writer=writer)
    for block in blocks:
        load.add(block if offsets else without_offsets(block))
        if load.kept > MOST_KEPT:
            load.flush()
    load.flush()


def replay_in_steps(state: CoordinatorState, blocks: Iterable[RawBlock]) -> Iterator[None]:
    """Do the same, strictly, in steps of some 10 ms, each of which ends with a yield."""
    load = BulkLoad(state, strict=True, names=None)
    for block in blocks:
        load.add(block)
        yield
        if load.kept > MOST_KEPT:
            yield from load.steps_of_flush()
    yield from load.steps_of_flush()


def load_state(
    path: str | PathLike[str],
    *,
    partition: int | None = None,
    offset: int | None = None,
    timestamp_ms: int | None = None,
    skip_corrupt: bool = False,
) -> CoordinatorState:
    """Load the state of one partition of `__consumer_offsets`.

    `path`: a segment, its folder, or (with `partition`) a log directory. The state is that after
    the record at `offset`, or before the first record later than `timestamp_ms`; by default at the
    end. It equals `history.state_at` of the entries. Problems of the log are skipped, as by
    `read_log` with `skip_corrupt`.

    Raises `LogError` if the log does not exist, or has more than one partition.
    """
    found = find_partitions(path, topic=CONSUMER_OFFSETS, partition=partition)
    if len(found) > 1:
        raise LogError(f"{path}: has {len(found)} partitions of {CONSUMER_OFFSETS}; select one with partition=")
    state = CoordinatorState()
    blocks = read_raw(found[0], skip_corrupt=skip_corrupt)
    replay_blocks(state, blocks_upto(blocks, offset=offset, timestamp_ms=timestamp_ms))
    return state


def blocks_upto(
    blocks: Iterable[RawBlock], *, offset: int | None = None, timestamp_ms: int | None = None
) -> Iterator[RawBlock]:
    """Yield the blocks of one partition up to `offset` and `timestamp_ms`, both inclusive."""
    for block in blocks:
        part, is_over = block.upto(offset=offset, timestamp_ms=timestamp_ms)
        yield part
        if is_over:
            return


class BulkLoad:
    """Records that are kept, and not replayed yet."""

    def __init__(
        self,
        state: CoordinatorState,
        *,
        strict: bool,
        names: dict[Uuid, str] | None,
        observer: BulkObserver | None = None,
        writer: CommitWriter = bulk_commits,
    ) -> None:
        self.state = state
        self.writer = writer
        self.observer = observer
        self.strict = strict
        self.names = names
        self.position = 0
        self.repeats = False
        self.transactional = {group.encode("utf-8", "surrogateescape") for group in state.offsets.open}
        self._clear()

    def _clear(self) -> None:
        self.commits: list[Commits] = []
        self.commits_kept = 0
        self.others: list[Other] = []
        self.markers: list[tuple[int, int, bool]] = []
        self.barriers = Barriers()
        self.marks: list[Mark] = []

    def add(self, block: RawBlock) -> None:
        """Keep the records of a block that must be replayed."""
        if block.topic != CONSUMER_OFFSETS:
            raise ValueError(f"a block belongs to topic {block.topic}, not {CONSUMER_OFFSETS}")
        base = self.position
        self.position += 2 * len(block) + 2
        found = commits_of(block, repeats=self.repeats)
        distinct, code, rows = found
        self.repeats = code is not None and 2 * len(distinct) < len(block)
        barriers = Barriers(markers=(base + 2 * block.markers.row).tolist())
        if len(rows) < len(block):
            strange = np.ones(len(block), np.bool_)
            strange[rows] = False
            others = others_of(block, base, np.flatnonzero(strange))
            for other in others:
                mark = barrier_or_transaction(other)
                if mark is not None:
                    group, is_barrier = mark
                    if is_barrier:
                        barriers.groups.append((group, other.position))
                    else:
                        self.transactional.add(group)
            self.others += others
        self.markers += zip(
            barriers.markers, block.markers.producer_id.tolist(), block.markers.commit.tolist(), strict=True
        )
        if self.names is not None:
            self.names |= topic_names(block.keys[rows], block.values[rows])
        if len(rows) and self.observer is not None:
            self.marks += self.observer.commits(block, base, found)
        if len(rows):
            commits = needed_commits(block, base, found, barriers, self.transactional)
            self.commits.append(commits)
            self.commits_kept += len(commits)
        self.barriers.groups += barriers.groups
        self.barriers.markers += barriers.markers

    @property
    def kept(self) -> int:
        """Number of kept records. If it exceeds `MOST_KEPT`, they should be replayed."""
        return self.commits_kept + len(self.others)

    def flush(self) -> None:
        """Replay the kept records."""
        with _without_gc():
            for _ in self.steps_of_flush():
                pass

    def steps_of_flush(self) -> Iterator[None]:
        """Replay the kept records in steps."""
        commits = merged(self.commits, self.barriers, self.transactional) if self.commits else None
        yield
        if commits is None or self.others or self.markers or self.marks:
            yield from self._replay_in_order(commits)
        else:
            yield from self.writer.put_all(self.state, commits)
        self._clear()

    def _replay_in_order(self, commits: Merged | None) -> Iterator[None]:
        """Replay commits, other records and markers by position."""
        events: list[tuple[int, Callable[[int], None], int]] = []
        if commits is not None:
            put, grow = self.writer.commits_into(self.state, commits)
            events += [(position, put, index) for index, position in enumerate(commits.first.tolist())]
            events += [(position, grow, index) for position, index in commits.replacing()]
        events += [(other.position, self._replay, index) for index, other in enumerate(self.others)]
        events += [(marker[0], self._end, index) for index, marker in enumerate(self.markers)]
        events += [(position, call, 0) for position, call in self.marks]
        events.sort(key=itemgetter(0))
        yield
        for number, (_, replay, index) in enumerate(events, 1):
            replay(index)
            if number % _EVENTS_PER_STEP == 0:
                yield

    def _replay(self, index: int) -> None:
        other = self.others[index]
        record = decode_record(other.key, other.value)
        if self.names is not None:
            learn_names(self.names, record)
        if self.observer is not None:
            self.observer.record(other, record)
            return
        self.state.replay(record, offset=other.offset, producer_id=other.producer_id, strict=self.strict)

    def _end(self, index: int) -> None:
        _, producer_id, commit = self.markers[index]
        if self.observer is not None:
            self.observer.marker(producer_id, commit=commit)
        self.state.offsets.end_transaction(producer_id, commit=commit)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Disable garbage collection meanwhile, as it would scan all new objects again and again.

    With it, loading 300,000 commits of new keys takes 54 to 100 % more CPU: the logs of `python
    bench/coordinator_load.py`, four paired rounds, 2026-11.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
