"""Fetch v4–18: records up to the high watermark or the last stable offset (KIP-98), limits on bytes (KIP-74), and waiting for records.

With sessions (KIP-227), leader epochs (KIP-320), and reading from the replica in the client's rack
(KIP-392). v12 tells where a log diverged and where the leader is, v13 names topics by id. Replicas
of the embedded cluster share a log, so brokers do not fetch from each other.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.cluster.fetch_sessions import INITIAL_EPOCH, FetchSession, Key, next_epoch
from quorate.cluster.log import PartitionLog
from quorate.cluster.topics import PartitionState, TopicState
from quorate.cluster.turns import Work, parts
from quorate.codecs import Uuid
from quorate.codecs.api.broker import FetchRequest, FetchResponse
from quorate.codecs.api.broker.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.access import Access
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_READ_COMMITTED = 1
_TELLS_DIVERGENCE = 12
"""A session may go on with a version that does not, though it began with one that asks."""
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_RACK_AWARE = "RackAwareReplicaSelector"


def fetch(
    broker: "Broker", request: FetchRequest, context: Context
) -> FetchResponse | Pending[Any] | Work[FetchResponse | Pending[Any]]:
    """Records that are there; if they are too few, those that come within `max_wait_ms`.

    In turns if the request or its session is large.
    """
    if context.large or (request.session_id and broker.fetch_sessions.take_turns(request.session_id)):
        return _in_turns(broker, request, context)
    by_id = context.api_version >= 13
    asked: dict[Key, FetchPartition] = {
        (topic.topic_id if by_id else topic.topic, one.partition): one
        for topic in request.topics
        for one in topic.partitions
    }
    forgotten: list[Key] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    session = broker.fetch_sessions.of(request, by_id, asked, forgotten, context.now_ms)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    if session is not None:
        asked = session.requested(broker.cluster.topics_by_id)
    turn = _Turn(broker, request, context, session, asked)
    if context.access is not None:
        turn.authorize(context.access)
    found = turn.read()
    if request.max_wait_ms <= 0 or turn.is_enough(found) or not asked:
        return turn.response(found)
    return turn.wait()


def _in_turns(broker: "Broker", request: FetchRequest, context: Context) -> Work[FetchResponse | Pending[Any]]:
    """The same, with turns for others in between, in which topics, leaders and the session may change: partitions are looked at one by one, as Kafka does."""
    by_id = context.api_version >= 13
    asked: dict[Key, FetchPartition] = {}
    for topic in request.topics:
        name: Hashable = topic.topic_id if by_id else topic.topic
        for some in parts(topic.partitions):
            asked |= {(name, one.partition): one for one in some}
            yield None
        yield None
    forgotten: list[Key] = []
    for left in request.forgotten_topics_data:
        name = left.topic_id if by_id else left.topic
        for indexes in parts(left.partitions):
            forgotten += [(name, index) for index in indexes]
            yield None
        yield None
    session, asked = yield from broker.fetch_sessions.taking(
        request, by_id, asked, forgotten, context.now_ms, broker.cluster.topics_by_id
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    turn = _Turn(broker, request, context, session, asked)
    if context.access is not None:
        yield from turn.authorizing(context.access)
    found = yield from turn.reading()
    if request.max_wait_ms <= 0 or turn.is_enough(found) or not asked:
        return (yield from turn.responding(found))
    return (yield from turn.waiting())


@dataclass(slots=True)
class _Found:
    """What partitions give.

    `left`: bytes that there is still room for; `size`: bytes of records; `tells`: there is an
    error, or something else to tell.
    """

    left: int
    data: dict[Key, PartitionData]
    size: int = 0
    tells: bool = False


@dataclass(slots=True)
class _Told:
    """What a response says: partitions by topic; topics that are not there; leaders elsewhere."""

    topics: dict[Hashable, list[PartitionData]]
    missing: list[Hashable]
    leaders: set[int]

    def add(self, data: Iterable[tuple[Key, PartitionData]]) -> None:
        """Tell of some partitions."""
        topics = self.topics
        for (topic, _), one in data:
            topics.setdefault(topic, []).append(one)
            if one.error_code:
                if one.error_code in _NOT_THERE:
                    self.missing.append(topic)
                if one.current_leader.leader_id >= 0:
                    self.leaders.add(one.current_leader.leader_id)


@dataclass(slots=True)
class _Turn:
    """One request while it is served."""

    broker: "Broker"
    request: FetchRequest
    context: Context
    session: FetchSession | None
    asked: dict[Key, FetchPartition]
    allowed: frozenset[str] | None = None
    """Names of topics that the client may read; `None`: all."""

    def authorize(self, access: "Access") -> None:
        """Find out which topics the client may read; a replica has to be a broker's."""
        names = self._names(self.asked)
        self.allowed = self._allowed_to_replica(access, names)
        if self.allowed is None:
            self.allowed = access.topics(Operation.READ, names)

    def authorizing(self, access: "Access") -> Work[None]:
        """The same in turns. A topic that is created meanwhile is not allowed."""
        names: set[str] = set()
        for keys in parts(self.asked):
            names |= self._names(keys)
            yield None
        self.allowed = self._allowed_to_replica(access, names)
        if self.allowed is None:
            self.allowed = frozenset((yield from access.allowed(Operation.READ, ResourceType.TOPIC, names)))

    def _names(self, keys: Iterable[Key]) -> set[str]:
        named = (self._name_of(self._find(key)[0], key) for key in keys)
        return {name for name in named if name is not None}

    def _allowed_to_replica(self, access: "Access", names: Iterable[str]) -> frozenset[str] | None:
        if max(self.request.replica_id, self.request.replica_state.replica_id) < 0:
            return None
        return frozenset(names if access.may_with_cluster(Operation.CLUSTER_ACTION) else ())

    def read(self) -> _Found:
        """What each partition gives."""
        found = self._nothing()
        self._read(self.asked.items(), found)
        return found

    def reading(self) -> Work[_Found]:
        """The same in turns."""
        found = self._nothing()
        for some in parts(self.asked.items()):
            self._read(some, found)
            yield None
        return found

    def _nothing(self) -> _Found:
        return _Found(min(self.request.max_bytes, self.broker.cluster.broker_configs.number("fetch.max.bytes")), {})

    def _read(self, some: Iterable[tuple[Key, FetchPartition]], found: _Found) -> None:
        for key, asked in some:
            data = found.data[key] = self._partition(key, asked, found.left, not found.size)
            size = len(data.records or b"")
            found.size += size
            found.left = max(found.left - size, 0)
            if data.error_code or data.preferred_read_replica != -1 or data.diverging_epoch.end_offset != -1:
                found.tells = True

    def is_enough(self, found: _Found) -> bool:
        """Whether to answer now: there are records enough, an error, or something else to tell."""
        return found.tells or found.size >= max(self.request.min_bytes, 1) or self.request.min_bytes <= 0

    def wait(self) -> Pending[Any]:
        """Answer when there is enough, or the time is over."""
        pending: Pending[Any] = Pending()
        connection = self.context.connection
        logs = self._logs(self.asked)

        def finish() -> None:
            for log in logs:
                log.waiting.discard(look)
            timer.cancel()
            connection.on_lost = None
            if connection.open:
                pending.complete(self.response(self.read()))

        def look() -> None:
            if not connection.open or self.is_enough(self.read()):
                finish()

        clock = self.broker.cluster.clock
        timer = clock.call_at(self.context.now_ms + self.request.max_wait_ms, finish)
        for log in logs:
            log.waiting.add(look)
        connection.on_lost = finish  # a client may be gone long before its time is over
        return pending

    def waiting(self) -> Work[Pending[Any]]:
        """The same in turns: what is appended only has it look again."""
        pending: Pending[Any] = Pending()
        connection, cluster = self.context.connection, self.broker.cluster
        logs: list[PartitionLog] = []
        looks = True  # not before all logs are watched
        changed = is_over = False

        def looking() -> Work[FetchResponse | None]:
            nonlocal looks, changed
            while changed:
                changed = False
                found = yield from self.reading()
                if is_over or self.is_enough(found):
                    end()
                    return (yield from self.responding(found)) if connection.open else None
            looks = False
            return None

        def look() -> None:
            nonlocal looks, changed
            changed = True
            if not looks:
                looks = True
                cluster.turns.later(looking(), told, failed)

        def told(response: FetchResponse | None) -> None:
            if response is not None:
                pending.complete(response)

        def time_is_over() -> None:
            nonlocal is_over
            is_over = True
            look()

        def end() -> None:
            for log in logs:
                log.waiting.discard(look)
            timer.cancel()
            connection.on_lost = None

        failed = partial(self.broker.failed, connection, "FetchRequest")
        for keys in parts(self.asked):
            for log in self._logs(keys):
                log.waiting.add(look)
                logs.append(log)
            yield None
        timer = cluster.clock.call_at(self.context.now_ms + self.request.max_wait_ms, time_is_over)
        connection.on_lost = end
        looks = False
        (look if connection.open else end)()  # something may have been appended since it was read
        return pending

    def _logs(self, keys: Iterable[Key]) -> list[PartitionLog]:
        return [partition.log for key in keys if (partition := self._find(key)[1]) is not None]

    def response(self, found: _Found) -> FetchResponse:
        """What is told: in a session that goes on, only what is worth it."""
        session, told = self.session, _Told({}, [], set())
        if session is not None:
            if self._is_outrun(session):
                return self._outrun(session)
            told.add(item for item in found.data.items() if session.worth_telling(*item))
        else:
            told.add(found.data.items())
            if (session := self._new_session()) is not None:
                session.begin(found.data.items(), self.asked)
                session.requested(self.broker.cluster.topics_by_id)
        return self._response(session, told, self._topics(told.topics.items()))

    def responding(self, found: _Found) -> Work[FetchResponse]:
        """The same in turns. No other request of the session is handled meanwhile."""
        if self.session is None:
            return (yield from self._responding(None, found))
        return (yield from self.session.changes.run(self._responding(self.session, found)))

    def _responding(self, session: FetchSession | None, found: _Found) -> Work[FetchResponse]:
        told = _Told({}, [], set())
        if session is not None:
            if self._is_outrun(session):
                return self._outrun(session)
            for some in parts(found.data.items()):
                told.add(item for item in some if session.worth_telling(*item))
                yield None
        else:
            session = self._new_session()
            for some in parts(found.data.items()):
                told.add(some)
                if session is not None:
                    session.begin(some, self.asked)
                yield None
            if session is not None:
                yield from session.requested_in_turns(self.broker.cluster.topics_by_id)
        topics: list[FetchableTopicResponse] = []
        for of_topics in parts(told.topics.items()):
            topics += self._topics(of_topics)
            yield None
        return self._response(session, told, topics)

    def _is_outrun(self, session: FetchSession) -> bool:
        """Whether somebody has gone on with a session meanwhile."""
        return session.epoch != next_epoch(self.request.session_epoch)

    def _outrun(self, session: FetchSession) -> FetchResponse:
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)

    def _new_session(self) -> FetchSession | None:
        if self.request.session_epoch != INITIAL_EPOCH:
            return None
        now_ms = self.broker.cluster.clock.now_ms()
        return self.broker.fetch_sessions.begin(self.context.api_version >= 13, len(self.asked), now_ms)

    def _topics(self, told: Iterable[tuple[Hashable, list[PartitionData]]]) -> list[FetchableTopicResponse]:
        by_id = self.context.api_version >= 13
        return [
            FetchableTopicResponse(
                topic="" if by_id else str(name),
                topic_id=name if by_id and isinstance(name, Uuid) else Uuid.ZERO,
                partitions=tuple(parts),
            )
            for name, parts in told
        ]

    def _response(
        self, session: FetchSession | None, told: _Told, topics: list[FetchableTopicResponse]
    ) -> FetchResponse:
        if self.context.api_version >= 13 and Uuid.ZERO in told.missing[:-1]:
            # What is not there comes last, and brokers fail over whatever comes behind a topic that
            # has neither id nor name.
            return FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        moved = self._moved(told.leaders) if self.context.api_version >= 16 else ()
        return FetchResponse(
            session_id=0 if session is None else session.id,
            responses=tuple(topics),
            node_endpoints=moved,
        )

    def _moved(self, leaders: Iterable[int]) -> tuple[NodeEndpoint, ...]:
        brokers = [self.broker.cluster.state.brokers.get(one) for one in sorted(leaders)]
        return tuple(
            NodeEndpoint(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
            for one in brokers
            if one is not None and one.alive
        )

    def _name_of(self, topic: TopicState | None, key: Key) -> str | None:
        """The name of a topic, also of one that is gone, if the session remembers it; `None` for an unknown id."""
        if topic is not None:
            return topic.name
        if isinstance(key[0], Uuid):
            return None if self.session is None else self.session.name_of(key)
        return str(key[0])

    def _find(self, key: Key) -> tuple[TopicState | None, PartitionState | None]:
        name, index = key
        cluster = self.broker.cluster
        topic = cluster.topics_by_id.get(name) if isinstance(name, Uuid) else cluster.topics.get(str(name))
        if topic is None or not 0 <= index < len(topic.partitions):
            return topic, None
        return topic, topic.partitions[index]

    def _partition(self, key: Key, asked: FetchPartition, left: int, first: bool) -> PartitionData:
        topic, partition = self._find(key)
        if self.allowed is not None and (known := self._name_of(topic, key)) is not None and known not in self.allowed:
            return replace(_failed(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED), aborted_transactions=())
        if partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None and self.context.api_version >= 13:
                name = None if self.session is None else self.session.name_of(key)
                if name is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                elif self.broker.cluster.state.partition(name, asked.partition) is not None:
                    return _failed(asked, ErrorCode.INCONSISTENT_TOPIC_ID)  # another topic by its name
            return replace(
                _failed(asked, code), aborted_transactions=()
            )  # where the broker knows without asking its logs
        leads = partition.leader == self.broker.id
        if not leads and (self.broker.id not in partition.in_sync or self.context.api_version < 11):
            return _failed(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER, partition, self.context.api_version)
        if 0 <= asked.current_leader_epoch < partition.leader_epoch:
            return _failed(asked, ErrorCode.FENCED_LEADER_EPOCH, partition, self.context.api_version)
        if asked.current_leader_epoch > partition.leader_epoch:
            return _failed(asked, ErrorCode.UNKNOWN_LEADER_EPOCH)
        log = partition.log
        committed = self.request.isolation_level == _READ_COMMITTED
        common: dict[str, Any] = {
            "partition_index": asked.partition,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_start_offset": log.start_offset,
            "records": b"",
            "aborted_transactions": () if committed else None,
        }
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(asked.last_fetched_epoch, partition.leader_epoch)
            if end < 0:
                return _failed(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
            if end < asked.fetch_offset or epoch < asked.last_fetched_epoch:
                told = EpochEndOffset(epoch=epoch, end_offset=end)
                return PartitionData(
                    **common | {"aborted_transactions": None},
                    diverging_epoch=told if self.context.api_version >= _TELLS_DIVERGENCE else EpochEndOffset(),
                )
        if not log.start_offset <= asked.fetch_offset <= log.next_offset:
            return _failed(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        if leads and (nearer := self._nearer(partition)) is not None:
            return PartitionData(**common, preferred_read_replica=nearer)
        until = log.last_stable_offset if committed else log.high_watermark
        limit = min(left, asked.partition_max_bytes)
        if limit < 0 and asked.fetch_offset < until:
            return _failed(asked, ErrorCode.UNKNOWN_SERVER_ERROR)
        found = log.read(asked.fetch_offset, limit, until=until, at_least_one=first)
        if limit > 0 and not found.records and asked.fetch_offset < until:
            # Less room than for a batch: brokers take the part of it away again, and all that they
            # know of it.
            common["aborted_transactions"] = None
        elif committed:
            common["aborted_transactions"] = tuple(
                AbortedTransaction(producer_id=producer, first_offset=begin)
                for producer, begin in log.aborted_between(asked.fetch_offset, found.looked_until)
            )
        common["records"] = found.records
        return PartitionData(**common)

    def _nearer(self, partition: PartitionState) -> int | None:
        """A replica in sync in the client's rack, if the leader is in another one, and brokers are set up to say so (KIP-392)."""
        rack = self.request.rack_id
        cluster = self.broker.cluster
        if (
            not rack
            or rack == self.broker.rack
            or not cluster.broker_configs.get("replica.selector.class").endswith(_RACK_AWARE)
        ):
            return None
        up = cluster.state.alive
        return next((one for one in partition.in_sync if one in up and up[one] == rack), None)


def _failed(
    asked: FetchPartition, code: ErrorCode, partition: PartitionState | None = None, version: int = 0
) -> PartitionData:
    leader = LeaderIdAndEpoch()
    if partition is not None and version >= 16:  # KIP-951; the field is there since 12, and brokers leave it at -1
        leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return PartitionData(
        partition_index=asked.partition,
        error_code=code,
        high_watermark=-1,
        records=b"",
        aborted_transactions=None,
        current_leader=leader,
    )
