"""Fixes kafka-python's consumer for our assignors: one `Companion` per consumer.

kafka-python 3.0 keeps brokers' racks and partitions' replicas, and passes `group_instance_id`s to
assignors. But:

- It does not pass the consumer's owned partitions, generation or rack to the assignor.
- A leader does not notice rack changes of partitions (KIP-881).
- A subscription that cannot be decoded fails the leader's `poll()` in each rebalance, and so does
  an invalid topic name.
- A static member that was replaced by one with the same `group_instance_id` logs that and continues
  to read (KIP-345).
- `poll()` returns nothing during a rebalance, not even from partitions that a cooperative member
  keeps (KIP-429).
- A join that finishes between two `poll()`s is discarded and repeated, which for a leader is
  another rebalance. Groups of members that process records for longer than they poll may never
  become stable.
- It sends no heartbeats from the end of a join to the next `poll()`, so a consumer that processes
  records for longer than its session timeout is removed.
- Before a rejoin it retries commits until the timeout, also for deleted topics.
- A leader that rejoins because of a metadata change forgets that it is joining if `poll()` times
  out between JoinGroup and SyncGroup, and is removed.
- A consumer that is removed between JoinGroup and SyncGroup fails its `poll()`, as if the group had
  another assignor.
- A consumer joins before it has the metadata of its topics. As the leader it then assigns none of
  them at first. The same applies to topics of other members.
- Its JoinGroup version is too old to notify a restarted static leader that it is still the leader
  (KIP-814).

The companion fixes these. It replaces methods of its own coordinator; other consumers are not
affected.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.errors import FencedInstanceIdError, KafkaError, RebalanceInProgressError
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.structs import MemberState
from kafka.util import ensure_valid_topic_name

from quorate.assignors.adapters.consumer_lags import needs_lags
from quorate.assignors.adapters.kafka_python_lags import LagReader
from quorate.assignors.adapters.protocol import EMPTY_SUBSCRIPTION, Joined, fenced, subscription_bytes
from quorate.assignors.adapters.racks import ClusterView
from quorate.assignors.adapters.shared import ConsumerCompanion

__all__ = ["Companion"]

log = logging.getLogger(__name__)

REBALANCE_POLL_MS = 100
"""How long a `poll()` waits for a rebalance before it fetches from the partitions it keeps."""

LEAST_POLL_MS = 20
"""How long a `poll()` without records waits at least before it checks the group again."""

FIRST_METADATA_MS = 1_000
"""How long a consumer waits for the metadata of its topics before it joins without it.

A leader waits as long for the metadata of the group's topics.
"""

STATIC_JOIN_VERSION = 9
"""The first JoinGroup version whose response can skip the leader's assignment (KIP-814)."""


