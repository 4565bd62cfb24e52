"""The timer of a streams group. Those of its members have the keys of consumer groups."""

from quorate.coordinator.shard import CoordinatorShard

INITIAL_DELAY_TIMER = "initial-rebalance-timeout-%s"
"""Key of a group's timer for its first target assignment."""


def cancel_initial_delay(shard: CoordinatorShard, group_id: str) -> None:
    """Cancel the timer of a group that is deleted."""
    shard.timers.cancel(INITIAL_DELAY_TIMER % group_id)
