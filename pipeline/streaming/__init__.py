"""Jobs on streams: changes of groups, rebalances and lags, and alerts.

State is in Spark's checkpoint, so a query resumes after it was killed.
"""

from quorate.pipeline.streaming.alerts import ALERTS, alerts
from quorate.pipeline.streaming.lag import LAG_CHANGES, latest_lag, stream_lag
from quorate.pipeline.streaming.rebalances import REBALANCE_CHANGES, latest_rebalances, stream_rebalances
from quorate.pipeline.streaming.state import STATE_CHANGES, latest_state, stream_group_state

__all__ = [
    "ALERTS",
    "LAG_CHANGES",
    "REBALANCE_CHANGES",
    "STATE_CHANGES",
    "alerts",
    "latest_lag",
    "latest_rebalances",
    "latest_state",
    "stream_group_state",
    "stream_lag",
    "stream_rebalances",
]
