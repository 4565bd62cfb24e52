"""What aiokafka's consumer needs beside assignors: one `Companion` per consumer.

aiokafka 0.14 sends the bytes that an assignor makes, and its metadata has the racks of brokers and
the replicas of partitions, but

- as the leader it reads only topics and user data of subscriptions, and drops racks, owned
  partitions, generations and `group_instance_id`s;
- it assigns in the event loop, where a large group or a slow source of lags would hold up the
  program;
- a leader does not notice that partitions changed racks (KIP-881);
- it gives up everything at each rebalance: there is no cooperative protocol (KIP-429);
- its heartbeats and commits carry no `group_instance_id`, so that two static members with the same
  one take turns in replacing each other (KIP-345);
- its JoinGroup is too old to tell a static leader that was restarted that it still is the leader
  (KIP-814);
- before a rebalance and at the end it commits offsets until that succeeds, which for those of a
  topic that was deleted is never;
- it joins once per assignor, first with one, then with two, and so on, which is a rebalance each
  time.

The companion does these. It replaces methods on the one coordinator that it is for; nothing is
changed for other consumers.
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

__all__ = ["Companion", "FencedInstanceIdError"]

log = logging.getLogger(__name__)

FENCED_INSTANCE_ID = 82

LAST_COMMIT_MS = 5_000
"""How long a consumer tries to commit offsets before it joins anew, or ends: others wait for it."""


class FencedInstanceIdError(QuorateError, KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Another consumer joined the group with the same `group_instance_id` (KIP-345)."""


class _Skipped:
    """Stands for the answer to a JoinGroup that was not sent."""

    error_code = 0


