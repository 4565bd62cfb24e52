"""Turns the history of a group into events: each rebalance once, with its causes.

A rebalance of a classic group is a new generation: its records are written when it ends. In other
groups it begins with a higher group epoch, and ends when all members are reconciled at that epoch,
or when a higher epoch supersedes it. Where records come from, and how events are stored, is not
part of this module.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quorate.codecs import Uuid
from quorate.codecs.printable import counted, time_text
from quorate.coordinator.history import Event, GroupView, Labels, MemberView
from quorate.coordinator.history.facts import (
    EpochBumped,
    Fact,
    GenerationBegan,
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    Move,
    OffsetsDeleted,
    TargetChanged,
)
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.state import GroupKind
from quorate.watch.causes import (
    AssignorChanged,
    CooperativeStep,
    CoordinatorMoved,
    MemberMoved,
    MemberTimedOut,
    PartitionsChanged,
    Rejoined,
    StaticBounce,
    TopicsChanged,
    UnknownCause,
    Upgraded,
    causes_of,
    fact_from_json,
)
from quorate.watch.limits import WatchLimits
from quorate.watch.model import EventKind, MovedPartition, Place, WatchEvent, as_json

__all__ = ["GroupTracker", "TopicFacts", "cross_rack_share", "is_settled"]


class TopicFacts(Protocol):
    """What is known about topics. `names`: topic id → name, also learned from records."""

    names: dict[Uuid, str]

    def labels(self) -> Labels:
        """Return names for sentences."""
        ...

    def racks(self, partition: Partition) -> tuple[str | None, ...] | None:
        """Return the racks of a partition's replicas, the leader's first; `None` if unknown."""
        ...

    def passed(self, group_id: str) -> None:
        """Note a rebalance of the group, which earlier changes do not cause again."""
        ...

    def change(self, group_id: str, topics: Collection[str]) -> TopicsChanged | None:
        """Return what changed in these topics since the last call for the group."""
        ...


class MemberTimes(Protocol):
    """What the state of a group has on a member that leaves."""

    def last_commit_ms(self, group_id: str, partitions: Iterable[Partition]) -> int | None:
        """Return when the latest of these partitions was committed."""
        ...

    def began_ms(self, group_id: str, at_ms: int) -> int:
        """Return when the rebalance of a classic group began that was written at a time."""
        ...

    def timeouts(self, group_id: str, member_id: str) -> tuple[int | None, int | None]:
        """Return session timeout and rebalance timeout of a member, `None` for unknown."""
        ...


def is_local(member: MemberView, partition: Partition, topics: TopicFacts) -> bool | None:
    """Return whether a replica is in the member's rack; `None` if either is unknown."""
    racks = None if member.rack is None else topics.racks(partition)
    return None if not racks or not any(racks) else member.rack in racks


def cross_rack_share(view: GroupView | None, topics: TopicFacts) -> float | None:
    """Return the share of assigned partitions without a replica in their member's rack."""
    known = [
        local
        for member in (() if view is None else view.members.values())
        if member.rack is not None
        for partition in member.assigned
        if (local := is_local(member, partition, topics)) is not None
    ]
    return known.count(False) / len(known) if known else None


def is_settled(view: GroupView) -> bool:
    """Return whether all members have their target assignment, at the epoch of the group."""
    if view.kind is GroupKind.CLASSIC or not view.members:
        return True
    return view.assignment_epoch == view.epoch and all(
        member.epoch < 0 or (member.epoch == view.epoch and member.state == "stable")
        for member in view.members.values()
    )


@dataclass(slots=True)
class _Open:
    """A rebalance that has not ended."""

    epoch: int
    began_ms: int
    causes: tuple[Fact, ...]
    moved: dict[Place, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    cross_rack: float | None = None
    stuck: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "began_ms": self.began_ms,
            "causes": as_json(self.causes),
            "moved": [[*place, *ways] for place, ways in self.moved.items()],
            "cross_rack": self.cross_rack,
            "stuck": self.stuck,
        }

    @classmethod
    def from_json(cls, text: dict[str, Any]) -> "_Open":
        return cls(
            text["epoch"],
            text["began_ms"],
            tuple(map(fact_from_json, text["causes"])),
            {(topic, number): (tuple(old), tuple(new)) for topic, number, old, new in text["moved"]},
            text["cross_rack"],
            text["stuck"],
        )

    def moves(self) -> tuple[MovedPartition, ...]:
        return tuple(
            MovedPartition(topic=topic, partition=number, before=before, after=after)
            for (topic, number), (before, after) in sorted(self.moved.items())
            if sorted(before) != sorted(after)
        )


