"""Turns the history of a group into events: each rebalance once, with its causes.

A rebalance of a classic group is a new generation: its records are written when it ends. In other
groups it begins with a higher group epoch, and ends when all members are reconciled at that epoch,
or when a higher epoch supersedes it. Where records come from, and how events are stored, is not
part of this module.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.codecs.printable import counted, duration_text
from quorate.coordinator.history import Event, GroupView
from quorate.coordinator.history.facts import (
    EpochBumped,
    Fact,
    GenerationBegan,
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    MemberReplaced,
    OffsetsDeleted,
)
from quorate.coordinator.state import GroupKind
from quorate.watch.causes import (
    StaticBounce,
    fact_from_json,
)
from quorate.watch.flapping import Joins
from quorate.watch.limits import WatchLimits
from quorate.watch.locality import cross_rack_share
from quorate.watch.model import EventKind, MovedPartition, Place, WatchEvent, as_json
from quorate.watch.rebalance_causes import CauseFinder, MemberTimes, moves_of
from quorate.watch.topics import KnownTopics


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

    def __init__(self, group_id: str, topics: KnownTopics, members: MemberTimes, limits: WatchLimits) -> None:
        self.group_id = group_id
        self.view: GroupView | None = None
        self.dirty = False
        self.last_rebalance_ms: int | None = None
        self._topics = topics
        self._members = members
        self._limits = limits
        self._open: _Open | None = None
        self._causes = CauseFinder(group_id, topics, members, limits)
        self._joins = Joins(limits)

    # ---- persistence

    def as_json(self) -> dict[str, Any]:
        """Return what a restart needs in addition to the records."""
        return {
            "open": None if self._open is None else self._open.as_json(),
            "unowned": sorted(self._causes.unowned),
            "revoking": self._causes.revoking,
            "joins": self._joins.joins,
            "flapping": self._joins.flapping,
            "leader_epoch": self._causes.leader_epoch,
            "last_rebalance_ms": self.last_rebalance_ms,
        }

    def restore(self, text: dict[str, Any] | None, view: GroupView | None) -> None:
        """Continue with what `as_json` returned, and the group as it was then."""
        self.view = view
        if text is not None:
            self._open = None if text["open"] is None else _Open.from_json(text["open"])
            self._causes.unowned = {(topic, number) for topic, number in text["unowned"]}
            self._causes.revoking, self._causes.leader_epoch = text["revoking"], text["leader_epoch"]
            self._joins.joins, self._joins.flapping = text["joins"], text["flapping"]
            self.last_rebalance_ms = text["last_rebalance_ms"]

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
        causes = self._causes.of(event, before, view, leader_epoch)
        if causes:
            found += self._begin(event, causes, before, view, sentences)
        elif self._open is not None:
            self._note_moves(event.facts)
        if self._open is not None and (view is None or is_settled(view)):
            found.append(self._end(event, event.timestamp_ms, sentences))
        self._causes.note_members(event, view)
        found += [
            self._event(event, EventKind.FLAPPING, sentence, facts=facts)
            for sentence, facts in self._joins.note(event, view)
        ]
        if leader_epoch is not None:
            self._causes.leader_epoch = leader_epoch
        return found

    def tick(self, now_ms: int, partition: int | None) -> list[WatchEvent]:
        """Return an event if the group is stuck. `partition`: that of its log."""
        one = self._open
        if one is None or one.stuck or self.view is None or now_ms - one.began_ms < self._limits.stuck_ms:
            return []
        one.stuck = self.dirty = True
        limit = duration_text(self._limits.stuck_ms)
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
        return [
            WatchEvent(
                at_ms=one.began_ms + self._limits.stuck_ms,
                seen_ms=now_ms,
                group_id=self.group_id,
                kind=EventKind.STUCK,
                sentence=f"the rebalance of epoch {one.epoch} has not ended within {limit}",
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
            at_ms=event.timestamp_ms if at_ms is None else at_ms,
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
                    since = f"it had no members and no commits for {duration_text(self._limits.retention_ms)}"
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
        self._causes.unowned = {(move.topic, move.partition) for move in moves if not move.after}
        labels = self._topics.labels()
        took = duration_text(at_ms - one.began_ms)
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
        for move in moves_of(facts):
            place = self._causes.place(move.partition)
            first, _ = self._open.moved.get(place, (move.before, ()))
            self._open.moved[place] = first, move.after


def _numbered(view: GroupView) -> str:
    return f"{'generation' if view.kind is GroupKind.CLASSIC else 'epoch'} {view.epoch}"
