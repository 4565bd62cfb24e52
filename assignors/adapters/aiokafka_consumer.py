"""Fixes aiokafka's consumer for our assignors: one `Companion` per consumer.

aiokafka 0.14 sends the bytes that an assignor returns, and its metadata has brokers' racks and
partitions' replicas. But:

- The leader reads only topics and user data of subscriptions, and drops racks, owned partitions,
  generations and `group_instance_id`s.
- It assigns in the event loop, so a large group or a slow lag source blocks the program.
- A leader does not notice rack changes of partitions (KIP-881).
- It revokes all partitions in each rebalance: it has no cooperative protocol (KIP-429).
- Its heartbeats and commits have no `group_instance_id`, so two static members with the same id
  replace each other in turn (KIP-345).
- Its JoinGroup version is too old to notify a restarted static leader that it is still the leader
  (KIP-814).
- Before a rebalance and on close it retries commits until they succeed. For a deleted topic they
  never do.
- It sends one JoinGroup per assignor, first with one assignor, then with two, and so on. Each is a
  rebalance.
- An error that arrives together with records leaves `getmany()` waiting for an assignment.

The companion fixes these. It replaces methods of its own coordinator; other consumers are not
affected.
"""

import asyncio
import logging
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, JoinGroupResponse_v5
from aiokafka.structs import TopicPartition

from quorate.assignors.adapters.aiokafka_lags import LagReader
from quorate.assignors.adapters.aiokafka_requests import StaticHeartbeat, StaticJoinGroup, StaticOffsetCommit
from quorate.assignors.adapters.consumer_lags import needs_lags
from quorate.assignors.adapters.membership import Strategy, subscribed_topics
from quorate.assignors.adapters.protocol import Joined, assignment_bytes, fenced, partitions_of
from quorate.assignors.adapters.racks import ClusterView
from quorate.assignors.adapters.shared import ConsumerCompanion
from quorate.codecs.consumer_protocol import decode_assignment
from quorate.codecs.errors import QuorateError
from quorate.codecs.messages import ConsumerProtocolAssignment
from quorate.codecs.printable import some_of

log = logging.getLogger(__name__)

FENCED_INSTANCE_ID = 82

LAST_COMMIT_MS = 5_000
"""Time limit for committing offsets before a rejoin or on close; the group waits for it."""


