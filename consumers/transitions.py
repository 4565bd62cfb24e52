"""How a member moves between its states: joins, loses its partitions, leaves, fails.

`quorate.consumers.membership` decides when.
"""

from collections.abc import Collection
from enum import Enum

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.errors import QuorateError
from quorate.consumers.actions import (
    Action,
    AssignmentChanged,
    AssignPartitions,
    EpochChanged,
    LeaveCompleted,
    LosePartitions,
    Partition,
    RaiseError,
    StateChanged,
    Unsubscribe,
)
from quorate.consumers.heartbeats import Identity, TopicSubscription
from quorate.consumers.reconciliation import NO_ASSIGNMENT, Continuation, Reconciliation, ordered
from quorate.consumers.states import NOT_IN_GROUP, TRANSITIONS, ConsumerState

_S = ConsumerState

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


class LeaveOperation(Enum):
    """What a closing consumer does with its membership (KIP-1092)."""

    DEFAULT = "default"  # a static member leaves until it returns, others leave for good
    LEAVE_GROUP = "leave-group"
    REMAIN_IN_GROUP = "remain-in-group"


class InvalidTransition(QuorateError):
    """The table has no such transition: a defect of this module or of its client."""


class Transitions:
    """The state, the partitions and the actions of a member."""

    def __init__(self, identity: Identity, *, auto_commit: bool) -> None:
        self.identity = identity
        self.rebalance_timeout_ms = identity.rebalance_timeout_ms
        self.auto_commit = auto_commit
        self.state = ConsumerState.UNSUBSCRIBED
        self.member_epoch = JOIN_EPOCH
        self.subscription = TopicSubscription()
        self._reconciliation = Reconciliation(self)
        self._poll_timer_expired = False
        self._leave_operation = LeaveOperation.DEFAULT
        self._leaving = False
        self._release_pending = False
        self._rejoin_after_release = False
        self._incarnation = 0
        self._actions: list[Action] = []
        self._pending: dict[Action, Continuation] = {}

    @property
    def owned(self) -> frozenset[Partition]:
        """The partitions that the application was assigned."""
        return self._reconciliation.owned

    @property
    def has_listener(self) -> bool:
        """Whether the application has a rebalance listener."""
        return self.subscription.has_listener

    @property
    def leaving(self) -> bool:
        """Whether the member is about to send a heartbeat that leaves the group."""
        if self._leave_operation is LeaveOperation.REMAIN_IN_GROUP and self.identity.instance_id is None:
            return False
        return self.state in (_S.PREPARE_LEAVING, _S.LEAVING)

    def transition_to(self, state: ConsumerState) -> None:
        """Change the state. Raises `InvalidTransition`."""
        old = self.state
        if state is not old and state not in TRANSITIONS[old]:
            raise InvalidTransition(f"{old.value} to {state.value}")
        self.state = state
        self.emit(StateChanged(old, state))

    # Actions.

    def take_actions(self) -> list[Action]:
        """Return the actions since the last call, in order."""
        actions, self._actions = self._actions, []
        return actions

    def emit(self, action: Action) -> None:
        """Add an action."""
        self._actions.append(action)

    def start(self, action: Action, continuation: Continuation) -> None:
        """Add an action that the client completes."""
        self._pending[action] = continuation
        self.emit(action)

    @property
    def pending(self) -> Collection[Action]:
        """The actions that wait for `complete`."""
        return self._pending.keys()

    def complete(self, action: Action, error: BaseException | None = None) -> None:
        """Continue after an action, with the error of the commit or of the listener.

        Raises `KeyError` if the action was completed before, or does not need it.
        """
        self._pending.pop(action)(error)

    def apply(self, action: AssignPartitions) -> bool:
        """Adopt an assignment, in the application's poll; call the listener if this returns True.

        False: the member lost it in the meantime. Complete the action in both cases.
        """
        return self._reconciliation.apply(action)

    # Joining and leaving.

    def _join(self) -> None:
        if self.state is _S.FATAL:
            return
        self._incarnation += 1
        self._reconciliation.interrupt()
        self._update_epoch(JOIN_EPOCH)
        self.transition_to(_S.JOINING)
        self._reconciliation.discard_target()

    def _fence(self) -> None:
        if self.state is _S.PREPARE_LEAVING:
            # Its listener is still running; the heartbeat to leave is no longer needed.
            self._send_leave(poll_timer_expired=False)
        if self.state is _S.LEAVING:
            self.transition_to(_S.UNSUBSCRIBED)
            self._complete_leave()
            return
        if self.state is _S.UNSUBSCRIBED:
            return
        self.transition_to(_S.FENCED)
        self._update_epoch(JOIN_EPOCH)

        def rejoin(_: BaseException | None) -> None:
            self._clear_assignment()
            if self.state is _S.FENCED:
                self._join()

        self._lose(rejoin)

    def _fail(self, error: ErrorCode, message: str) -> None:
        self.emit(RaiseError(error, message))
        previous = self.state
        self.transition_to(_S.FATAL)
        self.emit(EpochChanged(None))
        if previous is _S.UNSUBSCRIBED and self._complete_leave():
            return
        if previous in (_S.LEAVING, _S.PREPARE_LEAVING):
            self._complete_leave()
            return
        self._lose(lambda _: self._clear_assignment())

    def _leave(self, *, run_callbacks: bool) -> None:
        if self.state in NOT_IN_GROUP:
            if self.state is _S.FENCED:
                self._clear_assignment()
                self.transition_to(_S.UNSUBSCRIBED)
            self._unsubscribe()
            self.emit(AssignmentChanged(()))
            self.emit(LeaveCompleted())
            return
        if self.state in (_S.PREPARE_LEAVING, _S.LEAVING):
            return
        self.transition_to(_S.PREPARE_LEAVING)
        self._leaving = True

        incarnation = self._incarnation

        def leave(_: BaseException | None) -> None:
            if self._incarnation != incarnation:
                return  # it was fenced, which ended the leave, and has joined again
            self._unsubscribe()
            self._clear_assignment()
            self._send_leave(poll_timer_expired=False)

        if not run_callbacks or not self.owned:
            leave(None)
        elif self.member_epoch > 0:
            self._reconciliation.revoke(self.owned, leave)
        else:
            self._call_lost(leave)

    def _send_leave(self, *, poll_timer_expired: bool) -> None:
        if self.state in (_S.FATAL, _S.UNSUBSCRIBED):
            return
        if poll_timer_expired:
            # The partitions are lost only after the heartbeat: the application does not poll.
            self._poll_timer_expired = True
            self.transition_to(_S.PREPARE_LEAVING)
        static = self.identity.instance_id is not None and self._leave_operation is not LeaveOperation.LEAVE_GROUP
        self._update_epoch(LEAVE_STATIC_EPOCH if static else LEAVE_EPOCH)
        self._reconciliation.current = NO_ASSIGNMENT
        self.transition_to(_S.LEAVING)

    def _complete_leave(self) -> bool:
        completed, self._leaving = self._leaving, False
        if completed:
            self.emit(LeaveCompleted())
        return completed

    def _become_stale(self) -> None:
        self.transition_to(_S.STALE)
        self._release_pending = True
        self._rejoin_after_release = False

        def released(_: BaseException | None) -> None:
            self._release_pending = False
            self._clear_assignment()
            if self._rejoin_after_release:
                self._rejoin_after_release = False
                self._join()

        self._lose(released)

    # Partitions.

    def _lose(self, continuation: Continuation) -> None:
        self._reconciliation.pause(ordered(self.owned))
        self._call_lost(continuation)

    def _call_lost(self, continuation: Continuation) -> None:
        if self.owned and self.has_listener:
            self.start(LosePartitions(ordered(self.owned)), continuation)
        else:
            continuation(None)

    def _clear_assignment(self) -> None:
        if self.subscription.topics or self.subscription.regex is not None:
            self._reconciliation.own(())
        self._reconciliation.current = NO_ASSIGNMENT
        self._reconciliation.discard_target()

    def _unsubscribe(self) -> None:
        self.subscription = TopicSubscription()
        self._reconciliation.owned = frozenset()
        self.emit(Unsubscribe())

    def _update_epoch(self, epoch: int) -> None:
        if epoch != self.member_epoch:
            self.member_epoch = epoch
            self.emit(EpochChanged(epoch if epoch > 0 else None))