class Companion(ConsumerCompanion):
    """Serves one consumer; created with its coordinator, to which it holds a weak reference."""

    def __init__(self, coordinator: Any, rack: str | None, consumer: Any = None) -> None:
        super().__init__(coordinator, rack)
        self._watching = False
        self._fenced: str | None = None
        self._unreadable: dict[str, bytes] = {}
        self._skips_assignment = False
        self._lags = None if consumer is None else LagReader(coordinator, consumer)
        self._synced: Any = None
        self._preparing = False
        self._without_metadata: set[str] = set()
        self._poll_timeout_ms: float | None = None
        coordinator.poll = self._poll
        coordinator.time_to_next_poll = self._time_to_next_poll
        coordinator.ensure_active_group_async = self._ensure_active_group_async
        coordinator._manager = _Manager(
            coordinator._manager, {JoinGroupRequest: self._join, SyncGroupRequest: self._sync}
        )
        coordinator._perform_assignment = self._perform_assignment
        coordinator._on_join_prepare_async = self._on_join_prepare_async
        coordinator._commit_offsets_sync_async = self._commit_offsets_sync_async
        coordinator.need_rejoin = self._need_rejoin
        coordinator.reset_generation = self._reset_generation
        coordinator._process_sync_group_response = self._process_sync_group_response
        coordinator._handle_heartbeat_response = self._handle_heartbeat_response

    @staticmethod
    def view(cluster: Any) -> ClusterView:
        """Return kafka-python's metadata.

        It has no topic with an error. A partition without a leader has its replicas.
        """
        partitions: Mapping[str, Mapping[int, Any]] = cluster._partitions
        return ClusterView(
            brokers={broker.node_id: broker.rack for broker in cluster.brokers()},
            topics={
                name: {number: one.replica_nodes for number, one in found.items()}
                for name, found in list(partitions.items())
            },
        )

    # Called by the assignors.

    def is_cooperative(self) -> bool:
        """Return whether the protocol common to all assignors of this consumer is cooperative."""
        return bool(self._coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE)

    def owned(self) -> list[tuple[str, int]] | None:
        """Return the partitions that the consumer keeps while it joins; `None` if it is eager."""
        if not self.is_cooperative():
            return None
        return (
            []
            if self._coordinator._generation.is_lost()
            else list(self._coordinator._subscription.assigned_partitions())
        )

    def generation(self) -> int:
        """Return the consumer's generation; -1 if it is not a member, or was fenced."""
        return int(self._coordinator._generation.generation_id)

    # Racks (KIP-881).

    def watch_metadata(self) -> None:
        """Start to listen to metadata changes.

        Must be called on kafka-python's own thread, which iterates the listeners.
        """
        if not self._watching:
            self._coordinator._cluster.add_listener(self._metadata_changed)
            self._watching = True

    # Leader.

    async def _join(self, manager: Any, request: Any, **options: Any) -> Any:
        """Send JoinGroup; as the leader, wait for the metadata of the group's topics."""
        coordinator = self._coordinator
        self._synced = None
        if coordinator.group_instance_id is not None:
            request._max_version = STATIC_JOIN_VERSION
        response = await manager.send(request, **options)
        self._skips_assignment = bool(getattr(response, "skip_assignment", False))
        if response.error_code == 0 and response.leader == response.member_id:
            subscription, cluster = coordinator._subscription, coordinator._cluster
            topics = {topic for member in response.members for topic in _topics(member.metadata)[0]}
            if subscription.partitions_auto_assigned():
                subscription.group_subscribe(topics)
                cluster.set_topics(subscription.group_subscription())
                await self._wait_for_metadata(topics)
                # kafka-python rejoins when partitions differ from this snapshot.
                coordinator._metadata_snapshot = coordinator._build_metadata_snapshot(subscription, cluster)
            chosen = coordinator._lookup_assignor(response.protocol_name)
            if not self._skips_assignment and self._lags is not None and needs_lags(getattr(chosen, "strategy", None)):
                self.membership.lags = await self._lags.read(topics)
        return response

    async def _sync(self, manager: Any, request: Any, **options: Any) -> Any:
        """Send SyncGroup, and then heartbeats, which the broker expects even without `poll()`."""
        response = await manager.send(request, **options)
        if response.error_code == 0:
            self._synced = self._coordinator._generation
            manager.call_soon(self._send_heartbeats)
        return response

    async def _send_heartbeats(self) -> None:
        """Send heartbeats until kafka-python does, from the next `poll()` on."""
        generation = self._synced
        pause_s = self._coordinator.config["heartbeat_interval_ms"] / 1000
        while True:
            await self._coordinator._net.sleep(pause_s)
            coordinator = self._coordinator_ref()
            if coordinator is None or coordinator._heartbeat_closed or not _is_joining(coordinator, generation):
                return
            if generation is not self._synced:
                return  # another JoinGroup was sent
            with suppress(KafkaError):  # already handled; a rebalance is reported by the next heartbeat too
                await coordinator._send_heartbeat_request()

    def _perform_assignment(self, leader_id: str, protocol_name: str, members: Sequence[Any]) -> Any:
        self._unreadable = {}
        for member in members:
            topics, is_sound = _topics(member.metadata)
            if not is_sound:
                self._unreadable[member.member_id] = member.metadata
                member.metadata = subscription_bytes(topics) if topics else EMPTY_SUBSCRIPTION
        if self._skips_assignment:
            return self._resume_as_leader(members)
        return self._type._perform_assignment(self._coordinator, leader_id, protocol_name, members)

    def _resume_as_leader(self, members: Sequence[Any]) -> dict[str, Any]:
        """Resume as a static leader that returned within its session (KIP-814).

        Members keep their assignments, and the leader watches racks again.
        """
        coordinator = self._coordinator
        log.info("group %s: the leader returned; assignments stay", coordinator.group_id)
        coordinator._is_leader = True
        coordinator._assignment_snapshot = coordinator._metadata_snapshot
        self.watch_metadata()
        joined = [Joined(member.member_id, bytes(member.metadata), member.group_instance_id) for member in members]
        found = self.membership.read(self.as_joined(joined))
        self.membership.topology(found, self.view(coordinator._cluster))
        return {}

    def as_joined(self, joined: Sequence[Joined]) -> list[Joined]:
        """Return the members with the subscriptions that they sent."""
        return [
            Joined(one.member_id, self._unreadable.get(one.member_id, one.subscription), one.group_instance_id)
            for one in joined
        ]

    # Static members (KIP-345).

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> Any:
        try:
            return self._type._handle_heartbeat_response(self._coordinator, response, send_time)
        except FencedInstanceIdError:
            self._mark_fenced()
            raise

    def _mark_fenced(self) -> str:
        coordinator = self._coordinator
        if self._fenced is None:
            self._fenced = fenced(
                coordinator.group_id, coordinator.group_instance_id, coordinator._generation.member_id
            )
            log.error("%s", self._fenced)
        return self._fenced

    # Reading during a rebalance (KIP-429).

    def _poll(self, timeout_ms: float | None = None) -> bool:
        coordinator = self._coordinator
        if self._fenced is not None:
            raise FencedInstanceIdError(self._fenced)
        self._poll_timeout_ms = timeout_ms
        keeps_reading = self._keeps_reading()
        if keeps_reading:
            timeout_ms = REBALANCE_POLL_MS if timeout_ms is None else min(timeout_ms, REBALANCE_POLL_MS)
        try:
            done = bool(self._type.poll(coordinator, timeout_ms=timeout_ms))
        except FencedInstanceIdError as error:
            raise FencedInstanceIdError(self._mark_fenced()) from error
        return done or (keeps_reading and self._keeps_reading())

    def _keeps_reading(self) -> bool:
        """Return whether the consumer keeps partitions in a pending or running rebalance."""
        coordinator = self._coordinator
        return bool(
            self.is_cooperative()
            and coordinator._subscription.partitions_auto_assigned()
            and coordinator._subscription.assigned_partitions()
            and not coordinator._generation.is_lost()
            and coordinator.need_rejoin()
        )

    def _need_rejoin(self) -> bool:
        coordinator = self._coordinator
        # kafka-python compares metadata, which is equal again once the leader has assigned. The
        # member's assignment is still pending then.
        pending = coordinator.rejoining and coordinator._subscription.partitions_auto_assigned()
        return bool(pending or self._type.need_rejoin(coordinator))

    async def _ensure_active_group_async(self, timeout_ms: float | None = None) -> bool:
        coordinator = self._coordinator
        if coordinator._join_task is not None and coordinator._join_task.is_done:
            coordinator._join_task = _FinishedJoin(coordinator._join_task, self._coordinator_ref)
        try:
            return bool(await self._type.ensure_active_group_async(coordinator, timeout_ms))
        except Exception:
            # Raise an error once; kafka-python keeps the task if the error is not Kafka's.
            if isinstance(coordinator._join_task, _FinishedJoin):
                coordinator._join_task = None
            raise

    async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: float | None = None) -> Any:
        await self._wait_for_metadata(self._coordinator._subscription.subscription or ())
        # kafka-python commits offsets here, which may take the whole timeout of the caller's
        # poll(), not only REBALANCE_POLL_MS.
        if self._keeps_reading():
            timeout_ms = self._poll_timeout_ms
        self._preparing = True
        try:
            return await self._type._on_join_prepare_async(
                self._coordinator, generation, member_id, timeout_ms=timeout_ms
            )
        finally:
            self._preparing = False

    async def _commit_offsets_sync_async(self, offsets: Mapping[Any, Any], timeout_ms: float | None = None) -> Any:
        coordinator = self._coordinator
        if self._preparing:
            # Commits for a deleted topic would be retried until the timeout, while the group waits.
            known = coordinator._cluster.partitions_for_topic
            offsets = {at: offset for at, offset in offsets.items() if known(at.topic) is not None}
        return await self._type._commit_offsets_sync_async(coordinator, offsets, timeout_ms=timeout_ms)

    async def _wait_for_metadata(self, topics: Collection[str]) -> None:
        """Wait once for the metadata of topics, up to a second; later topics are assigned later."""
        coordinator = self._coordinator
        cluster = coordinator._cluster

        def missing() -> set[str]:
            return {topic for topic in topics if cluster.partitions_for_topic(topic) is None}

        for _ in range(2):  # the first response may be to a request older than the topics
            if missing() <= self._without_metadata:
                return
            with suppress(KafkaError):
                await coordinator._manager.wait_for(cluster.request_update(), FIRST_METADATA_MS / 2)
        self._without_metadata = missing()

    def _reset_generation(self, *arguments: Any, **named: Any) -> None:
        coordinator = self._coordinator
        self._type.reset_generation(coordinator, *arguments, **named)
        if self.is_cooperative() and coordinator._subscription.assigned_partitions():
            # Removed between JoinGroup and SyncGroup: kafka-python would not notify the listener of
            # lost partitions, and continue to read.
            coordinator.rejoining = False

    def _process_sync_group_response(self, response: Any, send_time: float) -> Any:
        coordinator = self._coordinator
        if response.error_code == 0 and coordinator._generation.is_lost():
            # Removed while waiting, by the response to an older heartbeat or commit. kafka-python
            # would compare the assignor's name with that of no generation, and fail the caller's
            # poll() with InconsistentGroupProtocolError. Rejoin instead.
            raise RebalanceInProgressError(coordinator.group_id)
        return self._type._process_sync_group_response(coordinator, response, send_time)

    def _time_to_next_poll(self) -> float:
        # kafka-python returns 0 while the response to a heartbeat is overdue, and its `poll()` then
        # repeats without waiting: a coordinator that is frozen or unreachable costs a whole core.
        seconds = max(float(self._type.time_to_next_poll(self._coordinator)), LEAST_POLL_MS / 1000)
        return min(seconds, REBALANCE_POLL_MS / 1000) if self._keeps_reading() else seconds


