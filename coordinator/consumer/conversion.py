"""Where consumer groups meet classic ones (online migration, KIP-848 "Migration").

A group with members of both protocols is a consumer group. It becomes one when a member of the new protocol joins a classic group (upgrade), and a classic
one again when its last member of the new protocol goes (downgrade).
"""

from collections.abc import Callable, Sequence

from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.classic_group import GroupMetadataKey
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.records import tombstone
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember

__all__ = ["DOWNGRADES", "UPGRADES", "downgraded", "group_for"]

Upgrade = Callable[[CoordinatorShard, ClassicGroup, list[CoordinatorRecord], int], ConsumerGroup]
Downgrade = Callable[[CoordinatorShard, ConsumerGroup, Sequence[ConsumerMember], int], Result[None] | None]

UPGRADES: list[Upgrade] = []
"""Makes a consumer group of a classic group with members, appends the records of that, and gets the time in ms. Raises `ApiError` GROUP_ID_NOT_FOUND where the
group cannot become one. Without an entry none can."""

DOWNGRADES: list[Downgrade] = []
"""Makes a classic group of a consumer group that these members leave, if it has to become one; `None` if it stays what it is."""


def group_for(
    shard: CoordinatorShard, group_id: str, records: list[CoordinatorRecord], now_ms: int, *, create: bool
) -> ConsumerGroup:
    """The consumer group; with `create` a new one, in the place of an empty classic group if there is one.

    Raises `ApiError` GROUP_ID_NOT_FOUND if there is none, or it is of another kind.
    """
    group = shard.state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None and create:
        return _new(shard, group_id)
    if isinstance(group, ClassicGroup) and create:
        if group.is_empty:
            records.append(tombstone(GroupMetadataKey(group=group_id)))
            return _new(shard, group_id)
        for upgrade in UPGRADES:
            return upgrade(shard, group, records, now_ms)
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")


def _new(shard: CoordinatorShard, group_id: str) -> ConsumerGroup:
    group = ConsumerGroup(group_id)
    group.epoch = group.assignment_epoch = shard.behaviour.first_epoch
    return group


def downgraded(
    shard: CoordinatorShard, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now_ms: int
) -> Result[None] | None:
    """What makes the group a classic one when these members leave it; `None` if it stays a consumer group."""
    for downgrade in DOWNGRADES:
        return downgrade(shard, group, leaving, now_ms)
    return None
