"""Share sessions of a broker: which partitions each member fetches (KIP-932).

A session belongs to a member of a group, and to the connection that opened it. Its epoch grows with
each request.
"""

from collections.abc import Container, Hashable, Iterable
from dataclasses import field

from quorate.cluster.share.store import ShareError
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.lazy_dataclass import dataclass

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF

SessionPartition = tuple[Uuid, int]
"""Topic id and partition."""


@dataclass(slots=True)
class ShareSession:
    """A session. `epoch`: that of the next request. `connection`: the one that opened it.

    `partitions`: partition → whether the response must contain it, in the order of fetches.
    `known`: the ids of topics that existed when they were added.
    """

    group_id: str
    member_id: str
    connection: Hashable
    epoch: int = 1
    partitions: dict[SessionPartition, bool] = field(default_factory=dict)
    known: set[Uuid] = field(default_factory=set)

    def update(
        self, added: Iterable[SessionPartition], forgotten: Iterable[SessionPartition], topics: Container[Uuid]
    ) -> None:
        """Add and remove partitions. `topics`: the ids of existing topics."""
        for one in added:
            self.partitions.setdefault(one, True)
            if one[0] in topics:
                self.known.add(one[0])
        for one in forgotten:
            self.partitions.pop(one, None)

    def must_report(self, one: SessionPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the response must contain a partition: it has records, is new, or failed.

        A partition with records moves to the end.
        """
        if one not in self.partitions:
            return True  # forgotten by a later request
        must = has_records or has_error or self.partitions[one]
        self.partitions[one] = has_error
        if has_records:
            self.partitions[one] = self.partitions.pop(one)
        return must


class ShareSessions:
    """The share sessions of a broker, at most `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._opened: dict[Hashable, tuple[str, str]] = {}  # the last session that a connection opened

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> ShareSession:
        """Return a member's session. Raises `ShareError`."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def open(self, group_id: str, member_id: str, connection: Hashable) -> ShareSession:
        """Open a session instead of the member's former one. Raises `ShareError`."""
        key = group_id, member_id
        self._sessions.pop(key, None)
        if len(self._sessions) >= self.most:
            raise ShareError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(group_id, member_id, connection)
        self._opened[connection] = key
        return session

    def use(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session of a request with an epoch, and expect the next epoch.

        Raises `ShareError`.
        """
        session = self.get(group_id, member_id)
        if session.epoch != epoch:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session

    def close(self, group_id: str, member_id: str) -> ShareSession | None:
        """Remove a member's session, and return it if there was one."""
        return self._sessions.pop((group_id, member_id), None)

    def connection_closed(self, connection: Hashable) -> tuple[str, ShareSession | None] | None:
        """Return the group of the session that a connection opened last, and the session.

        The session is `None` if it ended before.
        """
        key = self._opened.pop(connection, None)
        if key is None:
            return None
        session = self._sessions.get(key)
        return key[0], session if session is not None and session.connection is connection else None

    def has_members(self, group_id: str) -> bool:
        """Return whether a group has sessions."""
        return any(group == group_id for group, _ in self._sessions)

    def clear(self) -> None:
        """Remove all sessions."""
        self._sessions.clear()
        self._opened.clear()


def next_epoch(epoch: int) -> int:
    """Return the epoch after one that is neither the first nor the last."""
    return 1 if epoch == _LAST_EPOCH else epoch + 1
