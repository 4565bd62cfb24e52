"""Fetch v4–18: read records up to the high watermark or the last stable offset (KIP-98).

Includes limits on bytes (KIP-74), sessions (KIP-227), leader epochs (KIP-320) and fetching from a
replica in the client's rack (KIP-392). v12 reports where a log diverged and where the leader is.
v13 names topics by id. Replicas of the embedded cluster share a log, so brokers do not fetch from
each other.

The module is longer than others, because reading, waiting and responding share the state of one
request.
"""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context, endpoints
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.cluster.fetch_sessions import INITIAL_EPOCH, FetchSession, Key, next_epoch
from quorate.cluster.log import PartitionLog
from quorate.cluster.topics import PartitionState, TopicState
from quorate.cluster.turns import Work, chunks
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
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.access import Access
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_READ_COMMITTED = 1
_REPORTS_DIVERGENCE = 12
"""A session that began with this version may continue with an older one, which does not."""
_UNKNOWN_TOPIC_CODES = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_RACK_AWARE = "RackAwareReplicaSelector"


def fetch(
    broker: "Broker", request: FetchRequest, context: Context
) -> FetchResponse | Pending[Any] | Work[FetchResponse | Pending[Any]]:
    """Return records, after at most `max_wait_ms` if there are fewer than `min_bytes`.

    A large request, or one of a large session, is served in turns (`quorate.cluster.turns`).
    """
    if context.large or (request.session_id and broker.fetch_sessions.needs_turns(request.session_id)):
        return _in_turns(broker, request, context)
    by_id = context.api_version >= 13
    requested: dict[Key, FetchPartition] = {
        (topic.topic_id if by_id else topic.topic, partition.partition): partition
        for topic in request.topics
        for partition in topic.partitions
    }
    forgotten: list[Key] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    session = broker.fetch_sessions.update(request, by_id, requested, forgotten, context.now_ms)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    if session is not None:
        requested = session.requested(broker.cluster.topics_by_id)
    run = _FetchRun(broker, request, context, session, requested)
    if context.access is not None:
        run.authorize(context.access)
    found = run.read()
    if request.max_wait_ms <= 0 or run.is_enough(found) or not requested:
        return run.response(found)
    return run.wait()


