"""A member's side of the consumer protocol (KIP-848), as a state machine without I/O.

Any client can use it; `docs/how-to/consumer-protocol-client.md` has one of 100 lines. The states
and decisions are those of Java's `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`
of 4.4.

```python
member = ConsumerMembership(Identity("billing", str(uuid4())), now_ms=0)
member.coordinator_known = True
member.subscribe(TopicSubscription(["orders"], has_listener=True))
member.poll(0)                          # the application polls: it joins
heartbeat = member.next_heartbeat(0)    # send heartbeat.request to the coordinator
member.on_response(response, 5)         # or on_failure, if there is none
member.reconcile(6, can_commit=False)   # assigns, if it only adds partitions
for action in member.take_actions():    # RevokePartitions, AssignPartitions, ...
    ...
    member.complete(action)
```

Input, each with the client's clock in milliseconds:

| call | when |
|---|---|
| `subscribe`, `topic_names` | the subscription changed; metadata was received |
| `poll` | the application polled: joins, rejoins, reconciles, and restarts max.poll.interval.ms |
| `next_heartbeat` | repeatedly, next after `time_to_wait_ms`; returns a heartbeat that is due |
| `reconcile` | repeatedly, also while the application does not poll |
| `on_response`, `on_failure` | a heartbeat's response; no response |
| `coordinator_known` | set it when the coordinator is found or lost |
| `apply`, `complete` | an action was executed (`quorate.consumers.actions`) |
| `leave`, `close`, `heartbeat_on_close` | the application unsubscribes or closes |

Output: heartbeats, and `take_actions()`, in order. `state`, `member_epoch` and `owned` are
attributes. Not thread-safe: a client with threads needs a lock around each call.

Differences from Java: the response to a heartbeat from before the member joined again is ignored
(Java takes it for the response to the new one), and an assignment that was revoked or lost before
the application applied it is not applied.
"""

from collections.abc import Callable, Mapping
from random import Random

from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import AssignmentDetails, ClientAssignor, ComputeAssignment
from quorate.codecs.parameters import check_parameters
from quorate.codecs.tags import read_tags
from quorate.consumers.actions import (
    AssignmentReceived,
    FindCoordinator,
    RaiseError,
    RunAssignor,
)
from quorate.consumers.heartbeats import (
    ClientTimer,
    Heartbeat,
    HeartbeatFields,
    HeartbeatSchedule,
    Identity,
    TopicSubscription,
)
from quorate.consumers.parameters import MEMBERSHIP, MEMBERSHIP_VALUES, check_values
from quorate.consumers.states import (
    CAN_RECEIVE_ASSIGNMENT,
    NOT_IN_GROUP,
    REACTIONS,
    TRANSITIONS,
    ConsumerState,
    Reaction,
    known_error,
)
from quorate.consumers.transitions import InvalidTransition, LeaveOperation, Transitions

__all__ = ["TRANSITIONS", "ConsumerMembership", "Identity", "InvalidTransition", "LeaveOperation", "TopicSubscription"]

_S = ConsumerState

OUTSIDE_GROUP = frozenset({_S.FENCED, _S.STALE, _S.FATAL})
"""An error that fences a member or is fatal to it belongs to a heartbeat from before, and has no
effect. Java raises an exception inside its thread here."""

NOT_SUPPORTED = "the brokers do not support the consumer protocol; use group_protocol='classic' until they are upgraded"


