"""Changes of groups, as facts with a sentence (`sentence`, or `str` with ids instead of names)."""

import re
from abc import ABC, abstractmethod
from enum import StrEnum

from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.printable import hash_text
from quorate.coordinator.history.labels import Labels, Partition
from quorate.coordinator.state import GroupKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(ABC):
    """A change of a group."""

    @property
    def name(self) -> str:
        """The name of the kind of change, such as "member-joined"."""
        return re.sub("(?<=.)(?=[A-Z])", "-", type(self).__name__).lower()

    def sentence(self, labels: Labels) -> str:
        """Return the change as a sentence, without a full stop."""
        return self._sentence(labels)

    @abstractmethod
    def _sentence(self, labels: Labels) -> str: ...

    def __str__(self) -> str:
        return self.sentence(Labels())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreated(Fact):
    """The group was created.

    `for_offsets`: it has neither members nor a protocol yet. Kafka also writes such a record for
    the first member that joins.
    """

    kind: GroupKind
    for_offsets: bool

    def _sentence(self, labels: Labels) -> str:
        return "group created, without members" if self.for_offsets else f"{self.kind.lower()} group created"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted(Fact):
    """The group was deleted."""

    kind: GroupKind

    def _sentence(self, labels: Labels) -> str:
        return f"{self.kind.lower()} group deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConverted(Fact):
    """The group was converted to another protocol."""

    before: GroupKind
    after: GroupKind

    def _sentence(self, labels: Labels) -> str:
        return f"converted from a {self.before.lower()} to a {self.after.lower()} group"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(Fact):
    """A member joined."""

    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str

    def _sentence(self, labels: Labels) -> str:
        details = [
            f"{what} {value}"
            for what, value in (("instance", self.instance_id), ("client", self.client_id), ("rack", self.rack))
            if value
        ]
        return f"member {labels.member(self.member_id)} joined" + (f" ({', '.join(details)})" if details else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(Fact):
    """A member left or was fenced, which have the same records."""

    member_id: str
    instance_id: str | None

    def _sentence(self, labels: Labels) -> str:
        instance = f" (instance {self.instance_id})" if self.instance_id else ""
        return f"member {labels.member(self.member_id)} left or was fenced{instance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReplaced(Fact):
    """A static member rejoined with another member id."""

    instance_id: str
    before: str
    after: str

    def _sentence(self, labels: Labels) -> str:
        replaced = f"{labels.member(self.after)} replaced {labels.member(self.before)}"
        return f"static member {self.instance_id} rejoined: {replaced}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAway(Fact):
    """A static member left temporarily (epoch -2); it keeps its partitions."""

    member_id: str
    instance_id: str | None

    def _sentence(self, labels: Labels) -> str:
        member = f"{self.instance_id} ({labels.member(self.member_id)})"
        return f"static member {member} left temporarily and keeps its partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChanged(Fact):
    """A member's metadata changed.

    `what`: subscription, rack, assignor, protocol, client or instance.
    """

    member_id: str
    what: str
    before: str
    after: str

    def _sentence(self, labels: Labels) -> str:
        changed = f"changed from {self.before or 'none'} to {self.after or 'none'}"
        return f"{self.what} of member {labels.member(self.member_id)} {changed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexResolved(Fact):
    """A regex matches other topics; `after` is `None` if no member uses it any more."""

    regex: str
    before: tuple[str, ...]
    after: tuple[str, ...] | None

    def _sentence(self, labels: Labels) -> str:
        if self.after is None:
            return f"regex {self.regex} is no longer used"
        added, gone = sorted({*self.after} - {*self.before}), sorted({*self.before} - {*self.after})
        parts = [f"now matches {', '.join(added)}"] if added else []
        parts += [f"no longer matches {', '.join(gone)}"] if gone else []
        return f"regex {self.regex} " + (" and ".join(parts) or "matches nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class HashChanged(Fact):
    """The stored metadata hash changed (KIP-1101); 0 stands for none."""

    before: int
    after: int

    def _sentence(self, labels: Labels) -> str:
        if not self.before:
            return f"metadata hash stored: {hash_text(self.after)}"
        if not self.after:
            return f"metadata hash {hash_text(self.before)} was removed"
        return f"metadata hash changed from {hash_text(self.before)} to {hash_text(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecordChanged(Fact):
    """A topic metadata record (type 4, before KIP-1101) was written or deleted."""

    there: bool

    def _sentence(self, labels: Labels) -> str:
        return (
            "topic metadata written in a record of type 4"
            if self.there
            else "topic metadata (record of type 4) deleted"
        )


class Cause(StrEnum):
    """Why a group epoch was incremented."""

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
    TOPOLOGY_READY = "topology-ready"
    TOPOLOGY_NOT_READY = "topology-not-ready"
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
    Cause.TOPOLOGY_READY: "the topology can run: all of its topics exist, with the required partitions",
    Cause.TOPOLOGY_NOT_READY: "the topology cannot run any more: topics are missing, or have other partitions",
    Cause.CONVERTED: "the group was converted",
    Cause.COMPACTED: "compaction removed the cause from the log",
    Cause.UNKNOWN: "the cause is not in the log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReason:
    """A cause, and the fact that caused it, if any."""

    cause: Cause
    fact: Fact | None = None

    def sentence(self, labels: Labels) -> str:
        """Return the reason as a phrase."""
        return _CAUSES[self.cause] if self.fact is None else self.fact.sentence(labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBumped(Fact):
    """The group epoch was incremented; `before` is 0 for a new group."""

    before: int
    after: int
    reasons: tuple[EpochReason, ...]

    def _sentence(self, labels: Labels) -> str:
        moved = f"group epoch {self.after}" if not self.before else f"group epoch {self.before} → {self.after}"
        return f"{moved} because {self.why(labels)}"

    def why(self, labels: Labels) -> str:
        """Return at most four reasons."""
        reasons = [reason.sentence(labels) for reason in self.reasons]
        more = [f"{len(reasons) - 4:,} more"] if len(reasons) > 4 else []
        return "; ".join([*reasons[:4], *more])


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationBegan(Fact):
    """A classic group completed a rebalance, or became empty."""

    before: int
    after: int
    protocol: str | None
    leader: str | None
    members: int

    def _sentence(self, labels: Labels) -> str:
        if not self.members:
            return f"generation {self.after}: no members"
        count = f"{self.members:,} member{'s' * (self.members != 1)}"
        leader = f", leader {labels.member(self.leader)}" if self.leader else ""
        return f"generation {self.after} of {count} with {self.protocol}{leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A reassigned partition; `before` and `after`: member ids, several only in share groups."""

    partition: Partition
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChanged(Fact):
    """The target assignment changed; with `classic`, the assignment of a generation.

    `epoch`: the target epoch; without moves, only it changed. `assignor`, `computed_by`: the
    client-side assignor (KIP-848), and the member that ran it. `error`: what it reported instead of
    an assignment.
    """

    epoch: int
    moves: tuple[Move, ...]
    assignor: str | None = None
    computed_by: str | None = None
    error: int = 0
    classic: bool = False

    def _sentence(self, labels: Labels) -> str:
        what = f"assignment of generation {self.epoch}" if self.classic else f"target assignment of epoch {self.epoch}"
        if self.computed_by is not None:
            what += f", computed by {labels.member(self.computed_by)} with {self.assignor}"
        if self.error:
            return f"{what}: error {self.error}, no partition moves"
        if not self.moves:
            return f"{what}: no partition moves"
        ways: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Partition]] = {}
        for move in self.moves:
            ways.setdefault((move.before, move.after), []).append(move.partition)
        moves = [
            f"{labels.partitions(partitions)} "
            + (f"from {labels.members(before)} " if before else "")
            + f"to {labels.members(after)}"
            for (before, after), partitions in ways.items()
        ]
        return f"{what}: {'; '.join(moves)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProgressed(Fact):
    """A member moved towards its target: `reconciled` with the target of `epoch`, or in `state`."""

    member_id: str
    epoch: int
    state: str
    reconciled: bool
    pending_revocation: tuple[Partition, ...]
    gained: tuple[Partition, ...]

    def _sentence(self, labels: Labels) -> str:
        who = f"member {labels.member(self.member_id)}"
        assigned = f", assigned {labels.partitions(self.gained)}" if self.gained else ""
        if self.reconciled:
            return f"{who} is reconciled at epoch {self.epoch}{assigned}"
        if self.state == "revoking":
            return f"{who} must revoke {labels.partitions(self.pending_revocation)}"
        if self.state == "waiting":
            return f"{who} is at epoch {self.epoch}{assigned} and waits for partitions that other members must revoke"
        return f"{who} is at epoch {self.epoch}{assigned}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Fact):
    """Offsets were committed: `commits` records for `partitions`.

    `pending`: in a transaction that was open.
    """

    commits: int
    partitions: tuple[Partition, ...]
    pending: bool

    def _sentence(self, labels: Labels) -> str:
        count = f"{self.commits:,} offset{'s' * (self.commits != 1)} committed"
        return f"{count}{' in an open transaction' if self.pending else ''}: {labels.partitions(self.partitions)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted(Fact):
    """Offsets were deleted or expired."""

    partitions: tuple[Partition, ...]

    def _sentence(self, labels: Labels) -> str:
        return f"offsets deleted or expired: {labels.partitions(self.partitions)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(Fact):
    """A transaction with offsets of the group was committed or aborted."""

    producer_id: int
    committed: bool
    partitions: tuple[Partition, ...]

    def _sentence(self, labels: Labels) -> str:
        end = "committed" if self.committed else "aborted"
        return f"transaction of producer {self.producer_id} {end}: {labels.partitions(self.partitions)}"
