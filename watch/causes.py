"""Why a group rebalanced, or an offset went back: facts that the records show, or that follow.

Joins, leaves, conversions and resolved regexes are facts of `quorate.coordinator.history`. The
classes here are those that an observer adds, because it knows times, commits and the cluster. The
records of a member that left and of one that timed out are the same: `MemberTimedOut` requires
evidence in times, and is a `MemberLeft`. Where the facts come from is not part of this module.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from quorate.codecs.printable import counted, listed
from quorate.coordinator.history.facts import (
    Cause,
    EpochBumped,
    Fact,
    GenerationBegan,
    GroupConverted,
    MemberAway,
    MemberChanged,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    RegexResolved,
)
from quorate.coordinator.history.labels import Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTimedOut(MemberLeft):
    """A member was removed, because its session or the time to revoke partitions expired.

    `timer`: session or rebalance. `silent_ms`: since its last commit, or since it had to revoke.
    """

    timer: str
    silent_ms: int

    def _sentence(self, labels: Labels) -> str:
        who = labels.member(self.member_id) + (f" (instance {self.instance_id})" if self.instance_id else "")
        seconds = f"{self.silent_ms / 1000:,.1f} s"
        if self.timer == "rebalance":
            return f"member {who} was fenced: it did not revoke its partitions within {seconds}"
        return f"member {who} timed out: it had not committed for {seconds}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticBounce(Fact):
    """A static member left and came back, with the same or another member id."""

    instance_id: str
    before: str
    after: str

    def _sentence(self, labels: Labels) -> str:
        return (
            f"static member {self.instance_id} rejoined as {labels.member(self.after)}, "
            f"which was {labels.member(self.before)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChanged(Fact):
    """A member subscribes to other topics."""

    member_id: str
    before: str
    after: str

    def _sentence(self, labels: Labels) -> str:
        changed = f"changed from {self.before or 'none'} to {self.after or 'none'}"
        return f"subscription of member {labels.member(self.member_id)} {changed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorChanged(Fact):
    """The assignor is another one; `member_id`: the member that requests it, if it is one's."""

    before: str
    after: str
    member_id: str | None = None

    def _sentence(self, labels: Labels) -> str:
        of = "" if self.member_id is None else f" of member {labels.member(self.member_id)}"
        return f"assignor{of} changed from {self.before or 'none'} to {self.after or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMoved(Fact):
    """The rack, process, instance or client of a member changed: `what`."""

    member_id: str
    what: str
    before: str
    after: str

    def _sentence(self, labels: Labels) -> str:
        changed = f"changed from {self.before or 'none'} to {self.after or 'none'}"
        return f"{self.what} of member {labels.member(self.member_id)} {changed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged(Fact):
    """A subscribed topic has other partitions, other racks or another id, or was deleted.

    The metadata hash in the records does not say which. `topics`: their names, if known.
    """

    topics: tuple[str, ...] = ()

    def _sentence(self, labels: Labels) -> str:
        names = f" ({listed(list(self.topics))})" if self.topics else ""
        return f"the metadata of subscribed topics changed: partitions, racks or ids{names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsChanged(TopicsChanged):
    """A subscribed topic has another number of partitions."""

    def _sentence(self, labels: Labels) -> str:
        return f"the number of partitions of {listed(list(self.topics))} changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RacksChanged(TopicsChanged):
    """Replicas of a subscribed topic are in other racks."""

    def _sentence(self, labels: Labels) -> str:
        return f"replicas of {listed(list(self.topics))} are in other racks"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopicId(TopicsChanged):
    """A topic was deleted, or deleted and created again."""

    def _sentence(self, labels: Labels) -> str:
        return f"{listed(list(self.topics))} was deleted or created again, with another topic id"


@dataclass(frozen=True, slots=True, kw_only=True)
class CooperativeStep(Fact):
    """The second rebalance of a cooperative assignor, which assigns the revoked partitions."""

    partitions: int

    def _sentence(self, labels: Labels) -> str:
        return f"cooperative assignment: {counted(self.partitions, 'partition')} revoked before are assigned again"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMoved(Fact):
    """The group has another coordinator: the leader epoch of its log is another one."""

    before: int
    after: int

    def _sentence(self, labels: Labels) -> str:
        return f"the coordinator moved to another broker (leader epoch {self.before} → {self.after})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded(Fact):
    """The brokers were upgraded or downgraded (`what` is brokers), or the group's protocol."""

    what: str
    detail: str

    def _sentence(self, labels: Labels) -> str:
        return self.detail


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateChanged(Fact):
    """The share state of partitions was initialized or deleted (KIP-932)."""

    def _sentence(self, labels: Labels) -> str:
        return "the share state of partitions was initialized or deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged(Fact):
    """The configuration of the group changed."""

    def _sentence(self, labels: Labels) -> str:
        return "the group's configuration changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChanged(Fact):
    """The topology of a streams group changed, or can run now, or cannot any more."""

    detail: str

    def _sentence(self, labels: Labels) -> str:
        return self.detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined(Fact):
    """Members of a classic group rejoined, and the records show no change.

    Such as a new leader of the group, `enforceRebalance`, metadata that only clients see, or a
    member that joined and left within the rebalance.
    """

    def _sentence(self, labels: Labels) -> str:
        return "members rejoined without a change in the records"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCause(Fact):
    """The cause is not in the log; `compacted`: compaction removed it."""

    compacted: bool = False

    def _sentence(self, labels: Labels) -> str:
        return "compaction removed the cause from the log" if self.compacted else "the cause is not in the log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetByClient(Fact):
    """A member of the group committed an earlier offset."""

    def _sentence(self, labels: Labels) -> str:
        return "a client committed an earlier offset while the group had members"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetByAdmin(Fact):
    """An earlier offset was committed while the group was empty: by a tool or an API.

    A consumer without membership, which assigns its partitions itself, has the same records.
    """

    def _sentence(self, labels: Labels) -> str:
        return "an earlier offset was set while the group had no members"


