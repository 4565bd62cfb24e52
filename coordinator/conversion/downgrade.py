"""Downgrade of a consumer group to a classic group (KIP-848, "Downgrade").

It happens when its last member of the new protocol leaves, or a classic member replaces it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorate.codecs import CoordinatorRecord, DecodeError
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.classic.groups import group_record
from quorate.coordinator.classic.rebalance import prepare_rebalance, restart_sessions
from quorate.coordinator.consumer.owned import as_target
from quorate.coordinator.conversion.embedded import assignment_for
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.offsets.groups import group_tombstones
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicState
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL


class Replacement(NamedTuple):
    """A static member of the new protocol, and the classic member that replaces it.

    Their member ids may be equal.
    """

    old: ConsumerMember
    new: ConsumerMember


class Converted(NamedTuple):
    """A classic group that has replaced a consumer group.

    `records`: the records of the conversion. `undo`: restores the consumer group if they cannot be
    written.
    """

    group: LiveGroup
    records: list[CoordinatorRecord]
    undo: Callable[[], None]


def downgrade(
    shard: CoordinatorShard, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now_ms: int
) -> Result[None] | None:
    """Downgrade the group, which then rebalances, as these members leave it.

    Returns `None` if it stays a consumer group. Raises `ApiError` GROUP_ID_NOT_FOUND if an
    assignment cannot be encoded.
    """
    config = shard.config
    staying = len(group.members) - len(leaving)
    classic = group.classic_members - sum(member.uses_classic_protocol for member in leaving)
    allowed = config.group_consumer_migration_policy.downgrades and staying <= config.group_max_size
    if not allowed or classic != staying or staying <= 0:
        return None
    downgraded = converted(shard, group, now_ms, leaving=leaving)
    prepare_rebalance(shard, downgraded.group, now_ms)
    return Result(records=downgraded.records, replay=False, on_failed=lambda code: downgraded.undo())


def may_replace(shard: CoordinatorShard, group: ConsumerGroup, old: ConsumerMember) -> bool:
    """Return whether the group is downgraded when a classic member replaces this member."""
    config = shard.config
    last = not old.uses_classic_protocol and group.classic_members == len(group.members) - 1
    return last and config.group_consumer_migration_policy.downgrades and len(group.members) <= config.group_max_size


def converted(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    now_ms: int,
    *,
    leaving: Sequence[ConsumerMember] = (),
    replacement: Replacement | None = None,
) -> Converted:
    """Replace the group by a classic group: stable, at its epoch, with its target assignment.

    Raises `ApiError`.
    """
    records = group_tombstones(group, None if replacement is None else _ids(replacement))
    classic = LiveGroup(group.group_id, since_ms=now_ms)
    classic.phase = ClassicState.STABLE
    classic.generation = group.epoch
    gone = {member.member_id for member in leaving}
    for _, member in group.members.ordered():
        replaced = replacement is not None and member.metadata.instance_id == replacement.new.metadata.instance_id
        if member.member_id not in gone and not replaced:
            classic.add(_live(member), CONSUMER_PROTOCOL)
    if replacement is not None:
        classic.add(_live(replacement.new), CONSUMER_PROTOCOL)
    classic.set_protocol()
    try:
        for live in classic.ordered_members():
            targets_of = live.member_id
            if replacement is not None and targets_of == replacement.new.member_id:
                targets_of = replacement.old.member_id
            if targets_of not in group.targets and not shard.behaviour.follows_target:
                # Kafka before 4.3 fails for a member without a target assignment.
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {targets_of} has no target assignment")
            target = as_target(group.targets.get(targets_of, ()), shard.config.jdk)
            live.assignment = assignment_for(live.protocol_metadata(classic.protocol), target, shard.image)
    except DecodeError:  # only the version of a subscription is decoded
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot downgrade the classic group {group.group_id}: "
            "Buffer underflow while parsing consumer protocol's header.",
        ) from None
    records.append(group_record(classic, {live.member_id: live.assignment for live in classic.members.values()}))
    del shard.state.groups[group.group_id]
    shard.state.groups[group.group_id] = classic
    restart_sessions(shard, classic, now_ms)

    def undo() -> None:
        if shard.state.groups.get(group.group_id) is classic:
            del shard.state.groups[group.group_id]
            shard.state.groups[group.group_id] = group

    return Converted(classic, records, undo)


def _ids(replacement: Replacement) -> tuple[str, str]:
    return replacement.old.member_id, replacement.new.member_id


def _live(member: ConsumerMember) -> LiveMember:
    classic = member.metadata.classic_member_metadata
    if classic is None:  # mapped by an old instance id; Kafka fails, too
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {member.member_id} does not use the classic protocol")
    return LiveMember(
        member_id=member.member_id,
        group_instance_id=member.metadata.instance_id,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        rebalance_timeout_ms=member.metadata.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=tuple(
            JoinGroupRequestProtocol(name=supported_protocol.name, metadata=bytes(supported_protocol.metadata))
            for supported_protocol in classic.supported_protocols
        ),
    )