class Companion(ConsumerCompanion):
    """Works for one consumer, from its first JoinGroup on; refers to its coordinator weakly."""

    def __init__(self, coordinator: Any, rack: str | None, *, cooperative: bool) -> None:
        super().__init__(coordinator, rack)
        self.cooperative = cooperative
        self._fenced: FencedInstanceIdError | None = None
        self._keeps = False
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
        if coordinator._group_instance_id is not None:
            coordinator._do_heartbeat = self._do_heartbeat
            coordinator._do_rejoin_group = self._do_rejoin_group

    @staticmethod
    def view(cluster: Any) -> ClusterView:
        """The metadata of aiokafka.

        Of a topic with an error it keeps nothing; a partition without a leader still has its
        replicas.
        """
        return ClusterView(
            brokers={broker.nodeId: broker.rack for broker in cluster._brokers.values()},
            topics={
                name: {number: one.replicas for number, one in found.items()}
                for name, found in list(cluster._partitions.items())
            },
        )

    # For the assignors.

    def owned(self) -> list[tuple[str, int]] | None:
        """What the consumer keeps while it joins: `None` for an eager one, which gives up everything."""
        if not self.cooperative:
            return None
        return list(self._coordinator._subscription.assigned_partitions()) if self.generation() >= 0 else []

    def generation(self) -> int:
        """The generation that the consumer is a member of; -1 if it is none, or was put out."""
        return int(self._coordinator.generation)

    # The leader.

    async def _perform_assignment(self, response: Any) -> Any:
        coordinator = self._coordinator
        # Before version 5 there are no instance ids.
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
        # aiokafka rejoins when the numbers of partitions differ from these.
        coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()
        topology = self.membership.topology(members, self.view(coordinator._cluster))
        if skips:
            # A static leader is back within its session: everybody keeps what they have, and it
            # watches again (KIP-814).
            log.info("group %s: the leader is back; nothing is assigned anew", coordinator.group_id)
            return {}
        assert isinstance(strategy, Strategy)  # without, and nothing to skip, it was aiokafka's
        if needs_lags(strategy):
            self.membership.lags = await self._lags.read(topology)
        answer = await asyncio.to_thread(self.membership.lead, strategy, members, topology)
        return {member: assignment_bytes(answer[member]) for member in answer}

    # Keeping partitions while rebalancing (KIP-429).

    async def _on_join_prepare(self, previous: Any) -> None:
        coordinator = self._coordinator
        self._keeps = previous is not None and previous.active and self.generation() >= 0
        if self._keeps:
            # As a leader it does not look at metadata until it has assigned anew.
            coordinator._group_subscription = None
            await self._commit(previous)
        else:
            await self._type._on_join_prepare(coordinator, previous)

    def _reset_generation(self) -> None:
        # The member is out, and others may have its partitions by now: it returns no more records
        # of them.
        state = self._coordinator._subscription
        if state.partitions_auto_assigned():  # and not assigned by hand since
            state.begin_reassignment()
            if self._keeps:
                self._keeps, self._lost = False, frozenset(state.assigned_partitions())
        self._type.reset_generation(self._coordinator)

    async def _on_join_complete(self, generation: int, member_id: str, protocol: str, data: bytes) -> None:
        coordinator = self._coordinator
        state = coordinator._subscription
        before = state.subscription.assignment
        if not self._keeps or before is None or not before.active:
            lost, self._lost = self._lost, frozenset()
            if lost:
                await self._tell("on_partitions_revoked", lost)
            await self._type._on_join_complete(coordinator, generation, member_id, protocol, data)
            return
        message = decode_assignment(data).message
        assert isinstance(message, ConsumerProtocolAssignment)
        now = frozenset(TopicPartition(*at) for at in partitions_of(message.assigned_partitions))
        kept, revoked, added = before.tps & now, before.tps - now, now - before.tps
        if revoked:
            # No records of these any more; the others have to wait for as long as the listener
            # takes.
            state.begin_reassignment()
            await self._commit(before)
            await self._tell("on_partitions_revoked", revoked)
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
        log.info("group %s: kept %s, gave up %s, got %s", coordinator.group_id, *map(_named, (kept, revoked, added)))
        if added:
            await self._tell("on_partitions_assigned", added)
        if revoked:
            # What is free now follows in another rebalance.
            coordinator.request_rejoin()
        self.check_racks()

    async def _maybe_do_last_autocommit(self, assignment: Any) -> None:
        coordinator = self._coordinator
        if not coordinator._enable_auto_commit:
            return
        offsets = assignment.all_consumed_offsets()
        # Of the others there is nothing to go on from, but the broker says "unknown", which may
        # also mean "not yet".
        there = {at: offset for at, offset in offsets.items() if coordinator._cluster.partitions_for_topic(at.topic)}
        limit_ms = min(LAST_COMMIT_MS, coordinator._rebalance_timeout_ms / 2)
        try:
            await asyncio.wait_for(coordinator.commit_offsets(assignment, there), limit_ms / 1000)
        except TimeoutError:
            text = ", ".join(f"{at.topic}-{at.partition}" for at in sorted(there)[:5])
            log.warning(
                "group %s: offsets of %s could not be committed within %d ms", coordinator.group_id, text, limit_ms
            )

    async def _commit(self, assignment: Any) -> None:
        try:
            await self._maybe_do_last_autocommit(assignment)
        except KafkaError as error:
            log.error("group %s: offsets could not be committed in a rebalance: %s", self.membership.group, error)

    async def _tell(self, method: str, partitions: frozenset[Any]) -> None:
        listener = self._coordinator._subscription.listener
        if listener is None:
            return
        try:
            answer = getattr(listener, method)(set(partitions))
            if asyncio.iscoroutine(answer):
                await answer
        except Exception:
            # As with aiokafka's own rebalances, a listener's error does not end the consumer.
            log.exception("group %s: %s of the rebalance listener %r failed", self.membership.group, method, listener)

    # Static members (KIP-345).

    async def _send_req(self, request: Any) -> Any:
        coordinator = self._coordinator
        if isinstance(request, JoinGroupRequest) and len(request._group_protocols) < len(coordinator._assignors):
            return _Skipped  # only the last one's answer counts
        if coordinator._group_instance_id is None:
            return await self._type._send_req(coordinator, request)
        commits = isinstance(request, OffsetCommitRequest)
        if commits and self._fenced is not None:
            raise self._fenced
        response = await self._type._send_req(coordinator, self._as_static(request))
        if _says_fenced(response):
            self._put_out()
            if commits:
                raise self._put_out()
        return response

    def _as_static(self, request: Any) -> Any:
        instance = self._coordinator._group_instance_id
        if isinstance(request, JoinGroupRequest):
            return StaticJoinGroup(request)
        # Without a member id, an instance id means that of somebody else.
        if self._coordinator.member_id:
            if isinstance(request, HeartbeatRequest):
                return StaticHeartbeat(request, instance)
            if isinstance(request, OffsetCommitRequest):
                return StaticOffsetCommit(request, instance)
        return request

    def _put_out(self) -> FencedInstanceIdError:
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
            raise self._clearer(error) from error

    async def _do_rejoin_group(self, subscription: Any) -> bool:
        if self._fenced is not None:
            raise self._fenced
        try:
            return bool(await self._type._do_rejoin_group(self._coordinator, subscription))
        except KafkaError as error:
            raise self._clearer(error) from error

    def _clearer(self, error: KafkaError) -> KafkaError:
        return error if self._fenced is None else self._fenced


def _named(partitions: frozenset[Any]) -> str:
    """Partitions for the log; a leader may have assigned any number of topics, of any name."""
    return some_of([f"{at.topic}-{at.partition}" for at in sorted(partitions)]) or "none"


def _says_fenced(response: Any) -> bool:
    """Whether a broker says that another member has the instance id: for the request, or for partitions of a commit."""
    if getattr(response, "error_code", 0) == FENCED_INSTANCE_ID:
        return True
    topics = getattr(response, "topics", ())
    # A commit's partitions are pairs; those of fetched offsets are not.
    return any(FENCED_INSTANCE_ID in one[1:2] for _, partitions in topics for one in partitions if len(one) == 2)


def _as_v5(response: Any, joined: list[Joined]) -> Any:
    """JoinGroup's answer as aiokafka's own code reads it."""
    return JoinGroupResponse_v5(
        0,
        response.error_code,
        response.generation_id,
        response.group_protocol,
        response.leader_id,
        response.member_id,
        [(one.member_id, one.group_instance_id, one.subscription) for one in joined],
    )
