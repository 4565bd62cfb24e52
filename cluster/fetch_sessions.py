"""Fetch sessions (KIP-227): a broker remembers the partitions that a client fetches.

Later requests and responses contain only what changed.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field

from quorate.cluster.changes import Changes
from quorate.cluster.topics import TopicState
from quorate.cluster.turns import Work, chunks
from quorate.codecs import Uuid
from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchPartition, PartitionData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.lazy_dataclass import dataclass

Key = tuple[Hashable, int]
"""A topic, by id or name, and a partition."""

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF
_LARGE = 500
"""Sessions with more partitions are handled in turns."""
_STALE_MS = 120_000
"""Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS, which is not configurable."""


@dataclass(slots=True)
class _CachedPartition:
    """A partition of a session: what the client requests, and what it was last sent."""

    fetch: FetchPartition
    name: str | None = None  # of the topic, if requests have its id
    high_watermark: int = -1
    log_start_offset: int = -1
    failed: bool = False


@dataclass(slots=True)
class FetchSession:
    """A fetch session.

    `by_id`: whether requests identify topics by id (KIP-516). `epoch`: the expected epoch of the
    next request. `partitions`: in the order in which they are served; those that returned records
    move to the end.

    `changes`: updates by large requests, which run in turns, one at a time.
    """

    id: int
    by_id: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    partitions: dict[Key, _CachedPartition] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)

    def begin(self, found: Iterable[tuple[Key, PartitionData]], requested: Mapping[Key, FetchPartition]) -> None:
        """Add partitions of a full request, whose response contains all that was found."""
        for key, data in found:
            self.partitions[key] = _CachedPartition(
                requested[key],
                high_watermark=data.high_watermark,
                log_start_offset=data.log_start_offset,
                failed=data.error_code != 0,
            )

    def update(self, changed: Iterable[tuple[Key, FetchPartition]], forgotten: Iterable[Key]) -> None:
        """Add, change and remove partitions; one that is both changed and forgotten is removed."""
        for key, fetch in changed:
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = _CachedPartition(fetch)
            else:
                known.fetch = fetch
        for key in forgotten:
            self.partitions.pop(key, None)

    def requested(self, topics: Mapping[Uuid, TopicState]) -> dict[Key, FetchPartition]:
        """Return what is requested of each partition.

        Stores the names of topics, so that they remain known after a deletion.
        """
        return self._requested(self.partitions.items(), topics)

    def requested_in_turns(self, topics: Mapping[Uuid, TopicState]) -> Work[dict[Key, FetchPartition]]:
        """Return what is requested of each partition, computed in turns."""
        found: dict[Key, FetchPartition] = {}
        for part in chunks(list(self.partitions.items())):
            found |= self._requested(part, topics)
            yield None
        return found

    def _requested(
        self, some: Iterable[tuple[Key, _CachedPartition]], topics: Mapping[Uuid, TopicState]
    ) -> dict[Key, FetchPartition]:
        for (topic, _), known in some:
            if known.name is None and isinstance(topic, Uuid) and (found := topics.get(topic)) is not None:
                known.name = found.name
        return {key: known.fetch for key, known in some}

    def name_of(self, key: Key) -> str | None:
        """Return the topic name of a partition, if a topic with its id has existed."""
        known = self.partitions.get(key)
        return None if known is None else known.name

    def must_report(self, key: Key, found: PartitionData) -> bool:
        """Return whether the response must contain a partition: it has records, or has changed."""
        known = self.partitions.get(key)
        if known is None:
            return False
        changed = (
            bool(found.records)
            or found.error_code != 0
            or known.failed
            or found.high_watermark != known.high_watermark
            or found.log_start_offset != known.log_start_offset
            or found.preferred_read_replica != -1
            or found.diverging_epoch.end_offset != -1
        )
        known.high_watermark, known.log_start_offset = found.high_watermark, found.log_start_offset
        known.failed = found.error_code != 0
        if found.records:  # move it to the end
            self.partitions[key] = self.partitions.pop(key)
        return changed


def next_epoch(epoch: int) -> int:
    """Return the epoch after another; -1 and 0 have special meanings."""
    return 1 if epoch == _LAST_EPOCH else epoch + 1


class FetchSessions:
    """The sessions of a broker, at most `limit` of them.

    A new session can evict one that is stale, or one that is old and smaller.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions(self, session_id: int) -> tuple[Key, ...]:
        """Return the partitions of a session; none if it does not exist."""
        session = self._sessions.get(session_id)
        return () if session is None else tuple(session.partitions)

    def update(
        self,
        request: FetchRequest,
        by_id: bool,
        changed: dict[Key, FetchPartition],
        forgotten: list[Key],
        now_ms: int,
    ) -> FetchSession | ErrorCode | None:
        """Return the session of an incremental request, `None` without one, or an error code.

        `changed`, `forgotten`: partitions in the request. A session without partitions ends. A full
        request ends the session that it names.
        """
        session = self._find(request, by_id)
        if not isinstance(session, FetchSession):
            return session
        session.update(changed.items(), forgotten)
        return self._continue(session, now_ms)

    def needs_turns(self, session_id: int) -> bool:
        """Return whether requests of a session are handled in turns, whatever their size."""
        session = self._sessions.get(session_id)
        return session is not None and (len(session.partitions) > _LARGE or session.changes.pending > 0)

    def update_in_turns(
        self,
        request: FetchRequest,
        by_id: bool,
        changed: dict[Key, FetchPartition],
        forgotten: list[Key],
        now_ms: int,
        topics: Mapping[Uuid, TopicState],
    ) -> Work[tuple[FetchSession | ErrorCode | None, dict[Key, FetchPartition]]]:
        """Run `update` in turns; return also what is requested of each partition."""

        def update() -> Work[tuple[FetchSession | ErrorCode | None, dict[Key, FetchPartition]]]:
            session = self._find(request, by_id)  # again: another request may have come first
            if not isinstance(session, FetchSession):
                return session, changed
            for part in chunks(changed.items()):
                session.update(part, ())
                yield None
            for keys in chunks(forgotten):
                session.update((), keys)
                yield None
            if self._continue(session, now_ms) is None:
                return None, changed
            return session, (yield from session.requested_in_turns(topics))

        found = self._find(request, by_id)
        if not isinstance(found, FetchSession):
            return found, changed
        return (yield from found.changes.run(update()))

    def _find(self, request: FetchRequest, by_id: bool) -> FetchSession | ErrorCode | None:
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            return None
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id is not by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def _continue(self, session: FetchSession, now_ms: int) -> FetchSession | None:
        """Advance a session to its next epoch.

        A session that has ended or was evicted meanwhile serves only this request.
        """
        exists = self._sessions.pop(session.id, None) is not None
        if not session.partitions:
            return None
        if exists:
            self._sessions[session.id] = session
        session.used_ms = now_ms
        session.epoch = next_epoch(session.epoch)
        return session

    def begin(self, by_id: bool, size: int, now_ms: int) -> FetchSession | None:
        """Create a session without partitions for `size` of them; `None` if none can be evicted."""
        if len(self._sessions) >= self.limit and not self._evict(size, now_ms):
            return None
        session = FetchSession(self._next_id, by_id, now_ms, now_ms)
        self._next_id = self._next_id % _LAST_EPOCH + 1
        self._sessions[session.id] = session
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Evict a session that is stale, or old and with fewer partitions than the new one."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms <= _STALE_MS:
            old = [session for session in self._sessions.values() if session.used_ms - session.created_ms > _STALE_MS]
            stalest = min(old, key=lambda one: (len(one.partitions), one.id), default=None)
            if stalest is None or len(stalest.partitions) >= size:
                return False
        del self._sessions[stalest.id]
        return True

    def clear(self) -> None:
        """Forget all sessions, as a broker that restarts."""
        self._sessions.clear()
