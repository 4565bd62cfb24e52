"""ShareFetch v1–2: a member of a share group acquires records (KIP-932).

A session has the partitions that the member fetches. A request can acknowledge records, too, and
waits for new ones. v2 has acquire modes (KIP-1206) and renews acquisition locks (KIP-1222).
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context
from quorate.cluster.apis.list_offsets import record_at
from quorate.cluster.apis.share_acknowledge import (
    Outcomes,
    acknowledge_all,
    check_member,
    current_leaders,
    readable_topics,
)
from quorate.cluster.share.acquire import acquire
from quorate.cluster.share.configs import duration_ms
from quorate.cluster.share.fetched import FetchedRecords
from quorate.cluster.share.manager import LedSharePartition
from quorate.cluster.share.partition import SharePartitionStatus
from quorate.cluster.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionPartition, ShareSession, next_epoch
from quorate.cluster.share.store import ShareError, ShareOutcome, ShareRequestFailed
from quorate.codecs import Uuid
from quorate.codecs.api.broker import ShareFetchRequest, ShareFetchResponse
from quorate.codecs.api.broker.share_fetch import AcquiredRecords, PartitionData, ShareFetchableTopicResponse
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.topics import PartitionState

__all__: list[str] = []

_ACQUIRE_MODES = (0, 1)
_READ_COMMITTED = "read_committed"
_BY_DURATION = "by_duration:"


def share_fetch(broker: "Broker", request: ShareFetchRequest, context: Context) -> ShareFetchResponse | Pending[Any]:
    """Acknowledge and acquire records, after at most `max_wait_ms` if there are none."""
    code = check_member(broker, request, context)
    if code or (request.is_renew_ack and _renews_and_fetches(request)):
        return ShareFetchResponse(error_code=code or ErrorCode.INVALID_REQUEST)
    response: Pending[Any] = Pending()
    try:
        session = _session(broker, request, context)
    except ShareError as error:
        failed = ShareFetchResponse(error_code=error.outcome.code)
        if error.outcome.code != ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return failed
        at_ms = context.now_ms + request.max_wait_ms  # or the client would try again at once
        broker.cluster.clock.call_at(at_ms, lambda: response.complete(failed))
        return response
    try:
        _ShareFetchRun(broker, request, context, session, response).start()
    except ShareRequestFailed:
        return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    return response


def _renews_and_fetches(request: ShareFetchRequest) -> bool:
    return any((request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms))


def _session(broker: "Broker", request: ShareFetchRequest, context: Context) -> ShareSession | None:
    """Return the session; `None` for a request that closes it. Raises `ShareError`."""
    group_id, member_id = request.group_id or "", request.member_id or ""
    sessions, epoch = broker.share.sessions, request.share_session_epoch
    if epoch == FINAL_EPOCH:
        sessions.get(group_id, member_id)
        return None
    if epoch == INITIAL_EPOCH:
        if _acknowledges(request):
            raise ShareError(ErrorCode.INVALID_REQUEST)
        session = sessions.open(group_id, member_id, context.connection)
        forgotten = []  # a new session has none
    else:
        session = sessions.use(group_id, member_id, epoch)
        forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    added = [(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions]
    session.update(added, forgotten, broker.cluster.topics_by_id)
    return session


def _acknowledges(request: ShareFetchRequest) -> bool:
    return any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions)


@dataclass(slots=True)
class _ShareFetchRun:
    """One request while it is served. `pending`: the response."""

    broker: "Broker"
    request: ShareFetchRequest
    context: Context
    session: ShareSession | None
    pending: Pending[Any]
    data: dict[SessionPartition, PartitionData] = field(default_factory=dict)
    led: dict[SessionPartition, LedSharePartition] = field(default_factory=dict)
    acknowledged: Outcomes | None = None
    _missing: set[Uuid] = field(default_factory=set)
    """Topics of the session that did not exist when the request arrived."""
    _not_loaded: dict[SessionPartition, int] = field(default_factory=dict)
    """Errors of share coordinators, which a broker receives after it returned available records."""
    _fetched: bool = False

    def start(self) -> None:
        """Acknowledge and fetch.

        A broker stores acknowledgements while it fetches: records that a request releases are only
        fetched by the same request if there are no others.

        Raises `ShareRequestFailed` if an acknowledgement does: nothing is fetched then.
        """
        request = self.request
        ids = {topic.topic_id for topic in request.topics}
        if self.session is not None:
            ids |= {topic_id for topic_id, _ in self.session.partitions}
        readable = readable_topics(self.broker, self.context, ids)
        fetches = self.session is not None and not request.is_renew_ack
        stored: Pending[Outcomes] | None = None
        with ExitStack() as held:
            if _acknowledges(request):
                for led in self._known():
                    held.enter_context(led.share.holding())
                stored = acknowledge_all(self.broker, request, self.context, readable)
            done = not fetches or self._begin(readable)
        if stored is not None:
            stored.on_complete(self._acknowledged)
            done = done or (bool(self.led) and self._try())
        else:
            self.acknowledged = {}
        if done:
            self._finish()
            return
        for key, code in self._not_loaded.items():
            self._fail(key, code)
        if self.led:
            self._wait()
        else:
            self._finish()

    def _known(self) -> list[LedSharePartition]:
        """Return the known share-partitions of the request."""
        keys = {(topic.topic_id, one.partition_index) for topic in self.request.topics for one in topic.partitions}
        found = (self.broker.share.find(self.request.group_id or "", *key) for key in keys)
        return [led for led in found if led is not None]

    def _acknowledged(self, outcomes: Outcomes) -> None:
        self.acknowledged = outcomes
        self._respond()

    # ---- partitions

    def _begin(self, readable: Any) -> bool:
        """Begin to fetch; return whether that is all."""
        session, request = self.session, self.request
        assert session is not None
        wants_none = request.max_records == 0 or self._max_bytes() == 0
        some = self._open(session, readable, only_check=wants_none)
        if some and request.share_acquire_mode not in _ACQUIRE_MODES:
            self.led.clear()
            self.pending.complete(ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
            return True
        return wants_none or self._load()

    def _open(self, session: ShareSession, readable: Any, *, only_check: bool) -> bool:
        """Find share-partitions to fetch from, or `only_check`; return whether there are any."""
        topics = self.broker.cluster.topics_by_id
        valid: list[SessionPartition] = []
        for key in session.partitions:
            topic = topics.get(key[0])
            if topic is None:
                self._missing.add(key[0])
                known = key[0] in session.known
                self._fail(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID)
            elif key[0] not in readable:
                self._fail(key, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not 0 <= key[1] < len(topic.partitions):
                self._fail(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                valid.append(key)
        turn = max(self.request.share_session_epoch, 0) % len(valid) if valid else 0
        for key in () if only_check else (*valid[turn:], *valid[:turn]):
            try:
                self.led[key] = self.broker.share.open(session.group_id, topics[key[0]], key[1], self._reset_offset)
            except ShareError as error:
                self._fail(key, error.outcome.code)
        return bool(valid)

    def _load(self) -> bool:
        """Load the state of share-partitions one by one; return whether there are records.

        As on a broker, a response has the first ones with enough records. Those that are loaded
        later are in the response to the next request.
        """
        done = bool(self.led) and self._try()
        for key, led in list(self.led.items()):
            if led.share.status is not SharePartitionStatus.ACTIVE:
                led.share.initialize().on_complete(partial(self._initialized, key, led))
                done = done or (bool(self.led) and self._try())
        return done

    def _initialized(self, key: SessionPartition, led: LedSharePartition, outcome: ShareOutcome) -> None:
        if outcome.code == ErrorCode.LEADER_NOT_AVAILABLE:
            return  # another request loads it
        if outcome.code:
            self.broker.share.forget(self.request.group_id or "", *key)
            self.led.pop(key, None)
            self._not_loaded[key] = outcome.code
        led.notify()

    def _fail(self, key: SessionPartition, code: int) -> None:
        self.data[key] = PartitionData(partition_index=key[1], error_code=code, records=b"")

    def _reset_offset(self, partition: "PartitionState") -> int:
        """Return the start offset of a new group (`share.auto.offset.reset`).

        Raises `ShareError` if no record is as recent.
        """
        log = partition.log
        reset = self.broker.share.configs.of(self.request.group_id or "").auto_offset_reset
        if reset == "earliest":
            return log.start_offset
        if not reset.startswith(_BY_DURATION):
            return log.high_watermark
        since_ms = self.broker.cluster.clock.now_ms() - duration_ms(reset.removeprefix(_BY_DURATION))
        batch = log.offset_for(since_ms, until=log.high_watermark)
        if batch is None:
            raise ShareError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return record_at(batch, since_ms, log.start_offset)[0]

    # ---- reading

    def _max_bytes(self) -> int:
        return min(self.request.max_bytes, self.broker.cluster.broker_configs.number("fetch.max.bytes"))

    def _try(self, *, at_end: bool = False) -> bool:
        """Acquire records if there are enough, or `at_end` any; return whether there were."""
        free = {
            key: led
            for key, led in self.led.items()
            if led.share.status is SharePartitionStatus.ACTIVE and led.share.can_acquire()
        }
        if not free:
            return not self.led
        if self._max_bytes() < 0:
            for key in free:
                self._fail(key, ErrorCode.UNKNOWN_SERVER_ERROR)
            return True
        committed = self.broker.share.configs.of(self.request.group_id or "").isolation_level == _READ_COMMITTED
        left, size, is_urgent = self._max_bytes(), 0, False
        limit = left // len(free) or 1
        found: dict[SessionPartition, tuple[int, FetchedRecords | None]] = {}
        for key, led in free.items():
            offset = led.share.next_fetch_offset
            log = led.partition.log
            if not log.start_offset <= offset <= log.next_offset:
                found[key] = offset, None
                is_urgent = True
                continue
            until = log.last_stable_offset if committed else log.high_watermark
            read = log.read(offset, min(limit, left), until=until, at_least_one=not size)
            aborted = log.aborted_between(offset, read.looked_until) if committed and read.records else ()
            found[key] = offset, FetchedRecords.of(read.records, aborted)
            size += len(read.records)
            left = max(left - len(read.records), 0)
        if not at_end and not is_urgent and size < self.request.min_bytes:
            return False
        self._acquire(found)
        return True

    def _acquire(self, found: dict[SessionPartition, tuple[int, FetchedRecords | None]]) -> None:
        """Acquire what was read."""
        request, count = self.request, 0
        for key, (offset, fetched) in found.items():
            led = self.led[key]
            data = PartitionData(partition_index=key[1], records=b"")
            if fetched is None:
                led.share.log_start_moved(led.partition.log.start_offset)
            else:
                acquired, number = acquire(
                    led.share,
                    request.member_id or "",
                    fetched,
                    mode=request.share_acquire_mode,
                    batch_size=request.batch_size,
                    max_records=request.max_records - count,
                    fetch_offset=offset,
                )
                count += number
                if acquired:
                    data = replace(
                        data,
                        records=fetched.slice(acquired[0].first, acquired[-1].last),
                        acquired_records=tuple(
                            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=times)
                            for first, last, times in acquired
                        ),
                    )
            self.data[key] = data

    # ---- waiting and responding

    def _wait(self) -> None:
        """Finish with enough records, or after `max_wait_ms`."""
        context, cluster = self.context, self.broker.cluster
        waiting: list[dict[Callable[[], object], None]] = []
        for led in self.led.values():
            waiting += [led.waiting, led.partition.log.waiting]

        def end() -> None:
            for listeners in waiting:
                listeners.pop(check, None)
            timer.cancel()
            context.connection.on_lost = None

        def check() -> None:
            if not self._fetched and self._try():
                end()
                self._finish()

        def time_out() -> None:
            end()
            self._try(at_end=True)
            self._finish()

        timer = cluster.clock.call_at(context.now_ms + max(self.request.max_wait_ms, 0), time_out)
        for listeners in waiting:
            listeners[check] = None
        context.connection.on_lost = end

    def _finish(self) -> None:
        self._fetched = True
        self._respond()

    def _respond(self) -> None:
        """Respond when the records are fetched and the acknowledgements are stored."""
        if not self._fetched or self.acknowledged is None or self.pending.done:
            return
        response = self._response(self.acknowledged)
        if self.session is None:
            self.broker.share.release_session(self.request.group_id or "", self.request.member_id or "")
        self.pending.complete(response)

    def _reports_missing(self) -> bool:
        """Return whether a response can have a missing topic.

        Until 4.3, brokers look up its metrics by the missing name, and the request fails. Its
        session and its acquired records remain.
        """
        return self.broker.cluster.broker_configs.behaviour.reports_missing_shared_topics

    def _response(self, acknowledged: Outcomes) -> ShareFetchResponse:
        session, data, code = self.session, self.data, ErrorCode.NONE
        configs = self.broker.share.configs.of(self.request.group_id or "")
        leaders, endpoints = current_leaders(self.broker, {key: one.error_code for key, one in data.items()})
        if session is not None and self.request.share_session_epoch != INITIAL_EPOCH:
            if session.epoch != next_epoch(self.request.share_session_epoch):
                code, data = ErrorCode.INVALID_SHARE_SESSION_EPOCH, {}
            else:
                data = {
                    key: one
                    for key, one in data.items()
                    if session.must_report(key, has_records=bool(one.records), has_error=bool(one.error_code))
                }
        elif session is not None:
            session.partitions = dict.fromkeys(session.partitions, False)
        if any(key[0] in self._missing for key in data) and not self._reports_missing():
            return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        topics: dict[Any, list[PartitionData]] = {}
        for key in (*data, *(key for key in acknowledged if key not in data)):
            one = data.get(key) or PartitionData(partition_index=key[1], records=b"")
            if key in leaders:
                one = replace(one, current_leader=leaders[key])
            if key in acknowledged:
                outcome = acknowledged[key]
                one = replace(one, acknowledge_error_code=outcome.code, acknowledge_error_message=outcome.message)
            topics.setdefault(key[0], []).append(one)
        return ShareFetchResponse(
            error_code=code,
            acquisition_lock_timeout_ms=configs.record_lock_duration_ms,
            responses=tuple(
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
            node_endpoints=endpoints,
        )
