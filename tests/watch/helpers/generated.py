"""An observer of generated groups for tests of the page: many groups, one with many partitions.

Each group has some rebalances in the hour before the start, in which one member leaves or comes
back. `rebalance` lets another one happen. Lags follow a curve of the time.
"""

import time
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from math import sin
from threading import Condition

from quorate.codecs.errors import InputError
from quorate.coordinator.history.facts import MemberJoined, MemberLeft
from quorate.watch.model import (
    EventKind,
    GroupMoment,
    GroupSummary,
    LagSample,
    MemberRow,
    MovedPartition,
    OwnershipSpan,
    PartitionRow,
    TopicRow,
    UpgradeFinding,
    WatchEvent,
    WatchStatus,
)

HOUR_MS = 3_600_000
RACKS = ("a", "b", "c")
STATES = ("Stable", "Stable", "Stable", "Stable", "Empty", "PreparingRebalance", "Reconciling")
KINDS = ("consumer", "consumer", "classic", "share", "streams")

NAMES = (
    "<img src=x onerror=\"document.title='hacked'\">",
    "<script>document.title='hacked'</script>",
    "\"'><svg/onload=document.title='hacked'>",
    "javascript:alert(1)",
    "../../etc/passwd?a=b&c=d#e",
    "\u202egnirts desrever",
    "orders/eu west+1%2F",
    "",
)
"""Ids that groups may have in Kafka, and pages should not interpret."""


@dataclass
class _Group:
    group_id: str
    kind: str
    state: str
    members: list[str]
    topic: str
    partitions: int
    phase: float
    steps: list[tuple[int, int]] = field(default_factory=list)  # since when, and which member is away (-1: none)
    owners: dict[int, list[str | None]] = field(default_factory=dict)  # by the member that is away
    spark: tuple[int, tuple[int, ...]] = (-1, ())  # until when, and lags

    def present(self, step: int) -> list[str]:
        away = self.steps[step][1]
        return [member for index, member in enumerate(self.members) if index != away]

    def owner(self, step: int, partition: int) -> str | None:
        away = self.steps[step][1]
        if away not in self.owners:
            present, members = self.present(step), self.members
            self.owners[away] = [
                members[number % len(members)]
                if members and number % len(members) != away
                else (present[number % len(present)] if present else None)
                for number in range(self.partitions)
            ]
        return self.owners[away][partition]

    def step_at(self, at_ms: int) -> int:
        return bisect_right(self.steps, at_ms, key=lambda step: step[0]) - 1


