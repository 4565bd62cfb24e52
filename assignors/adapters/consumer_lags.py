"""Lags of a group as its leader reads them by its consumer's own connections, for `lag-aware` without a source of lags (KIP-169).

Knows no client.

Servers, security, group and reset policy are those of the consumer. A client's companion gives the
three questions; they have limits of their own.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from quorate.assignors.adapters.membership import Strategy
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.lags import Lags, lags_of
from quorate.assignors.topology import TopicPartition
from quorate.codecs.printable import brief, some_of

__all__ = ["ConsumerLags", "Offsets", "limit_ms", "needs_lags"]

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, int]
Question: TypeAlias = Callable[[Sequence[TopicPartition]], Awaitable[Offsets]]

LIMIT_MS = 3_000
"""How long a rebalance waits for lags at most."""


def needs_lags(strategy: object) -> bool:
    """Whether the assignor goes by lags and was given no source of them."""
    assignor = strategy.assignor if isinstance(strategy, Strategy) else None
    return isinstance(assignor, LagAwareAssignor) and assignor.source is None


def limit_ms(session_timeout_ms: float) -> int:
    """How long a leader may read lags: it sends no heartbeats between JoinGroup and SyncGroup."""
    return max(1, min(LIMIT_MS, int(session_timeout_ms / 3)))


@dataclass(slots=True)
class ConsumerLags:
    """The lags of one group.

    Never raises what a broker or a client says; what was read last stands in for what cannot be
    read.
    """

    group: str
    reset: str
    """`auto_offset_reset`: where a partition without a committed offset is read from."""
    committed: Question
    ends: Question
    starts: Question
    ended: Callable[[], bool] = lambda: False
    """Whether the consumer is closed: what fails then is not worth a warning."""
    _last: dict[TopicPartition, int] = field(default_factory=dict)
    _said: str = ""

    async def of(self, partitions: Sequence[TopicPartition], led: Collection[TopicPartition]) -> Lags:
        """The lags of partitions, of which those `led` have a leader to ask."""
        readable = [at for at in partitions if at in led]
        try:
            found = await self._read(readable)
        except Exception as error:  # noqa: BLE001  # whatever a client raises: it must not end the rebalance
            if not self.ended():
                self._warn("lags could not be read", type(error).__name__, _named(error))
            return {at: self._last[at] for at in partitions if at in self._last}
        if len(readable) < len(partitions):
            missing = [f"{topic}-{number}" for topic, number in partitions if TopicPartition(topic, number) not in led]
            what = f"lags of {len(missing):,} of {len(partitions):,} partitions could not be read"
            self._warn(what, "no leader", f"they have no leader: {some_of(missing)}")
        else:
            self._said = ""
        found = {at: self._last[at] for at in partitions if at in self._last} | found
        self._last = found
        return found

    async def _read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        committed = await self.committed(partitions)
        ends = await self.ends(partitions)
        fresh = [at for at in partitions if at not in committed]
        starts = ends if self.reset == "latest" or not fresh else await self.starts(fresh)
        return lags_of(partitions, committed=committed, ends=ends, starts=starts)

    def _warn(self, what: str, kind: str, reason: str) -> None:
        """Once for each kind of reason, until all lags were read again: a group may rebalance often."""
        if kind == self._said:
            return
        self._said = kind
        log.warning(
            "group %s: %s (%s), so those that were read last count, and others as unknown; look at the brokers, at READ or DESCRIBE on the group and "
            "DESCRIBE on its topics, or give LagAware(lags=...) another source",
            self.group,
            what,
            brief(reason, 1_000),
        )


def _named(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
