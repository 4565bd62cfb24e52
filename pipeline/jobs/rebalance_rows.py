"""The rows of `rebalances` for one group: follow its history record by record."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from quorate.codecs import Uuid
from quorate.codecs.log.model import LogEntry
from quorate.codecs.record_text import learn_names
from quorate.coordinator.history import EpochBumped, Event, History, Labels
from quorate.coordinator.history.facts import (
    Cause,
    GenerationBegan,
    GroupConverted,
    MemberAway,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    TargetChanged,
)
from quorate.coordinator.state import ClassicGroup, CoordinatorGroup
from quorate.coordinator.state.modern import ModernGroup
from quorate.pipeline.schema import INT, LONG, TEXT, TIME, OptionError

NAMES = pa.list_(TEXT)

REBALANCES: pa.Schema = pa.schema(
    {
        "log_topic": TEXT,
        "log_partition": INT,
        "group": TEXT,
        "kind": TEXT,
        "epoch_before": INT,
        "epoch": INT,
        "log_offset": LONG,
        "started_at": TIME,
        "completed_at": TIME,
        "superseded_at": TIME,
        "duration_ms": LONG,
        "causes": NAMES,
        "why": TEXT,
        "members": INT,
        "joined": NAMES,
        "left_or_fenced": NAMES,
        "replaced": NAMES,
        "away": NAMES,
        "partitions_moved": INT,
        "partitions_gained": INT,
        "partitions_lost": INT,
    }
)
"""A row per group epoch, or generation of a classic group.

`completed_at`: when all members had reached the target assignment of this epoch (or a later one);
null if that did not happen before `superseded_at`, when the next epoch began, or the end of the
log. `duration_ms` is from `started_at` to `completed_at`. The record of a classic group contains
only two times: `started_at` is when all members had joined, `completed_at` when the leader's
assignment was written.

`causes`: `quorate.coordinator.history.Cause`, for classic groups by comparison with the previous
generation. `members`: their number. `left_or_fenced`: both have the same records. `replaced`:
members that were fenced because a static member with the same instance id joined. `away`: static
members that left temporarily. `partitions_moved`: from one member to another; `partitions_gained`:
without an owner before; `partitions_lost`: without an owner now.
"""


def check_storm(window_ms: int, at_least: int) -> None:
    """Raise `OptionError` for parameters of `storms` that no storm can have."""
    if window_ms < 1 or at_least < 2:
        raise OptionError(
            f"window_ms={window_ms}, at_least={at_least}: a storm is two or more rebalances within a time longer than 0"
        )


def rows_of_group(records: Iterable[LogEntry], group_id: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one group, without the columns that identify it.

    `records` are those of the group, in the order of the log.
    """
    followed = GroupRebalances(group_id)
    for entry in records:
        yield from followed.take(entry)
    yield from followed.finish()


class GroupRebalances:
    """The rebalances of one group, computed record by record.

    A row is complete when all members have reached its epoch, or when the next epoch begins. To
    resume later, after a complete write, pass the last record of each key (`kept`), `row` and
    `names`.
    """

    def __init__(
        self,
        group_id: str,
        kept: Iterable[LogEntry] = (),
        row: dict[str, Any] | None = None,
        names: dict[Uuid, str] | None = None,
    ) -> None:
        self.names: dict[Uuid, str] = {} if names is None else names
        self._group_id = group_id
        self._history = History()
        self._history.resume(kept)
        self._followed = _Followed(Labels(names=self.names), row)
        self._time_ms: int | None = None

    @property
    def row(self) -> dict[str, Any] | None:
        """The incomplete rebalance so far."""
        return self._followed.row

    @property
    def _group(self) -> CoordinatorGroup | None:
        return self._history.state.groups.get(self._group_id)

    def take(self, entry: LogEntry) -> Iterator[dict[str, Any]]:
        """Add the next record of the group, and yield rows that were complete before it."""
        learn_names(self.names, entry.record)
        if entry.timestamp_ms == self._time_ms:
            self._history.take(entry)
            return
        # `take` returns the events of a write only when the next write begins, and has applied the
        # first record of that one by then.
        group, at_ms = self._group, self._time_ms
        settled, members = is_settled(group), _size(group)
        self._time_ms = entry.timestamp_ms
        for event in self._history.take(entry):
            yield from self._followed.event(event, group, members)
        if settled and at_ms is not None:
            yield from self._followed.all_reconciled(at_ms)

    def finish(self) -> Iterator[dict[str, Any]]:
        """Yield the remaining rows at the end of the log."""
        group = self._group
        for event in self._history.finish():
            yield from self._followed.event(event, group, _size(group))
        if is_settled(group) and self._time_ms is not None:
            yield from self._followed.all_reconciled(self._time_ms)
        yield from self._followed.rest()


