"""Timers of members of consumer, share and streams groups: sessions, and time to revoke.

They start again after a load. What removing a member does is defined by the type of group.
"""

from collections.abc import Callable
from typing import Any

from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.modern import ModernGroup
from quorate.coordinator.timers import Timer

REBALANCE_TIMER = "rebalance-timeout-%s-%s"
JOIN_TIMER = "join-%s-%s"
SYNC_TIMER = "sync-%s-%s"
"""Keys of a member's timers, by group and member id.

Members that use the classic protocol have join and sync timers.
"""


def session_timer(group_id: str, member_id: str) -> str:
    """Return the key of a member's session timer."""
    return f"session-timeout-{group_id}-{member_id}"


def cancel_timers(shard: CoordinatorShard, group_id: str, member_id: str) -> None:
    """Cancel the timers of a removed member."""
    shard.timers.cancel(session_timer(group_id, member_id))
    for key in (REBALANCE_TIMER, JOIN_TIMER, SYNC_TIMER):
        shard.timers.cancel(key % (group_id, member_id))


@dataclass(slots=True)  # each member has one: in slots, it takes a quarter of a `partial`'s memory
class FenceMember:
    """A timer's operation: removes a member, if it still exists and has this epoch.

    `epoch`: `None` for any.
    """

    sessions: "Sessions"
    shard: CoordinatorShard
    group_id: str
    member_id: str
    epoch: int | None = None

    def __call__(self, now_ms: int) -> Result[None]:
        """Return the records that remove the member."""
        return self.sessions.fence_if_present(self.shard, self.group_id, self.member_id, now_ms, self.epoch)


class Sessions:
    """The timers of members of one type of group.

    `timeout`: the field of the config with the session timeout. `fence`: removes a member.
    `revoking`: the state of a member that must revoke partitions or tasks, if there is one.
    """

    def __init__(
        self,
        kind: type[ModernGroup[Any, Any]],
        timeout: str,
        fence: Callable[[CoordinatorShard, Any, Any, int], Result[None]],
        revoking: object = None,
    ) -> None:
        self._kind = kind
        self._timeout = timeout
        self._fence = fence
        self._revoking = revoking

    def start(
        self, shard: CoordinatorShard, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None
    ) -> Timer:
        """Restart the member's session; it is fenced after `timeout_ms`, by default the group's.

        Returns its timer.
        """
        if timeout_ms is None:
            timeout_ms = shard.config_of(group_id, self._timeout)
        return self._fence_at(shard, group_id, member_id, now_ms + timeout_ms)

    def _fence_at(self, shard: CoordinatorShard, group_id: str, member_id: str, at_ms: int) -> Timer:
        # A timer with this key may be that of an earlier group of another type.
        key, fence = session_timer(group_id, member_id), FenceMember(self, shard, group_id, member_id)
        return shard.timers.schedule(key, at_ms, fence)

    def watch_revocation(self, shard: CoordinatorShard, group_id: str, member: Any, now_ms: int) -> None:
        """Fence a member that does not revoke within its rebalance timeout.

        The timer is set while the member has something to revoke at its epoch, and cancelled
        otherwise.
        """
        key = REBALANCE_TIMER % (group_id, member.member_id)
        if member.state is not self._revoking:
            shard.timers.cancel(key)
            return
        expire = FenceMember(self, shard, group_id, member.member_id, member.epoch)
        timeout_ms = -1 if member.metadata is None else member.metadata.rebalance_timeout_ms
        shard.timers.schedule(key, now_ms + timeout_ms, expire)

    def fence_if_present(
        self, shard: CoordinatorShard, group_id: str, member_id: str, now_ms: int, epoch: int | None
    ) -> Result[None]:
        """Remove the member, if it still exists and has this epoch (`None`: any)."""
        group = shard.state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, self._kind) else None
        if member is None or epoch not in (None, member.epoch):
            return Result()
        return self._fence(shard, group, member, now_ms)

    def restart(self, shard: CoordinatorShard, group: ModernGroup[Any, Any], now_ms: int) -> None:
        """Start the timers of all members after a load."""
        at_ms = now_ms + shard.config_of(group.group_id, self._timeout)  # one number for all members
        for member_id, member in group.members.ordered():
            self._fence_at(shard, group.group_id, member_id, at_ms)
            if self._revoking is not None and member.state is self._revoking:
                self.watch_revocation(shard, group.group_id, member, now_ms)
