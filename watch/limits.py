"""When an observer reports events that no single record shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """When events are reported.

    `stuck_ms`: for a rebalance that has not ended. `flapping_joins` within `flapping_ms`: for one
    client. `session_ms`: the session timeout of members of consumer groups, whose records do not
    have it. `retention_ms`: `offsets.retention.minutes` of the brokers. `lag_ms`: for lags in time.
    """

    stuck_ms: int = 5 * 60_000
    flapping_joins: int = 3
    flapping_ms: int = 5 * 60_000
    session_ms: int = 45_000
    retention_ms: int = 7 * 24 * 3_600_000
    lag_ms: int | None = None
