"""Reads a group's lags for its leader through the consumer's connections. Knows no client.

Used for `lag-aware` without a lag source (KIP-169). Servers, security, group and reset policy are
those of the consumer. A client's companion provides three functions that read offsets within a time
limit.
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

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[TopicPartition, int]
OffsetReader: TypeAlias = Callable[[Sequence[TopicPartition]], Awaitable[Offsets]]

LIMIT_MS = 3_000
"""The longest time that a rebalance waits for lags."""


def needs_lags(strategy: object) -> bool:
    """Return whether the assignor uses lags and has no source of them."""
    assignor = strategy.assignor if isinstance(strategy, Strategy) else None
    return isinstance(assignor, LagAwareAssignor) and assignor.source is None


def limit_ms(session_timeout_ms: float) -> int:
    """Return how long a leader may read lags.

    It sends no heartbeats between JoinGroup and SyncGroup.
    """
    return max(1, min(LIMIT_MS, int(session_timeout_ms / 3)))


@dataclass(slots=True)
class ConsumerLags:
    """The lags of one group.

    Does not raise errors of brokers or the client. Lags that cannot be read keep their last value.
    """

    group: str
    reset: str
    """`auto_offset_reset`: where a partition without a committed offset is read from."""
    committed: OffsetReader
    ends: OffsetReader
    starts: OffsetReader
    closed: Callable[[], bool] = lambda: False
    """Whether the consumer is closed; errors after that are not logged."""
    _last: dict[TopicPartition, int] = field(default_factory=dict)
    _last_warning: str = ""

    async def of(self, partitions: Sequence[TopicPartition], with_leader: Collection[TopicPartition]) -> Lags:
        """Return the lags of partitions; only those in `with_leader` are read."""
        readable = [at for at in partitions if at in with_leader]
        try:
            found = await self._read(readable)
        except Exception as error:  # noqa: BLE001  # any error of a client: it must not end the rebalance
            if not self.closed():
                self._warn("lags could not be read", type(error).__name__, _named(error))
            return {at: self._last[at] for at in partitions if at in self._last}
        if len(readable) < len(partitions):
            missing = [
                f"{topic}-{number}" for topic, number in partitions if TopicPartition(topic, number) not in with_leader
            ]
            what = f"lags of {len(missing):,} of {len(partitions):,} partitions could not be read"
            self._warn(what, "no leader", f"they have no leader: {some_of(missing)}")
        else:
            self._last_warning = ""
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
        """Log a warning, once per kind of cause until all lags are read again."""
        if kind == self._last_warning:
            return
        self._last_warning = kind
        log.warning(
            "group %s: %s (%s); using the lags read last, others count as unknown. "
            "Check the brokers, READ or DESCRIBE on the group and "
            "DESCRIBE on its topics, or give LagAware(lags=...) another source",
            self.group,
            what,
            brief(reason, 1_000),
        )


def _named(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
