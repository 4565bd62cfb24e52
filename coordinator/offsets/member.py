"""Checks whether a member may commit or fetch a group's offsets."""

from quorate.coordinator.classic.groups import check_member
from quorate.coordinator.consumer.checks import existing_member
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state import ClassicGroup, ClassicState, ConsumerGroup, ConsumerMember, CoordinatorGroup

__all__ = ["TRANSACTION_MEMBER_EPOCHS", "check_commit", "check_fetch", "stale"]

TRANSACTION_MEMBER_EPOCHS = 6
"""First version of TxnOffsetCommit with STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND (KIP-1319)."""


def check_commit(
    group: CoordinatorGroup,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    transactional: bool,
    api_version: int,
    per_partition: bool,
) -> ConsumerMember | None:
    """Raise `ApiError` if a commit is rejected as a whole.

    Returns the member if its partitions must be checked. `per_partition`: check them for a commit
    with an older epoch, as since 4.3 (KIP-1251); before, such a commit is rejected.
    """
    match group:
        case ConsumerGroup():
            member = _check_consumer(
                group, member_id, instance_id, epoch, transactional=transactional, api_version=api_version
            )
            if member is not None and not per_partition:
                raise _stale_epoch(member, only_generations=transactional and api_version < TRANSACTION_MEMBER_EPOCHS)
            return member
        case ClassicGroup():
            _check_classic(group, member_id, instance_id, epoch, transactional=transactional)
            return None
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id} is a {group.kind.lower()} group")


def _check_consumer(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    *,
    transactional: bool,
    api_version: int,
) -> ConsumerMember | None:
    if epoch < 0 and not group.members:
        return None
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return None
    member = existing_member(group, member_id)
    if not transactional and not member.uses_classic_protocol and api_version < 9:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, "members of the consumer protocol require OffsetCommit v9 or later"
        )
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _stale_epoch(member, only_generations=transactional and api_version < TRANSACTION_MEMBER_EPOCHS)
    return member


def _stale_epoch(member: ConsumerMember, *, only_generations: bool) -> ApiError:
    code = stale(member, only_generations=only_generations)
    return ApiError(code, f"member {member.member_id} is at epoch {member.epoch}")


def stale(member: ConsumerMember, *, only_generations: bool = False) -> ErrorCode:
    """Return the error of a commit or fetch with another epoch.

    The classic protocol only knows ILLEGAL_GENERATION. `only_generations`: the request does, too.
    """
    classic = only_generations or member.uses_classic_protocol
    return ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH


def _check_classic(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
) -> None:
    if generation < 0 and group.is_empty:
        return
    if transactional and generation < 0 and not member_id and instance_id is None:
        return
    if generation >= 0 or member_id or instance_id is not None:
        check_member(group, member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"group {group.group_id} is at generation {group.generation}")
    elif not transactional and not group.is_empty:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id} has members")
    if not transactional and group.state == ClassicState.COMPLETING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group.group_id} is completing a rebalance")


def check_fetch(group: CoordinatorGroup, *, member_id: str | None, epoch: int) -> None:
    """Raise `ApiError` if a fetch is rejected.

    A fetch without member id and epoch, as of admin clients, is accepted.
    """
    if not isinstance(group, ConsumerGroup) or (member_id is None and epoch < 0):
        return
    if member_id is None:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "member epoch without a member id"
        )  # Kafka: NullPointerException
    member = existing_member(group, member_id)
    if epoch != member.epoch:
        raise ApiError(stale(member), f"member {member.member_id} is at epoch {member.epoch}")
