"""JoinGroup of a member of a consumer group: the server assigns, so the answer comes at once, and the rebalance is the group's (KIP-848, "Migration")."""

from dataclasses import replace

from quorate.codecs import CoordinatorRecord, DecodeError, Uuid
from quorate.codecs.api import JoinGroupRequest, JoinGroupResponse
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.codecs.messages.protocol import ConsumerProtocolSubscription
from quorate.coordinator.classic.join import TWO_STEPS
from quorate.coordinator.classic.rebalance import prepare_rebalance
from quorate.coordinator.config import MigrationPolicy
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.checks import check_holder, check_not_full
from quorate.coordinator.consumer.members import in_writing, replaced, static_member
from quorate.coordinator.consumer.progress import Progress
from quorate.coordinator.consumer.regexes import RegexChange, update_regex
from quorate.coordinator.consumer.subscriptions import Refreshed, is_stale, refresh
from quorate.coordinator.conversion.downgrade import Replacement, converted, may_replace
from quorate.coordinator.conversion.embedded import classic_metadata, owned_in, read_subscription
from quorate.coordinator.conversion.waiting import joined
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL

__all__ = ["join"]


def join(
    shard: CoordinatorShard, group: ConsumerGroup, request: JoinGroupRequest, context: RequestContext
) -> Result[JoinGroupResponse]:
    """Take a classic member in, or let it join again. Raises `ApiError`."""
    closed = shard.config.group_consumer_migration_policy is MigrationPolicy.DISABLED
    if closed and shard.behaviour.policy_closes:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group.group_id} takes no classic members")
    member_id = request.member_id or str(Uuid(shard.new_id().bytes))
    check_not_full(group, member_id, shard.config.group_consumer_max_size)
    _check_protocols(group, request)
    if not request.member_id and request.group_instance_id is None and context.api_version >= TWO_STEPS:
        asked_again = JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name=None, member_id=member_id
        )
        return Result(response=asked_again)
    return _join(shard, group, member_id, request, context)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    offered_by_all = any(
        group.classic_protocols.get(offered.name, 0) == group.classic_members for offered in request.protocols
    )
    if request.protocol_type != CONSUMER_PROTOCOL or not offered_by_all:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group.group_id} and the member have no protocol in common"
        )


def _join(
    shard: CoordinatorShard, group: ConsumerGroup, member_id: str, request: JoinGroupRequest, context: RequestContext
) -> Result[JoinGroupResponse]:
    now_ms = context.now_ms
    records: list[CoordinatorRecord] = []
    before = _find(shard, group, member_id, request, records)
    holder = None if request.group_instance_id is None else static_member(group, request.group_instance_id)
    subscription = _subscription(request)
    metadata = _announced(before.metadata, subscription, request, context)
    member = before
    names_changed = False
    if metadata != before.metadata:
        member = replace(before, metadata=metadata)
        records.append(write.member_metadata(group.group_id, member_id, metadata))
        names_changed = set(metadata.subscribed_topic_names) != set(before.metadata.subscribed_topic_names)
    regex = update_regex(shard, group, before.metadata, metadata, records, context)
    tags_gone = bool(shard.extensions and before.metadata.unknown_tags)
    bump = names_changed or tags_gone or regex is not RegexChange.NONE
    refreshed: Refreshed | None = None
    if bump or is_stale(group, now_ms):
        refreshed = refresh(shard, group, before, member, records, bump=bump, now_ms=now_ms)
    progress = Progress(
        group=group,
        before=before,
        member=member,
        topics=tuple(subscription.topics),
        owned=owned_in(subscription, shard.image),
        subscription_changed=bump,
        refreshed=refreshed,
        now_ms=now_ms,
    )
    if holder is not None and may_replace(shard, group, holder):
        return _downgraded(shard, progress, holder, request, records)
    updated = progress.made(shard, records)

    def persisted() -> None:
        joined(
            shard,
            group.group_id,
            member_id,
            now_ms,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
        )

    return Result(records=records, response=_response(updated, request), on_appended=persisted)


def _downgraded(
    shard: CoordinatorShard,
    progress: Progress,
    holder: ConsumerMember,
    request: JoinGroupRequest,
    records: list[CoordinatorRecord],
) -> Result[JoinGroupResponse]:
    """It takes the place of the last member of the new protocol, so the group becomes a classic one; it need not rebalance if its target is current."""
    group, now_ms = progress.group, progress.now_ms
    epoch = group.epoch if progress.refreshed is None else progress.refreshed.epoch
    is_behind = group.assignment_epoch < epoch
    rebalances = is_behind if shard.behaviour.follows_target else progress.subscription_changed
    updated = progress.member if rebalances else progress.reconciled(shard, records)
    made = converted(shard, group, now_ms, replacement=Replacement(holder, updated))
    if rebalances:
        prepare_rebalance(shard, made.group, now_ms)
    return Result(
        records=[*records, *made.records],
        response=_response(updated, request),
        replay=False,
        on_failed=lambda code: made.undo(),
    )


def _response(member: ConsumerMember, request: JoinGroupRequest) -> JoinGroupResponse:
    """There is no leader. As its protocol the member hears the one that it prefers."""
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=request.protocols[0].name,
        leader="",
        member_id=member.member_id,
    )


def _find(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    member_id: str,
    request: JoinGroupRequest,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    """The member as it was; a new one under its id, or in the place of the static member of its name.

    Raises `ApiError`.
    """
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    holder = static_member(group, instance_id)
    if request.member_id:
        return check_holder(holder, member_id, instance_id)
    if holder is None:
        return ConsumerMember(member_id=member_id)
    return replaced(shard, group, holder, member_id, records)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except DecodeError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the subscription cannot be read: {error}") from None


def _announced(
    old: ConsumerGroupMemberMetadataValue,
    subscription: ConsumerProtocolSubscription,
    request: JoinGroupRequest,
    context: RequestContext,
) -> ConsumerGroupMemberMetadataValue:
    """What is known of the member after this.

    It cannot say that it has no rack any more, or another server assignor; expressions are not for
    it.
    """
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return in_writing(
        replace(
            old,
            instance_id=old.instance_id if request.group_instance_id is None else request.group_instance_id,
            rack_id=subscription.rack_id or old.rack_id,
            client_id=context.client_id,
            client_host=context.client_host,
            subscribed_topic_names=subscription.topics,
            subscribed_topic_regex="",
            rebalance_timeout_ms=old.rebalance_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            classic_member_metadata=classic_metadata(request.session_timeout_ms, request.protocols),
            unknown_tags=(),
        )
    )
