"""What kafka-python's consumer needs beside assignors: one `Companion` per consumer.

kafka-python 3.0 keeps the racks of brokers and the replicas of partitions, and tells an assignor
`group_instance_id`s, but

- it does not tell the assignor what the consumer has, its generation or its rack;
- a leader does not notice that partitions changed racks (KIP-881);
- a subscription that cannot be read fails the leader's `poll()`, rebalance after rebalance, and so
  does a name that no topic can have;
- a static member that was replaced by one with the same `group_instance_id` logs that and reads on
  (KIP-345);
- `poll()` returns nothing while a rebalance lasts, also from partitions that a cooperative member
  keeps (KIP-429);
- a join that ends between two `poll()`s is thrown away and begun anew, which for a leader is
  another rebalance: members that work on records for longer than they poll may never come to rest;
- it sends no heartbeats from the end of a join to the next `poll()`, and a consumer that works
  longer than its session timeout is put out;
- before it joins anew it commits offsets until time is up, also those of a topic that was deleted;
- a leader that rejoins because metadata changed forgets that it is joining, if `poll()` times out
  between JoinGroup and SyncGroup, and is put out;
- a consumer that is put out between JoinGroup and SyncGroup fails its `poll()`, as if the group had
  another assignor;
- a consumer joins before it has the metadata of its topics, and as the leader then assigns none of
  them, once; the same with topics of other members;
- its JoinGroup is too old to tell a static leader that was restarted that it still is the leader
  (KIP-814).

The companion does these. It replaces methods on the one coordinator that it is for; nothing is
changed for other consumers.
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
"""How long a `poll()` waits for a rebalance before it looks for records of the partitions that the
consumer keeps.
"""

FIRST_METADATA_MS = 1_000
"""How long a consumer waits for the metadata of its topics before it joins without, and a leader
for that of the group's.
"""

STATIC_JOIN_VERSION = 9
"""Of JoinGroup: the first whose answer says that the leader is to skip the assignment (KIP-814)."""


class Companion(ConsumerCompanion):
    """Works for one consumer. Made while its coordinator is made; refers to it weakly."""

    def __init__(self, coordinator: Any, rack: str | None, consumer: Any = None) -> None:
        super().__init__(coordinator, rack)
        self._watching = False
        self._fenced: str | None = None
        self._unreadable: dict[str, bytes] = {}
        self._skips = False
        self._lags = None if consumer is None else LagReader(coordinator, consumer)
        self._synced: Any = None
        self._prepares = False
        self._waited_for: set[str] = set()
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
        """kafka-python's metadata.

        Of a topic with an error it keeps nothing; a partition without a leader still has its
        replicas.
        """
        partitions: Mapping[str, Mapping[int, Any]] = cluster._partitions
        return ClusterView(
            brokers={broker.node_id: broker.rack for broker in cluster.brokers()},
            topics={
                name: {number: one.replica_nodes for number, one in found.items()}
                for name, found in list(partitions.items())
            },
        )

    # For the assignors.

    def is_cooperative(self) -> bool:
        """The protocol that all assignors of this consumer have in common."""
        return bool(self._coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE)

    def owned(self) -> list[tuple[str, int]] | None:
        """What the consumer keeps while it joins: `None` for an eager one, which gives up everything."""
        if not self.is_cooperative():
            return None
        return (
            []
            if self._coordinator._generation.is_lost()
            else list(self._coordinator._subscription.assigned_partitions())
        )

    def generation(self) -> int:
        """The generation that the consumer is a member of; -1 if it is none, or was put out."""
        return int(self._coordinator._generation.generation_id)

    # Racks (KIP-881).

    def watch_metadata(self) -> None:
        """Listen to metadata from now on.

        To be called on kafka-python's own thread, which goes through the listeners.
        """
        if not self._watching:
            self._coordinator._cluster.add_listener(self._metadata_changed)
            self._watching = True

    # The leader.

    async def _join(self, manager: Any, request: Any, **options: Any) -> Any:
        """Send JoinGroup; a leader gets its answer when it knows the group's topics."""
        coordinator = self._coordinator
        self._synced = None
        if coordinator.group_instance_id is not None:
            request._max_version = STATIC_JOIN_VERSION
        response = await manager.send(request, **options)
        self._skips = bool(getattr(response, "skip_assignment", False))
        if response.error_code == 0 and response.leader == response.member_id:
            subscription, cluster = coordinator._subscription, coordinator._cluster
            topics = {topic for one in response.members for topic in _topics(one.metadata)[0]}
            if subscription.partitions_auto_assigned():
                subscription.group_subscribe(topics)
                cluster.set_topics(subscription.group_subscription())
                await self._know(topics)
                # kafka-python rejoins when the partitions differ from these.
                coordinator._metadata_snapshot = coordinator._build_metadata_snapshot(subscription, cluster)
            chosen = coordinator._lookup_assignor(response.protocol_name)
            if not self._skips and self._lags is not None and needs_lags(getattr(chosen, "strategy", None)):
                self.membership.lags = await self._lags.read(topics)
        return response

    async def _sync(self, manager: Any, request: Any, **options: Any) -> Any:
        """Send SyncGroup; from its answer on the broker expects heartbeats, whether somebody polls or not."""
        response = await manager.send(request, **options)
        if response.error_code == 0:
            self._synced = self._coordinator._generation
            manager.call_soon(self._beat)
        return response

    async def _beat(self) -> None:
        """Send heartbeats until the next `poll()` takes the assignment, and kafka-python sends its own."""
        generation = self._synced
        pause_s = self._coordinator.config["heartbeat_interval_ms"] / 1000
        while True:
            await self._coordinator._net.sleep(pause_s)
            coordinator = self._coordinator_ref()
            if coordinator is None or coordinator._heartbeat_closed or not _is_joining(coordinator, generation):
                return
            if generation is not self._synced:
                return  # another JoinGroup is on its way
            with suppress(KafkaError):  # what it means is done by then; that the group rebalances is told again
                await coordinator._send_heartbeat_request()

    def _perform_assignment(self, leader_id: str, protocol_name: str, members: Sequence[Any]) -> Any:
        self._unreadable = {}
        for one in members:
            topics, is_sound = _topics(one.metadata)
            if not is_sound:
                self._unreadable[one.member_id] = one.metadata
                one.metadata = subscription_bytes(topics) if topics else EMPTY_SUBSCRIPTION
        if self._skips:
            return self._lead_on(members)
        return self._type._perform_assignment(self._coordinator, leader_id, protocol_name, members)

    def _lead_on(self, members: Sequence[Any]) -> dict[str, Any]:
        """A static leader is back within its session: everybody keeps what they have, and it watches again (KIP-814)."""
        coordinator = self._coordinator
        log.info("group %s: the leader is back; nothing is assigned anew", coordinator.group_id)
        coordinator._is_leader = True
        coordinator._assignment_snapshot = coordinator._metadata_snapshot
        self.watch_metadata()
        joined = [Joined(one.member_id, bytes(one.metadata), one.group_instance_id) for one in members]
        found = self.membership.read(self.as_joined(joined))
        self.membership.topology(found, self.view(coordinator._cluster))
        return {}

    def as_joined(self, joined: Sequence[Joined]) -> list[Joined]:
        """The members with what they sent."""
        return [
            Joined(one.member_id, self._unreadable.get(one.member_id, one.subscription), one.group_instance_id)
            for one in joined
        ]

    # Static members (KIP-345).

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> Any:
        try:
            return self._type._handle_heartbeat_response(self._coordinator, response, send_time)
        except FencedInstanceIdError:
            self._put_out()
            raise

    def _put_out(self) -> str:
        coordinator = self._coordinator
        if self._fenced is None:
            self._fenced = fenced(
                coordinator.group_id, coordinator.group_instance_id, coordinator._generation.member_id
            )
            log.error("%s", self._fenced)
        return self._fenced

    # Reading on (KIP-429).

    def _poll(self, timeout_ms: float | None = None) -> bool:
        coordinator = self._coordinator
        if self._fenced is not None:
            raise FencedInstanceIdError(self._fenced)
        self._poll_timeout_ms = timeout_ms
        reads_on = self._reads_on()
        if reads_on:
            timeout_ms = REBALANCE_POLL_MS if timeout_ms is None else min(timeout_ms, REBALANCE_POLL_MS)
        try:
            done = bool(self._type.poll(coordinator, timeout_ms=timeout_ms))
        except FencedInstanceIdError as error:
            raise FencedInstanceIdError(self._put_out()) from error
        return done or (reads_on and self._reads_on())

    def _reads_on(self) -> bool:
        """A rebalance is to come or under way, in which the consumer keeps partitions."""
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
        # kafka-python compares metadata, which are equal again as soon as the leader has assigned;
        # the assignment is yet to come then.
        pending = coordinator.rejoining and coordinator._subscription.partitions_auto_assigned()
        return bool(pending or self._type.need_rejoin(coordinator))

    async def _ensure_active_group_async(self, timeout_ms: float | None = None) -> bool:
        coordinator = self._coordinator
        if coordinator._join_task is not None and coordinator._join_task.is_done:
            coordinator._join_task = _Ended(coordinator._join_task, self._coordinator_ref)
        try:
            return bool(await self._type.ensure_active_group_async(coordinator, timeout_ms))
        except Exception:
            # Told once; of an error that is none of Kafka's, kafka-python leaves it at that.
            if isinstance(coordinator._join_task, _Ended):
                coordinator._join_task = None
            raise

    async def _on_join_prepare_async(self, generation: int, member_id: str, timeout_ms: float | None = None) -> Any:
        await self._know(self._coordinator._subscription.subscription or ())
        # It commits offsets: that may take what the caller of poll() allows, not only
        # REBALANCE_POLL_MS.
        if self._reads_on():
            timeout_ms = self._poll_timeout_ms
        self._prepares = True
        try:
            return await self._type._on_join_prepare_async(
                self._coordinator, generation, member_id, timeout_ms=timeout_ms
            )
        finally:
            self._prepares = False

    async def _commit_offsets_sync_async(self, offsets: Mapping[Any, Any], timeout_ms: float | None = None) -> Any:
        coordinator = self._coordinator
        if self._prepares:
            # Those of a topic that was deleted would be tried until time is up, and the group waits
            # for it.
            known = coordinator._cluster.partitions_for_topic
            offsets = {at: offset for at, offset in offsets.items() if known(at.topic) is not None}
        return await self._type._commit_offsets_sync_async(coordinator, offsets, timeout_ms=timeout_ms)

    async def _know(self, topics: Collection[str]) -> None:
        """Wait for the metadata of topics, a second at most, once: what is not there by then is assigned when it is."""
        coordinator = self._coordinator
        cluster = coordinator._cluster

        def missing() -> set[str]:
            return {topic for topic in topics if cluster.partitions_for_topic(topic) is None}

        for _ in range(2):  # the first answer may be to a request that is older than the topics
            if missing() <= self._waited_for:
                return
            with suppress(KafkaError):
                await coordinator._manager.wait_for(cluster.request_update(), FIRST_METADATA_MS / 2)
        self._waited_for = missing()

    def _reset_generation(self, *arguments: Any, **named: Any) -> None:
        coordinator = self._coordinator
        self._type.reset_generation(coordinator, *arguments, **named)
        if self.is_cooperative() and coordinator._subscription.assigned_partitions():
            # Put out between JoinGroup and SyncGroup: kafka-python would not tell the listener that
            # the partitions are lost, and read on.
            coordinator.rejoining = False

    def _process_sync_group_response(self, response: Any, send_time: float) -> Any:
        coordinator = self._coordinator
        if response.error_code == 0 and coordinator._generation.is_lost():
            # Put out while it waited, by the answer to an older heartbeat or commit. kafka-python
            # would compare the assignor's name with that of no generation, and fail the caller's
            # poll() with InconsistentGroupProtocolError. It joins anew.
            raise RebalanceInProgressError(coordinator.group_id)
        return self._type._process_sync_group_response(coordinator, response, send_time)

    def _time_to_next_poll(self) -> float:
        seconds = float(self._type.time_to_next_poll(self._coordinator))
        return min(seconds, REBALANCE_POLL_MS / 1000) if self._reads_on() else seconds


