"""Raise alerts while a log is read, by the times in the log.

So a log that is read late, or twice, gives the same alerts. Each partition of the log has its own
clock: a silent group is detected at the next record of any group of the partition.
"""

import heapq
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from quorate.codecs.log.state_records import COMMIT_TYPES, GROUP_TYPES
from quorate.pipeline.schema import OptionError
from quorate.pipeline.streaming.group_rows import Packed

Alert = dict[str, Any]

STABLE = {"ConsumerGroupCurrentMemberAssignment": 0, "StreamsGroupCurrentMemberAssignment": 1}
"""State of a member that reached its target assignment. Members of share groups have no such state,
because they revoke nothing first.
"""


@dataclass(frozen=True)
class Limits:
    """Limits of alerts; `None` for `storm_rebalances` or `silence_ms` disables the alert.

    `storm_rebalances` within `storm_window_ms` are a storm. `silence_ms`: the time after which a
    group with members that committed before, but not since, raises `no-commits`. `reconcile_ms`:
    the time in which a member must reach a new target assignment, by default its rebalance timeout.
    """

    storm_rebalances: int | None = 5
    storm_window_ms: int = 300_000
    silence_ms: int | None = 600_000
    reconcile_ms: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("storm_rebalances", 2), ("storm_window_ms", 1), ("silence_ms", 1), ("reconcile_ms", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(f"{name}={value}: give {least} or more")


@dataclass
class GroupActivity:
    """What alerts need to know of one group; times are in ms.

    `has_members`: `None` if the log does not contain it. `members`: id → rebalance timeout, epoch,
    1 if stable, assignment epoch of the last alert.
    """

    commit_ms: int | None = None
    is_silent: bool = False
    has_members: bool | None = None
    members: dict[str, list[int]] = field(default_factory=dict)
    epoch: int | None = None
    assignment_epoch: int = -1
    assigned_ms: int = -1
    bumps: list[int] = field(default_factory=list)
    storm_ms: int | None = None

    @classmethod
    def load(cls, text: str) -> "GroupActivity":
        """Parse the result of `text`."""
        return cls(**json.loads(text))

    def text(self) -> str:
        """Return the value for the state store."""
        return json.dumps(asdict(self), separators=(",", ":"))


class AlertMonitor:
    """The groups of one partition of the log.

    `clock_ms`: the latest time in the log so far; `changed`: groups to write to the state store, or
    to remove from it.
    """

    def __init__(self, limits: Limits, groups: dict[str, GroupActivity], clock_ms: int = -1) -> None:
        self.limits = limits
        self.groups = groups
        self.clock_ms = clock_ms
        self.changed: set[str] = set()
        self._due: list[tuple[int, str]] = []
        for group in groups:
            self._schedule(group)

    def take(self, group: str, row: Packed) -> Iterator[Alert]:
        """Take the next record of the log; return alerts due before it, and those it raises."""
        if row.ms > self.clock_ms:
            yield from self._until(row.ms)
            self.clock_ms = row.ms
        self.changed.add(group)
        if row.type in GROUP_TYPES and row.tombstone:
            self.groups.pop(group, None)
            return
        watched = self.groups.get(group)
        if watched is None:
            if row.tombstone:
                return
            watched = self.groups[group] = GroupActivity()
        if row.type in COMMIT_TYPES:
            if not row.tombstone:
                was_scheduled = watched.commit_ms is not None and not watched.is_silent
                watched.commit_ms, watched.is_silent = max(row.ms, watched.commit_ms or -1), False
                if not was_scheduled:
                    self._schedule(group)
            return
        yield from self._membership(group, watched, row)
        self._schedule(group)

    def _membership(self, group: str, watched: GroupActivity, row: Packed) -> Iterator[Alert]:
        struct = {} if row.tombstone else json.loads(row.packed)
        if row.type == "GroupMetadata":
            watched.has_members = bool(struct.get("members"))
            yield from self._bump(group, watched, struct.get("generation", 0), row)
        elif row.type in GROUP_TYPES:
            yield from self._bump(group, watched, struct.get("epoch", 0), row)
        elif row.type.endswith("MemberMetadata"):
            if row.tombstone:
                watched.members.pop(row.text, None)
            else:
                known = watched.members.setdefault(row.text, [-1, 0, 1, -1])
                known[0] = struct.get("rebalance_timeout_ms", -1)
            watched.has_members = bool(watched.members)
        elif row.type.endswith("CurrentMemberAssignment") and not row.tombstone:
            known = watched.members.setdefault(row.text, [-1, 0, 1, -1])
            is_stable = row.type not in STABLE or struct.get("state") == STABLE[row.type]
            known[1], known[2] = struct.get("member_epoch", 0), int(is_stable)
        elif row.type.endswith("TargetAssignmentMetadata") and not row.tombstone:
            epoch = struct.get("assignment_epoch", -1)
            if epoch != watched.assignment_epoch:
                watched.assignment_epoch, watched.assigned_ms = epoch, row.ms

    def _bump(self, group: str, watched: GroupActivity, epoch: int, row: Packed) -> Iterator[Alert]:
        before, watched.epoch = watched.epoch, epoch
        limits = self.limits
        if epoch <= (0 if before is None else before) or limits.storm_rebalances is None:
            return
        watched.bumps = [ms for ms in watched.bumps if ms >= row.ms - limits.storm_window_ms] + [row.ms]
        if len(watched.bumps) < limits.storm_rebalances:
            return
        # Overlapping windows are one storm, as in `storms`.
        if watched.storm_ms is None or min(watched.bumps) > watched.storm_ms:
            yield {
                "group": group,
                "alert": "storm",
                "at": row.ms * 1000,
                "since": min(watched.bumps) * 1000,
                "value": len(watched.bumps),
                "limit": limits.storm_rebalances,
                "message": f"{group} rebalanced {len(watched.bumps)} times in {row.ms - min(watched.bumps)} ms, "
                f"the last time to epoch {epoch}",
            }
        watched.storm_ms = row.ms

    def _until(self, now_ms: int) -> Iterator[Alert]:
        """Return the alerts that are due before a time."""
        # The heap only has lower bounds, which differ after a restart: compute deadlines again.
        found: set[tuple[int, str, str]] = set()
        again: set[str] = set()
        while self._due and self._due[0][0] < now_ms:
            _, group = heapq.heappop(self._due)
            if (watched := self.groups.get(group)) is not None and group not in again:
                again.add(group)
                due = ((at_ms, member_id or "") for at_ms, member_id in self._deadlines(watched) if at_ms < now_ms)
                found |= {(at_ms, group, member_id) for at_ms, member_id in due}
        for _, group, member_id in sorted(found):
            self.changed.add(group)
            watched = self.groups[group]
            if member_id:
                yield self._not_reconciled(group, watched, member_id, now_ms)
            else:
                yield self._silent(group, watched, now_ms)
        for group in sorted(again):
            self._schedule(group)

    def _deadlines(self, watched: GroupActivity) -> Iterator[tuple[int, str | None]]:
        """Return the current deadlines: of the group (`None`), and by member id."""
        silence_ms = self.limits.silence_ms
        silent = watched.is_silent or watched.has_members is False
        if silence_ms is not None and watched.commit_ms is not None and watched.commit_ms >= 0 and not silent:
            yield watched.commit_ms + silence_ms, None
        if watched.assigned_ms < 0:
            return
        for member_id, (timeout_ms, epoch, is_stable, alerted_epoch) in watched.members.items():
            limit_ms = timeout_ms if self.limits.reconcile_ms is None else self.limits.reconcile_ms
            is_late = epoch >= 0 and not (is_stable and epoch == watched.assignment_epoch)
            if is_late and limit_ms > 0 and alerted_epoch != watched.assignment_epoch:
                yield watched.assigned_ms + limit_ms, member_id

    def _schedule(self, group: str) -> None:
        watched = self.groups.get(group)
        first = None if watched is None else min((at_ms for at_ms, _ in self._deadlines(watched)), default=None)
        if first is not None:
            heapq.heappush(self._due, (first, group))

    def _silent(self, group: str, watched: GroupActivity, now_ms: int) -> Alert:
        assert watched.commit_ms is not None
        watched.is_silent = True
        return {
            "group": group,
            "alert": "no-commits",
            "at": now_ms * 1000,
            "since": watched.commit_ms * 1000,
            "value": now_ms - watched.commit_ms,
            "limit": self.limits.silence_ms,
            "message": f"{group} has committed nothing for {now_ms - watched.commit_ms} ms",
        }

    def _not_reconciled(self, group: str, watched: GroupActivity, member_id: str, now_ms: int) -> Alert:
        known = watched.members[member_id]
        known[3] = watched.assignment_epoch
        took_ms = now_ms - watched.assigned_ms
        return {
            "group": group,
            "alert": "not-reconciled",
            "at": now_ms * 1000,
            "since": watched.assigned_ms * 1000,
            "member_id": member_id,
            "value": took_ms,
            "limit": known[0] if self.limits.reconcile_ms is None else self.limits.reconcile_ms,
            "message": f"{group}: member {member_id} is at epoch {known[1]}, {took_ms} ms after "
            f"the target assignment of epoch {watched.assignment_epoch}",
        }
