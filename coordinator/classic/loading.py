"""What becomes of classic groups when their log has been loaded."""

from quorate.coordinator.classic.groups import alive
from quorate.coordinator.classic.rebalance import heard_of_all, prepare_rebalance
from quorate.coordinator.shard import CoordinatorShard, when_loaded
from quorate.coordinator.state.classic import ClassicGroup

__all__ = ["bring_to_life"]


@when_loaded(ClassicGroup)
def bring_to_life(shard: CoordinatorShard, group: ClassicGroup, now_ms: int) -> None:
    """Everybody's session starts anew. A group that is larger than is allowed now rebalances, so that it becomes smaller."""
    if not group.members:
        return
    live = alive(shard, group, now_ms)
    heard_of_all(shard, live, now_ms)
    if len(live.members) > shard.config.group_max_size:
        prepare_rebalance(shard, live, now_ms)
