"""Fetch sessions (KIP-227): a broker remembers which partitions a client fetches, so that later requests and responses say only what changed."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from quorate.cluster.changes import Changes
from quorate.cluster.topics import TopicState
from quorate.cluster.turns import Work, parts
from quorate.codecs import Uuid
from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchPartition, PartitionData
from quorate.codecs.api.error_codes import ErrorCode

__all__ = ["INITIAL_EPOCH", "FetchSession", "FetchSessions", "Key", "next_epoch"]

Key = tuple[Hashable, int]
"""A topic, by id or name, and a partition."""

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF
_LARGE = 500
"""A session with more partitions is handled in turns."""
_STALE_MS = 120_000
"""Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS, which is no setting."""


@dataclass(slots=True)
class _Known:
    """What a client was told of a partition last."""

    asked: FetchPartition
    name: str | None = None  # of the topic, of which its requests have the id
    high_watermark: int = -1
    log_start_offset: int = -1
    failed: bool = False


@dataclass(slots=True)
class FetchSession:
    """A session.

    `by_id`: whether its requests name topics by id (KIP-516); `epoch`: what its next request has to
    have; `partitions`: in the order in which they are served: those that got records go behind the
    others.

    `changes`: what large requests do with it, each of them in turns and one after the other.
    """

    id: int
    by_id: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    partitions: dict[Key, _Known] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)

    def begin(self, found: Iterable[tuple[Key, PartitionData]], asked: Mapping[Key, FetchPartition]) -> None:
        """Add partitions of the first request: all of what is `found` is told."""
        for key, data in found:
            self.partitions[key] = _Known(
                asked[key],
                high_watermark=data.high_watermark,
                log_start_offset=data.log_start_offset,
                failed=data.error_code != 0,
            )

    def take(self, changed: Iterable[tuple[Key, FetchPartition]], forgotten: Iterable[Key]) -> None:
        """What a request says of its partitions. One that it asks for and forgets is forgotten."""
        for key, asked in changed:
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = _Known(asked)
            else:
                known.asked = asked
        for key in forgotten:
            self.partitions.pop(key, None)

    def requested(self, topics: Mapping[Uuid, TopicState]) -> dict[Key, FetchPartition]:
        """What is requested of each partition.

        Notes the names of topics: a deleted one is remembered by it.
        """
        return self._requested(self.partitions.items(), topics)

    def requested_in_turns(self, topics: Mapping[Uuid, TopicState]) -> Work[dict[Key, FetchPartition]]:
        """The same in turns."""
        found: dict[Key, FetchPartition] = {}
        for part in parts(list(self.partitions.items())):
            found |= self._requested(part, topics)
            yield None
        return found

    def _requested(
        self, some: Iterable[tuple[Key, _Known]], topics: Mapping[Uuid, TopicState]
    ) -> dict[Key, FetchPartition]:
        for (topic, _), known in some:
            if known.name is None and isinstance(topic, Uuid) and (found := topics.get(topic)) is not None:
                known.name = found.name
        return {key: known.asked for key, known in some}

    def name_of(self, key: Key) -> str | None:
        """Of the topic of a partition, if there was one by its id."""
        known = self.partitions.get(key)
        return None if known is None else known.name

    def worth_telling(self, key: Key, found: PartitionData) -> bool:
        """Whether a partition has to be in the response: it has records, or something about it has changed."""
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
        if found.records:  # its turn was now
            self.partitions[key] = self.partitions.pop(key)
        return changed


def next_epoch(epoch: int) -> int:
    """The one behind: -1 and 0 have a meaning of their own."""
    return 1 if epoch == _LAST_EPOCH else epoch + 1


class FetchSessions:
    """The sessions of a broker, of which there are `most` at a time: only one that is stale, or old and smaller, makes room for another."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._sessions: dict[int, FetchSession] = {}  # that which was used longest ago comes first
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._sessions)

    def of(
        self,
        request: FetchRequest,
        by_id: bool,
        changed: dict[Key, FetchPartition],
        forgotten: list[Key],
        now_ms: int,
    ) -> FetchSession | ErrorCode | None:
        """The session that a request goes on with, `None` without one, or what is wrong with it.

        `changed`, `forgotten`: what the request says of its partitions. A session in which none is
        left is over. A full request ends the session that it names.
        """
        session = self._find(request, by_id)
        if not isinstance(session, FetchSession):
            return session
        session.take(changed.items(), forgotten)
        return self._continue(session, now_ms)

    def take_turns(self, session_id: int) -> bool:
        """Whether a request for a session, however small, is handled in turns."""
        session = self._sessions.get(session_id)
        return session is not None and (len(session.partitions) > _LARGE or session.changes.pending > 0)

    def taking(
        self,
        request: FetchRequest,
        by_id: bool,
        changed: dict[Key, FetchPartition],
        forgotten: list[Key],
        now_ms: int,
        topics: Mapping[Uuid, TopicState],
    ) -> Work[tuple[FetchSession | ErrorCode | None, dict[Key, FetchPartition]]]:
        """The same as `of` in turns, and what is requested of each partition."""

        def take() -> Work[tuple[FetchSession | ErrorCode | None, dict[Key, FetchPartition]]]:
            session = self._find(request, by_id)  # again: another request may have been before
            if not isinstance(session, FetchSession):
                return session, changed
            for part in parts(changed.items()):
                session.take(part, ())
                yield None
            for keys in parts(forgotten):
                session.take((), keys)
                yield None
            if self._continue(session, now_ms) is None:
                return None, changed
            return session, (yield from session.requested_in_turns(topics))

        found = self._find(request, by_id)
        if not isinstance(found, FetchSession):
            return found, changed
        return (yield from found.changes.run(take()))

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
        """Note that a session was used.

        One that was ended or evicted meanwhile serves this request and no other.
        """
        was_there = self._sessions.pop(session.id, None) is not None
        if not session.partitions:
            return None
        if was_there:
            self._sessions[session.id] = session
        session.used_ms = now_ms
        session.epoch = next_epoch(session.epoch)
        return session

    def begin(self, by_id: bool, size: int, now_ms: int) -> FetchSession | None:
        """A new session for so many partitions, if there is room for it: they are to be added."""
        if len(self._sessions) >= self.most and not self._make_room(size, now_ms):
            return None
        session = FetchSession(self._next_id, by_id, now_ms, now_ms)
        self._next_id = self._next_id % _LAST_EPOCH + 1
        self._sessions[session.id] = session
        return session

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Whether a session could go: one that was not used for minutes, or was when it was minutes old, and has fewer partitions than the new one."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms <= _STALE_MS:
            old = [one for one in self._sessions.values() if one.used_ms - one.created_ms > _STALE_MS]
            stalest = min(old, key=lambda one: (len(one.partitions), one.id), default=None)
            if stalest is None or len(stalest.partitions) >= size:
                return False
        del self._sessions[stalest.id]
        return True

    def clear(self) -> None:
        """Forget all, as a broker that restarts does."""
        self._sessions.clear()
