"""Why a group rebalances: causes that records show, and those that only topics or times show."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from quorate.coordinator.history import Event, GroupView, MemberView
from quorate.coordinator.history.facts import EpochBumped, Fact, GenerationBegan, MemberLeft, Move, TargetChanged
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
    TopicsChanged,
    UnknownCause,
    Upgraded,
    causes_of,
)
from quorate.watch.limits import WatchLimits
from quorate.watch.model import Place
from quorate.watch.topics import KnownTopics


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


class CauseFinder:
    """Finds the causes of the rebalances of one group.

    `unowned`: partitions that the last rebalance took from their owners. `revoking`: since when
    members must revoke partitions. `leader_epoch`: that of the log, if known.
    """

    def __init__(self, group_id: str, topics: KnownTopics, times: MemberTimes, limits: WatchLimits) -> None:
        self.group_id = group_id
        self.unowned: set[Place] = set()
        self.revoking: dict[str, int] = {}
        self.leader_epoch: int | None = None
        self._topics = topics
        self._times = times
        self._limits = limits

    def of(
        self, event: Event, before: GroupView | None, view: GroupView | None, leader_epoch: int | None
    ) -> list[Fact]:
        """Return the causes of the rebalance that a write begins; nothing if it begins none."""
        facts = event.facts
        found = causes_of(facts)
        began = any(isinstance(fact, EpochBumped | GenerationBegan) for fact in facts)
        if not began or view is None:
            return []
        if view.kind is GroupKind.CLASSIC:
            found += self._of_client(facts, before, view) if not any(map(_is_strong, found)) else []
        found = [self._refined(cause, event, before, view) for cause in found]
        moved = self.leader_epoch is not None and leader_epoch is not None and leader_epoch != self.leader_epoch
        if moved and leader_epoch is not None and not any(map(_is_strong, found)):
            assert self.leader_epoch is not None
            known = [cause for cause in found if not isinstance(cause, UnknownCause)]
            found = [*known, CoordinatorMoved(before=self.leader_epoch, after=leader_epoch)]
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
        session_ms, rebalance_ms = self._times.timeouts(self.group_id, left.member_id)
        since = self.revoking.get(left.member_id)
        if since is not None and rebalance_ms is not None and -_EARLY_MS <= at_ms - since - rebalance_ms < _SLACK_MS:
            return MemberTimedOut(
                member_id=left.member_id, instance_id=left.instance_id, timer="rebalance", silent_ms=at_ms - since
            )
        session_ms = self._limits.session_ms if session_ms is None else session_ms
        last = self._times.last_commit_ms(self.group_id, member.assigned)
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
        again = [move for move in moves_of(facts) if not move.before and self.place(move.partition) in self.unowned]
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
        for topic, number in self.unowned:
            most[topic] = max(most.get(topic, -1), number)
        grown = {
            self.place(move.partition)[0]
            for move in moves_of(facts)
            if not move.before and move.partition[1] > most.get(move.partition[0], 1 << 31)
        }
        return PartitionsChanged(topics=tuple(sorted(grown))) if grown else None

    def place(self, partition: Partition) -> Place:
        """Return a partition with its topic's name."""
        return self._topics.labels().topic(partition[0]), partition[1]

    def note_members(self, event: Event, view: GroupView | None) -> None:
        """Note which members must revoke partitions after a write."""
        members: Mapping[str, MemberView] = {} if view is None else view.members
        revoking = {one.member_id for one in members.values() if one.state == "revoking"}
        for member_id in [one for one in self.revoking if one not in revoking]:
            del self.revoking[member_id]
        for member_id in revoking:
            self.revoking.setdefault(member_id, event.timestamp_ms)


_EARLY_MS = 500
"""A record is written after the timer was started, by so much at most."""

_SLACK_MS = 10_000
"""A timeout is noticed within this time, and an automatic commit is at most 5 s old."""


def moves_of(facts: Iterable[Fact]) -> list[Move]:
    """Return the partitions that change their owner."""
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
