"""`ClientAssignors`: the plug-in for client-side assignors."""

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
from quorate.coordinator.client_assignors.computing_member import clear_computation, request_computation, running
from quorate.coordinator.client_assignors.install import consumer_group_install_assignment
from quorate.coordinator.client_assignors.prepare import consumer_group_prepare_assignment
from quorate.coordinator.client_assignors.selection import announced_by, selected, used_by, with_member
from quorate.coordinator.consumer.target import INTERVAL
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.shard import Addition, ConsumerGroupExtension, CoordinatorShard, Handler
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember

_COMPUTE = written_tags(ComputeAssignment(should_compute_assignment=True))


class ClientAssignors(ConsumerGroupExtension):
    """Client-side assignors of consumer groups (KIP-848)."""

    handlers: ClassVar[Mapping[type[Message], Handler]] = {
        ConsumerGroupPrepareAssignmentRequest: consumer_group_prepare_assignment,
        ConsumerGroupInstallAssignmentRequest: consumer_group_install_assignment,
    }

    def member_tags(self, tags: Tags, request: ConsumerGroupHeartbeatRequest) -> Tags:
        """Return the member's tags with its assignors; the same object if the heartbeat has none.

        Raises `ApiError` INVALID_REQUEST.
        """
        try:
            announced = read_tags(AnnouncedAssignors, request.unknown_tags).client_assignors
        except DecodeError as error:
            raise _invalid(f"cannot decode the client-side assignors: {error}") from None
        if announced is None:
            return tags
        names: set[str] = set()
        for one in announced:
            _check(one)
            if one.name in names:
                raise _invalid(f"duplicate assignor {one.name}")
            names.add(one.name)
        return with_tags(tags, AnnouncedAssignors(client_assignors=announced or None))

    def computes_target(self, shard: CoordinatorShard, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Return whether all members support one client-side assignor.

        Otherwise the coordinator computes the target, and any computation is cleared.
        """
        if selected(with_member(group, member)) is not None:
            return True
        clear_computation(shard, group)
        return False

    def assignment_tags(self, group: ConsumerGroup, member: ConsumerMember) -> Tags | None:
        """Return the assignor's metadata for a member at the target epoch.

        Returns `None` for a member without assignors. A replaced static member's metadata applies
        to its replacement.
        """
        if not announced_by(member.metadata):
            return None
        origin = read_tags(TargetOrigin, group.target_epoch_tags, strict=False).computed_by
        if origin is None or member.epoch != group.assignment_epoch:
            return ()
        instance_id = member.metadata.instance_id
        static = None if instance_id is None else group.static_members.get(instance_id)
        tags = group.target_tags.get(static or member.member_id, ())
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
        """Ask the member to compute the target, if one is due and no other member computes it."""
        if target_epoch is None:
            return Addition()
        may_begin = shard.may_assign(group, INTERVAL, now_ms)
        request = request_computation(shard, group, member, target_epoch, now_ms, may_begin=may_begin, joining=joining)
        return Addition() if request is None else Addition(_COMPUTE, request)

    def described(self, group: ConsumerGroup, described: DescribedGroup) -> DescribedGroup:
        """Return the group with its client-side assignor and the computing member."""
        used = used_by(group)
        computing = ComputingMember(computing_member_id=running(group).member_id or None)
        return replace(
            described,
            assignor_name=described.assignor_name if used is None else used.name,
            unknown_tags=with_tags(described.unknown_tags, computing),
        )


def _check(one: ClientAssignor) -> None:
    if not one.name.strip():
        raise _invalid("the name of a client-side assignor must not be empty")
    if not 0 <= one.minimum_version <= one.maximum_version:
        raise _invalid(f"assignor {one.name} has invalid versions {one.minimum_version} to {one.maximum_version}")
    if not one.minimum_version <= one.metadata_version <= one.maximum_version:
        raise _invalid(
            f"assignor {one.name} has metadata version {one.metadata_version}, "
            f"outside of its versions {one.minimum_version} to {one.maximum_version}"
        )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
