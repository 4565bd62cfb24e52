"""Checks whether a member may commit or fetch a group's offsets."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from quorate.codecs import Uuid
from quorate.coordinator.classic.groups import check_member
from quorate.coordinator.consumer.checks import existing_member
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state import (
    ClassicGroup,
    ClassicState,
    ConsumerGroup,
    ConsumerMember,
    CoordinatorGroup,
    StreamsGroup,
    StreamsMember,
)
from quorate.coordinator.state.consumer_member import Owned
from quorate.coordinator.streams.checks import check_has_epoch
from quorate.coordinator.streams.reconcile import hash_order

TRANSACTION_MEMBER_EPOCHS = 6
"""First version of TxnOffsetCommit with STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND (KIP-1319)."""


class OlderEpoch(NamedTuple):
    """A commit with an older epoch than the member's, whose partitions must be checked (KIP-1251).

    `assigned_at`: returns the epoch at which the member got a partition, `None` if it has not got
    it. `error`: if it was not assigned at the epoch of the commit.
    """

    assigned_at: Callable[[str, Uuid, int], int | None]
    error: ErrorCode


def check_commit(
    group: CoordinatorGroup,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    transactional: bool,
    api_version: int,
    per_partition: bool,
) -> OlderEpoch | None:
    """Raise `ApiError` if a commit is rejected as a whole.

    `per_partition`: check partitions for a commit with an older epoch, as since 4.3 (KIP-1251);
    before, such a commit is rejected.
    """
    match group:
        case ClassicGroup():
            _check_classic(group, member_id, instance_id, epoch, transactional=transactional)
            return None
        case ConsumerGroup() | StreamsGroup():
            member = _check_member(
                group, member_id, instance_id, epoch, transactional=transactional, api_version=api_version
            )
            if member is None:
                return None
            only_generations = transactional and api_version < TRANSACTION_MEMBER_EPOCHS
            if not per_partition or (isinstance(group, StreamsGroup) and group.topology is None):
                raise _stale_epoch(member, only_generations=only_generations)
            return OlderEpoch(_assigned_at(group, member), _stale(member, only_generations=only_generations))
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id} is a {group.kind.lower()} group")


def _check_member(
    group: ConsumerGroup | StreamsGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    *,
    transactional: bool,
    api_version: int,
) -> ConsumerMember | StreamsMember | None:
    """Return the member if the commit has an older epoch."""
    if epoch < 0 and not group.members:
        return None
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return None
    member = _member(group, member_id)
    if not transactional and not _is_classic(member) and api_version < 9:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "members of new protocols require OffsetCommit v9 or later")
    if isinstance(member, StreamsMember):
        check_has_epoch(member)
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _stale_epoch(member, only_generations=transactional and api_version < TRANSACTION_MEMBER_EPOCHS)
    return member


def _assigned_at(
    group: ConsumerGroup | StreamsGroup, member: ConsumerMember | StreamsMember
) -> Callable[[str, Uuid, int], int | None]:
    if isinstance(member, ConsumerMember):
        return partial(_partition_epoch, member.assigned, member.pending_revocation)
    topology = group.topology if isinstance(group, StreamsGroup) else None
    by_id = {} if topology is None else {one.subtopology_id: one for one in topology.subtopologies}
    # Several subtopologies can read a topic. The last one in Kafka's map counts.
    subtopology_of: dict[str, str] = {}
    for one in hash_order(by_id):
        repartition = (topic.name for topic in by_id[one].repartition_source_topics)
        subtopology_of.update(dict.fromkeys((*by_id[one].source_topics, *repartition), one))
    return partial(_task_epoch, member, subtopology_of)


def _partition_epoch(assigned: Owned, pending: Owned, topic: str, topic_id: Uuid, partition: int) -> int | None:
    epoch = assigned.get(topic_id, {}).get(partition)
    return pending.get(topic_id, {}).get(partition) if epoch is None else epoch


def _task_epoch(
    member: StreamsMember, subtopology_of: dict[str, str], topic: str, topic_id: Uuid, partition: int
) -> int | None:
    one = subtopology_of.get(topic, "")
    epoch = member.assigned.active.get(one, {}).get(partition)
    return member.pending_revocation.active.get(one, {}).get(partition) if epoch is None else epoch


def _is_classic(member: ConsumerMember | StreamsMember) -> bool:
    return isinstance(member, ConsumerMember) and member.uses_classic_protocol


def _member(group: ConsumerGroup | StreamsGroup, member_id: str) -> ConsumerMember | StreamsMember:
    if isinstance(group, ConsumerGroup):
        return existing_member(group, member_id)
    return existing_member(group, member_id)


def _stale_epoch(member: ConsumerMember | StreamsMember, *, only_generations: bool) -> ApiError:
    code = _stale(member, only_generations=only_generations)
    return ApiError(code, f"member {member.member_id} is at epoch {member.epoch}")


def _stale(member: ConsumerMember | StreamsMember, *, only_generations: bool = False) -> ErrorCode:
    """Return the error of a commit or fetch with another epoch.

    The classic protocol only knows ILLEGAL_GENERATION. `only_generations`: the request does, too.
    """
    classic = only_generations or _is_classic(member)
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
    if not isinstance(group, ConsumerGroup | StreamsGroup) or (member_id is None and epoch < 0):
        return
    if member_id is None:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "member epoch without a member id"
        )  # Kafka: NullPointerException
    member = _member(group, member_id)
    if isinstance(member, StreamsMember):
        check_has_epoch(member)
    if epoch != member.epoch:
        raise ApiError(_stale(member), f"member {member.member_id} is at epoch {member.epoch}")
