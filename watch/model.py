"""What an observer knows, as immutable values, and the protocol by which others read it.

Times end in `_ms` and are milliseconds since 1970. `as_json` converts every value for JSON. Where
the values come from is not part of this module.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import Any, Protocol

from quorate.codecs import Uuid
from quorate.coordinator.history.facts import Fact
from quorate.coordinator.history.labels import Labels

Place = tuple[str, int]
"""A topic's name, or its id if the name is unknown, and the number of a partition."""


class EventKind(StrEnum):
    """The kind of an event."""

    REBALANCE_BEGAN = "rebalance-began"
    REBALANCE_ENDED = "rebalance-ended"
    OFFSET_WENT_BACK = "offset-went-back"
    GROUP_CREATED = "group-created"
    GROUP_DELETED = "group-deleted"
    GROUP_EXPIRED = "group-expired"
    GROUP_CONVERTED = "group-converted"
    MEMBER_REPLACED = "member-replaced"
    LAG_OVER = "lag-over"
    LAG_UNDER = "lag-under"
    STUCK = "stuck"
    FLAPPING = "flapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in one row.

    `kind`: classic, consumer, share or streams. `partitions`: those with an owner or a committed
    offset. `lag_records`: the sum, and `lag_ms`: the maximum over its partitions. `locality`: the
    share of assigned partitions with a replica in their member's rack, from 0 to 1. `rebalances`:
    those in the kept history. `commits`: offset commits that were read since the start of the
    process. `spark`: recent values of `lag_ms`, or of `lag_records` if lags in time are unknown, at
    most 60. `None` stands for unknown.
    """

    group_id: str
    kind: str
    state: str
    protocol_type: str = ""
    assignor: str | None = None
    epoch: int = 0
    members: int = 0
    partitions: int = 0
    lag_records: int | None = None
    lag_ms: int | None = None
    locality: float | None = None
    last_rebalance_ms: int | None = None
    rebalances: int = 0
    commits: int = 0
    spark: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member.

    `epoch`: the generation in classic groups. `protocol`: classic, consumer, share or streams.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    rack: str | None = None
    epoch: int = 0
    state: str = "stable"
    protocol: str = "classic"
    assigned: tuple[Place, ...] = ()
    target: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition that a group owns or has committed.

    `committed`: the committed offset, or the start offset of share groups. `committed_ms`: when it
    was committed. `end`: the log end offset. `lag_ms`: timestamp of the partition's last record,
    minus that of the record at the committed offset.
    """

    topic: str
    partition: int
    member_id: str | None = None
    committed: int | None = None
    committed_ms: int | None = None
    end: int | None = None
    lag_records: int | None = None
    lag_ms: int | None = None
    leader_rack: str | None = None
    owner_rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoment:
    """A group at one moment."""

    group_id: str
    at_ms: int
    summary: GroupSummary
    members: tuple[MemberRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipSpan:
    """A time in which a member owned a partition; `to_ms` is `None` while it does."""

    topic: str
    partition: int
    member_id: str
    client_id: str
    host: str
    rack: str | None
    from_ms: int
    to_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedPartition:
    """A partition with another owner; `before` and `after` are member ids, empty for none."""

    topic: str
    partition: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """An event of a group.

    `at_ms`: the broker's time of the record. `seen_ms`: when the observer read it; 0, as `id`,
    until it is stored. `cause`: the first cause; `more_causes`: others of the same write.
    `duration_ms`, `moved`, `cross_rack_before`, `cross_rack_after`: of rebalances that ended; the
    latter two are shares of assigned partitions without a replica in their member's rack. `facts`:
    what the records say. `topic`, `partition`, `offset`: the record in the log of the coordinator.
    """

    id: int = 0
    at_ms: int
    seen_ms: int = 0
    group_id: str
    kind: EventKind
    sentence: str
    cause: Fact | None = None
    more_causes: tuple[Fact, ...] = ()
    epoch: int | None = None
    duration_ms: int | None = None
    moved: tuple[MovedPartition, ...] = ()
    cross_rack_before: float | None = None
    cross_rack_after: float | None = None
    facts: tuple[str, ...] = ()
    topic: str = "__consumer_offsets"
    partition: int | None = None
    offset: int = -1

    @property
    def causes(self) -> tuple[Fact, ...]:
        """All causes, the first one first."""
        return () if self.cause is None else (self.cause, *self.more_causes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """The lag of a group at one time."""

    at_ms: int
    lag_records: int | None
    lag_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic, its number of partitions (`None` if unknown), and the groups that read it."""

    topic: str
    partitions: int | None
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeFinding:
    """An effect of an upgrade of the brokers on a group."""

    group_id: str
    kind: str
    finding: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """The state of an observer.

    `mode`: live or files. `caught_up`: all records that existed at the start are read. `late_ms`:
    the age of the last record that was read, while more are waiting. `read`: the next offset, by
    "topic-partition". `records`: the number of records read since the start. `errors`: current
    problems, as sentences. `since_ms`: the begin of the kept history. `source`: what is observed.
    """

    mode: str
    caught_up: bool
    late_ms: int
    read: Mapping[str, int]
    records: int
    errors: tuple[str, ...]
    since_ms: int | None
    source: str = ""


class Watched(Protocol):
    """What can be read of an observer, from any thread."""

    def status(self) -> WatchStatus:
        """Return the state of the observer."""
        ...

    def groups(self, *, at_ms: int | None = None) -> list[GroupSummary]:
        """Return all groups, now or as they were at a time, sorted by id."""
        ...

    def group(self, group_id: str, *, at_ms: int | None = None) -> GroupMoment | None:
        """Return a group, now or as it was at a time; `None` if it did not exist."""
        ...

    def ownership(self, group_id: str, *, from_ms: int, to_ms: int) -> list[OwnershipSpan]:
        """Return which member owned which partition when, cut to the times."""
        ...

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
        """Return events that match all conditions, at most `limit`."""
        ...

    def lag(self, group_id: str, *, from_ms: int, to_ms: int, points: int = 200) -> list[LagSample]:
        """Return samples of the lag, at most `points`: the maximum of each interval."""
        ...

    def difference(self, group_id: str, *, from_ms: int, to_ms: int) -> list[str]:
        """Return the changes between two moments as sentences."""
        ...

    def topics(self) -> list[TopicRow]:
        """Return the topics that groups read, sorted by name."""
        ...

    def upgrade_findings(self, release: str) -> list[UpgradeFinding]:
        """Return the effects of an upgrade of the brokers. Raises `InputError` for the release."""
        ...

    def wait(self, after: int, timeout_s: float) -> int:
        """Return the number of the current version, once it is higher than `after`.

        It increases with each change. Returns the same number after the timeout.
        """
        ...


def as_json(value: Any) -> Any:
    """Convert a value of this module for JSON: a cause also has its `name` and `sentence`."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, Fact):
        plain = {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
        return {"name": value.name, "sentence": value.sentence(Labels()), **plain}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list | set | frozenset):
        return [as_json(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): as_json(one) for key, one in value.items()}
    return value
