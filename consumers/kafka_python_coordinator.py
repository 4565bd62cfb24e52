"""kafka-python's coordinator with a member of the consumer protocol in place of JoinGroup.

Heartbeats are sent by kafka-python's I/O thread. Partitions change and listeners run in the
application's thread, inside `poll`, `unsubscribe` and `close`, as in Java. The file is long because
its methods replace those of one class of kafka-python.
"""

import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

from kafka import errors
from kafka.coordinator.base import Generation
from kafka.structs import ConsumerGroupMetadata, MemberState, TopicPartition
from kafka.util import WeakMethod

from quorate.codecs import Uuid
from quorate.codecs.errors import QuorateError
from quorate.codecs.message import Message
from quorate.consumers.actions import (
    Action,
    AssignmentChanged,
    AssignmentReceived,
    AssignPartitions,
    CommitOffsets,
    FindCoordinator,
    LeaveCompleted,
    LosePartitions,
    PauseFetching,
    RaiseError,
    RevokePartitions,
    RunAssignor,
    StateChanged,
    UpdateMetadata,
)
from quorate.consumers.client_assignors import OfferedAssignors, next_step
from quorate.consumers.heartbeats import Identity, TopicSubscription
from quorate.consumers.kafka_python_loop import HeartbeatLoop, now_ms
from quorate.consumers.kafka_python_requests import EpochManager, OwnRequest, error_for
from quorate.consumers.membership import ConsumerMembership
from quorate.consumers.states import NOT_IN_GROUP, ConsumerState
from quorate.consumers.transitions import LeaveOperation

log = logging.getLogger(__name__)

LISTENER_METHODS = {
    RevokePartitions: "on_partitions_revoked",
    LosePartitions: "on_partitions_lost",
    AssignPartitions: "on_partitions_assigned",
}
WAKE_UP_SECONDS = 0.1
"""The longest time that a poll waits for messages before it looks for a rebalance."""

POSITION_SECONDS = 0.005
"""The longest sleep while positions of new partitions are looked up."""


class _StaleEpoch(QuorateError, errors.RetriableError):  # type: ignore[misc]  # kafka-python has no types
    """The epoch changed after the request was sent; it is repeated with the new one."""


