"""Fetch sessions (KIP-227): a broker remembers which partitions a client fetches, so that later requests and responses say only what changed."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchPartition, PartitionData
from quorate.codecs.api.error_codes import ErrorCode

__all__ = ["FINAL_EPOCH", "FetchSession", "FetchSessions", "Key"]

Key = tuple[Hashable, int]
"""A topic, by id or name, and a partition."""

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF


@dataclass(slots=True)
class _Known:
    """What a client was told of a partition last."""

    asked: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    failed: bool = False


@dataclass(slots=True)
class FetchSession:
    """A session. `by_id`: whether its requests name topics by id (KIP-516); `epoch`: what its next request has to have; `partitions`: in the order in which they are served: those that got records go behind the others."""

    id: int
    by_id: bool
    epoch: int = 1
    partitions: dict[Key, _Known] = field(default_factory=dict)

    def take(self, changed: dict[Key, FetchPartition], forgotten: list[Key]) -> None:
        """What a request says of its partitions. One that it asks for and forgets is forgotten."""
        for key, asked in changed.items():
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = _Known(asked)
            else:
                known.asked = asked
        for key in forgotten:
            self.partitions.pop(key, None)

    def worth_telling(self, key: Key, found: PartitionData) -> bool:
        """Whether a partition has to be in the response: it has records, or something about it has changed."""
        known = self.partitions[key]
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


class FetchSessions:
    """The sessions of a broker, of which there are `most` at a time; the one that was used longest ago makes room."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._sessions: dict[int, FetchSession] = {}
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._sessions)

    def of(self, request: FetchRequest, by_id: bool) -> FetchSession | ErrorCode | None:
        """The session of a request: a new one, the one it names, `None` without one, or what is wrong with it."""
        if request.session_epoch == FINAL_EPOCH:
            if request.session_id:
                self._sessions.pop(request.session_id, None)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return self._new(by_id)
        session = self._sessions.pop(request.session_id, None)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._sessions[session.id] = session  # used last
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id is not by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        return session

    def clear(self) -> None:
        """Forget all, as a broker that restarts does."""
        self._sessions.clear()

    def _new(self, by_id: bool) -> FetchSession | None:
        if self.most <= 0:
            return None
        while len(self._sessions) >= self.most:
            del self._sessions[next(iter(self._sessions))]
        session = FetchSession(self._next_id, by_id)
        self._next_id = self._next_id % _LAST_EPOCH + 1
        self._sessions[session.id] = session
        return session
