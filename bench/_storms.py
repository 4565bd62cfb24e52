"""Join storms for bench/cluster.py: many members join one group at once, as in a deployment.

Each member has its own connection.
"""

import selectors
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from _servers import Server
from _wire import Wire, find_coordinator, make_topic

from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.api.sync_group import SyncGroupRequestAssignment

_TOO_LONG_S = 60


def storm(server: Server, count: int) -> tuple[float, float]:
    """Measure a storm of a consumer group (KIP-848), until each member owns one partition.

    Returns the seconds, and the number of heartbeats. A small group before it loads what servers
    load on first use.
    """
    _storm(server, "small-storm", min(count, 3))
    return _storm(server, "storm", count)


def _storm(server: Server, name: str, count: int) -> tuple[float, float]:
    """Measure one storm; `name`: of the group and of its topic."""
    make_topic(server.address, name, count)
    with ExitStack() as sockets:
        members = [_Member(Wire(server.address), name, f"m{number}") for number in range(count)]
        for member in members:
            sockets.enter_context(member.wire.socket)
        find_coordinator(members[0].wire, name)
        started, beats = time.perf_counter(), 0
        while any(len(member.owned) != 1 for member in members) or len({member.epoch for member in members}) != 1:
            for member in members:
                member.beat()
            for member in members:
                member.receive()
            beats += len(members)
            if time.perf_counter() - started > _TOO_LONG_S:
                raise SystemExit(f"error: the group is not stable after {_TOO_LONG_S} s")
        assert len({one for member in members for one in member.owned}) == count
        return time.perf_counter() - started, beats


@dataclass
class _Member:
    """A member of a consumer group.

    `owned`: its partitions; `has_changed`: the next heartbeat contains them.
    """

    wire: Wire
    group: str
    id: str
    epoch: int = 0
    owned: tuple[int, ...] = ()
    topic_id: Uuid = Uuid.ZERO
    has_changed: bool = True

    def beat(self) -> None:
        joins = self.epoch == 0
        held = (TopicPartitions(topic_id=self.topic_id, partitions=self.owned),) if self.owned else ()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=(self.group,) if joins else None,
            topic_partitions=held if self.has_changed else None,
        )
        self.has_changed = False
        self.wire.send(request, 1)

    def receive(self) -> None:
        response = self.wire.receive(ConsumerGroupHeartbeatRequest, 1)
        if response.error_code:
            time.sleep(0.01)  # a real broker may still load the coordinator
            self.has_changed = True
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self.owned = tuple(part for topic in topics for part in topic.partitions)
            self.topic_id = topics[0].topic_id if topics else self.topic_id
            self.has_changed = True


def classic_storm(server: Server, count: int) -> tuple[float, float]:
    """Measure a storm of a classic group.

    It ends when all members have the same generation, and the assignment of its leader. Returns the
    seconds, and the number of requests. A small group before it loads what servers load on first
    use.
    """
    _classic_storm(server, "small-classic-storm", min(count, 3))
    return _classic_storm(server, "classic-storm", count)


def _classic_storm(server: Server, name: str, count: int) -> tuple[float, float]:
    with ExitStack() as sockets:
        ready = sockets.enter_context(selectors.DefaultSelector())
        members = [_Classic(Wire(server.address), name) for _ in range(count)]
        for member in members:
            sockets.enter_context(member.wire.socket)
            ready.register(member.wire.socket, selectors.EVENT_READ, member)
        find_coordinator(members[0].wire, name)
        started = time.perf_counter()
        for member in members:
            member.join()
        while len({member.generation for member in members}) != 1 or not all(member.assignment for member in members):
            for key, _ in ready.select(1):
                key.data.receive()
            if time.perf_counter() - started > _TOO_LONG_S:
                raise SystemExit(f"error: the classic group is not stable after {_TOO_LONG_S} s")
        assert sum(member.leads_count for member in members if member.leads) == count
        return time.perf_counter() - started, sum(member.requests for member in members)


@dataclass
class _Classic:
    """A member of a classic group.

    `awaits`: the class of the request in flight; `leads_count`: the number of members in the
    response to the leader; `requests`: the number of requests.
    """

    wire: Wire
    group: str
    id: str = ""
    generation: int = -1
    awaits: type[JoinGroupRequest] | type[SyncGroupRequest] | type[HeartbeatRequest] = JoinGroupRequest
    assignment: bytes = b""
    leads: bool = False
    leads_count: int = 0
    requests: int = 0

    def join(self) -> None:
        self.assignment, self.leads, self.awaits = b"", False, JoinGroupRequest
        self.requests += 1
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b"m"),),
        )
        self.wire.send(request, 7)

    def receive(self) -> None:
        request = self.awaits
        response = self.wire.receive(request, _VERSIONS[request])
        if request is JoinGroupRequest:
            self._joined(response)
        elif response.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.join()
        elif response.error_code:
            raise SystemExit(f"error: {request.__name__} failed: {ErrorCode(response.error_code).name}")
        else:
            if request is SyncGroupRequest:
                self.assignment = response.assignment
            self._beat()

    def _joined(self, response: Any) -> None:
        if response.error_code in (
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        ):
            self.id = response.member_id or self.id
            self.join()
            return
        if response.error_code:
            raise SystemExit(f"error: JoinGroup failed: {ErrorCode(response.error_code).name}")
        self.generation, self.leads = response.generation_id, response.leader == self.id
        self.leads_count = len(response.members)
        given = tuple(
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"a") for member in response.members
        )
        self.awaits = SyncGroupRequest
        self.requests += 1
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given if self.leads else (),
        )
        self.wire.send(request, 5)

    def _beat(self) -> None:
        """Send a heartbeat, whose response may request the member to join again."""
        self.awaits = HeartbeatRequest
        self.requests += 1
        self.wire.send(HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id), 4)


_VERSIONS = {JoinGroupRequest: 7, SyncGroupRequest: 5, HeartbeatRequest: 4}