class ConsumerProtocolCoordinator(HeartbeatLoop):
    """The coordinator of a consumer with `group_protocol="consumer"`."""

    _client_assignors: OfferedAssignors
    _computing: bool
    _committing: bool
    _closing: bool
    regex: str | None
    leave_operation: LeaveOperation
    _subscribed: TopicSubscription | None
    _events: deque[Action | BaseException]
    _has_events: threading.Event
    _left: threading.Event
    _fatal: RaiseError | None
    _started: bool
    auto_commit_interval: float
    next_auto_commit_deadline: float

    @classmethod
    def adopt(
        cls, coordinator: Any, *, remote_assignor: str | None, rack: str | None, client_assignors: OfferedAssignors
    ) -> "ConsumerProtocolCoordinator":
        """Convert kafka-python's coordinator, which has sent nothing yet.

        Creating a second one would register its metrics and its metadata listener twice.
        """
        coordinator.__class__ = cls
        self: ConsumerProtocolCoordinator = coordinator
        identity = Identity(
            self.group_id,
            str(uuid4()),
            instance_id=self.group_instance_id,
            rack_id=rack or None,
            rebalance_timeout_ms=self.config["max_poll_interval_ms"],
            server_assignor=remote_assignor,
        )
        self._membership = ConsumerMembership(
            identity,
            now_ms=now_ms(),
            auto_commit=bool(self.config["enable_auto_commit"]),
            retry_backoff_ms=self.config["retry_backoff_ms"],
        )
        self._client_assignors = client_assignors
        self._computing = self._committing = self._closing = False
        self._manager = EpochManager(self._manager, self._member)
        self.regex = None
        self.leave_operation = LeaveOperation.DEFAULT
        self._subscribed = None
        self._events = deque()
        self._has_events = threading.Event()
        self._left = threading.Event()
        self._fatal = None
        self._started = False
        self._cluster.add_listener(WeakMethod(self._learn_topic_names))
        return self

    # What kafka-python calls.

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Join, reconcile, run listeners, and commit automatically."""
        if not self._subscription.partitions_auto_assigned():
            return bool(super().poll(timeout_ms=timeout_ms))
        self._invoke_completed_offset_commit_callbacks()
        self.heartbeat.poll()  # the time of the last poll
        self._subscribe()
        self._start()
        announced = self._client_assignors.announced()
        with self._lock:
            if announced:
                self._membership.announce(announced)
            self._membership.poll(now_ms())
            if self._dispatch():
                self._heartbeat_wakeup.notify()
        if not self._subscription.assignment or self._membership.state is ConsumerState.JOINING:
            # kafka-python sleeps if there is nothing to fetch; wait for the assignment instead.
            wait = WAKE_UP_SECONDS if timeout_ms is None else min(WAKE_UP_SECONDS, timeout_ms / 1000)
            self._has_events.wait(wait)
        self._run_events()
        if self._closing:
            return False  # a listener has closed the consumer
        if self._fatal is not None:
            raise error_for(self._fatal.error, self._fatal.message)
        if self._membership.member_epoch > 0 and not self._committing:
            self._maybe_auto_commit_offsets_async()
        return True

    def time_to_next_poll(self) -> float:
        """Return how long a poll may wait for messages, in seconds."""
        if self._events or not self._subscription.assignment:
            return 0.0  # without partitions, `poll` waits for them
        if not self._subscription.has_all_fetch_positions():
            return POSITION_SECONDS  # kafka-python sleeps until positions are known
        if not self.config["enable_auto_commit"] or self._committing:
            return WAKE_UP_SECONDS  # a commit before a rebalance is pending, and delays automatic ones
        return max(0.0, min(WAKE_UP_SECONDS, self.next_auto_commit_deadline - time.monotonic()))

    def need_rejoin(self) -> bool:
        """Return False: there is no JoinGroup."""
        return False

    def generation_if_stable(self) -> Generation | None:
        """Return the member's id and epoch, for commits."""
        member_id, epoch = self._member()
        return Generation(epoch, member_id, None) if epoch > 0 else None

    def rebalance_in_progress(self) -> bool:
        """Return whether the member is about to join."""
        return self._membership.state in (ConsumerState.JOINING, ConsumerState.FENCED)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership, for transactions (KIP-447).

        As in Java, there is none after `unsubscribe`, and if the application assigns partitions.
        """
        member_id, epoch = self._member()
        if self._membership.state is ConsumerState.UNSUBSCRIBED or not self._subscription.partitions_auto_assigned():
            member_id, epoch = Generation.NO_GENERATION.member_id, Generation.NO_GENERATION.generation_id
        return ConsumerGroupMetadata(
            group_id=self.group_id,
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=self.group_instance_id,
            state=self._kafka_state(),
        )

    def reset_generation(self, *_: Any, **__: Any) -> None:
        """Do nothing: heartbeats find out whether the member is still in the group."""

    def maybe_leave_group(self, *_: Any, timeout_ms: float | None = None, **__: Any) -> None:
        """Leave the group, and run the listener, as Java's `unsubscribe`."""
        if self._closing:
            return  # `close` leaves the group; its listener has called this
        self._left.clear()
        with self._lock:
            self._membership.leave()
            self._dispatch()
        self._subscribed = None
        try:
            self._run_events()
        finally:
            self._heartbeat_wakeup.notify()
        if self._membership.state is ConsumerState.PREPARE_LEAVING:
            return  # a listener has called this, and the member leaves when it returns
        self._left.wait((timeout_ms or self.config["request_timeout_ms"]) / 1000)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit, run the listener for all partitions, and leave the group."""
        self._closing = True
        try:
            if autocommit and (self._membership.member_epoch > 0 or not self._subscription.partitions_auto_assigned()):
                self._maybe_auto_commit_offsets_sync(timeout_ms=timeout_ms)
            self._release_on_close()
        finally:
            self._cluster.remove_listener(WeakMethod(self._handle_metadata_update))
            self._cluster.remove_listener(WeakMethod(self._learn_topic_names))
            with self._lock:
                self._close_heartbeat()
                self._membership.close(self.leave_operation)
                heartbeat = None
                if not self.coordinator_unknown():
                    heartbeat = self._membership.heartbeat_on_close(now_ms())
                self._membership.take_actions()
            if heartbeat is not None:
                self._net.run(self._send_last, heartbeat, timeout_ms)

    # Offsets.

    async def _send_offset_fetch_request(self, partitions: Any) -> Any:
        try:
            return await super()._send_offset_fetch_request(partitions)
        except (errors.StaleMemberEpochError, errors.UnknownMemberIdError) as error:
            raise _StaleEpoch(*error.args) from error

    def _handle_offset_commit_response(self, offsets: Any, send_time: float, response: Any) -> None:
        try:
            super()._handle_offset_commit_response(offsets, send_time, response)
        except errors.StaleMemberEpochError as error:
            raise errors.CommitFailedError(
                "the member's epoch changed while the commit was sent; poll again before committing"
            ) from error

    async def _commit_before_rebalance(self, action: CommitOffsets) -> None:
        """Commit positions, and repeat it until the deadline or until the consumer closes.

        Each attempt has the positions of its time, as in Java, since the application may have
        committed newer ones meanwhile. There are no automatic commits.
        """
        failure: BaseException | None = None
        while not self._closing and (offsets := self._subscription.all_consumed_offsets()):
            remaining_ms = action.deadline_ms - now_ms()
            try:
                await self.ensure_coordinator_ready_async(timeout_ms=max(1, remaining_ms))
                sent = self._manager.call_soon(self._send_offset_commit_request, offsets)
                await self._manager.wait_for(sent, max(1, remaining_ms))
            except Exception as error:  # noqa: BLE001 - a failed commit does not stop the rebalance
                failure = error
            else:
                failure = None
                break
            if isinstance(failure, errors.UnknownTopicOrPartitionError):
                break  # the topic was deleted; Java's consumer does not repeat this commit, either
            stale = isinstance(failure.__cause__, errors.StaleMemberEpochError)
            if remaining_ms <= 0 or not (stale or getattr(failure, "retriable", False)):
                break
            await self._net.sleep(self.config["retry_backoff_ms"] / 1000)
        if failure is not None:
            log.warning("Commit before a rebalance of group %s failed: %s", self.group_id, failure)
        self._committing = False
        self._complete(action, failure)

    # The member.

    def _member(self) -> tuple[str, int]:
        return self._membership.identity.member_id, self._membership.member_epoch

    def _kafka_state(self) -> Any:
        state = self._membership.state
        if state in NOT_IN_GROUP:
            return MemberState.UNJOINED
        # The application has its assignment before the coordinator receives the acknowledgement.
        stable = state in (ConsumerState.STABLE, ConsumerState.ACKNOWLEDGING)
        return MemberState.STABLE if stable else MemberState.REBALANCING

    def _subscribe(self) -> None:
        """Pass a changed subscription to the member. A regex of Python is resolved to topics."""
        topics = tuple(sorted(self._subscription.subscription or ()))
        if not topics and self.regex is None:
            return
        subscription = TopicSubscription(topics, self.regex, has_listener=True)
        if subscription != self._subscribed:
            self._subscribed = subscription
            with self._lock:
                self._membership.subscribe(subscription)
            if not self._cluster.topics(exclude_internal_topics=False).issuperset(topics):
                # The backoff is for repeated requests, as in Java. This one is for new topics.
                self._cluster._last_refresh_ms = 0
                self._cluster.request_update()

    def _learn_topic_names(self, cluster: Any) -> None:
        names = {}
        for topic in cluster.topics(exclude_internal_topics=False):
            if (topic_id := cluster.topic_id(topic)) is not None:
                names[Uuid(topic_id.bytes)] = topic
        with self._lock:
            self._membership.topic_names(names)
        self._heartbeat_wakeup.notify()

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._learn_topic_names(self._cluster)
            self._heartbeat_loop_future = self._manager.call_soon(self._membership_loop)
        elif self._heartbeat_loop_future.is_done and not self._heartbeat_closed:
            self._started = False
            raise self._heartbeat_loop_future.exception

    def _dispatch(self) -> bool:
        """Execute what does not need the application's thread, and queue the rest.

        Returns whether there was anything.
        """
        actions = self._membership.take_actions()
        for action in actions:
            match action:
                case PauseFetching():
                    self._subscription.mark_pending_revocation(_kafka_partitions(action.partitions))
                case AssignmentChanged():
                    self._assign(action.partitions)
                case CommitOffsets():
                    self._committing = True
                    self._manager.call_soon(self._commit_before_rebalance, action)
                case UpdateMetadata():
                    self._cluster.request_update()
                case FindCoordinator():
                    self.coordinator_dead(action.reason)
                case LeaveCompleted():
                    self._left.set()
                case StateChanged():
                    self.state = self._kafka_state()
                    log.debug("Member of group %s: %s to %s", self.group_id, action.old.value, action.new.value)
                case RunAssignor() if not self._computing:
                    self._computing = True
                    threading.Thread(target=self._compute, args=[action.member_epoch], daemon=True).start()
                case AssignmentReceived(metadata=None):
                    pass  # of an assignor of the brokers
                case RevokePartitions() | LosePartitions() | AssignPartitions() | AssignmentReceived() | RaiseError():
                    self._events.append(action)
                    self._has_events.set()
        return bool(actions)

    def _assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        if self._subscription.partitions_auto_assigned():
            with self._subscription._lock:
                # Not assign_from_subscribed: it checks topics, which a regex leaves to brokers.
                self._subscription._apply_assignment(_kafka_partitions(partitions), randomize=True)

    def _complete(self, action: Action, error: BaseException | None) -> None:
        with self._lock:
            self._membership.complete(action, error)
            self._dispatch()
        self._heartbeat_wakeup.notify()

    def _run_events(self) -> None:
        """Run listeners, and raise the first error."""
        failure: BaseException | None = None
        self._has_events.clear()
        while self._events:
            action = self._events.popleft()
            if isinstance(action, BaseException):
                failure = failure or action
                continue
            if isinstance(action, RaiseError):
                failure = failure or error_for(action.error, action.message)
                if self._membership.state is ConsumerState.FATAL:
                    self._fatal = action
                continue
            if isinstance(action, AssignmentReceived):
                self._client_assignors.on_assignment(
                    action, lambda topic_id: self._cluster.topic_name_for_id(UUID(bytes=bytes(topic_id)))
                )
                continue
            try:
                error = self._run_event(action)
            except BaseException as interrupted:  # such as Ctrl-C: the rebalance continues all the same
                self._complete(action, interrupted)
                raise
            if self._closing:
                return  # the listener has closed the consumer
            if error is not None and failure is None:
                failure = errors.KafkaError("User rebalance callback throws an error")
                failure.__cause__ = error
            self._complete(action, error)
        if failure is not None:
            raise failure

    def _compute(self, member_epoch: int) -> None:
        """Run a client-side assignor, in a thread of its own: it may take long."""

        async def send(message: Message) -> Any:
            return await self._manager.send(OwnRequest(message), node_id=self.coordinator_id)

        try:
            steps = self._client_assignors.compute(
                group_id=self.group_id, member_id=self._membership.identity.member_id, member_epoch=member_epoch
            )
            request = next(steps, None)
            while request is not None:
                request = next_step(steps, self._net.run(send, request))
        except Exception as error:  # noqa: BLE001 - the coordinator requests it again, or from another member
            if not self._closing:  # otherwise the connection was closed meanwhile
                log.warning("Assignment for group %s was not installed: %s", self.group_id, error)
        finally:
            self._computing = False

    def _run_event(self, action: Any) -> BaseException | None:
        partitions = action.partitions
        if isinstance(action, AssignPartitions):
            with self._lock:
                applied = self._membership.apply(action)
                self._dispatch()
            if not applied:
                return None
            partitions = action.added
            self.next_auto_commit_deadline = time.monotonic() + self.auto_commit_interval
        return self._call_listener(LISTENER_METHODS[type(action)], partitions)

    def _call_listener(self, method: str, partitions: Iterable[tuple[str, int]]) -> BaseException | None:
        listener = self._subscription.rebalance_listener
        if listener is None:
            return None
        callback = getattr(listener, method)
        arguments = set(_kafka_partitions(partitions))
        try:
            if inspect.iscoroutinefunction(callback):
                self._net.run(callback, arguments)
            else:
                callback(arguments)
        except Exception as error:
            log.exception("%s of %s for group %s failed", method, listener, self.group_id)
            return error
        return None

    def _release_on_close(self) -> None:
        partitions = sorted(self._subscription.assigned_partitions())
        if not partitions or not self._subscription.partitions_auto_assigned():
            return
        self._subscription.mark_pending_revocation(partitions)
        in_group = self._membership.member_epoch > 0
        error = self._call_listener("on_partitions_revoked" if in_group else "on_partitions_lost", partitions)
        self._assign(())
        if error is not None:
            raise errors.KafkaError("User rebalance callback throws an error") from error


def _kafka_partitions(partitions: Iterable[tuple[str, int]]) -> list[Any]:
    return [TopicPartition(topic, number) for topic, number in partitions]