class _FinishedJoin:
    """A join that finished between two `poll()`s, presented to kafka-python as still pending.

    kafka-python then processes its result or error as if it had finished during the `poll()`.
    """

    def __init__(self, task: Any, coordinator: Callable[[], Any]) -> None:
        self._task = task
        self._coordinator = coordinator
        self._generation = coordinator()._generation

    @property
    def is_done(self) -> bool:
        """Whether to discard it: the consumer left the group or was removed in the meantime."""
        return not _is_joining(self._coordinator(), self._generation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def __await__(self) -> Any:
        return self._task.__await__()


def _is_joining(coordinator: Any, generation: Any) -> bool:
    """Return whether the join to this generation is still to be completed."""
    return bool(
        coordinator.rejoining and coordinator.state is MemberState.REBALANCING and coordinator._generation is generation
    )


class _Manager:
    """A coordinator's connection manager with other send methods for some requests."""

    def __init__(self, manager: Any, senders: Mapping[type, Callable[..., Awaitable[Any]]]) -> None:
        self._manager = manager
        self._senders = senders

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def send(self, request: Any, **options: Any) -> Any:
        """Return an awaitable of the response."""
        for kind, send in self._senders.items():
            if isinstance(request, kind):
                return send(self._manager, request, **options)
        return self._manager.send(request, **options)


def _topics(subscription: bytes) -> tuple[list[str], bool]:
    """Return a subscription's topics with valid names, and whether these are all.

    A subscription that cannot be decoded has none.
    """
    try:
        topics = ConsumerProtocolSubscription.decode(subscription).topics
    except Exception:  # noqa: BLE001  # struct.error, UnicodeDecodeError and others
        return [], False
    found = [topic for topic in topics if _is_valid(topic)]
    return found, len(found) == len(topics)


def _is_valid(topic: str) -> bool:
    try:
        ensure_valid_topic_name(topic)
    except (TypeError, ValueError):
        return False
    return True
