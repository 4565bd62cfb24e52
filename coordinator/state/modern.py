"""The base of consumer, share and streams groups (KIP-848): epochs, target assignment, members.

Only replay changes these classes. Members are immutable.
"""

from collections.abc import Collection
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from quorate.assignors.java_order import TimelineMap
from quorate.coordinator.state.groups import CoordinatorGroup
from quorate.coordinator.state.topic_index import TopicIndex

LEFT = -1
"""The epoch of a member that left, of which only the metadata record remains.

Also the target epoch after a deletion.
"""


class ModernMember(Protocol):
    """A member of any of these groups."""

    @property
    def member_id(self) -> str:
        """Its id."""

    @property
    def epoch(self) -> int:
        """Its epoch: 0 before its first assignment, -1 after it left, -2 if it left temporarily."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has exactly its target assignment of that epoch."""

    def with_assignment(self, value: Any) -> Self:
        """Return the member with the current assignment of a record."""

    def without_assignment(self) -> Self:
        """Return the member after a tombstone of its current assignment."""


M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")


class ModernGroup(CoordinatorGroup, Generic[M, T]):
    """A group of the new protocols.

    `members` and `targets` by member id. Epochs start at 1, as since Kafka 4.3 (KIP-1263).

    `refresh_at_ms`, `refresh_epoch` are in no record. The metadata hash must be computed from
    `refresh_at_ms` on, or if the group epoch is smaller than `refresh_epoch` (a write failed). Both
    are 0 after a load. `index`: updated with the topics that the group subscribes to.
    """

    __slots__ = (
        "_unreconciled",
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
        self._unreconciled: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def state(self) -> str:
        """Empty, Assigning (the target epoch is too old), Reconciling (a member is) or Stable."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.is_reconciled else "Reconciling"

    @property
    def is_reconciled(self) -> bool:
        """Whether all members have their target assignment.

        Histories call this after every write. Unreconciled members of the last call are checked
        first, so that groups with thousands of members are rarely scanned.
        """
        epoch, unreconciled = self.assignment_epoch, self._unreconciled
        while unreconciled:
            member = self.members.get(unreconciled[-1])
            if member is not None and not member.is_reconciled_to(epoch):
                return False
            unreconciled.pop()
        unreconciled += [one for one, member in self.members.items() if not member.is_reconciled_to(epoch)]
        return not unreconciled

    def may_assign(self, interval_ms: int, now_ms: int) -> bool:
        """Return whether the assignment interval has passed since the last target (KIP-1263)."""
        last_ms = self.assignment_timestamp_ms
        return last_ms == 0 or interval_ms == 0 or now_ms >= last_ms + interval_ms

    # Replay

    def put_metadata(self, value: Any) -> None:
        """Set the group epoch and metadata hash from the group's record."""
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def need_member(self, member_id: str) -> Any:
        """Return the member, or a new one that is not added."""
        return self.members.get(member_id) or self.member_class(member_id=member_id)

    def shared_metadata(self, old: Any, new: Any) -> Any:
        """Return the new metadata of a member, with objects shared with other members."""
        return new

    def put_member(self, member: M) -> None:
        """Add or replace a member."""
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove an existing member."""
        del self.members[member_id]

    def put_target_metadata(self, value: Any) -> None:
        """Set the target epoch and when it was computed; `None` for a deletion."""
        self.assignment_epoch, self.assignment_timestamp_ms = (
            (LEFT, 0) if value is None else (value.assignment_epoch, value.assignment_timestamp)
        )

    def put_target(self, member_id: str, value: Any) -> None:
        """Set a member's target assignment; `None` for a deletion."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = value.topic_partitions

    def topics_changed(self, appeared: Collection[str], vanished: Collection[str]) -> None:
        """Update `index` with topics that the group begins or ceases to subscribe to."""
        if self.index is None or not (appeared or vanished):
            return
        self.index.unsubscribe(vanished, self.group_id)
        self.index.subscribe(appeared, self.group_id)
