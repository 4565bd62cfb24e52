"""Members of consumer groups (KIP-848), with their partitions as in records.

Groups have thousands of members, so a member has no maps: these are created where they are needed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import IntEnum

from quorate.codecs import Uuid
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from quorate.coordinator.state.modern import LEFT
from quorate.coordinator.timers import Timer

LEAVE_STATIC = -2
"""The member epoch of a static member that left temporarily (KIP-345)."""

Owned = Mapping[Uuid, Mapping[int, int]]
"""Topic id → partition → assignment epoch (KIP-1251), in the record's order."""


class MemberState(IntEnum):
    """The reconciliation state of a member, by the numbers in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions first."""
    UNRELEASED_PARTITIONS = 2
    """Other members must revoke partitions of its target assignment."""
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """Return the state of a record's byte, `UNKNOWN` for an unknown one."""
        return cls(value) if value in (0, 1, 2) else cls.UNKNOWN


_NEW = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex="",
    server_assignor=None,
    classic_member_metadata=None,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConsumerMember:
    """A member with its metadata, epoch and current assignment, all as in its records.

    Partitions always have assignment epochs. Equal members may list them in another order.

    `session`: the timer of its session, once a heartbeat has extended it. It is in no record: a
    member that a record changes has none at first. A heartbeat finds it without its key.
    """

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue = _NEW
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()
    session: Timer | None = field(default=None, init=False, repr=False)

    def take_session(self, timer: Timer) -> None:
        """Keep the timer for the next heartbeat."""
        object.__setattr__(self, "session", timer)

    def share(
        self,
        epoch: int,
        previous_epoch: int,
        assigned: tuple[TopicPartitions, ...],
        pending_revocation: tuple[TopicPartitions, ...],
    ) -> None:
        """Replace values by equal ones."""
        object.__setattr__(self, "epoch", epoch)
        object.__setattr__(self, "previous_epoch", previous_epoch)
        object.__setattr__(self, "assigned_partitions", assigned)
        object.__setattr__(self, "partitions_pending_revocation", pending_revocation)

    @property
    def assigned(self) -> Owned:
        """The partitions that it owns, created in each call."""
        return owned_of(self.assigned_partitions)

    @property
    def pending_revocation(self) -> Owned:
        """The partitions that it must still revoke, created in each call."""
        return owned_of(self.partitions_pending_revocation)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ConsumerMember)
            and (self.member_id, self.epoch, self.previous_epoch, self.state, self.metadata)
            == (other.member_id, other.epoch, other.previous_epoch, other.state, other.metadata)
            and self.has_assigned(other)
            and self.pending_revocation == other.pending_revocation
        )

    __hash__ = None  # type: ignore[assignment]  # nothing needs it

    def has_assigned(self, other: "ConsumerMember") -> bool:
        """Return whether both own the same partitions, at the same assignment epochs."""
        return self.assigned_partitions == other.assigned_partitions or self.assigned == other.assigned

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it joined by JoinGroup (a group in online migration)."""
        return self.metadata.classic_member_metadata is not None

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that left temporarily (epoch -2)."""
        return self.epoch == LEAVE_STATIC

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has exactly its target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """Return the member with the current assignment of a record."""
        return ConsumerMember(  # half the time of `replace`
            member_id=self.member_id,
            metadata=self.metadata,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned_partitions=with_epochs(value.assigned_partitions, value.member_epoch),
            partitions_pending_revocation=with_epochs(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> "ConsumerMember":
        """Return the member after a tombstone of its current assignment."""
        return ConsumerMember(member_id=self.member_id, metadata=self.metadata, epoch=LEFT)


def owned_of(topics: Iterable[TopicPartitions]) -> Owned:
    """Return the partitions of a member by topic."""
    return {topic.topic_id: dict(zip(topic.partitions, topic.assignment_epochs or (), strict=True)) for topic in topics}


def recorded(owned: Owned) -> tuple[TopicPartitions, ...]:
    """Return the partitions of a member as in its record, in the order given."""
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(epochs), assignment_epochs=tuple(epochs.values()))
        for topic_id, epochs in owned.items()
    )


def with_epochs(topics: tuple[TopicPartitions, ...], member_epoch: int) -> tuple[TopicPartitions, ...]:
    """Return the partitions of a record with their assignment epochs.

    Without assignment epochs (before 4.3), or with a wrong number of them, that is the member
    epoch. Of a repeated topic or partition, the last one counts.
    """
    if _is_complete(topics):
        return topics
    owned: dict[Uuid, dict[int, int]] = {}
    for topic in topics:
        epochs, partitions = topic.assignment_epochs, topic.partitions
        if epochs is None or len(epochs) != len(partitions):
            epochs = (max(member_epoch, 0),) * len(partitions)
        owned[topic.topic_id] = dict(zip(partitions, epochs, strict=True))
    return recorded(owned)


def _is_complete(topics: tuple[TopicPartitions, ...]) -> bool:
    """Return whether there are assignment epochs, and no repeated topics or partitions."""
    for topic in topics:
        count, epochs = len(topic.partitions), topic.assignment_epochs
        if epochs is None or len(epochs) != count or len({*topic.partitions}) != count:
            return False
    return len(topics) < 2 or len({topic.topic_id for topic in topics}) == len(topics)