def _in_turns(broker: "Broker", request: FetchRequest, context: Context) -> Work[FetchResponse | Pending[Any]]:
    """Serve a fetch in turns.

    Topics, leaders and the session may change between turns. As in Kafka, each partition is read
    for itself.
    """
    by_id = context.api_version >= 13
    requested: dict[Key, FetchPartition] = {}
    for topic in request.topics:
        name: Hashable = topic.topic_id if by_id else topic.topic
        for some in chunks(topic.partitions):
            requested |= {(name, one.partition): one for one in some}
            yield None
        yield None
    forgotten: list[Key] = []
    for left in request.forgotten_topics_data:
        name = left.topic_id if by_id else left.topic
        for indexes in chunks(left.partitions):
            forgotten += [(name, index) for index in indexes]
            yield None
        yield None
    session, requested = yield from broker.fetch_sessions.update_in_turns(
        request, by_id, requested, forgotten, context.now_ms, broker.cluster.topics_by_id
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    run = _FetchRun(broker, request, context, session, requested)
    if context.access is not None:
        yield from run.authorizing(context.access)
    found = yield from run.reading()
    if request.max_wait_ms <= 0 or run.is_enough(found) or not requested:
        return (yield from run.responding(found))
    return (yield from run.waiting())


@dataclass(slots=True)
class _Found:
    """Data read from partitions.

    `left`: bytes that the response can still take. `size`: bytes of records. `is_urgent`: there is
    an error, a preferred replica or a diverging epoch, which is sent at once.
    """

    left: int
    data: dict[Key, PartitionData]
    size: int = 0
    is_urgent: bool = False


@dataclass(slots=True)
class _Contents:
    """Contents of a response: partitions by topic, unknown topics, and leaders on other brokers."""

    topics: dict[Hashable, list[PartitionData]]
    missing: list[Hashable]
    leaders: set[int]

    def add(self, data: Iterable[tuple[Key, PartitionData]]) -> None:
        """Add partitions to the response."""
        topics = self.topics
        for (topic, _), one in data:
            topics.setdefault(topic, []).append(one)
            if one.error_code:
                if one.error_code in _UNKNOWN_TOPIC_CODES:
                    self.missing.append(topic)
                if one.current_leader.leader_id >= 0:
                    self.leaders.add(one.current_leader.leader_id)


@dataclass(slots=True)
class _FetchRun:
    """One fetch request while it is served."""

    broker: "Broker"
    request: FetchRequest
    context: Context
    session: FetchSession | None
    requested: dict[Key, FetchPartition]
    allowed: frozenset[str] | None = None
    """Names of topics that the client may read; `None` for all."""

    def authorize(self, access: "Access") -> None:
        """Find the topics that the client may read. A follower needs CLUSTER_ACTION."""
        names = self._names(self.requested)
        self.allowed = self._allowed_to_replica(access, names)
        if self.allowed is None:
            self.allowed = access.topics(Operation.READ, names)

    def authorizing(self, access: "Access") -> Work[None]:
        """Find the topics that the client may read, in turns.

        Topics created meanwhile are denied.
        """
        names: set[str] = set()
        for keys in chunks(self.requested):
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
        """Read all partitions."""
        found = self._empty()
        self._read(self.requested.items(), found)
        return found

    def reading(self) -> Work[_Found]:
        """Read all partitions, in turns."""
        found = self._empty()
        for some in chunks(self.requested.items()):
            self._read(some, found)
            yield None
        return found

    def _empty(self) -> _Found:
        return _Found(min(self.request.max_bytes, self.broker.cluster.broker_configs.number("fetch.max.bytes")), {})

    def _read(self, some: Iterable[tuple[Key, FetchPartition]], found: _Found) -> None:
        for key, requested in some:
            data = found.data[key] = self._partition(key, requested, found.left, not found.size)
            size = len(data.records or b"")
            found.size += size
            found.left = max(found.left - size, 0)
            if data.error_code or data.preferred_read_replica != -1 or data.diverging_epoch.end_offset != -1:
                found.is_urgent = True

    def is_enough(self, found: _Found) -> bool:
        """Return whether to respond now: enough records, or data that is urgent."""
        return found.is_urgent or found.size >= max(self.request.min_bytes, 1) or self.request.min_bytes <= 0

    def wait(self) -> Pending[Any]:
        """Return a pending response, completed with enough records or after `max_wait_ms`."""
        pending: Pending[Any] = Pending()
        connection = self.context.connection
        logs = self._logs(self.requested)

        def finish() -> None:
            for log in logs:
                log.waiting.pop(check, None)
            timer.cancel()
            connection.on_lost = None
            if connection.open:
                pending.complete(self.response(self.read()))

        def check() -> None:
            if not connection.open or self.is_enough(self.read()):
                finish()

        clock = self.broker.cluster.clock
        timer = clock.call_at(self.context.now_ms + self.request.max_wait_ms, finish)
        for log in logs:
            log.waiting[check] = None
        connection.on_lost = finish  # a client may disconnect long before max_wait_ms
        return pending

    def waiting(self) -> Work[Pending[Any]]:
        """Return a pending response, in turns. An append starts another check."""
        pending: Pending[Any] = Pending()
        connection, cluster = self.context.connection, self.broker.cluster
        logs: list[PartitionLog] = []
        is_checking = True  # no check before all logs are watched
        changed = timed_out = False

        def checking() -> Work[FetchResponse | None]:
            nonlocal is_checking, changed
            while changed:
                changed = False
                found = yield from self.reading()
                if timed_out or self.is_enough(found):
                    end()
                    return (yield from self.responding(found)) if connection.open else None
            is_checking = False
            return None

        def check() -> None:
            nonlocal is_checking, changed
            changed = True
            if not is_checking:
                is_checking = True
                cluster.turns.later(checking(), respond, failed)

        def respond(response: FetchResponse | None) -> None:
            if response is not None:
                pending.complete(response)

        def time_out() -> None:
            nonlocal timed_out
            timed_out = True
            check()

        def end() -> None:
            for log in logs:
                log.waiting.pop(check, None)
            timer.cancel()
            connection.on_lost = None

        failed = partial(self.broker.failed, connection, "FetchRequest")
        for keys in chunks(self.requested):
            for log in self._logs(keys):
                log.waiting[check] = None
                logs.append(log)
            yield None
        timer = cluster.clock.call_at(self.context.now_ms + self.request.max_wait_ms, time_out)
        connection.on_lost = end
        is_checking = False
        (check if connection.open else end)()  # records may have been appended since the read
        return pending

    def _logs(self, keys: Iterable[Key]) -> list[PartitionLog]:
        return [partition.log for key in keys if (partition := self._find(key)[1]) is not None]

    def response(self, found: _Found) -> FetchResponse:
        """Return the response: in an incremental fetch only the partitions that changed."""
        session, contents = self.session, _Contents({}, [], set())
        if session is not None:
            if self._was_used_meanwhile(session):
                return self._wrong_epoch(session)
            contents.add(item for item in found.data.items() if session.must_report(*item))
        else:
            contents.add(found.data.items())
            if (session := self._new_session()) is not None:
                session.begin(found.data.items(), self.requested)
                session.requested(self.broker.cluster.topics_by_id)
        return self._response(session, contents, self._topics(contents.topics.items()))

    def responding(self, found: _Found) -> Work[FetchResponse]:
        """Return the response, in turns. No other request of the session is handled meanwhile."""
        if self.session is None:
            return (yield from self._responding(None, found))
        return (yield from self.session.changes.run(self._responding(self.session, found)))

    def _responding(self, session: FetchSession | None, found: _Found) -> Work[FetchResponse]:
        contents = _Contents({}, [], set())
        if session is not None:
            if self._was_used_meanwhile(session):
                return self._wrong_epoch(session)
            for some in chunks(found.data.items()):
                contents.add(item for item in some if session.must_report(*item))
                yield None
        else:
            session = self._new_session()
            for some in chunks(found.data.items()):
                contents.add(some)
                if session is not None:
                    session.begin(some, self.requested)
                yield None
            if session is not None:
                yield from session.requested_in_turns(self.broker.cluster.topics_by_id)
        topics: list[FetchableTopicResponse] = []
        for some_topics in chunks(contents.topics.items()):
            topics += self._topics(some_topics)
            yield None
        return self._response(session, contents, topics)

    def _was_used_meanwhile(self, session: FetchSession) -> bool:
        """Return whether another request has used the session since this one began."""
        return session.epoch != next_epoch(self.request.session_epoch)

    def _wrong_epoch(self, session: FetchSession) -> FetchResponse:
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)

    def _new_session(self) -> FetchSession | None:
        if self.request.session_epoch != INITIAL_EPOCH:
            return None
        now_ms = self.broker.cluster.clock.now_ms()
        return self.broker.fetch_sessions.begin(self.context.api_version >= 13, len(self.requested), now_ms)

    def _topics(
        self, partitions_by_topic: Iterable[tuple[Hashable, list[PartitionData]]]
    ) -> list[FetchableTopicResponse]:
        by_id = self.context.api_version >= 13
        return [
            FetchableTopicResponse(
                topic="" if by_id else str(name),
                topic_id=name if by_id and isinstance(name, Uuid) else Uuid.ZERO,
                partitions=tuple(parts),
            )
            for name, parts in partitions_by_topic
        ]

    def _response(
        self, session: FetchSession | None, contents: _Contents, topics: list[FetchableTopicResponse]
    ) -> FetchResponse:
        if self.context.api_version >= 13 and Uuid.ZERO in contents.missing[:-1]:
            # Brokers put unknown topics last, and fail if one follows a topic without id and name.
            return FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        leaders = sorted(contents.leaders) if self.context.api_version >= 16 else ()
        return FetchResponse(
            session_id=0 if session is None else session.id,
            responses=tuple(topics),
            node_endpoints=endpoints(self.broker, leaders, NodeEndpoint),
        )

    def _name_of(self, topic: TopicState | None, key: Key) -> str | None:
        """Return the name of a topic, or `None` for an unknown id.

        The session knows the names of topics that were deleted since.
        """
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

    def _partition(self, key: Key, requested: FetchPartition, left: int, first: bool) -> PartitionData:
        topic, partition = self._find(key)
        if self.allowed is not None and (known := self._name_of(topic, key)) is not None and known not in self.allowed:
            return replace(_error_data(requested, ErrorCode.TOPIC_AUTHORIZATION_FAILED), aborted_transactions=())
        if partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None and self.context.api_version >= 13:
                name = None if self.session is None else self.session.name_of(key)
                if name is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                elif self.broker.cluster.state.partition(name, requested.partition) is not None:
                    return _error_data(requested, ErrorCode.INCONSISTENT_TOPIC_ID)  # another topic by its name
            # An error that Kafka finds without reading a log has an empty list instead of null.
            return replace(_error_data(requested, code), aborted_transactions=())
        leads = partition.leader == self.broker.id
        if not leads and (self.broker.id not in partition.in_sync or self.context.api_version < 11):
            return _error_data(requested, ErrorCode.NOT_LEADER_OR_FOLLOWER, partition, self.context.api_version)
        if 0 <= requested.current_leader_epoch < partition.leader_epoch:
            return _error_data(requested, ErrorCode.FENCED_LEADER_EPOCH, partition, self.context.api_version)
        if requested.current_leader_epoch > partition.leader_epoch:
            return _error_data(requested, ErrorCode.UNKNOWN_LEADER_EPOCH)
        log = partition.log
        committed = self.request.isolation_level == _READ_COMMITTED
        common: dict[str, Any] = {
            "partition_index": requested.partition,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_start_offset": log.start_offset,
            "records": b"",
            "aborted_transactions": () if committed else None,
        }
        if requested.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(requested.last_fetched_epoch, partition.leader_epoch)
            if end < 0:
                return _error_data(requested, ErrorCode.OFFSET_OUT_OF_RANGE)
            if end < requested.fetch_offset or epoch < requested.last_fetched_epoch:
                diverging = EpochEndOffset(epoch=epoch, end_offset=end)
                return PartitionData(
                    **common | {"aborted_transactions": None},
                    diverging_epoch=diverging if self.context.api_version >= _REPORTS_DIVERGENCE else EpochEndOffset(),
                )
        if not log.start_offset <= requested.fetch_offset <= log.next_offset:
            return _error_data(requested, ErrorCode.OFFSET_OUT_OF_RANGE)
        if leads and (closer := self._closer_replica(partition)) is not None:
            return PartitionData(**common, preferred_read_replica=closer)
        until = log.last_stable_offset if committed else log.high_watermark
        limit = min(left, requested.partition_max_bytes)
        if limit < 0 and requested.fetch_offset < until:
            return _error_data(requested, ErrorCode.UNKNOWN_SERVER_ERROR)
        found = log.read(requested.fetch_offset, limit, until=until, at_least_one=first)
        if limit > 0 and not found.records and requested.fetch_offset < until:
            # The limit is smaller than the next batch. Brokers drop the partial batch and its
            # metadata.
            common["aborted_transactions"] = None
        elif committed:
            common["aborted_transactions"] = tuple(
                AbortedTransaction(producer_id=producer, first_offset=begin)
                for producer, begin in log.aborted_between(requested.fetch_offset, found.looked_until)
            )
        common["records"] = found.records
        return PartitionData(**common)

    def _closer_replica(self, partition: PartitionState) -> int | None:
        """Return an in-sync replica in the client's rack if the leader is in another (KIP-392).

        Requires a rack-aware `replica.selector.class`.
        """
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


def _error_data(
    requested: FetchPartition, code: ErrorCode, partition: PartitionState | None = None, version: int = 0
) -> PartitionData:
    leader = LeaderIdAndEpoch()
    if partition is not None and version >= 16:  # KIP-951; the field exists since v12, where brokers leave it at -1
        leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return PartitionData(
        partition_index=requested.partition,
        error_code=code,
        high_watermark=-1,
        records=b"",
        aborted_transactions=None,
        current_leader=leader,
    )
