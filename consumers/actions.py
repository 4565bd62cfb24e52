"""What a member's state machine (`quorate.consumers.membership`) wants its client to do.

The client passes `CommitOffsets`, `RevokePartitions`, `LosePartitions` and `AssignPartitions` to
`ConsumerMembership.complete` when they are done. Partitions are `(topic, partition)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import AssignedMetadata
from quorate.consumers.states import ConsumerState

__all__ = [
    "Action",
    "AssignPartitions",
    "AssignmentChanged",
    "AssignmentReceived",
    "CommitOffsets",
    "EpochChanged",
    "FindCoordinator",
    "LeaveCompleted",
    "LosePartitions",
    "Partition",
    "Partitions",
    "PauseFetching",
    "RaiseError",
    "RevokePartitions",
    "RunAssignor",
    "StateChanged",
    "Unsubscribe",
    "UpdateMetadata",
]

Partition = tuple[str, int]
Partitions = tuple[Partition, ...]
"""In the order of topic names and partition numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """Compared by identity: two actions with equal fields are two actions."""


@dataclass(frozen=True, slots=True, eq=False)
class CommitOffsets(Action):
    """Commit the positions before partitions are revoked; retry until `deadline_ms`.

    Complete it, also with an error.
    """

    deadline_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class PauseFetching(Action):
    """Neither fetch these partitions nor return fetched records: they are about to be removed."""

    partitions: Partitions


@dataclass(frozen=True, slots=True, eq=False)
class RevokePartitions(Action):
    """Call the listener's `on_partitions_revoked` in the application's thread. Complete it."""

    partitions: Partitions


@dataclass(frozen=True, slots=True, eq=False)
class LosePartitions(Action):
    """Call the listener's `on_partitions_lost` in the application's thread. Complete it."""

    partitions: Partitions


@dataclass(frozen=True, slots=True, eq=False)
class AssignPartitions(Action):
    """Apply it in the application's thread, call the listener, complete it.

    `partitions`: the whole assignment. `added`: the listener's argument, which may be empty.
    """

    partitions: Partitions
    added: Partitions


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentChanged(Action):
    """The member's partitions are these from now on."""

    partitions: Partitions


@dataclass(frozen=True, slots=True, eq=False)
class Unsubscribe(Action):
    """Drop the subscription and all partitions: the member leaves the group."""


@dataclass(frozen=True, slots=True, eq=False)
class UpdateMetadata(Action):
    """Request metadata: these assigned topics have no known name."""

    topic_ids: tuple[Uuid, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FindCoordinator(Action):
    """The coordinator is unknown; set `ConsumerMembership.coordinator_known` when it is found."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class RaiseError(Action):
    """Raise this error from the application's next poll."""

    error: ErrorCode
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class LeaveCompleted(Action):
    """Leaving the group has ended, successfully or not."""


@dataclass(frozen=True, slots=True, eq=False)
class EpochChanged(Action):
    """The epoch for commits and fetches of offsets; `None` outside the group."""

    epoch: int | None


@dataclass(frozen=True, slots=True, eq=False)
class StateChanged(Action):
    """For logs and metrics."""

    old: ConsumerState
    new: ConsumerState


@dataclass(frozen=True, slots=True, eq=False)
class RunAssignor(Action):
    """Run the group's client-side assignor (KIP-848): the coordinator selected this member."""

    member_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentReceived(Action):
    """The coordinator sent an assignment, by topic id; reconciliation may still be pending.

    `metadata`: from a client-side assignor.
    """

    partitions: Mapping[Uuid, tuple[int, ...]]
    member_epoch: int
    metadata: AssignedMetadata | None = None
