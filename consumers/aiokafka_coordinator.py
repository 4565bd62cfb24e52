"""aiokafka's coordinator with a member of the consumer protocol in place of JoinGroup.

All of it runs in the consumer's event loop, in tasks that `close` ends. As in aiokafka, listeners
run in the background while the application processes records. The file is long because its methods
replace those of one class of aiokafka.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Executor, Future
from itertools import count
from typing import Any
from uuid import uuid4

from aiokafka import errors
from aiokafka.structs import TopicPartition

from quorate.codecs.api.error_codes import ErrorCode
from quorate.consumers.actions import (
    Action,
    AssignmentChanged,
    AssignmentReceived,
    AssignPartitions,
    CommitOffsets,
    EpochChanged,
    FindCoordinator,
    LosePartitions,
    PauseFetching,
    RaiseError,
    RevokePartitions,
    RunAssignor,
    UpdateMetadata,
)
from quorate.consumers.aiokafka_offsets import OffsetCoordinator
from quorate.consumers.aiokafka_requests import AioRequest, error_for
from quorate.consumers.client_assignors import OfferedAssignors, next_step
from quorate.consumers.heartbeats import Heartbeat, Identity, TopicSubscription
from quorate.consumers.membership import ConsumerMembership
from quorate.consumers.states import NOT_IN_GROUP, ConsumerState
from quorate.consumers.transitions import LeaveOperation

log = logging.getLogger(__name__)

CLOSE_SECONDS = 30
"""The longest time that `close` waits for brokers and listeners, as in Java."""

SHORTEST_WAIT_MS = 20
"""Between two steps, if a heartbeat is in flight, whose response starts the next step."""


def now_ms() -> int:
    """Return the time of a clock that never runs backwards."""
    return int(time.monotonic() * 1000)


class AioCoordinator(OffsetCoordinator):
    """The coordinator of a consumer with `group_protocol="consumer"`."""

    _commit_refresh_task: Any

    def __init__(
        self,
        client: Any,
        subscription: Any,
        fetcher: Any,
        *,
        remote_assignor: str | None,
        rack: str | None,
        client_assignors: OfferedAssignors,
        rebalance_timeout_ms: int | None,
        **configs: Any,
    ) -> None:
        interval_ms = configs["max_poll_interval_ms"]
        identity = Identity(
            configs["group_id"],
            str(uuid4()),
            instance_id=configs["group_instance_id"],
            rack_id=rack or None,
            rebalance_timeout_ms=interval_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
            server_assignor=remote_assignor,
            max_poll_interval_ms=interval_ms,
        )
        self._membership = ConsumerMembership(
            identity,
            now_ms=now_ms(),
            auto_commit=bool(configs["enable_auto_commit"]),
            retry_backoff_ms=configs["retry_backoff_ms"],
        )
        self.topic_names = {}
        self._fetcher = fetcher
        self._client_assignors = client_assignors
        self._subscribed: Any = None
        self._listener: Any = None
        self._dropped: Any = None
        self._events: deque[Action] = deque()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._stepped_ms = 0
        self._failure: BaseException | None = None
        self._waits = 0
        self._closed = False
        self._heartbeats = count()
        super().__init__(client, subscription, **configs)
        self.member_id = identity.member_id

    # What aiokafka's consumer calls.

    async def wait_for_assignment(self) -> None:
        """Wait for the first assignment, or until `unsubscribe`. Raises errors of the group."""
        self._waits += 1
        try:
            await self._subscription.wait_for_first_assignment()
        finally:
            self._waits -= 1

    def check_errors(self) -> None:
        """Raise an error of the group. The application polls when it calls this."""
        if self._failure is not None:
            failure = self._failure
            if self._membership.state is not ConsumerState.FATAL and not self._coordination_task.done():
                self._failure = None
            raise failure
        if self._membership.state is ConsumerState.STALE:
            self._wake.set()

    def subscription_changed(self) -> None:
        """Join, or update the subscription."""
        self._wake.set()

    def leave(self, listener: Any, assignment: Any) -> None:
        """Commit if commits are automatic, run the listener, and leave the group."""
        self._subscribed = None
        self._listener = listener
        self._dropped = assignment
        self._start("leave", self._leave())

    @property
    def dropped(self) -> Any:
        """The assignment before `unsubscribe`, as long as the member may commit its offsets."""
        return self._dropped if "leave" in self._tasks and self._membership.member_epoch > 0 else None

    async def close(self, operation: LeaveOperation = LeaveOperation.DEFAULT) -> None:
        """Commit, leave the group, and end all tasks. As in aiokafka, no listener is called."""
        if self._closed:
            return
        self._closed = True
        self._cluster.remove_listener(self._handle_metadata_update)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._finish_events()
                await self._close_membership(operation)
        except (TimeoutError, errors.KafkaError) as error:
            log.warning("Closing the member of group %s: %s", self.group_id, str(error) or "no response")
        finally:
            self._closing.set_result(None)
            await self._cancel(self._coordination_task, *self._tasks.values(), self._commit_refresh_task)
            self._commit_refresh_task = None

    async def _finish_events(self) -> None:
        """Wait for the listener that is running, unless it is what closes the consumer."""
        running = [self._tasks.get(name) for name in ("events", "leave")]
        tasks = [task for task in running if task is not None and task is not asyncio.current_task()]
        if tasks:
            await asyncio.wait(tasks)

    async def _close_membership(self, operation: LeaveOperation) -> None:
        assignment = None if self._subscription.subscription is None else self._subscription.subscription.assignment
        member = self.member()
        if self._enable_auto_commit and assignment is not None and (member is None or member[1] > 0):
            try:
                await self.commit_before_rebalance(assignment.all_consumed_offsets)
            except errors.KafkaError as error:
                log.error("Commit of group %s on close failed: %s", self.group_id, error)
        # No heartbeat may follow the last one.
        heartbeats = [task for name, task in self._tasks.items() if name.startswith("heartbeat")]
        await self._cancel(self._coordination_task, *heartbeats)
        self._membership.close(operation)
        heartbeat = None if self.coordinator_id is None else self._membership.heartbeat_on_close(now_ms())
        self._membership.take_actions()
        if heartbeat is not None:
            await self.send_own(AioRequest(heartbeat.request))

    @staticmethod
    async def _cancel(*tasks: asyncio.Task[Any] | None) -> None:
        others = [task for task in tasks if task is not None and task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def coordinator_dead(self) -> None:
        """Find the coordinator again."""
        super().coordinator_dead()
        self._wake.set()

    def start_commit_offsets_refresh_task(self, assignment: Any) -> None:
        """Read committed offsets when they are needed; again after an error."""
        super().start_commit_offsets_refresh_task(assignment)
        self._wake.set()  # partitions that the application assigns need the coordinator, too

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._raise(error)
                self._start("refresh", self._refresh_again(assignment))

        self._commit_refresh_task.add_done_callback(ended)

    async def _refresh_again(self, assignment: Any) -> None:
        await asyncio.sleep(self._retry_backoff_ms / 1000)
        if assignment.active:
            self.start_commit_offsets_refresh_task(assignment)

    def _handle_metadata_update(self, cluster: Any) -> None:
        super()._handle_metadata_update(cluster)
        self._wake.set()  # a regex of Python may match other topics

    # Tasks.

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a task, one of each name at a time; wake up the main task when it ends."""
        if name in self._tasks or self._closing.done():
            work.close()
            return

        def done(task: asyncio.Task[None]) -> None:
            del self._tasks[name]
            self._wake.set()
            if not task.cancelled() and (error := task.exception()) is not None:
                self._raise(error)

        self._tasks[name] = task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(done)

    def _raise(self, error: BaseException) -> None:
        """Raise an error in calls that wait, or in the next call that polls."""
        if not isinstance(error, errors.KafkaError):
            log.error("Unexpected error in group %s", self.group_id, exc_info=error)
            unexpected = errors.KafkaError(f"Unexpected error during coordination {error!r}")
            unexpected.__cause__ = error
            error = unexpected
        fatal = self._membership.state is ConsumerState.FATAL or self._coordination_task.done()
        if fatal or not (self._waits or self._subscription.polling):
            self._failure = error
        self._subscription.abort_waiters(error)

    async def _coordination_routine(self) -> None:
        try:
            while True:
                self._wake.clear()
                wait_ms = self._step()
                try:
                    async with asyncio.timeout(None if wait_ms is None else max(wait_ms, SHORTEST_WAIT_MS) / 1000):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._failure = errors.KafkaError(f"Unexpected error during coordination {error!r}")
            self._failure.__cause__ = error
            log.exception("Unexpected error in group %s", self.group_id)
            self._subscription.abort_waiters(self._failure)

    def _step(self) -> int | None:
        """Do what is due, and return the time until the next step in milliseconds."""
        at_ms = now_ms()
        member = self._membership
        # A step of reconciliation without the names of topics would leave them out.
        can_reconcile = "topics" not in self._tasks
        in_group = self._subscription.partitions_auto_assigned()
        if in_group and "leave" not in self._tasks:
            self._subscribe()
            if can_reconcile:
                self._poll(at_ms)
                self._stepped_ms = at_ms
        assigned_by_hand = self._subscription.subscription is not None and not in_group
        if self.coordinator_id is None and (member.state not in NOT_IN_GROUP or assigned_by_hand):
            self._start("lookup", self._find_coordinator())
        member.coordinator_known = self.coordinator_id is not None
        if can_reconcile:
            member.reconcile(at_ms, can_commit=True)
        heartbeat = member.next_heartbeat(at_ms)
        if heartbeat is not None:
            self._start(f"heartbeat {next(self._heartbeats)}", self._send_heartbeat(heartbeat))
        self._dispatch()
        waits = [member.time_to_wait_ms(at_ms), self._commit_automatically()]
        return min((wait for wait in waits if wait is not None), default=None)

    def _subscribe(self) -> None:
        """Pass a changed subscription to the member."""
        subscription = self._subscription.subscription
        if subscription is None:
            return  # the topics of a regex of Python are not known yet
        self._listener = self._subscription.listener
        topics = TopicSubscription(tuple(sorted(subscription.topics)), self._subscription.regex, has_listener=True)
        if topics != self._subscribed:
            self._subscribed = topics
            self._membership.subscribe(topics)
            self._membership.poll(now_ms())  # as in aiokafka, it joins without being polled
            if unknown := subscription.topics - set(self.topic_names.values()):
                self._start("topics", self._learn_topics(names=unknown))

    def _poll(self, at_ms: int) -> None:
        if self._client_assignors:
            self._membership.announce(self._client_assignors.announced())
        if self._subscription.polling or self._waits:
            self._membership.poll(at_ms)
        elif (polled_ms := self._subscription.polled_ms) > self._stepped_ms:
            self._membership.poll(polled_ms)

    async def _find_coordinator(self) -> None:
        try:
            await self.ensure_coordinator_known()
        except errors.KafkaError as error:
            self._raise(error)
            await asyncio.sleep(self._retry_backoff_ms / 1000)

    async def _send_heartbeat(self, heartbeat: Heartbeat) -> None:
        min_version = 0 if heartbeat.request.subscribed_topic_regex is None else 1
        try:
            response = await self.send_own(AioRequest(heartbeat.request, min_version=min_version))
        except errors.KafkaError as error:
            unsupported = isinstance(error, errors.IncompatibleBrokerVersion)
            self._membership.on_failure(
                now_ms(),
                heartbeat,
                retriable=error.retriable or isinstance(error, errors.KafkaConnectionError),
                disconnected=True,
                message=str(error),
                unsupported=unsupported,
            )
        except Exception as error:  # noqa: BLE001 - the member would wait for the response for ever
            self._membership.on_failure(now_ms(), heartbeat, retriable=False, message=repr(error))
        else:
            self._membership.on_response(response, now_ms(), heartbeat)
        self._dispatch()

    # Actions.

    def _dispatch(self) -> None:
        for action in self._membership.take_actions():
            match action:
                case PauseFetching():
                    self._subscription.hold(_kafka_partitions(action.partitions))
                case AssignmentChanged():
                    if action.partitions or self._subscription.member_assignment is not None:
                        self._own(_kafka_partitions(action.partitions))
                case UpdateMetadata():
                    self._start("topics", self._learn_topics(ids=action.topic_ids))
                case FindCoordinator():
                    self.coordinator_dead()
                case EpochChanged():
                    self.generation = -1 if action.epoch is None else action.epoch
                case RaiseError():
                    self._raise(error_for(action.error, action.message))
                case RunAssignor():
                    self._start("assignor", self._compute(action.member_epoch))
                case AssignmentReceived():
                    unknown = [topic_id for topic_id in action.partitions if topic_id not in self.topic_names]
                    if unknown:
                        self._start("topics", self._learn_topics(ids=unknown))
                    if action.metadata is not None:
                        self._events.append(action)
                case (
                    RevokePartitions() | LosePartitions() | AssignPartitions() | CommitOffsets() | AssignmentReceived()
                ):
                    self._events.append(action)
        if self._events:
            self._start("events", self._run_events())

    def _complete(self, action: Action, error: BaseException | None = None) -> None:
        self._membership.complete(action, error)
        self._dispatch()
        self._wake.set()

    def _own(self, partitions: Iterable[Any]) -> None:
        state = self._subscription
        is_first = state.member_assignment is None
        for at in state.own(list(partitions)):
            self._fetcher._records.pop(at, None)
        assignment = state.member_assignment
        if assignment is None:
            return  # the application has unsubscribed since
        if is_first:
            self.start_commit_offsets_refresh_task(assignment)
        if state.regex is not None and assignment.tps:
            self._client.set_topics({at.topic for at in assignment.tps})
        self._fetcher._notify(self._fetcher._wait_consume_future)

    async def _run_events(self) -> None:
        while self._events:
            action = self._events.popleft()
            match action:
                case CommitOffsets():
                    await self._commit_for(action)
                case AssignPartitions():
                    await self._assign(action)
                case RevokePartitions():
                    await self._call_listener("on_partitions_revoked", action.partitions)
                    self._complete(action)
                case LosePartitions():
                    await self._call_listener("on_partitions_lost", action.partitions)
                    self._complete(action)
                case AssignmentReceived():
                    self._client_assignors.on_assignment(action, self.topic_names.get)

    async def _commit_for(self, action: CommitOffsets) -> None:
        failure: BaseException | None = None
        assignment = self._subscription.member_assignment
        try:
            async with asyncio.timeout(max(0, action.deadline_ms - now_ms()) / 1000):
                await self.commit_before_rebalance(dict if assignment is None else assignment.all_consumed_offsets)
        except (TimeoutError, errors.KafkaError) as error:
            log.warning("Commit before a rebalance of group %s failed: %s", self.group_id, str(error) or "too late")
            failure = error
        self._complete(action, failure)

    async def _assign(self, action: AssignPartitions) -> None:
        if self._membership.apply(action):
            self._dispatch()
            if self._subscription.member_assignment is None:
                self._own(())  # no partitions are an assignment, too
            added = _kafka_partitions(action.added)
            log.info("Assigned to the member of group %s: %s", self.group_id, added)
            await self._call_listener("on_partitions_assigned", action.added)
            self._subscription.release(_kafka_partitions(action.partitions))
            self._fetcher._notify(self._fetcher._wait_consume_future)
        self._complete(action)

    async def _call_listener(self, method: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Call the listener. As in aiokafka, its errors are logged, and the rebalance continues."""
        listener = self._listener
        if listener is None:
            return
        if method == "on_partitions_lost" and not hasattr(listener, method):
            method = "on_partitions_revoked"  # aiokafka's listeners have no other; Java does the same
        try:
            result = getattr(listener, method)(set(_kafka_partitions(partitions)))
            if asyncio.iscoroutine(result):
                await result
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise  # `close` ends this task
            # The listener waited for a task that it, or the application, cancelled.
            log.exception("%s of %s for group %s failed", method, listener, self.group_id)
        except Exception:
            log.exception("%s of %s for group %s failed", method, listener, self.group_id)

    async def _leave(self) -> None:
        if self._enable_auto_commit and self._membership.member_epoch > 0 and self._dropped is not None:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.commit_before_rebalance(self._dropped.all_consumed_offsets)
            except (TimeoutError, errors.KafkaError) as error:
                log.warning("Commit of group %s on unsubscribing failed: %s", self.group_id, str(error) or "too late")
        self._membership.leave()
        self._dispatch()
        while self._membership.state not in NOT_IN_GROUP:
            self._wake.set()
            await asyncio.sleep(SHORTEST_WAIT_MS / 1000)

    def _commit_automatically(self) -> int | None:
        """Start the automatic commit if it is due; return the time until the next one."""
        subscription = self._subscription.subscription
        member = self.member()
        joined = member is None or member[1] > 0
        if not self._enable_auto_commit or subscription is None or subscription.assignment is None or not joined:
            return None
        if "commit" not in self._tasks and time.monotonic() > self._next_autocommit_deadline:
            self._start("commit", self._auto_commit(subscription.assignment))
        return max(0, int((self._next_autocommit_deadline - time.monotonic()) * 1000)) + 1

    async def _auto_commit(self, assignment: Any) -> None:
        await self.ensure_coordinator_known()
        try:
            await self._maybe_do_autocommit(assignment)
        except errors.KafkaError as error:
            self._next_autocommit_deadline = time.monotonic() + self._auto_commit_interval_ms / 1000
            if getattr(error, "code", None) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise  # a topic that was deleted is a warning only

    async def _learn_topics(self, **which: Iterable[Any]) -> None:
        try:
            found = await self.read_topic_names(**which)
        except errors.KafkaError as error:
            log.info("Topics of group %s: %s", self.group_id, error)
            found = False
        if not found:
            await asyncio.sleep(self._retry_backoff_ms / 1000)

    # Client-side assignors.

    async def _compute(self, member_epoch: int) -> None:
        """Run a client-side assignor, in a thread of its own: it may take long."""
        steps = self._client_assignors.compute(
            group_id=self.group_id, member_id=self._membership.identity.member_id, member_epoch=member_epoch
        )
        try:
            request = next(steps, None)
            while request is not None:
                response = await self.send_own(AioRequest(request))
                request = await asyncio.get_running_loop().run_in_executor(_DaemonThreads(), next_step, steps, response)
        except errors.KafkaError as error:
            # The coordinator requests it again, or from another member.
            if not self._closed:  # otherwise the connection was closed meanwhile
                log.warning("Assignment for group %s was not installed: %s", self.group_id, error)


class _DaemonThreads(Executor):
    """Runs each call in a daemon thread, so that a program can end without waiting for it.

    Passed to the loop's `run_in_executor`, as simulations have no threads.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled

        def run() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised in the loop
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, daemon=True).start()
        return future


def _kafka_partitions(partitions: Iterable[tuple[str, int]]) -> list[Any]:
    return [TopicPartition(topic, number) for topic, number in partitions]
