"""DescribeGroups v0–6: classic groups.

An unknown group is described as dead; since v6 with GROUP_ID_NOT_FOUND (KIP-1043).
"""

from quorate.codecs.api import DescribeGroupsRequest, DescribeGroupsResponse
from quorate.codecs.api.describe_groups import DescribedGroup, DescribedGroupMember
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard, why_not
from quorate.coordinator.state.classic import ClassicGroup, ClassicState


def describe_groups(
    shard: CoordinatorShard, request: DescribeGroupsRequest, context: RequestContext
) -> Result[DescribeGroupsResponse]:
    """Describe classic groups. Groups of other types are unknown."""
    groups = []
    for group_id in request.groups:
        group = shard.state.readable(group_id)
        if isinstance(group, ClassicGroup):
            groups.append(described(group))
        elif context.api_version >= 6:
            groups.append(
                DescribedGroup(
                    group_id=group_id,
                    group_state=ClassicState.DEAD.value,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=why_not(ClassicGroup, group_id, group),
                )
            )
        else:
            groups.append(DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value))
    return Result(response=DescribeGroupsResponse(groups=tuple(groups)))


def described(group: ClassicGroup) -> DescribedGroup:
    """Return the description of a group; protocol and subscriptions only if it is stable."""
    stable = group.state == ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if stable else "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=group.subscription(member.member_id) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.ordered_members()
        ),
    )