class FencedInstanceIdError(QuorateError, KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Another consumer joined the group with the same `group_instance_id` (KIP-345)."""


class _Skipped:
    """The response to a JoinGroup that was not sent."""

    error_code = 0


class Companion(ConsumerCompanion):
    """Serves one consumer from its first JoinGroup on; refers to its coordinator weakly."""

    def __init__(self, coordinator: Any, rack: str | None, *, cooperative: bool) -> None:
        super().__init__(coordinator, rack)
        self.cooperative = cooperative
        self._fenced: FencedInstanceIdError | None = None
        self._keeps_partitions = False
        self._lost: frozenset[Any] = frozenset()
        self._lags = LagReader(coordinator)
        coordinator._perform_assignment = self._perform_assignment
        coordinator._cluster.add_listener(self._metadata_changed)
        if cooperative:
            coordinator._on_join_prepare = self._on_join_prepare
            coordinator._on_join_complete = self._on_join_complete
            coordinator.reset_generation = self._reset_generation
        coordinator._send_req = self._send_req
        coordinator._maybe_do_last_autocommit = self._maybe_do_last_autocommit
        coordinator._push_error_to_user = self._push_error_to_user
        if coordinator._group_instance_id is not None:
            coordinator._do_heartbeat = self._do_heartbeat
            coordinator._do_rejoin_group = self._do_rejoin_group

    @staticmethod
    def view(cluster: Any) -> ClusterView:
        """Return aiokafka's metadata.

        It has no topic with an error. A partition without a leader has its replicas.
        """
        return ClusterView(
            brokers={broker.nodeId: broker.rack for broker in cluster._brokers.values()},
            topics={
                name: {number: one.replicas for number, one in found.items()}
                for name, found in list(cluster._partitions.items())
            },
        )

    # Called by the assignors.

    def owned(self) -> list[tuple[str, int]] | None:
        """Return the partitions that the consumer keeps while it joins; `None` if it is eager."""
        if not self.cooperative:
            return None
        return list(self._coordinator._subscription.assigned_partitions()) if self.generation() >= 0 else []

    def generation(self) -> int:
        """Return the consumer's generation; -1 if it is not a member, or was fenced."""
        return int(self._coordinator.generation)

    # Leader.

    async def _perform_assignment(self, response: Any) -> Any:
        coordinator = self._coordinator
        # Before version 5 there are no instance ids in the response.
        joined = [
            Joined(one[0], one[2], one[1]) if len(one) > 2 else Joined(one[0], one[1]) for one in response.members
        ]
        strategy = getattr(coordinator._lookup_assignor(response.group_protocol), "strategy", None)
        skips = getattr(response, "skip_assignment", False)
        if not (skips or isinstance(strategy, Strategy)):
            return await self._type._perform_assignment(coordinator, _as_v5(response, joined))
        members = self.membership.read(joined)
        coordinator._group_subscription = subscribed_topics(members)
        if not coordinator._subscription.subscribed_pattern:
            coordinator._client.set_topics(coordinator._group_subscription)
        await coordinator._client._maybe_wait_metadata()
        # aiokafka rejoins when partition counts differ from this snapshot.
        coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()
        topology = self.membership.topology(members, self.view(coordinator._cluster))
        if skips:
            # A static leader returned within its session: members keep their assignments, and the
            # leader watches racks again (KIP-814).
            log.info("group %s: the leader returned; assignments stay", coordinator.group_id)
            return {}
        assert isinstance(strategy, Strategy)  # other strategies were left to aiokafka above
        if needs_lags(strategy):
            self.membership.lags = await self._lags.read(topology)
        assigned = await asyncio.to_thread(self.membership.assign, strategy, members, topology)
        return {member: assignment_bytes(assigned[member]) for member in assigned}

    # Cooperative rebalances (KIP-429).

    async def _on_join_prepare(self, previous: Any) -> None:
        coordinator = self._coordinator
        self._keeps_partitions = previous is not None and previous.active and self.generation() >= 0
        if self._keeps_partitions:
            # A leader ignores metadata changes until the next assignment.
            coordinator._group_subscription = None
            await self._commit(previous)
        else:
            await self._type._on_join_prepare(coordinator, previous)

    def _reset_generation(self) -> None:
        # The member was removed, and its partitions may have other owners: it must not return more
        # of their records.
        state = self._coordinator._subscription
        if state.partitions_auto_assigned():  # not if assigned manually since
            state.begin_reassignment()
            if self._keeps_partitions:
                self._keeps_partitions, self._lost = False, frozenset(state.assigned_partitions())
        self._type.reset_generation(self._coordinator)

    async def _on_join_complete(self, generation: int, member_id: str, protocol: str, data: bytes) -> None:
        coordinator = self._coordinator
        state = coordinator._subscription
        before = state.subscription.assignment
        if not self._keeps_partitions or before is None or not before.active:
            lost, self._lost = self._lost, frozenset()
            if lost:
                await self._call_listener("on_partitions_revoked", lost)
            await self._type._on_join_complete(coordinator, generation, member_id, protocol, data)
            return
        message = decode_assignment(data).message
        assert isinstance(message, ConsumerProtocolAssignment)
        now = frozenset(TopicPartition(*at) for at in partitions_of(message.assigned_partitions))
        kept, revoked, added = before.tps & now, before.tps - now, now - before.tps
        if revoked:
            # Return no more records of these. The group waits as long as the listener takes.
            state.begin_reassignment()
            await self._commit(before)
            await self._call_listener("on_partitions_revoked", revoked)
        positions = {at: before.state_value(at) for at in kept}
        state.assign_from_subscribed(set(now))
        assignment = state.subscription.assignment
        for at, one in positions.items():
            assignment._tp_state[at] = one
            one._assignment = assignment
            if one._committed_futs:
                assignment.commit_refresh_needed.set()
        self.membership.complete(now, generation)
        await coordinator._stop_commit_offsets_refresh_task()
        coordinator.start_commit_offsets_refresh_task(assignment)
        log.info("group %s: kept %s, revoked %s, added %s", coordinator.group_id, *map(_named, (kept, revoked, added)))
        if added:
            await self._call_listener("on_partitions_assigned", added)
        if revoked:
            # Another rebalance assigns the revoked partitions.
            coordinator.request_rejoin()
        self.check_racks()

    async def _maybe_do_last_autocommit(self, assignment: Any) -> None:
        coordinator = self._coordinator
        if not coordinator._enable_auto_commit:
            return
        offsets = assignment.all_consumed_offsets()
        # Topics that are not in the metadata have no position to resume from, but the broker's
        # error for them is retriable.
        known = {at: offset for at, offset in offsets.items() if coordinator._cluster.partitions_for_topic(at.topic)}
        limit_ms = min(LAST_COMMIT_MS, coordinator._rebalance_timeout_ms / 2)
        try:
            await asyncio.wait_for(coordinator.commit_offsets(assignment, known), limit_ms / 1000)
        except TimeoutError:
            text = ", ".join(f"{at.topic}-{at.partition}" for at in sorted(known)[:5])
            log.warning(
                "group %s: offsets of %s could not be committed within %d ms", coordinator.group_id, text, limit_ms
            )

    async def _commit(self, assignment: Any) -> None:
        try:
            await self._maybe_do_last_autocommit(assignment)
        except KafkaError as error:
            log.error("group %s: offsets could not be committed in a rebalance: %s", self.membership.group, error)

    async def _call_listener(self, method: str, partitions: frozenset[Any]) -> None:
        listener = self._coordinator._subscription.listener
        if listener is None:
            return
        try:
            result = getattr(listener, method)(set(partitions))
            if asyncio.iscoroutine(result):
                await result
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise  # the consumer stops
            # The listener waited for a task that it, or the application, cancelled.
            log.exception("group %s: %s of the rebalance listener %r failed", self.membership.group, method, listener)
        except Exception:
            # As in aiokafka's own rebalances, a listener's error does not end the consumer.
            log.exception("group %s: %s of the rebalance listener %r failed", self.membership.group, method, listener)

    async def _push_error_to_user(self, error: Exception) -> None:
        # aiokafka raises the error where the application waits. If records have just ended that
        # wait, getmany() continues, sees that partitions are reassigned, and waits for an
        # assignment.
        coordinator = self._coordinator
        state, again_s = coordinator._subscription, coordinator._retry_backoff_ms / 1000
        received = asyncio.ensure_future(self._type._push_error_to_user(coordinator, error))
        while not (await asyncio.wait([received], timeout=again_s))[0]:
            if state.fetcher_idle_time == 0:  # in getmany() or getone()
                state.abort_waiters(error)

    # Static members (KIP-345).

    async def _send_req(self, request: Any) -> Any:
        coordinator = self._coordinator
        if isinstance(request, JoinGroupRequest) and len(request._group_protocols) < len(coordinator._assignors):
            return _Skipped  # only the response to the last one matters
        if coordinator._group_instance_id is None:
            return await self._type._send_req(coordinator, request)
        commits = isinstance(request, OffsetCommitRequest)
        if commits and self._fenced is not None:
            raise self._fenced
        response = await self._type._send_req(coordinator, self._as_static(request))
        if _has_fenced_error(response):
            self._mark_fenced()
            if commits:
                raise self._mark_fenced()
        return response

    def _as_static(self, request: Any) -> Any:
        instance = self._coordinator._group_instance_id
        if isinstance(request, JoinGroupRequest):
            return StaticJoinGroup(request)
        # Without a member id, the instance id may be that of another member.
        if self._coordinator.member_id:
            if isinstance(request, HeartbeatRequest):
                return StaticHeartbeat(request, instance)
            if isinstance(request, OffsetCommitRequest):
                return StaticOffsetCommit(request, instance)
        return request

    def _mark_fenced(self) -> FencedInstanceIdError:
        coordinator = self._coordinator
        if self._fenced is None:
            text = fenced(coordinator.group_id, coordinator._group_instance_id, coordinator.member_id)
            log.error("%s", text)
            self._fenced = FencedInstanceIdError(text)
            if coordinator._subscription.partitions_auto_assigned():
                coordinator._subscription.begin_reassignment()
        return self._fenced

    async def _do_heartbeat(self) -> bool:
        try:
            return bool(await self._type._do_heartbeat(self._coordinator))
        except KafkaError as error:
            raise self._fenced_or(error) from error

    async def _do_rejoin_group(self, subscription: Any) -> bool:
        if self._fenced is not None:
            raise self._fenced
        try:
            return bool(await self._type._do_rejoin_group(self._coordinator, subscription))
        except KafkaError as error:
            raise self._fenced_or(error) from error

    def _fenced_or(self, error: KafkaError) -> KafkaError:
        return error if self._fenced is None else self._fenced


def _named(partitions: frozenset[Any]) -> str:
    """Name partitions for the log, shortened: a leader may assign any number of topics."""
    return some_of([f"{at.topic}-{at.partition}" for at in sorted(partitions)]) or "none"


def _has_fenced_error(response: Any) -> bool:
    """Return whether the response has FENCED_INSTANCE_ID, for the request or for a partition."""
    if getattr(response, "error_code", 0) == FENCED_INSTANCE_ID:
        return True
    topics = getattr(response, "topics", ())
    # Partitions of a commit response are pairs; those of an offset fetch are not.
    return any(
        FENCED_INSTANCE_ID in partition[1:2]
        for _, partitions in topics
        for partition in partitions
        if len(partition) == 2
    )


def _as_v5(response: Any, joined: list[Joined]) -> Any:
    """Return the JoinGroup response in the version that aiokafka's own code reads."""
    return JoinGroupResponse_v5(
        0,
        response.error_code,
        response.generation_id,
        response.group_protocol,
        response.leader_id,
        response.member_id,
        [(one.member_id, one.group_instance_id, one.subscription) for one in joined],
    )