class GroupTracker:
    """The rebalances of one group.

    `view`: the group after the last event. `dirty`: `as_json` has changed since it was cleared.
    """

    def __init__(self, group_id: str, topics: TopicFacts, members: MemberTimes, limits: WatchLimits) -> None:
        self.group_id = group_id
        self.view: GroupView | None = None
        self.dirty = False
        self.last_rebalance_ms: int | None = None
        self._topics = topics
        self._members = members
        self._limits = limits
        self._open: _Open | None = None
        self._unowned: set[Place] = set()
        self._revoking: dict[str, int] = {}
        self._joins: dict[str, list[int]] = {}
        self._flapping: dict[str, int] = {}
        self._leader_epoch: int | None = None

    # ---- persistence

    def as_json(self) -> dict[str, Any]:
        """Return what a restart needs in addition to the records."""
        return {
            "open": None if self._open is None else self._open.as_json(),
            "unowned": sorted(self._unowned),
            "revoking": self._revoking,
            "joins": self._joins,
            "flapping": self._flapping,
            "leader_epoch": self._leader_epoch,
            "last_rebalance_ms": self.last_rebalance_ms,
        }

    def restore(self, text: dict[str, Any] | None, view: GroupView | None) -> None:
        """Continue with what `as_json` returned, and the group as it was then."""
        self.view = view
        if text is not None:
            self._open = None if text["open"] is None else _Open.from_json(text["open"])
            self._unowned = {(topic, number) for topic, number in text["unowned"]}
            self._revoking, self._joins, self._flapping = text["revoking"], text["joins"], text["flapping"]
            self._leader_epoch, self.last_rebalance_ms = text["leader_epoch"], text["last_rebalance_ms"]

    # ---- events

    def take(self, event: Event, view: GroupView | None, leader_epoch: int | None = None) -> list[WatchEvent]:
        """Return the events that follow from one write, after which the group is `view`."""
        self.dirty = True
        before, self.view = self.view, view
        labels = self._topics.labels()
        sentences = tuple(fact.sentence(labels) for fact in event.facts)
        found = [
            self._event(event, kind, sentence, cause=cause, facts=sentences)
            for kind, sentence, cause in self._plain(event, before)
        ]
        causes = self._causes(event, before, view, leader_epoch)
        if causes:
            found += self._begin(event, causes, before, view, sentences)
        elif self._open is not None:
            self._note_moves(event.facts)
        if self._open is not None and (view is None or is_settled(view)):
            found.append(self._end(event, event.timestamp_ms, sentences))
        self._note_members(event, view)
        found += self._flaps(event)
        if leader_epoch is not None:
            self._leader_epoch = leader_epoch
        return found

    def tick(self, now_ms: int, partition: int | None) -> list[WatchEvent]:
        """Return an event if the group is stuck. `partition`: that of its log."""
        one = self._open
        if one is None or one.stuck or self.view is None or now_ms - one.began_ms < self._limits.stuck_ms:
            return []
        one.stuck = self.dirty = True
        late = [
            f"member {member.member_id} is at epoch {member.epoch}"
            + (
                f" and must revoke {counted(len(member.pending_revocation), 'partition')}"
                if member.state == "revoking"
                else " and waits for partitions of other members"
                if member.state == "waiting"
                else ""
            )
            for member in self.view.members.values()
            if 0 <= member.epoch != one.epoch or member.state != "stable"
        ]
        minutes = self._limits.stuck_ms / 60_000
        return [
            WatchEvent(
                id=0,
                at_ms=one.began_ms + self._limits.stuck_ms,
                seen_ms=now_ms,
                group_id=self.group_id,
                kind=EventKind.STUCK,
                sentence=f"the rebalance of epoch {one.epoch} has not ended within {minutes:g} minutes",
                cause=one.causes[0],
                more_causes=one.causes[1:],
                epoch=one.epoch,
                facts=tuple(late),
                partition=partition,
            )
        ]  # fmt: skip

    def _event(
        self,
        event: Event,
        kind: EventKind,
        sentence: str,
        *,
        cause: Fact | None = None,
        at_ms: int | None = None,
        **more: Any,
    ) -> WatchEvent:
        return WatchEvent(
            id=0,
            at_ms=event.timestamp_ms if at_ms is None else at_ms,
            seen_ms=0,
            group_id=self.group_id,
            kind=kind,
            sentence=sentence,
            cause=cause,
            topic=event.topic,
            partition=event.partition,
            offset=event.offset,
            **more,
        )

    def _plain(self, event: Event, before: GroupView | None) -> Iterator[tuple[EventKind, str, Fact | None]]:
        """Yield events about the group and single members."""
        labels = self._topics.labels()
        is_rebalance = any(isinstance(fact, EpochBumped | GenerationBegan) for fact in event.facts)
        for fact in event.facts:
            sentence = fact.sentence(labels)
            if isinstance(fact, GroupCreated):
                yield EventKind.GROUP_CREATED, sentence, None
            elif isinstance(fact, GroupConverted):
                yield EventKind.GROUP_CONVERTED, sentence, None
            elif isinstance(fact, MemberReplaced) and not is_rebalance:
                bounce = StaticBounce(instance_id=fact.instance_id, before=fact.before, after=fact.after)
                yield EventKind.MEMBER_REPLACED, sentence, bounce
            elif isinstance(fact, GroupDeleted):
                if self._is_old(event):
                    since = f"it had no members and no commits for {_duration(self._limits.retention_ms)}"
                    yield EventKind.GROUP_EXPIRED, f"the group expired: {since}", None
                else:
                    yield EventKind.GROUP_DELETED, sentence, None

    def _is_old(self, event: Event) -> bool:
        """Return whether the group could expire: its last change is older than the retention.

        Deletion by an admin has the same records.
        """
        last = self._members.last_commit_ms(
            self.group_id,
            [at for fact in event.facts if isinstance(fact, OffsetsDeleted) for at in fact.partitions],
        )
        times = [one for one in (last, self.last_rebalance_ms) if one is not None]
        return bool(times) and event.timestamp_ms - max(times) >= self._limits.retention_ms

    # ---- causes

    def _causes(
        self, event: Event, before: GroupView | None, view: GroupView | None, leader_epoch: int | None
    ) -> list[Fact]:
        facts = event.facts
        found = causes_of(facts)
        began = any(isinstance(fact, EpochBumped | GenerationBegan) for fact in facts)
        if not began or view is None:
            return []
        if view.kind is GroupKind.CLASSIC:
            found += self._of_client(facts, before, view) if not any(map(_is_strong, found)) else []
        found = [self._refined(cause, event, before, view) for cause in found]
        moved = self._leader_epoch is not None and leader_epoch is not None and leader_epoch != self._leader_epoch
        if moved and leader_epoch is not None and not any(map(_is_strong, found)):
            assert self._leader_epoch is not None
            known = [cause for cause in found if not isinstance(cause, UnknownCause)]
            found = [*known, CoordinatorMoved(before=self._leader_epoch, after=leader_epoch)]
        return found or [Rejoined() if view.kind is GroupKind.CLASSIC else UnknownCause()]

    def _refined(self, cause: Fact, event: Event, before: GroupView | None, view: GroupView) -> Fact:
        if type(cause) is MemberLeft:
            return self._timed_out(cause, event.timestamp_ms, before) or cause
        if isinstance(cause, MemberMoved | UnknownCause) and len(tied := _tied_assignors(view)) > 1:
            # Neither changes the epoch. Kafka 4.4 may choose another one of equally preferred ones.
            return AssignorChanged(before=tied[0], after=tied[1])
        if isinstance(cause, Upgraded) and cause.what == "brokers" and not _is_upgrade(before, view):
            cause = TopicsChanged()
        if type(cause) is TopicsChanged:
            return (
                self._topics.change(self.group_id, view.topics or ())
                or self._new_partitions(event.facts, before)
                or cause
            )
        return cause

    def _timed_out(self, left: MemberLeft, at_ms: int, before: GroupView | None) -> MemberTimedOut | None:
        member = None if before is None else before.members.get(left.member_id)
        if member is None:
            return None
        session_ms, rebalance_ms = self._members.timeouts(self.group_id, left.member_id)
        since = self._revoking.get(left.member_id)
        if since is not None and rebalance_ms is not None and -_EARLY_MS <= at_ms - since - rebalance_ms < _SLACK_MS:
            return MemberTimedOut(
                member_id=left.member_id, instance_id=left.instance_id, timer="rebalance", silent_ms=at_ms - since
            )
        session_ms = self._limits.session_ms if session_ms is None else session_ms
        last = self._members.last_commit_ms(self.group_id, member.assigned)
        if last is not None and session_ms <= at_ms - last < session_ms + _SLACK_MS:
            return MemberTimedOut(
                member_id=left.member_id, instance_id=left.instance_id, timer="session", silent_ms=at_ms - last
            )
        return None

    def _of_client(self, facts: Sequence[Fact], before: GroupView | None, view: GroupView) -> Iterator[Fact]:
        """Yield causes of a generation whose members and subscriptions are the same."""
        if before is not None and before.assignor != view.assignor and before.members:
            yield AssignorChanged(before=before.assignor or "", after=view.assignor or "")
        new = self._new_partitions(facts, before)
        again = [move for move in _moves(facts) if not move.before and self._place(move.partition) in self._unowned]
        if new is not None:
            yield new
        elif again:
            yield CooperativeStep(partitions=len(again))
        elif (change := self._topics.change(self.group_id, view.topics or ())) is not None:
            yield change

    def _new_partitions(self, facts: Sequence[Fact], before: GroupView | None) -> PartitionsChanged | None:
        """Return topics with more partitions: later ones than before are assigned."""
        most: dict[Any, int] = {}
        for member in () if before is None else before.members.values():
            for topic, number in member.target | member.assigned:
                most[topic] = max(most.get(topic, -1), number)
        for topic, number in self._unowned:
            most[topic] = max(most.get(topic, -1), number)
        grown = {
            self._place(move.partition)[0]
            for move in _moves(facts)
            if not move.before and move.partition[1] > most.get(move.partition[0], 1 << 31)
        }
        return PartitionsChanged(topics=tuple(sorted(grown))) if grown else None

    # ---- begin and end

    def _begin(
        self,
        event: Event,
        causes: list[Fact],
        before: GroupView | None,
        view: GroupView | None,
        sentences: tuple[str, ...],
    ) -> Iterator[WatchEvent]:
        assert view is not None
        if self._open is not None:
            yield self._end(event, event.timestamp_ms, (f"superseded by epoch {view.epoch}",))
        labels = self._topics.labels()
        why = "; ".join(cause.sentence(labels) for cause in causes[:4])
        began_ms = event.timestamp_ms
        if view.kind is GroupKind.CLASSIC:
            self._topics.passed(self.group_id)
            began_ms = self._members.began_ms(self.group_id, began_ms)
        self._open = _Open(view.epoch, began_ms, tuple(causes), cross_rack=cross_rack_share(before, self._topics))
        self._note_moves(event.facts)
        yield self._event(
            event,
            EventKind.REBALANCE_BEGAN,
            f"rebalance to {_numbered(view)} began: {why}",
            at_ms=began_ms,
            cause=causes[0],
            more_causes=tuple(causes[1:]),
            epoch=view.epoch,
            facts=sentences,
        )

    def _end(self, event: Event, at_ms: int, sentences: tuple[str, ...]) -> WatchEvent:
        one = self._open
        assert one is not None
        self._open = None
        self.last_rebalance_ms = at_ms
        moves = one.moves()
        self._unowned = {(move.topic, move.partition) for move in moves if not move.after}
        labels = self._topics.labels()
        took = _duration(at_ms - one.began_ms)
        what = "generation" if self.view is not None and self.view.kind is GroupKind.CLASSIC else "epoch"
        return self._event(
            event,
            EventKind.REBALANCE_ENDED,
            f"rebalance to {what} {one.epoch} ended after {took}, {counted(len(moves), 'partition')} moved: "
            + "; ".join(cause.sentence(labels) for cause in one.causes[:4]),
            cause=one.causes[0],
            more_causes=one.causes[1:],
            epoch=one.epoch,
            duration_ms=at_ms - one.began_ms,
            moved=moves,
            cross_rack_before=one.cross_rack,
            cross_rack_after=cross_rack_share(self.view, self._topics),
            facts=sentences,
        )

    def _note_moves(self, facts: Sequence[Fact]) -> None:
        assert self._open is not None
        for move in _moves(facts):
            place = self._place(move.partition)
            first, _ = self._open.moved.get(place, (move.before, ()))
            self._open.moved[place] = first, move.after

    def _place(self, partition: Partition) -> Place:
        return self._topics.labels().topic(partition[0]), partition[1]

    # ---- members

    def _note_members(self, event: Event, view: GroupView | None) -> None:
        members: Mapping[str, MemberView] = {} if view is None else view.members
        revoking = {one.member_id for one in members.values() if one.state == "revoking"}
        for member_id in [one for one in self._revoking if one not in revoking]:
            del self._revoking[member_id]
        for member_id in revoking:
            self._revoking.setdefault(member_id, event.timestamp_ms)

    def _flaps(self, event: Event) -> Iterator[WatchEvent]:
        for fact in event.facts:
            if not isinstance(fact, MemberJoined | MemberReplaced):
                continue
            member_id = fact.member_id if isinstance(fact, MemberJoined) else fact.after
            member = None if self.view is None else self.view.members.get(member_id)
            who = fact.instance_id or (
                f"{member.client_id} on {member.client_host}" if member is not None else member_id
            )
            since = event.timestamp_ms - self._limits.flapping_ms
            times = [*(at for at in self._joins.get(who, ()) if at > since), event.timestamp_ms]
            self._joins[who] = times
            if len(times) >= self._limits.flapping_joins and self._is_flapping(who, times):
                self._flapping[who] = event.timestamp_ms
                yield self._event(
                    event,
                    EventKind.FLAPPING,
                    f"{who} joined {len(times):,} times within {_duration(self._limits.flapping_ms)}",
                    facts=tuple(f"joined at {time_text(at)}" for at in times),
                )
        for who in [
            who for who, times in self._joins.items() if times[-1] <= event.timestamp_ms - self._limits.flapping_ms
        ]:
            del self._joins[who]
            self._flapping.pop(who, None)

    def _is_flapping(self, who: str, times: list[int]) -> bool:
        """Return whether to report it: once, until it has been quiet for as long.

        Several instances of a client with the same id on a host that start together are not one
        client that comes back: as many of them are members at the same time.
        """
        if who in self._flapping or self.view is None:
            return False
        now = sum(
            who in (member.instance_id, f"{member.client_id} on {member.client_host}")
            for member in self.view.members.values()
        )
        return len(times) - now + 1 >= self._limits.flapping_joins