class ConsumerMembership(Transitions):
    """One consumer's membership in its group; see the module's docstring.

    `auto_commit`: whether positions are committed before a rebalance (`CommitOffsets`).
    `client_assignors`: what the member announces for client-side assignment; brokers of released
    versions of Kafka ignore it. Raises `TypeError` for parameters of a wrong type, and `ValueError`
    for negative backoffs, and a `jitter` that is not from 0 to 1.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        now_ms: int,
        auto_commit: bool = True,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000,
        jitter: float = 0.2,
        random: Callable[[], float] | None = None,
        client_assignors: tuple[ClientAssignor, ...] | None = None,
    ) -> None:
        if not isinstance(identity, Identity):
            raise TypeError(f"identity={identity!r}: give an Identity")
        given = locals()
        check_parameters(given, MEMBERSHIP, TypeError)
        check_values(given, MEMBERSHIP_VALUES)
        super().__init__(identity, auto_commit=auto_commit)
        self.coordinator_known = False
        self._subscription_updated = False
        self._fields = HeartbeatFields(identity, client_assignors)
        self._schedule = HeartbeatSchedule(
            now_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            jitter=jitter,
            random=random or Random().random,
        )
        interval_ms = identity.max_poll_interval_ms
        self._max_poll_interval_ms = identity.rebalance_timeout_ms if interval_ms is None else interval_ms
        self._poll_timer = ClientTimer(now_ms, self._max_poll_interval_ms)
        self._last_heartbeat: Heartbeat | None = None

    @property
    def heartbeat_interval_ms(self) -> int:
        """The coordinator's interval; 0 before the first response."""
        return self._schedule.interval_ms

    # The application.

    def subscribe(self, subscription: TopicSubscription) -> None:
        """Replace the subscription; the next poll joins the group if necessary."""
        self.subscription = subscription
        self._subscription_updated = True

    def topic_names(self, names: Mapping[Uuid, str]) -> None:
        """Replace the known topics: those of the newest metadata."""
        self._reconciliation.names = names

    def announce(self, client_assignors: tuple[ClientAssignor, ...]) -> None:
        """Replace the client-side assignors; the next heartbeat has them if they changed."""
        self._fields.client_assignors = client_assignors

    def poll(self, now_ms: int) -> None:
        """Join or rejoin if necessary, reconcile, and restart max.poll.interval.ms."""
        self.reconcile(now_ms, can_commit=True)
        if self._subscription_updated:
            self._subscription_updated = False
            if self.state is _S.UNSUBSCRIBED:
                self._join()
        self._poll_timer.update(now_ms)
        if self._poll_timer.expired:
            self._poll_timer_expired = False
            if self.state is _S.STALE:
                if self._release_pending:
                    self._rejoin_after_release = True
                else:
                    self._join()
        self._poll_timer.reset(self._max_poll_interval_ms)

    def reconcile(self, now_ms: int, *, can_commit: bool) -> None:
        """Start a step of reconciliation, if one is due.

        Without `can_commit`, only if it commits and revokes nothing.
        """
        self._reconciliation.step(now_ms, can_commit=can_commit)

    def leave(self) -> None:
        """Unsubscribe: release the partitions, and leave the group with the next heartbeat."""
        self._leave(run_callbacks=True)

    def close(self, operation: LeaveOperation = LeaveOperation.DEFAULT) -> None:
        """Leave without callbacks, which the client has called. Send `heartbeat_on_close` next."""
        self._leave_operation = operation
        self._leave(run_callbacks=False)

    # Heartbeats.

    def next_heartbeat(self, now_ms: int) -> Heartbeat | None:
        """Return the heartbeat that is due."""
        if not self.coordinator_known or self.state in NOT_IN_GROUP or (self.state is _S.LEAVING and not self.leaving):
            self._skip_heartbeat()
            return None
        self._poll_timer.update(now_ms)
        if self._poll_timer.expired and self.state is not _S.PREPARE_LEAVING and self.state is not _S.LEAVING:
            self._send_leave(poll_timer_expired=True)
            heartbeat = self._heartbeat(now_ms, ignore_response=True)
            # It can join again before the response.
            self._schedule.reset()
            self._fields.reset()
            return heartbeat
        can_send = self._schedule.can_send(now_ms)
        if self.state is _S.LEAVING or can_send or (self._heartbeat_now and not self._schedule.in_flight):
            return self._heartbeat(now_ms, ignore_response=False)
        return None

    def heartbeat_on_close(self, now_ms: int) -> Heartbeat | None:
        """Return the last heartbeat of a closing consumer, if it leaves the group."""
        return self._heartbeat(now_ms, ignore_response=True) if self.leaving else None

    def time_to_wait_ms(self, now_ms: int) -> int | None:
        """Return the time until a heartbeat can be due, if nothing else happens; `None`: never."""
        self._poll_timer.update(now_ms)
        if self.state in (_S.UNSUBSCRIBED, _S.FATAL):
            return None
        if self._poll_timer.expired:
            return 0
        if not self.coordinator_known or self.state in NOT_IN_GROUP:
            return self._schedule.retry_backoff_ms
        if self._heartbeat_now and not self._schedule.in_flight:
            return 0
        return min(self._poll_timer.remaining_ms // 2, self._schedule.time_to_next_ms(now_ms))

    def on_response(
        self, response: ConsumerGroupHeartbeatResponse, now_ms: int, heartbeat: Heartbeat | None = None
    ) -> None:
        """Handle the response to `heartbeat`, also an error.

        Without `heartbeat` the response is taken for the one to the last heartbeat.
        """
        if heartbeat is not None and self._ignores(heartbeat, now_ms):
            return
        if response.error_code:
            self._on_error(known_error(response.error_code), response.error_message or "", now_ms)
            return
        self._schedule.succeeded(now_ms, response.heartbeat_interval_ms)
        self._on_success(response)

    def on_failure(
        self,
        now_ms: int,
        heartbeat: Heartbeat | None = None,
        *,
        retriable: bool,
        disconnected: bool = False,
        message: str = "",
        unsupported: bool = False,
    ) -> None:
        """Handle a heartbeat without a response, by default the last one.

        `disconnected`: the coordinator must be found again. `unsupported`: the broker's API
        versions do not permit the request.
        """
        if heartbeat is not None and self._ignores(heartbeat, now_ms):
            return
        self._schedule.failed(now_ms)
        self._fields.reset()
        if retriable:
            if disconnected:
                self._lose_coordinator(message)
        elif self.state in OUTSIDE_GROUP:
            return
        elif unsupported:
            self._fail(ErrorCode.UNSUPPORTED_VERSION, message or NOT_SUPPORTED)
        else:
            self._fail(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        if self.state is _S.UNSUBSCRIBED:
            self._complete_leave()

    # Responses.

    def _ignores(self, heartbeat: Heartbeat, now_ms: int) -> bool:
        """Return whether the outcome of a heartbeat has no effect on the member."""
        if heartbeat.ignore_response:
            return True
        if heartbeat.incarnation == self._incarnation:
            return False
        if heartbeat is self._last_heartbeat:
            self._schedule.succeeded(now_ms, self._schedule.interval_ms)
        if heartbeat.request.member_epoch < 0:
            self._complete_leave()
        return True

    def _on_success(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if self.state is _S.LEAVING:
            return
        if self.state is _S.UNSUBSCRIBED and response.member_epoch < 0:
            self._complete_leave()
            return
        if self.state in NOT_IN_GROUP:
            return
        if response.member_epoch < 0:
            self._complete_leave()
            return
        self._update_epoch(response.member_epoch)
        if response.assignment is not None and self.state in CAN_RECEIVE_ASSIGNMENT:
            self._receive(response.assignment)
        if response.unknown_tags and read_tags(ComputeAssignment, response.unknown_tags).should_compute_assignment:
            self.emit(RunAssignor(self.member_epoch))

    def _receive(self, assignment: Assignment) -> None:
        partitions = {topic.topic_id: tuple(sorted(topic.partitions)) for topic in assignment.topic_partitions}
        metadata = read_tags(AssignmentDetails, assignment.unknown_tags).metadata if assignment.unknown_tags else None
        self.emit(AssignmentReceived(partitions, self.member_epoch, metadata))
        self._reconciliation.receive(partitions)
        if not self._reconciliation.reconciled:
            self.transition_to(_S.RECONCILING)
        elif self.state in (_S.RECONCILING, _S.JOINING):
            self.transition_to(_S.STABLE)

    def _on_error(self, error: ErrorCode, message: str, now_ms: int) -> None:
        self._fields.reset()
        self._schedule.failed(now_ms)
        match REACTIONS.get(error, Reaction.FAIL):
            case Reaction.FIND_COORDINATOR:
                self._lose_coordinator(message)
                self._schedule.reset()
            case Reaction.REJOIN | Reaction.FAIL | Reaction.GROUP_NOT_FOUND if self.state in OUTSIDE_GROUP:
                return
            case Reaction.REJOIN:
                self._fence()
                self._schedule.reset()
            case Reaction.RAISE:
                self.emit(RaiseError(error, message))
            case Reaction.GROUP_NOT_FOUND if self.state is _S.UNSUBSCRIBED:
                pass
            case Reaction.RETRY:
                pass
            case _:
                self._fail(error, NOT_SUPPORTED if error is ErrorCode.UNSUPPORTED_VERSION else message)
        if self.state is _S.UNSUBSCRIBED:
            self._complete_leave()

    def _lose_coordinator(self, reason: str) -> None:
        self.coordinator_known = False
        self.emit(FindCoordinator(reason))

    @property
    def _heartbeat_now(self) -> bool:
        return self.state in (_S.ACKNOWLEDGING, _S.LEAVING, _S.JOINING)

    def _heartbeat(self, now_ms: int, *, ignore_response: bool) -> Heartbeat:
        request = self._fields.request(
            self.member_epoch, self.subscription, self._reconciliation.current, full=self.state is _S.JOINING
        )
        self._schedule.sent()
        self._last_heartbeat = heartbeat = Heartbeat(request, ignore_response, self._incarnation)
        if self.state is _S.ACKNOWLEDGING:
            self.transition_to(_S.STABLE if self._reconciliation.reconciled else _S.RECONCILING)
        elif self.state is _S.LEAVING:
            if self._poll_timer_expired:
                self._become_stale()
            else:
                self.transition_to(_S.UNSUBSCRIBED)
        return heartbeat

    def _skip_heartbeat(self) -> None:
        if self.state is _S.LEAVING:
            self.transition_to(_S.UNSUBSCRIBED)
            self._complete_leave()