class _Ended:
    """A join that ended between two `poll()`s, as kafka-python sees one that ends while it waits: with an answer, or an error, that is still to be looked at."""

    def __init__(self, task: Any, coordinator: Callable[[], Any]) -> None:
        self._task = task
        self._coordinator = coordinator
        self._generation = coordinator()._generation

    @property
    def is_done(self) -> bool:
        """Whether to forget it: the consumer left the group, or was put out, in the meantime."""
        return not _is_joining(self._coordinator(), self._generation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def __await__(self) -> Any:
        return self._task.__await__()


def _is_joining(coordinator: Any, generation: Any) -> bool:
    """Whether it still is the join to this generation that is to be completed."""
    return bool(
        coordinator.rejoining and coordinator.state is MemberState.REBALANCING and coordinator._generation is generation
    )


class _Manager:
    """kafka-python's connection manager for its coordinator, with other ways to send some requests."""

    def __init__(self, manager: Any, ways: Mapping[type, Callable[..., Awaitable[Any]]]) -> None:
        self._manager = manager
        self._ways = ways

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def send(self, request: Any, **options: Any) -> Any:
        """An awaitable of the answer."""
        for kind, way in self._ways.items():
            if isinstance(request, kind):
                return way(self._manager, request, **options)
        return self._manager.send(request, **options)


def _topics(subscription: bytes) -> tuple[list[str], bool]:
    """The topics of a subscription that kafka-python can ask for, and whether these are all of them.

    Of one that it cannot read, none.
    """
    try:
        topics = ConsumerProtocolSubscription.decode(subscription).topics
    except Exception:  # noqa: BLE001  # struct.error, UnicodeDecodeError, whatever else damage leads to
        return [], False
    found = [topic for topic in topics if _is_valid(topic)]
    return found, len(found) == len(topics)


def _is_valid(topic: str) -> bool:
    try:
        ensure_valid_topic_name(topic)
    except (TypeError, ValueError):
        return False
    return True