_EARLY_MS = 500
"""A record is written after the timer was started, by so much at most."""

_SLACK_MS = 10_000
"""A timeout is noticed within this time, and an automatic commit is at most 5 s old."""


def _moves(facts: Iterable[Fact]) -> list[Move]:
    return [move for fact in facts if isinstance(fact, TargetChanged) for move in fact.moves]


def _is_upgrade(before: GroupView | None, view: GroupView) -> bool:
    """Return whether brokers of another release explain that a hash appeared or disappeared.

    Brokers before Kafka 4.1 write a record of type 4 instead, which later ones delete. Without one,
    none of the subscribed topics existed.
    """
    return before is None or before.has_topic_record or view.has_topic_record


def _tied_assignors(view: GroupView) -> list[str]:
    """Return the server-side assignors that equally many members prefer, if several do."""
    votes = Counter(member.assignor for member in view.members.values() if member.assignor)
    most = max(votes.values(), default=0)
    return sorted(name for name, count in votes.items() if count == most)


def _is_strong(cause: Fact) -> bool:
    return not isinstance(cause, UnknownCause | Rejoined | TopicsChanged)


def _numbered(view: GroupView) -> str:
    return f"{'generation' if view.kind is GroupKind.CLASSIC else 'epoch'} {view.epoch}"


def _duration(duration_ms: int) -> str:
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 120_000:
        return f"{duration_ms / 1000:.1f} s"
    return f"{duration_ms / 60_000:.0f} min" if duration_ms < 7_200_000 else f"{duration_ms / 3_600_000:.0f} h"
