"""What can happen to a group, as facts: each says itself in a sentence (`sentence`, or `str` with ids instead of names)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from quorate.codecs.printable import hash_text
from quorate.coordinator.history.words import Partition, Words
from quorate.coordinator.state import GroupKind

__all__ = [
    "Cause",
    "EpochBumped",
    "EpochReason",
    "Fact",
    "GenerationBegan",
    "GroupConverted",
    "GroupCreated",
    "GroupDeleted",
    "HashChanged",
    "MemberAway",
    "MemberChanged",
    "MemberJoined",
    "MemberLeft",
    "MemberProgressed",
    "MemberReplaced",
    "Move",
    "OffsetsCommitted",
    "OffsetsDeleted",
    "RegexResolved",
    "TargetChanged",
    "TopicRecordChanged",
    "TransactionEnded",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(ABC):
    """Something that happened to a group."""

    def sentence(self, words: Words) -> str:
        """What happened, without a full stop."""
        return self._said(words)

    @abstractmethod
    def _said(self, words: Words) -> str: ...

    def __str__(self) -> str:
        return self.sentence(Words())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreated(Fact):
    """The group is new.

    `for_offsets`: it has neither members nor a protocol, but for now, maybe: Kafka writes such a
    record for the first member that is to join.
    """

    kind: GroupKind
    for_offsets: bool

    def _said(self, words: Words) -> str:
        return "group created, without members so far" if self.for_offsets else f"{self.kind.lower()} group created"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted(Fact):
    """The group is gone."""

    kind: GroupKind

    def _said(self, words: Words) -> str:
        return f"{self.kind.lower()} group deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConverted(Fact):
    """The group became one of another protocol."""

    before: GroupKind
    after: GroupKind

    def _said(self, words: Words) -> str:
        return f"converted from a {self.before.lower()} to a {self.after.lower()} group"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(Fact):
    """A member is new."""

    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str

    def _said(self, words: Words) -> str:
        details = [
            f"{what} {value}"
            for what, value in (("instance", self.instance_id), ("client", self.client_id), ("rack", self.rack))
            if value
        ]
        return f"member {words.member(self.member_id)} joined" + (f" ({', '.join(details)})" if details else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(Fact):
    """A member is gone: it left, or was fenced.

    The records are the same, so the log does not tell which.
    """

    member_id: str
    instance_id: str | None

    def _said(self, words: Words) -> str:
        instance = f" (instance {self.instance_id})" if self.instance_id else ""
        return f"member {words.member(self.member_id)} left or was fenced{instance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReplaced(Fact):
    """A static member came back under another member id."""

    instance_id: str
    before: str
    after: str

    def _said(self, words: Words) -> str:
        return f"static member {self.instance_id} is back: {words.member(self.after)} took the place of {words.member(self.before)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAway(Fact):
    """A static member went and may come back (epoch -2); its partitions are kept for it."""

    member_id: str
    instance_id: str | None

    def _said(self, words: Words) -> str:
        return f"static member {self.instance_id} ({words.member(self.member_id)}) went away, its partitions are kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChanged(Fact):
    """A member announced something else.

    `what`: subscription, rack, assignor, protocol, client or instance.
    """

    member_id: str
    what: str
    before: str
    after: str

    def _said(self, words: Words) -> str:
        return f"{self.what} of member {words.member(self.member_id)} changed from {self.before or 'none'} to {self.after or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexResolved(Fact):
    """An expression matches other topics now; `after` is `None` if nobody uses it any more."""

    regex: str
    before: tuple[str, ...]
    after: tuple[str, ...] | None

    def _said(self, words: Words) -> str:
        if self.after is None:
            return f"expression {self.regex} is no longer used"
        added, gone = sorted({*self.after} - {*self.before}), sorted({*self.before} - {*self.after})
        told = [f"now matches {', '.join(added)}"] * bool(added) + [f"no longer matches {', '.join(gone)}"] * bool(gone)
        return f"expression {self.regex} " + (" and ".join(told) or "matches nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class HashChanged(Fact):
    """The stored metadata hash is another (KIP-1101); 0 stands for none."""

    before: int
    after: int

    def _said(self, words: Words) -> str:
        if not self.before:
            return f"metadata hash stored: {hash_text(self.after)}"
        if not self.after:
            return f"metadata hash {hash_text(self.before)} is gone"
        return f"metadata hash changed from {hash_text(self.before)} to {hash_text(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecordChanged(Fact):
    """A record of type 4 (ConsumerGroupPartitionMetadata, before KIP-1101) was written, or deleted."""

    there: bool

    def _said(self, words: Words) -> str:
        return (
            "topic metadata written in a record of type 4"
            if self.there
            else "topic metadata (record of type 4) deleted"
        )


class Cause(StrEnum):
    """Why a group epoch went up."""

    JOINED = "joined"
    LEFT = "left"
    REPLACED = "replaced"
    SUBSCRIPTION = "subscription"
    REGEX = "regex"
    HASH = "hash"
    HASH_FIRST = "hash-first"
    HASH_DROPPED = "hash-dropped"
    TOPICS = "topics"
    SHARE_STATE = "share-state"
    CONFIG = "config"
    TOPOLOGY = "topology"
    ASSIGNOR = "assignor"
    MEMBER = "member"
    CONVERTED = "converted"
    COMPACTED = "compacted"
    UNKNOWN = "unknown"


_CAUSES = {
    Cause.HASH: "the metadata hash changed: a subscribed topic has other partitions, other racks or another id",
    Cause.HASH_FIRST: "a broker of Kafka 4.1 or later stored the metadata hash for the first time",
    Cause.HASH_DROPPED: "a broker before Kafka 4.1 took over, which keeps no metadata hash",
    Cause.TOPICS: "the metadata of subscribed topics changed (record of type 4)",
    Cause.SHARE_STATE: "the share state of partitions was initialized or deleted (record of type 15)",
    Cause.CONFIG: "the group's configuration changed",
    Cause.TOPOLOGY: "the members' topology changed",
    Cause.CONVERTED: "the group was converted",
    Cause.COMPACTED: "of what compaction has removed from the log",
    Cause.UNKNOWN: "the log does not say why",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReason:
    """A cause, and the fact that it is, if it is another than the cause itself."""

    cause: Cause
    fact: Fact | None = None

    def sentence(self, words: Words) -> str:
        """The reason in words."""
        return _CAUSES[self.cause] if self.fact is None else self.fact.sentence(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBumped(Fact):
    """The group epoch went up, `before` is 0 for a new group."""

    before: int
    after: int
    reasons: tuple[EpochReason, ...]

    def _said(self, words: Words) -> str:
        moved = f"group epoch {self.after}" if not self.before else f"group epoch {self.before} → {self.after}"
        return f"{moved} because {self.why(words)}"

    def why(self, words: Words) -> str:
        """The reasons alone; no more than four."""
        told = [reason.sentence(words) for reason in self.reasons]
        more = [f"{len(told) - 4:,} more"] if len(told) > 4 else []
        return "; ".join([*told[:4], *more])


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationBegan(Fact):
    """A classic group has completed a rebalance, or is empty."""

    before: int
    after: int
    protocol: str | None
    leader: str | None
    members: int

    def _said(self, words: Words) -> str:
        if not self.members:
            return f"generation {self.after}: nobody is left"
        count = f"{self.members:,} member{'s' * (self.members != 1)}"
        leader = f", led by {words.member(self.leader)}" if self.leader else ""
        return f"generation {self.after} of {count} with {self.protocol}{leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition that was for some members and now is for others; in all but share groups at most one each."""

    partition: Partition
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChanged(Fact):
    """The target assignment is another; of classic groups, the assignment.

    `epoch`: what it was computed for. Without moves, only the epoch is.

    `assignor`, `computed_by`: of a client-side assignor (KIP-848), and the member that ran it;
    `error`: what it reported in the place of an assignment.
    """

    epoch: int
    moves: tuple[Move, ...]
    assignor: str | None = None
    computed_by: str | None = None
    error: int = 0

    def _said(self, words: Words) -> str:
        what = f"target assignment of epoch {self.epoch}"
        if self.computed_by is not None:
            what += f", computed by {words.member(self.computed_by)} with {self.assignor}"
        if self.error:
            return f"{what}: error {self.error}, so nothing moves"
        if not self.moves:
            return f"{what} moves nothing"
        ways: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Partition]] = {}
        for move in self.moves:
            ways.setdefault((move.before, move.after), []).append(move.partition)
        told = [
            f"{words.partitions(partitions)} "
            + (f"from {words.members(before)} " if before else "")
            + f"to {words.members(after)}"
            for (before, after), partitions in ways.items()
        ]
        return f"{what}: {'; '.join(told)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProgressed(Fact):
    """A member went on in its reconciliation: `reconciled` with the target of `epoch`, or in `state`."""

    member_id: str
    epoch: int
    state: str
    reconciled: bool
    pending_revocation: tuple[Partition, ...]
    gained: tuple[Partition, ...]

    def _said(self, words: Words) -> str:
        who = f"member {words.member(self.member_id)}"
        got = f", got {words.partitions(self.gained)}" if self.gained else ""
        if self.reconciled:
            return f"{who} is reconciled at epoch {self.epoch}{got}"
        if self.state == "revoking":
            return f"{who} has to give up {words.partitions(self.pending_revocation)}"
        if self.state == "waiting":
            return f"{who} is at epoch {self.epoch}{got} and waits for partitions that others have to give up"
        return f"{who} is at epoch {self.epoch}{got}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Fact):
    """Offsets were committed: `commits` records for `partitions`.

    `pending`: in a transaction that was open then.
    """

    commits: int
    partitions: tuple[Partition, ...]
    pending: bool

    def _said(self, words: Words) -> str:
        count = f"{self.commits:,} offset{'s' * (self.commits != 1)} committed"
        return f"{count}{' in an open transaction' if self.pending else ''}: {words.partitions(self.partitions)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted(Fact):
    """Offsets were deleted, or expired."""

    partitions: tuple[Partition, ...]

    def _said(self, words: Words) -> str:
        return f"offsets deleted or expired: {words.partitions(self.partitions)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(Fact):
    """A transaction with offsets of the group was committed, or aborted."""

    producer_id: int
    committed: bool
    partitions: tuple[Partition, ...]

    def _said(self, words: Words) -> str:
        end = "committed" if self.committed else "aborted"
        return f"transaction of producer {self.producer_id} {end}: {words.partitions(self.partitions)}"
