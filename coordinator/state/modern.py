"""What consumer, share and streams groups have in common (KIP-848): an epoch, a target assignment with its own epoch, and members that follow it.

These classes hold what the log says. Handlers read them and return records; `replay` changes them.
A member is immutable, a change is another member.
"""

from collections.abc import Collection
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from quorate.assignors.java_order import TimelineMap
from quorate.coordinator.state.groups import CoordinatorGroup
from quorate.coordinator.state.topic_index import TopicIndex

__all__ = ["LEFT", "ModernGroup", "ModernMember"]

LEFT = -1
"""The epoch of a member that has left, of which only its metadata is still there; and of a target
assignment that was deleted.
"""


class ModernMember(Protocol):
    """What every kind of member has."""

    @property
    def member_id(self) -> str:
        """Its id."""

    @property
    def epoch(self) -> int:
        """The epoch that it has reached: 0 before its first assignment, -1 when it left, -2 when it will be back (static members)."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it owns exactly what the target assignment of that epoch gives it."""

    def at(self, value: Any) -> Self:
        """The member as the record of its current assignment has it."""

    def gone(self) -> Self:
        """The member after a tombstone of that record: only what it announced is left."""


M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")


class ModernGroup(CoordinatorGroup, Generic[M, T]):
    """A group of the new protocols.

    `members` and `targets` by member id. Epochs start at 1, as since Kafka 4.3 (KIP-1263).

    `refresh_at_ms`, `refresh_epoch` are in no record: from then on, or if the group's epoch is
    smaller (so a write has failed), the metadata hash has to be computed anew. They are 0 for a
    group that was just loaded. `index`: is told of topics that the group begins or ceases to
    subscribe to.
    """

    __slots__ = (
        "_behind",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "index",
        "members",
        "metadata_hash",
        "refresh_at_ms",
        "refresh_epoch",
        "targets",
    )

    member_class: ClassVar[type[Any]]

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.refresh_at_ms = 0
        self.refresh_epoch = 0
        self.index: TopicIndex | None = None
        self.assignment_timestamp_ms = 0
        self.members: TimelineMap[str, M] = TimelineMap()
        self.targets: TimelineMap[str, T] = TimelineMap()
        self._behind: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Whether nobody is a member."""
        return not self.members

    @property
    def state(self) -> str:
        """Empty, Assigning (the target is behind the group), Reconciling (somebody is behind the target) or Stable."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.is_reconciled else "Reconciling"

    @property
    def is_reconciled(self) -> bool:
        """Whether every member has what the target assignment gives it.

        Histories ask after every write: who was behind the last time is looked at first, so that a
        group of thousands is not gone through for each of its members.
        """
        epoch, behind = self.assignment_epoch, self._behind
        while behind:
            member = self.members.get(behind[-1])
            if member is not None and not member.is_reconciled_to(epoch):
                return False
            behind.pop()
        behind += [one for one, member in self.members.items() if not member.is_reconciled_to(epoch)]
        return not behind

    def may_assign(self, interval_ms: int, now_ms: int) -> bool:
        """Whether the target assignment is old enough for another one (KIP-1263)."""
        last_ms = self.assignment_timestamp_ms
        return last_ms == 0 or interval_ms == 0 or now_ms >= last_ms + interval_ms

    # What replay does

    def put_metadata(self, value: Any) -> None:
        """Take the group's own record."""
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def need_member(self, member_id: str) -> Any:
        """The member, or a new one, which is not put there."""
        return self.members.get(member_id) or self.member_class(member_id=member_id)

    def put_member(self, member: M) -> None:
        """Add or replace a member."""
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove a member that is there."""
        del self.members[member_id]

    def put_target_metadata(self, value: Any) -> None:
        """Take the epoch of the target assignment and when it was computed; `None`: it is deleted."""
        self.assignment_epoch, self.assignment_timestamp_ms = (
            (LEFT, 0) if value is None else (value.assignment_epoch, value.assignment_timestamp)
        )

    def put_target(self, member_id: str, value: Any) -> None:
        """Take a member's target; `None`: it has none any more."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = value.topic_partitions

    def topics_changed(self, appeared: Collection[str], vanished: Collection[str]) -> None:
        """Tell `index` of topics that the group now subscribes to, and of those that it no longer does."""
        if self.index is None:
            return
        self.index.unsubscribe(vanished, self.group_id)
        self.index.subscribe(appeared, self.group_id)
