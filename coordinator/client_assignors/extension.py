"""`ClientAssignors`: the plug-in.

It reads what heartbeats announce of client-side assignors, and gives members what an assignor made
for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from quorate.codecs.api.consumer_group_describe import DescribedGroup
from quorate.codecs.client_assignors import (
    AnnouncedAssignors,
    AssignedMetadata,
    AssignmentDetails,
    ClientAssignor,
    ComputeAssignment,
    ComputingMember,
    TargetDetails,
    TargetOrigin,
)
from quorate.codecs.errors import DecodeError
from quorate.codecs.message import Message
from quorate.codecs.tags import Tags, read_tags, with_tags, written_tags
from quorate.coordinator.client_assignors.install import consumer_group_install_assignment
from quorate.coordinator.client_assignors.prepare import consumer_group_prepare_assignment
from quorate.coordinator.client_assignors.selection import announced_by, selected, used_by, with_member
from quorate.coordinator.client_assignors.turns import forget, running, turn
from quorate.coordinator.consumer.target import INTERVAL
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.shard import Addition, ConsumerGroupExtension, CoordinatorShard, Handler
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember

__all__ = ["ClientAssignors"]

_YOUR_TURN = written_tags(ComputeAssignment(should_compute_assignment=True))


class ClientAssignors(ConsumerGroupExtension):
    """Client-side assignors of consumer groups (KIP-848)."""

    handlers: ClassVar[Mapping[type[Message], Handler]] = {
        ConsumerGroupPrepareAssignmentRequest: consumer_group_prepare_assignment,
        ConsumerGroupInstallAssignmentRequest: consumer_group_install_assignment,
    }

    def member_tags(self, tags: Tags, request: ConsumerGroupHeartbeatRequest) -> Tags:
        """What the member announces after the heartbeat; the same object if it says nothing of it.

        Raises `ApiError` INVALID_REQUEST.
        """
        try:
            announced = read_tags(AnnouncedAssignors, request.unknown_tags).client_assignors
        except DecodeError as error:
            raise _invalid(f"the client-side assignors cannot be read: {error}") from None
        if announced is None:
            return tags
        names: set[str] = set()
        for one in announced:
            _check(one)
            if one.name in names:
                raise _invalid(f"assignor {one.name} is announced twice")
            names.add(one.name)
        return with_tags(tags, AnnouncedAssignors(client_assignors=announced or None))

    def computes_target(self, shard: CoordinatorShard, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether all members can run one assignor; otherwise the server assigns, and nothing has to be computed any more."""
        if selected(with_member(group, member)) is not None:
            return True
        forget(shard, group)
        return False

    def assignment_tags(self, group: ConsumerGroup, member: ConsumerMember) -> Tags | None:
        """What the assignor gives the member in addition to its partitions, once the member is at the epoch of the target; `None` for a member without assignors.

        A static member that takes another's place right now gets what that one was given.
        """
        if not announced_by(member.metadata):
            return None
        origin = read_tags(TargetOrigin, group.target_epoch_tags, strict=False).computed_by
        if origin is None or member.epoch != group.assignment_epoch:
            return ()
        instance_id = member.metadata.instance_id
        holder = None if instance_id is None else group.static_members.get(instance_id)
        tags = group.target_tags.get(holder or member.member_id, ())
        metadata = read_tags(TargetDetails, tags, strict=False).metadata
        details = AssignedMetadata(
            assignor=origin.assignor,
            error=origin.error,
            metadata_version=0 if metadata is None else metadata.version,
            metadata=b"" if metadata is None else metadata.data,
        )
        return written_tags(AssignmentDetails(metadata=details))

    def after_heartbeat(
        self,
        shard: CoordinatorShard,
        group: ConsumerGroup,
        member: ConsumerMember,
        *,
        target_epoch: int | None,
        now_ms: int,
        joining: bool,
    ) -> Addition:
        """Give the member the turn to compute the target, if it is due and nobody else has the turn."""
        if target_epoch is None:
            return Addition()
        may_begin = shard.may_assign(group, INTERVAL, now_ms)
        told = turn(shard, group, member, target_epoch, now_ms, may_begin=may_begin, joining=joining)
        return Addition() if told is None else Addition(_YOUR_TURN, told)

    def described(self, group: ConsumerGroup, described: DescribedGroup) -> DescribedGroup:
        """With the client-side assignor that the group uses, and the member whose turn it is."""
        used = used_by(group)
        computing = ComputingMember(computing_member_id=running(group).member_id or None)
        return replace(
            described,
            assignor_name=described.assignor_name if used is None else used.name,
            unknown_tags=with_tags(described.unknown_tags, computing),
        )


def _check(one: ClientAssignor) -> None:
    if not one.name.strip():
        raise _invalid("a client-side assignor needs a name")
    if not 0 <= one.minimum_version <= one.maximum_version:
        raise _invalid(f"assignor {one.name} cannot understand versions {one.minimum_version} to {one.maximum_version}")
    if not one.minimum_version <= one.metadata_version <= one.maximum_version:
        raise _invalid(
            f"assignor {one.name} has metadata of version {one.metadata_version}, but understands {one.minimum_version} to {one.maximum_version}"
        )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
