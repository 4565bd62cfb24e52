"""What becomes of classic groups when their log has been loaded, and when another broker loads it."""

from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.groups import alive
from quorate.coordinator.classic.rebalance import heard_of_all, prepare_rebalance
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup

__all__ = ["bring_to_life", "let_go"]


def bring_to_life(shard: CoordinatorShard, group: ClassicGroup, now_ms: int) -> None:
    """Everybody's session starts anew. A group that is larger than is allowed now rebalances, so that it becomes smaller."""
    if not group.members:
        return
    live = alive(shard, group, now_ms)
    heard_of_all(shard, live, now_ms)
    if len(live.members) > shard.config.group_max_size:
        prepare_rebalance(shard, live, now_ms)


def let_go(shard: CoordinatorShard) -> None:
    """Whoever waits for an answer has to ask the new coordinator."""
    for _, group in shard.state.groups.ordered():
        if isinstance(group, LiveGroup):
            group.answer_all(ErrorCode.NOT_COORDINATOR)