class GeneratedWatch:
    """Implements `Watched` over generated groups. `now_ms` is the time of the last change."""

    def __init__(
        self, groups: int = 1_000, members: int = 50, *, partitions: int = 2_000, steps: int = 3, names: bool = True
    ) -> None:
        self.started_ms = time.time_ns() // 1_000_000
        self.since_ms = self.started_ms - HOUR_MS
        self._changed = Condition()
        self._version = 1
        self._errors: tuple[str, ...] = ()
        self._groups: dict[str, _Group] = {}
        self._events: list[WatchEvent] = []
        plain = [f"team-{number % 40:02}.service-{number:04}" for number in range(groups)]
        for number, name in enumerate(["orders-fulfilment", *plain, *(NAMES if names else ())]):
            large = number == 0
            state = "Stable" if large else STATES[number * 5 % len(STATES)]
            group = _Group(
                group_id=name,
                kind="consumer" if large else KINDS[number % len(KINDS)],
                state=state,
                members=[] if state == "Empty" else [f"member-{number}-{index}" for index in range(members)],
                topic="orders" if large else f"topic-{number % 97:02}",
                partitions=partitions if large else 60,
                phase=number * 7 % 31 + number % 13 / 13,
            )
            spread = HOUR_MS // (steps + 1)
            group.steps = [(self.since_ms, -1)]
            for step in range(1, steps + 1):
                at = self.since_ms + step * spread + number * 7_919_177 % (spread // 2)
                group.steps.append((at, (number + step) % members if step % 2 else -1))
            self._groups[name] = group
        pairs = sorted((at, g.group_id, i) for g in self._groups.values() for i, (at, _) in enumerate(g.steps) if i)
        for at, name, step in pairs:
            self._add_events(self._groups[name], step, at)

    # What happens.

    def rebalance(self, group_id: str) -> int:
        """Let a member leave, or come back; return the id of the event that ends the rebalance."""
        group = self._groups[group_id]
        now = self._now()
        with self._changed:
            group.steps.append((now, -1 if group.steps[-1][1] >= 0 else len(group.steps) % len(group.members)))
            self._add_events(group, len(group.steps) - 1, now)
            self._version += 1
            self._changed.notify_all()
            return self._events[-1].id

    def delete(self, group_id: str) -> None:
        """Delete a group."""
        with self._changed:
            del self._groups[group_id]
            self._version += 1
            self._changed.notify_all()

    def fail(self, *errors: str) -> None:
        """Set the problems of the observer."""
        with self._changed:
            self._errors = errors
            self._version += 1
            self._changed.notify_all()

    def _add_events(self, group: _Group, step: int, at: int) -> None:
        away = group.steps[step][1]
        member = group.members[away if away >= 0 else group.steps[step - 1][1]] if group.members else "member"
        client = f"client-{member}"
        cause = (
            MemberLeft(member_id=member, instance_id=None)
            if away >= 0
            else MemberJoined(member_id=member, instance_id=None, rack="a", client_id=client)
        )
        moved = tuple(
            MovedPartition(
                topic=group.topic, partition=number, before=(before,) if before else (), after=(after,) if after else ()
            )
            for number in range(min(group.partitions, 300))
            if (before := group.owner(step - 1, number)) != (after := group.owner(step, number))
        )
        common = {"at_ms": at, "seen_ms": at + 20, "group_id": group.group_id, "cause": cause, "epoch": step}
        self._events.append(
            WatchEvent(
                id=len(self._events) + 1,
                kind=EventKind.REBALANCE_BEGAN,
                sentence=f"{group.group_id}: rebalance began, because {cause}",
                **common,
            )
        )
        self._events.append(
            WatchEvent(
                id=len(self._events) + 1,
                kind=EventKind.REBALANCE_ENDED,
                sentence=f"{group.group_id}: rebalance ended after 1.2 s; {len(moved)} partitions moved",
                duration_ms=1_200,
                moved=moved,
                cross_rack_before=0.1,
                cross_rack_after=0.3,
                facts=(str(cause), f"group epoch {step - 1} became {step}"),
                partition=17,
                offset=4_000 + step,
                **common,
            )
        )

    # What is known.

    def _now(self) -> int:
        return time.time_ns() // 1_000_000

    def status(self) -> WatchStatus:
        return WatchStatus(
            mode="live",
            caught_up=True,
            late_ms=0,
            read={f"__consumer_offsets-{number}": 1_000 + self._version for number in range(50)},
            records=50_000 + self._version,
            errors=self._errors,
            since_ms=self.since_ms,
            source="generated groups",
        )

    def _lag_ms(self, group: _Group, at_ms: int) -> int | None:
        if group.kind == "share":
            return None
        return max(0, int(4_000 + 4_000 * sin(at_ms / 240_000 + group.phase) + 300 * group.phase))

    def _summary(self, group: _Group, at_ms: int, *, spark: bool = True) -> GroupSummary:
        step = group.step_at(at_ms)
        lag = self._lag_ms(group, at_ms)
        return GroupSummary(
            group_id=group.group_id,
            kind=group.kind,
            state=group.state,
            protocol_type="consumer",
            assignor="uniform",
            epoch=step,
            members=len(group.present(step)),
            partitions=group.partitions,
            lag_records=group.partitions * (lag or 0) // 100,
            lag_ms=lag,
            locality=None if group.state == "Empty" else 0.5 + 0.0156 * group.phase,
            last_rebalance_ms=group.steps[step][0] if step else None,
            rebalances=len(group.steps) - 1,
            commits=step * 100,
            spark=self._spark(group, at_ms) if spark else (),
        )

    def _spark(self, group: _Group, at_ms: int) -> tuple[int, ...]:
        """Return recent lags. They are kept, as an observer keeps them."""
        if group.spark[0] != at_ms:
            group.spark = at_ms, tuple(self._lag_ms(group, at_ms - (59 - back) * 60_000) or 0 for back in range(60))
        return group.spark[1]

    def groups(self, *, at_ms: int | None = None) -> list[GroupSummary]:
        minute = (at_ms or self._now()) // 60_000 * 60_000  # lags change once a minute
        with self._changed:
            groups = sorted(self._groups.values(), key=lambda one: one.group_id)
            last = max(at_ms or 0, self._now() if at_ms is None else 0)
            now = at_ms is None
            return [self._summary(one, max(minute, one.steps[one.step_at(last)][0]), spark=now) for one in groups]

    def group(self, group_id: str, *, at_ms: int | None = None) -> GroupMoment | None:
        at = at_ms or self._now()
        group = self._groups.get(group_id)
        if group is None or at < self.since_ms:
            return None
        step = group.step_at(at)
        owners = {number: group.owner(step, number) for number in range(group.partitions)}
        places: dict[str | None, list[tuple[str, int]]] = {}
        for number, owner in owners.items():
            places.setdefault(owner, []).append((group.topic, number))
        racks = {member: RACKS[index % 3] for index, member in enumerate(group.members)}
        lag = self._lag_ms(group, at)
        return GroupMoment(
            group_id=group_id,
            at_ms=at,
            summary=self._summary(group, at),
            members=tuple(
                MemberRow(
                    member_id=member,
                    client_id=f"client-{member}",
                    host=f"10.0.{len(member)}.7",
                    rack=racks[member],
                    epoch=step,
                    protocol=group.kind,
                    assigned=tuple(places.get(member, ())),
                    target=tuple(places.get(member, ())),
                )
                for member in group.present(step)
            ),
            partitions=tuple(
                PartitionRow(
                    topic=group.topic,
                    partition=number,
                    member_id=owner,
                    committed=10_000 + number,
                    committed_ms=at - 2_000,
                    end=10_000 + number + (lag or 0) // 100,
                    lag_records=(lag or 0) // 100,
                    lag_ms=None if lag is None else lag * (number % 10) // 10,
                    leader_rack=RACKS[number // 2 % 3],
                    owner_rack=racks.get(owner or ""),
                )
                for number, owner in owners.items()
            ),
        )

    def ownership(self, group_id: str, *, from_ms: int, to_ms: int) -> list[OwnershipSpan]:
        group = self._groups.get(group_id)
        if group is None:
            return []
        racks = {member: RACKS[index % 3] for index, member in enumerate(group.members)}
        now, spans = self._now(), []
        for number in range(group.partitions):
            begin = 0
            while begin < len(group.steps):
                owner, end = group.owner(begin, number), begin + 1
                while end < len(group.steps) and group.owner(end, number) == owner:
                    end += 1
                first = group.steps[begin][0]
                last = group.steps[end][0] if end < len(group.steps) else None
                if owner is not None and first <= to_ms and (last is None or last >= from_ms):
                    until = last if last is not None else (to_ms if to_ms < now - 1_000 else None)
                    spans.append(
                        OwnershipSpan(
                            topic=group.topic,
                            partition=number,
                            member_id=owner,
                            client_id=f"client-{owner}",
                            host="10.0.0.7",
                            rack=racks[owner],
                            from_ms=max(first, from_ms),
                            to_ms=until,
                        )
                    )
                begin = end
        return spans

    def events(
        self,
        *,
        group_id: str | None = None,
        kinds: Collection[EventKind] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        after_id: int | None = None,
        limit: int = 500,
        newest_first: bool = True,
    ) -> list[WatchEvent]:
        events = self._events[after_id or 0 :]  # ids count from 1
        found = [
            event
            for event in (events[::-1] if newest_first else events)
            if (group_id is None or event.group_id == group_id)
            and (kinds is None or event.kind in kinds)
            and (from_ms is None or event.at_ms >= from_ms)
            and (to_ms is None or event.at_ms <= to_ms)
        ]
        return found[:limit]

    def lag(self, group_id: str, *, from_ms: int, to_ms: int, points: int = 200) -> list[LagSample]:
        group = self._groups.get(group_id)
        if group is None:
            return []
        step = max(1, (to_ms - from_ms) // points)
        lags = [(at, self._lag_ms(group, at)) for at in range(from_ms, to_ms + 1, step)][:points]
        return [LagSample(at_ms=at, lag_records=None if lag is None else lag // 10, lag_ms=lag) for at, lag in lags]

    def difference(self, group_id: str, *, from_ms: int, to_ms: int) -> list[str]:
        group = self._groups[group_id]
        first, last = group.step_at(from_ms), group.step_at(to_ms)
        moved = sum(group.owner(first, number) != group.owner(last, number) for number in range(group.partitions))
        return [f"group epoch {first} became {last}", f"{moved} partitions moved"] if first != last else []

    def topics(self) -> list[TopicRow]:
        topics: dict[str, list[str]] = {}
        for group in self._groups.values():
            topics.setdefault(group.topic, []).append(group.group_id)
        return [TopicRow(topic=name, partitions=60, groups=tuple(ids)) for name, ids in sorted(topics.items())]

    def upgrade_findings(self, release: str) -> list[UpgradeFinding]:
        if release not in ("4.0.0", "4.3.0", "4.4.0"):
            raise InputError(f"release {release!r} is unknown", "use 4.0.0, 4.3.0 or 4.4.0")
        return [
            UpgradeFinding(
                group_id=name, kind="consumer", finding="will-bump", sentence=f"will be rebalanced by {release}"
            )
            for name in self._groups
            if name.endswith("7")
        ]

    def wait(self, after: int, timeout_s: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._version > after, timeout_s)
            return self._version