class _Followed:
    """Rows of epochs, built from facts. `row` is the incomplete rebalance."""

    def __init__(self, labels: Labels, row: dict[str, Any] | None = None) -> None:
        self._labels = labels
        self.row = row

    def event(self, event: Event, group: CoordinatorGroup | None, members: int) -> Iterator[dict[str, Any]]:
        """Apply the facts of one write; `group` and `members` are those after it."""
        bump = next((fact for fact in event.facts if isinstance(fact, EpochBumped | GenerationBegan)), None)
        if bump is not None:
            yield from self.rest(superseded_ms=event.timestamp_ms)
            self.row = self._row(event, bump, group, members)
        if self.row is not None:
            for fact in event.facts:
                if isinstance(fact, TargetChanged):
                    self.row["partitions_moved"] += sum(bool(move.before and move.after) for move in fact.moves)
                    self.row["partitions_gained"] += sum(not move.before for move in fact.moves)
                    self.row["partitions_lost"] += sum(not move.after for move in fact.moves)
            if isinstance(bump, GenerationBegan):
                self.row["completed_at"] = event.timestamp_ms * 1000
                yield from self.rest()

    def all_reconciled(self, at_ms: int) -> Iterator[dict[str, Any]]:
        """Complete the row: all members have reached the target assignment of the latest epoch."""
        if self.row is not None:
            self.row["completed_at"] = at_ms * 1000
            yield from self.rest()

    def rest(self, superseded_ms: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the row of an epoch that has ended."""
        row, self.row = self.row, None
        if row is None:
            return
        if row["completed_at"] is None and superseded_ms is not None:
            row["superseded_at"] = superseded_ms * 1000
        if row["completed_at"] is not None:
            row["duration_ms"] = max(row["completed_at"] - row["started_at"], 0) // 1000
        yield row

    def _row(
        self, event: Event, bump: EpochBumped | GenerationBegan, group: CoordinatorGroup | None, members: int
    ) -> dict[str, Any]:
        started_ms = event.timestamp_ms
        if isinstance(bump, GenerationBegan) and isinstance(group, ClassicGroup) and group.since_ms > 0:
            started_ms = min(group.since_ms, started_ms)
        facts = event.facts
        return {
            "kind": None if group is None else group.kind.value,
            "epoch_before": bump.before,
            "epoch": bump.after,
            "log_offset": event.offset,
            "started_at": started_ms * 1000,
            "completed_at": None,
            "superseded_at": None,
            "duration_ms": None,
            "causes": sorted(_causes(event, bump)),
            "why": bump.sentence(self._labels) if isinstance(bump, GenerationBegan) else bump.why(self._labels),
            "members": members,
            "joined": [fact.member_id for fact in facts if isinstance(fact, MemberJoined)],
            "left_or_fenced": [fact.member_id for fact in facts if isinstance(fact, MemberLeft)],
            "replaced": [fact.before for fact in facts if isinstance(fact, MemberReplaced)],
            "away": [fact.member_id for fact in facts if isinstance(fact, MemberAway)],
            "partitions_moved": 0,
            "partitions_gained": 0,
            "partitions_lost": 0,
        }


def _causes(event: Event, bump: EpochBumped | GenerationBegan) -> set[str]:
    """Return the causes of a rebalance.

    Records of a classic group do not contain them: compare with the previous generation.
    """
    if isinstance(bump, EpochBumped):
        return {reason.cause.value for reason in bump.reasons}
    found = set()
    for fact in event.facts:
        match fact:
            case GroupConverted():
                found.add(Cause.CONVERTED.value)
            case MemberJoined():
                found.add(Cause.JOINED.value)
            case MemberLeft():
                found.add(Cause.LEFT.value)
            case MemberReplaced():
                found.add(Cause.REPLACED.value)
            case MemberChanged(what="subscription"):
                found.add(Cause.SUBSCRIPTION.value)
            case MemberChanged():
                found.add(Cause.MEMBER.value)
    return found or {Cause.UNKNOWN.value}


def is_settled(group: CoordinatorGroup | None) -> bool:
    """Return whether all members of a group have reached the target assignment of its epoch."""
    if isinstance(group, ModernGroup) and group.members:
        return group.epoch <= group.assignment_epoch and group.is_reconciled
    return True


def _size(group: CoordinatorGroup | None) -> int:
    return len(getattr(group, "members", ()))
