"""The timer by which offsets and groups expire: every `offsets.retention.check.interval.ms`, what is in `CLEAN_UP` is done."""

from quorate.coordinator.results import Result
from quorate.coordinator.shard import CLEAN_UP, ON_LOADED, CoordinatorShard

__all__ = ["schedule_expiry"]


def schedule_expiry(shard: CoordinatorShard, now_ms: int) -> Result[None]:
    """Set the timer, which sets itself again."""
    interval_ms = shard.config.offsets_retention_check_interval_ms
    shard.timers.schedule("expire-group-metadata", now_ms + interval_ms, shard.clean_up, retry_ms=interval_ms)
    return Result()


ON_LOADED.append(schedule_expiry)
CLEAN_UP.append(schedule_expiry)
