"""Join storms: many members join one group at once, each over a connection of its own, as when a large service is deployed.

For bench/cluster.py.
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

__all__ = ["classic_storm", "storm"]

_TOO_LONG_S = 60


def storm(server: Server, count: int) -> tuple[float, float]:
    """Seconds until so many members own one partition each (KIP-848), and the heartbeats that it took."""
    make_topic(server.address, "storm", count)
    with ExitStack() as sockets:
        members = [_Member(Wire(server.address), f"m{number}") for number in range(count)]
        for member in members:
            sockets.enter_context(member.wire.socket)
        find_coordinator(members[0].wire, "storm")
        started, beats = time.perf_counter(), 0
        while any(len(member.owned) != 1 for member in members) or len({member.epoch for member in members}) != 1:
            for member in members:
                member.beat()
            for member in members:
                member.hear()
            beats += len(members)
            if time.perf_counter() - started > _TOO_LONG_S:
                raise SystemExit(f"error: the group does not come to rest within {_TOO_LONG_S} s")
        assert len({one for member in members for one in member.owned}) == count
        return time.perf_counter() - started, beats


@dataclass
class _Member:
    """One of a storm. `owned`: partitions; `news`: whether to tell them."""

    wire: Wire
    id: str
    epoch: int = 0
    owned: tuple[int, ...] = ()
    topic_id: Uuid = Uuid.ZERO
    news: bool = True

    def beat(self) -> None:
        joins = self.epoch == 0
        held = (TopicPartitions(topic_id=self.topic_id, partitions=self.owned),) if self.owned else ()
        request = ConsumerGroupHeartbeatRequest(
            group_id="storm",
            member_id=self.id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=("storm",) if joins else None,
            topic_partitions=held if self.news else None,
        )
        self.news = False
        self.wire.send(request, 1)

    def hear(self) -> None:
        answer = self.wire.receive(ConsumerGroupHeartbeatRequest, 1)
        if answer.error_code:
            time.sleep(0.01)  # a real broker may still load the coordinator
            self.news = True
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.owned = tuple(part for topic in topics for part in topic.partitions)
            self.topic_id = topics[0].topic_id if topics else self.topic_id
            self.news = True


def classic_storm(server: Server, count: int) -> tuple[float, float]:
    """Seconds until so many members have the same generation of a classic group, in which each got what the leader gives it; and the requests that it took."""
    with ExitStack() as sockets:
        ready = sockets.enter_context(selectors.DefaultSelector())
        members = [_Classic(Wire(server.address)) for _ in range(count)]
        for member in members:
            sockets.enter_context(member.wire.socket)
            ready.register(member.wire.socket, selectors.EVENT_READ, member)
        find_coordinator(members[0].wire, "classic-storm")
        started = time.perf_counter()
        for member in members:
            member.join()
        while len({member.generation for member in members}) != 1 or not all(member.has for member in members):
            for key, _ in ready.select(1):
                key.data.hear()
            if time.perf_counter() - started > _TOO_LONG_S:
                raise SystemExit(f"error: the classic group does not come to rest within {_TOO_LONG_S} s")
        assert sum(member.leads_count for member in members if member.leads) == count
        return time.perf_counter() - started, sum(member.asked for member in members)


@dataclass
class _Classic:
    """One of a classic storm.

    `awaits`: what it has asked; `has`: what the leader gave it; `leads_count`: how many members
    there are, as the leader knows.
    """

    wire: Wire
    id: str = ""
    generation: int = -1
    awaits: type[JoinGroupRequest] | type[SyncGroupRequest] | type[HeartbeatRequest] = JoinGroupRequest
    has: bytes = b""
    leads: bool = False
    leads_count: int = 0
    asked: int = 0

    def join(self) -> None:
        self.has, self.leads, self.awaits = b"", False, JoinGroupRequest
        self.asked += 1
        request = JoinGroupRequest(
            group_id="classic-storm",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b"m"),),
        )
        self.wire.send(request, 7)

    def hear(self) -> None:
        asked = self.awaits
        answer = self.wire.receive(asked, _VERSIONS[asked])
        if asked is JoinGroupRequest:
            self._joined(answer)
        elif answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS or answer.error_code == ErrorCode.ILLEGAL_GENERATION:
            self.join()
        elif answer.error_code:
            raise SystemExit(f"error: {asked.__name__} is answered {ErrorCode(answer.error_code).name}")
        else:
            if asked is SyncGroupRequest:
                self.has = answer.assignment
            self._beat()

    def _joined(self, answer: Any) -> None:
        if answer.error_code in (
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        ):
            self.id = answer.member_id or self.id
            self.join()
            return
        if answer.error_code:
            raise SystemExit(f"error: JoinGroup is answered {ErrorCode(answer.error_code).name}")
        self.generation, self.leads = answer.generation_id, answer.leader == self.id
        self.leads_count = len(answer.members)
        given = tuple(SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"a") for one in answer.members)
        self.awaits = SyncGroupRequest
        self.asked += 1
        request = SyncGroupRequest(
            group_id="classic-storm",
            generation_id=self.generation,
            member_id=self.id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given if self.leads else (),
        )
        self.wire.send(request, 5)

    def _beat(self) -> None:
        """Ask whether to join again, as long as the storm lasts."""
        self.awaits = HeartbeatRequest
        self.asked += 1
        self.wire.send(HeartbeatRequest(group_id="classic-storm", generation_id=self.generation, member_id=self.id), 4)


_VERSIONS = {JoinGroupRequest: 7, SyncGroupRequest: 5, HeartbeatRequest: 4}