_DETAILS = {
    Cause.TOPOLOGY: "the members' topology changed",
    Cause.TOPOLOGY_READY: "the topology can run: all of its topics exist, with the required partitions",
    Cause.TOPOLOGY_NOT_READY: "the topology cannot run any more: topics are missing, or have other partitions",
    Cause.HASH_FIRST: "the brokers were upgraded to Kafka 4.1 or later, which stored the metadata hash",
    Cause.HASH_DROPPED: "a broker before Kafka 4.1 took over, which keeps no metadata hash",
    Cause.CONVERTED: "the group was converted to another protocol",
}


def causes_of(facts: Sequence[Fact]) -> list[Fact]:
    """Return the causes of the rebalance that these facts of one write begin, the first one first.

    `TopicsChanged` and `MemberLeft` may be refined by what the caller knows. The result is empty if
    the facts begin no rebalance.
    """
    bumped = next((fact for fact in facts if isinstance(fact, EpochBumped)), None)
    if bumped is not None:
        found = [cause for reason in bumped.reasons for cause in _of_reason(reason.cause, reason.fact)]
        return list(dict.fromkeys(found))
    if any(isinstance(fact, GenerationBegan) for fact in facts):
        return list(dict.fromkeys(_of_generation(facts)))
    return []


def _of_reason(cause: Cause, fact: Fact | None) -> Iterator[Fact]:
    if fact is not None:
        yield _of_member(fact)
    elif cause in (Cause.HASH, Cause.TOPICS):
        yield TopicsChanged()
    elif cause in (Cause.HASH_FIRST, Cause.HASH_DROPPED):
        yield Upgraded(what="brokers", detail=_DETAILS[cause])
    elif cause is Cause.CONVERTED:
        yield Upgraded(what="protocol", detail=_DETAILS[cause])
    elif cause is Cause.SHARE_STATE:
        yield ShareStateChanged()
    elif cause is Cause.CONFIG:
        yield ConfigChanged()
    elif cause in (Cause.TOPOLOGY, Cause.TOPOLOGY_READY, Cause.TOPOLOGY_NOT_READY):
        yield TopologyChanged(detail=_DETAILS[cause])
    else:
        yield UnknownCause(compacted=cause is Cause.COMPACTED)


def _of_member(fact: Fact) -> Fact:
    if isinstance(fact, MemberReplaced):
        return StaticBounce(instance_id=fact.instance_id, before=fact.before, after=fact.after)
    if isinstance(fact, MemberAway):
        return StaticBounce(instance_id=fact.instance_id or "", before=fact.member_id, after=fact.member_id)
    if isinstance(fact, MemberChanged):
        if fact.what == "subscription":
            return SubscriptionChanged(member_id=fact.member_id, before=fact.before, after=fact.after)
        if fact.what in ("assignor", "client-side assignors"):
            return AssignorChanged(member_id=fact.member_id, before=fact.before, after=fact.after)
        return MemberMoved(member_id=fact.member_id, what=fact.what, before=fact.before, after=fact.after)
    return fact


_STRONG = (MemberJoined, MemberLeft, MemberReplaced, RegexResolved)


def _of_generation(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield what members did before a generation of a classic group; weak causes come last."""
    if any(isinstance(fact, GroupConverted) for fact in facts):
        yield Upgraded(what="protocol", detail=_DETAILS[Cause.CONVERTED])
    changes = [fact for fact in facts if isinstance(fact, (*_STRONG, MemberChanged))]
    for fact in sorted(changes, key=_weakness):
        yield _of_member(fact)


def _weakness(fact: Fact) -> int:
    if isinstance(fact, MemberReplaced):
        return 2
    if isinstance(fact, MemberChanged):
        return 1 if fact.what == "subscription" else 3
    return 0


_FACTS: dict[str, type[Fact]] = {}


def _register(of: type[Fact]) -> None:
    for one in of.__subclasses__():
        # A class with slots has a twin of the same name without them, which is replaced here.
        _FACTS[one.__name__] = one
        _register(one)


def fact_from_json(text: dict[str, Any]) -> Fact:
    """Return the cause that `as_json` converted.

    Raises `KeyError` for an unknown name.
    """
    if not _FACTS:
        _register(Fact)  # type: ignore[type-abstract]
    kind = _FACTS["".join(part.capitalize() for part in text["name"].split("-"))]
    return kind(**{field.name: _tuples(text[field.name]) for field in fields(kind) if field.name in text})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
