"""JoinGroup of a classic member of a consumer group (KIP-848, "Migration").

The coordinator assigns, so the response never waits for other members.
"""

from dataclasses import replace

from quorate.codecs import CoordinatorRecord, DecodeError, Uuid
from quorate.codecs.api import JoinGroupRequest, JoinGroupResponse
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.codecs.messages.protocol import ConsumerProtocolSubscription
from quorate.coordinator.classic.join import MEMBER_ID_REQUIRED_SINCE
from quorate.coordinator.classic.rebalance import prepare_rebalance
from quorate.coordinator.config import MigrationPolicy
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.checks import check_capacity, check_static_member
from quorate.coordinator.consumer.members import as_written, replace_static, static_member
from quorate.coordinator.consumer.progress import Progress
from quorate.coordinator.consumer.regexes import RegexChange, update_regex
from quorate.coordinator.consumer.subscriptions import Refreshed, is_stale, refresh
from quorate.coordinator.conversion.downgrade import Replacement, converted, may_replace
from quorate.coordinator.conversion.embedded import classic_metadata, owned_in, read_subscription
from quorate.coordinator.conversion.timers import joined
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL


def join(
    shard: CoordinatorShard, group: ConsumerGroup, request: JoinGroupRequest, context: RequestContext
) -> Result[JoinGroupResponse]:
    """Add or update a classic member. Raises `ApiError`."""
    disabled = shard.config.group_consumer_migration_policy is MigrationPolicy.DISABLED
    if disabled and shard.behaviour.policy_closes:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"group {group.group_id} does not accept classic members: the migration policy is disabled",
        )
    member_id = request.member_id or str(Uuid(shard.new_id().bytes))
    check_capacity(shard, group, member_id, request.group_instance_id)
    _check_protocols(group, request)
    if not request.member_id and request.group_instance_id is None and context.api_version >= MEMBER_ID_REQUIRED_SINCE:
        response = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name=None, member_id=member_id)
        return Result(response=response)
    return _join(shard, group, member_id, request, context)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    offered_by_all = any(
        group.classic_protocols.get(offered.name, 0) == group.classic_members for offered in request.protocols
    )
    if request.protocol_type != CONSUMER_PROTOCOL or not offered_by_all:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the member supports no protocol of all classic members of group {group.group_id}",
        )


def _join(
    shard: CoordinatorShard, group: ConsumerGroup, member_id: str, request: JoinGroupRequest, context: RequestContext
) -> Result[JoinGroupResponse]:
    now_ms = context.now_ms
    records: list[CoordinatorRecord] = []
    before = _find(shard, group, member_id, request, records)
    static = None if request.group_instance_id is None else static_member(group, request.group_instance_id)
    subscription = _subscription(shard, request)
    metadata = _updated_metadata(before.metadata, subscription, request, context)
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
    if static is not None and may_replace(shard, group, static):
        return _downgrade(shard, progress, static, request, records)
    updated = progress.assign_and_reconcile(shard, records)

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


def _downgrade(
    shard: CoordinatorShard,
    progress: Progress,
    static: ConsumerMember,
    request: JoinGroupRequest,
    records: list[CoordinatorRecord],
) -> Result[JoinGroupResponse]:
    """Replace the last member of the new protocol, which downgrades the group.

    The group does not rebalance if its target assignment is current.
    """
    group, now_ms = progress.group, progress.now_ms
    epoch = group.epoch if progress.refreshed is None else progress.refreshed.epoch
    is_outdated = group.assignment_epoch < epoch
    rebalances = is_outdated if shard.behaviour.follows_target else progress.subscription_changed
    updated = progress.member if rebalances else progress.reconcile(shard, records)
    made = converted(shard, group, now_ms, replacement=Replacement(static, updated))
    if rebalances:
        prepare_rebalance(shard, made.group, now_ms)
    return Result(
        records=[*records, *made.records],
        response=_response(updated, request),
        replay=False,
        on_failed=lambda code: made.undo(),
    )


def _response(member: ConsumerMember, request: JoinGroupRequest) -> JoinGroupResponse:
    """Return the response, without a leader, and with the member's preferred protocol."""
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
    """Return the member as it was before, a new member, or the static member that is replaced.

    Raises `ApiError`.
    """
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    static = static_member(group, instance_id)
    if request.member_id:
        return check_static_member(static, member_id, instance_id)
    if static is None:
        return ConsumerMember(member_id=member_id)
    return replace_static(shard, group, static, member_id, records)


def _subscription(shard: CoordinatorShard, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except DecodeError as error:
        rejected = shard.behaviour.rejects_malformed
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if rejected else ErrorCode.UNKNOWN_SERVER_ERROR
        raise ApiError(code, f"cannot decode the subscription: {error}") from None


def _updated_metadata(
    old: ConsumerGroupMemberMetadataValue,
    subscription: ConsumerProtocolSubscription,
    request: JoinGroupRequest,
    context: RequestContext,
) -> ConsumerGroupMemberMetadataValue:
    """Return the member's metadata after this request.

    A classic member cannot remove its rack, select a server-side assignor, or subscribe by regex.
    """
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return as_written(
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
