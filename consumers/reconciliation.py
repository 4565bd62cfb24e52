"""A member moves from its current assignment to the coordinator's target, one step at a time.

A step resolves topic ids to names, commits, revokes, assigns, and then acknowledges. A target that
arrives meanwhile waits for the next step. `Reconciliation` is the member's side of what the
coordinator does in `coordinator/consumer/reconcile.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from quorate.codecs import Uuid
from quorate.consumers.actions import (
    Action,
    AssignmentChanged,
    AssignPartitions,
    CommitOffsets,
    Partition,
    Partitions,
    PauseFetching,
    RevokePartitions,
    UpdateMetadata,
)
from quorate.consumers.states import ConsumerState

TopicIdPartitions = dict[Uuid, tuple[int, ...]]
"""Topic id → sorted partition numbers."""

Continuation = Callable[[BaseException | None], None]
"""Called when an action is complete, with its error."""


@dataclass(frozen=True, slots=True)
class LocalAssignment:
    """Partitions, and how many assignments the member received before.

    The local epoch distinguishes equal assignments: the second one has to be acknowledged, too.
    """

    local_epoch: int = -1
    partitions: TopicIdPartitions = field(default_factory=dict)

    def updated(self, partitions: TopicIdPartitions) -> "LocalAssignment":
        """Return the next assignment; the same object if the partitions did not change."""
        if self.local_epoch != -1 and partitions == self.partitions:
            return self
        return LocalAssignment(self.local_epoch + 1, partitions)


NO_ASSIGNMENT = LocalAssignment()
"""Outside the group, or before the first reconciliation."""


class ReconcilingMember(Protocol):
    """What reconciliation needs of the member (`quorate.consumers.membership`)."""

    state: ConsumerState
    auto_commit: bool
    rebalance_timeout_ms: int

    @property
    def has_listener(self) -> bool:
        """Whether revoked partitions need a callback."""
        ...

    def transition_to(self, state: ConsumerState) -> None:
        """Change the state by the table of transitions."""
        ...

    def emit(self, action: Action) -> None:
        """Add an action."""
        ...

    def start(self, action: Action, continuation: Continuation) -> None:
        """Add an action that the client completes."""
        ...


class Reconciliation:
    """The current and the target assignment, and the step that is running."""

    def __init__(self, member: ReconcilingMember) -> None:
        self._member = member
        self.current = NO_ASSIGNMENT
        self.target = NO_ASSIGNMENT
        self.owned: frozenset[Partition] = frozenset()
        self.names: Mapping[Uuid, str] = {}
        self._assigned_names: dict[Uuid, str] = {}  # topics can be missing in the newest metadata
        self.in_progress = False
        self._rejoined = False
        self._assigning: AssignPartitions | None = None

    @property
    def reconciled(self) -> bool:
        """Whether the target is reached and acknowledged."""
        return self.current == self.target

    def receive(self, partitions: TopicIdPartitions) -> None:
        """Replace the target."""
        self.target = self.target.updated(partitions)

    def discard_target(self) -> None:
        """Forget the target, for example to join again."""
        self.target = NO_ASSIGNMENT
        self._assigned_names.clear()

    def interrupt(self) -> None:
        """Let the running step end without an effect, because the member joins again."""
        if self.in_progress:
            self._rejoined = True

    def step(self, now_ms: int, *, can_commit: bool) -> None:
        """Start a step, unless one is running.

        `can_commit`: called from the application's poll. Otherwise only partitions are added:
        revoked ones could be in use by the application.
        """
        member = self._member
        if member.state is not ConsumerState.RECONCILING or self.reconciled or self.in_progress:
            return
        known, names = self._resolve()
        resolved = LocalAssignment(self.target.local_epoch, known)
        if self.current.local_epoch != -1 and known == self.current.partitions:
            if self.current.local_epoch != resolved.local_epoch:
                self.current = resolved
                member.transition_to(ConsumerState.ACKNOWLEDGING)
            return
        assigned = {(names[topic_id], number) for topic_id, numbers in known.items() for number in numbers}
        added, revoked = ordered(assigned - self.owned), ordered(self.owned - assigned)
        if not can_commit and (member.auto_commit or revoked):
            return
        self.in_progress = True
        self._rejoined = False
        self.pause(revoked)

        def assign(error: BaseException | None) -> None:
            if error is not None:
                self._complete()  # stays RECONCILING: the next step tries again
            elif self._aborted():
                self._finish(resolved, None)
            else:
                self._assigning = AssignPartitions(ordered(assigned), added)
                member.start(self._assigning, lambda error: self._finish(resolved, error))
                topics = {topic for topic, _ in assigned}
                self._assigned_names = {id_: name for id_, name in self._assigned_names.items() if name in topics}

        def revoke(_: BaseException | None) -> None:
            # A commit that failed until its deadline does not stop the rebalance.
            if self._aborted():
                return
            if revoked:
                self.revoke(revoked, assign)
            else:
                assign(None)

        if member.auto_commit:
            member.start(CommitOffsets(now_ms + member.rebalance_timeout_ms), revoke)
        else:
            revoke(None)

    def revoke(self, partitions: Iterable[Partition], continuation: Continuation) -> None:
        """Stop fetching the partitions that are still owned, and call the listener for them."""
        revoked = ordered(self.owned.intersection(partitions))
        self.pause(revoked)
        if revoked and self._member.has_listener:
            self._member.start(RevokePartitions(revoked), continuation)
        else:
            continuation(None)

    def pause(self, partitions: Partitions) -> None:
        """Stop fetching partitions that will be removed."""
        if partitions:
            self._member.emit(PauseFetching(partitions))

    def apply(self, action: AssignPartitions) -> bool:
        """Adopt an assignment; False if the member has left the group or joined again since."""
        if action is not self._assigning or self._member.state is not ConsumerState.RECONCILING or self._rejoined:
            return False
        self.own(action.partitions)
        return True

    def own(self, partitions: Partitions) -> None:
        """Replace the owned partitions."""
        self.owned = frozenset(partitions)
        self._member.emit(AssignmentChanged(partitions))

    def _finish(self, resolved: LocalAssignment, error: BaseException | None) -> None:
        self._assigning = None
        if error is not None:
            # No acknowledgement: the coordinator removes the member after the rebalance timeout.
            self._complete()
        elif self.in_progress and not self._aborted():
            self.current = resolved
            self._member.transition_to(ConsumerState.ACKNOWLEDGING)
            self._complete()

    def _aborted(self) -> bool:
        aborted = self._member.state is not ConsumerState.RECONCILING or self._rejoined
        if aborted:
            self._complete()
        return aborted

    def _complete(self) -> None:
        self.in_progress = False
        self._rejoined = False

    def _resolve(self) -> tuple[TopicIdPartitions, dict[Uuid, str]]:
        """Return the part of the target whose topics have known names, and these."""
        known: TopicIdPartitions = {}
        names: dict[Uuid, str] = {}
        for topic_id, numbers in self.target.partitions.items():
            name = self.names.get(topic_id)
            if name is not None:
                self._assigned_names[topic_id] = name
            elif (name := self._assigned_names.get(topic_id)) is None:
                continue
            known[topic_id], names[topic_id] = numbers, name
        if unknown := tuple(topic_id for topic_id in self.target.partitions if topic_id not in known):
            self._member.emit(UpdateMetadata(unknown))
        return known, names


def ordered(partitions: Iterable[Partition]) -> Partitions:
    """Return the partitions in order."""
    return tuple(sorted(partitions))
