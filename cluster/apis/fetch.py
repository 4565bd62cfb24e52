"""Fetch v4–18: records up to the high watermark or the last stable offset (KIP-98), limits on bytes (KIP-74), and waiting for records.

With sessions (KIP-227), leader epochs (KIP-320), and reading from the replica in the client's rack (KIP-392). v12 tells where a log diverged and where the leader is,
v13 names topics by id. Replicas of the embedded cluster share a log, so brokers do not fetch from each other.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context, answers
from quorate.cluster.authorizer import Operation
from quorate.cluster.fetch_sessions import INITIAL_EPOCH, FetchSession, Key, next_epoch
from quorate.cluster.topics import PartitionState, TopicState
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
    from quorate.cluster.authorization import Access
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_READ_COMMITTED = 1
_TELLS_DIVERGENCE = 12
"""A session may go on with a version that does not, though it began with one that asks."""
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_RACK_AWARE = "RackAwareReplicaSelector"


@answers(FetchRequest)
def fetch(broker: "Broker", request: FetchRequest, context: Context) -> FetchResponse | Pending[Any]:
    """Records that are there; if they are too few, those that come within `max_wait_ms`."""
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
        session.resolve(broker.cluster.topics_by_id)
        asked = {key: known.asked for key, known in session.partitions.items()}
    turn = _Turn(broker, request, context, session, asked)
    if context.access is not None:
        turn.authorize(context.access)
    found = turn.read()
    if request.max_wait_ms <= 0 or turn.is_enough(found) or not asked:
        return turn.response(found)
    return turn.wait()


@dataclass(slots=True)
class _Turn:
    """One request while it is served."""

    broker: "Broker"
    request: FetchRequest
    context: Context
    session: FetchSession | None
    asked: dict[Key, FetchPartition]
    denied: frozenset[str] = frozenset()
    """Names of topics that the client may not read."""

    def authorize(self, access: "Access") -> None:
        """Find out which topics the client may read; a replica has to be a broker's."""
        named = (self._name_of(self._find(key)[0], key) for key in self.asked)
        names = frozenset(name for name in named if name is not None)
        if max(self.request.replica_id, self.request.replica_state.replica_id) >= 0:
            self.denied = frozenset() if access.may_with_cluster(Operation.CLUSTER_ACTION) else names
        else:
            self.denied = names - access.topics(Operation.READ, names)

    def read(self) -> dict[Key, PartitionData]:
        """What each partition gives."""
        left = min(self.request.max_bytes, self.broker.cluster.settings.number("fetch.max.bytes"))
        found: dict[Key, PartitionData] = {}
        first = True
        for key, asked in self.asked.items():
            data = self._partition(key, asked, left, first)
            left = max(left - len(data.records or b""), 0)
            first = first and not data.records
            found[key] = data
        return found

    def is_enough(self, found: dict[Key, PartitionData]) -> bool:
        """Whether to answer now: there are records enough, an error, or something else to tell."""
        size = 0
        for data in found.values():
            if data.error_code or data.preferred_read_replica != -1 or data.diverging_epoch.end_offset != -1:
                return True
            size += len(data.records or b"")
        return size >= max(self.request.min_bytes, 1) or self.request.min_bytes <= 0

    def wait(self) -> Pending[Any]:
        """Answer when there is enough, or the time is over."""
        pending: Pending[Any] = Pending()
        connection = self.context.connection
        logs = [partition.log for key in self.asked if (partition := self._find(key)[1]) is not None]

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

    def response(self, found: dict[Key, PartitionData]) -> FetchResponse:
        """What is told: in a session that goes on, only what is worth it."""
        session, told = self.session, found
        by_id = self.context.api_version >= 13
        if session is not None:
            if session.epoch != next_epoch(self.request.session_epoch):  # somebody has gone on with it meanwhile
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
            told = {key: data for key, data in found.items() if session.worth_telling(key, data)}
        elif self.request.session_epoch == INITIAL_EPOCH:
            session = self.broker.fetch_sessions.begin(by_id, self.asked, found, self.broker.cluster.clock.now_ms())
            if session is not None:
                session.resolve(self.broker.cluster.topics_by_id)
        if by_id and Uuid.ZERO in [name for (name, _), data in told.items() if data.error_code in _NOT_THERE][:-1]:
            # What is not there comes last, and brokers fail over whatever comes behind a topic that has neither id nor name.
            return FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        topics: dict[Hashable, list[PartitionData]] = {}
        for (topic, _), data in told.items():
            topics.setdefault(topic, []).append(data)
        moved = self._moved(told) if self.context.api_version >= 16 else ()
        return FetchResponse(
            session_id=0 if session is None else session.id,
            responses=tuple(
                FetchableTopicResponse(
                    topic="" if by_id else str(name),
                    topic_id=name if by_id and isinstance(name, Uuid) else Uuid.ZERO,
                    partitions=tuple(parts),
                )
                for name, parts in topics.items()
            ),
            node_endpoints=moved,
        )

    def _moved(self, told: dict[Key, PartitionData]) -> tuple[NodeEndpoint, ...]:
        leaders = {data.current_leader.leader_id for data in told.values() if data.current_leader.leader_id >= 0}
        brokers = [self.broker.cluster.brokers[one] for one in sorted(leaders)]
        return tuple(
            NodeEndpoint(node_id=one.id, host=one.host, port=one.port, rack=one.rack) for one in brokers if one.alive
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
        if self.denied and self._name_of(topic, key) in self.denied:
            return replace(_failed(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED), aborted_transactions=())
        if partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None and self.context.api_version >= 13:
                name = None if self.session is None else self.session.name_of(key)
                if name is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                elif self.broker.cluster.partition(name, asked.partition) is not None:
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
            # Less room than for a batch: brokers take the part of it away again, and all that they know of it.
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
            or not cluster.settings.get("replica.selector.class").endswith(_RACK_AWARE)
        ):
            return None
        return next(
            (one for one in partition.in_sync if (found := cluster.brokers[one]).alive and found.rack == rack), None
        )


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
