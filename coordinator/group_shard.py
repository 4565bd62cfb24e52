"""`GroupCoordinatorShard`: a partition's group coordinator, with all handlers.

It also orders the work after a load, after a metadata change and on expiry as Kafka does.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import (
    AlterShareGroupOffsetsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeGroupsRequest,
    DescribeShareGroupOffsetsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    api_of,
)
from quorate.codecs.api.error_responses import error_message, error_response, has_error
from quorate.codecs.message import Message
from quorate.coordinator.classic.heartbeat import heartbeat
from quorate.coordinator.classic.join import join_failed, join_group
from quorate.coordinator.classic.leave import leave_failed, leave_group
from quorate.coordinator.classic.rebalance import fail_pending, start_sessions
from quorate.coordinator.classic.sync import sync_group
from quorate.coordinator.client_assignors.extension import ClientAssignors
from quorate.coordinator.consumer import regexes
from quorate.coordinator.consumer.heartbeat import consumer_group_heartbeat
from quorate.coordinator.consumer.leaving import SESSIONS
from quorate.coordinator.conversion import join, sync_and_heartbeat
from quorate.coordinator.describe.classic import describe_groups
from quorate.coordinator.describe.consumer import consumer_group_describe
from quorate.coordinator.describe.listing import list_groups
from quorate.coordinator.describe.share import share_group_describe
from quorate.coordinator.describe.streams import streams_group_describe
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.offsets import delete as offsets_delete
from quorate.coordinator.offsets.commit import (
    commit_failed,
    commit_offsets,
    commit_offsets_of_transaction,
    transaction_commit_failed,
)
from quorate.coordinator.offsets.expiry import expire
from quorate.coordinator.offsets.fetch import fetch_offsets
from quorate.coordinator.offsets.groups import delete_groups, nothing_deleted
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import (
    ConsumerGroupExtension,
    CoordinatorShard,
    Failure,
    Handler,
    OnConsumerGroup,
)
from quorate.coordinator.share import initialisation
from quorate.coordinator.share import leaving as share_leaving
from quorate.coordinator.share import offsets as share_offsets
from quorate.coordinator.share.heartbeat import share_group_heartbeat
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup
from quorate.coordinator.state.sharing import share_equal_values
from quorate.coordinator.streams import leaving as streams_leaving
from quorate.coordinator.streams.heartbeat import streams_group_heartbeat
from quorate.coordinator.streams.topology_description import update_topology_description

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["GroupCoordinatorShard"]

_WITHOUT_MESSAGE = frozenset(
    {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class GroupCoordinatorShard(CoordinatorShard):
    """The shard with the handlers of all requests."""

    handlers: ClassVar[Mapping[type[Message], Handler]] = {
        JoinGroupRequest: join_group,
        SyncGroupRequest: sync_group,
        HeartbeatRequest: heartbeat,
        LeaveGroupRequest: leave_group,
        ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
        ShareGroupHeartbeatRequest: share_group_heartbeat,
        StreamsGroupHeartbeatRequest: streams_group_heartbeat,
        StreamsGroupTopologyDescriptionUpdateRequest: update_topology_description,
        OffsetCommitRequest: commit_offsets,
        TxnOffsetCommitRequest: commit_offsets_of_transaction,
        OffsetFetchRequest: fetch_offsets,
        OffsetDeleteRequest: offsets_delete.delete_offsets,
        DeleteGroupsRequest: delete_groups,
        ListGroupsRequest: list_groups,
        DescribeGroupsRequest: describe_groups,
        ConsumerGroupDescribeRequest: consumer_group_describe,
        ShareGroupDescribeRequest: share_group_describe,
        StreamsGroupDescribeRequest: streams_group_describe,
        DescribeShareGroupOffsetsRequest: share_offsets.describe_offsets,
        AlterShareGroupOffsetsRequest: share_offsets.alter_offsets,
        DeleteShareGroupOffsetsRequest: share_offsets.delete_offsets,
    }
    failures: ClassVar[Mapping[type[Message], Failure]] = {
        JoinGroupRequest: join_failed,
        LeaveGroupRequest: leave_failed,
        OffsetCommitRequest: commit_failed,
        TxnOffsetCommitRequest: transaction_commit_failed,
        DeleteGroupsRequest: nothing_deleted,
    }
    """Error responses that are different from those of other APIs, or must be built fast."""
    on_consumer_groups: ClassVar[Mapping[type[Message], OnConsumerGroup]] = {
        JoinGroupRequest: join.join,
        SyncGroupRequest: sync_and_heartbeat.sync_group,
        HeartbeatRequest: sync_and_heartbeat.heartbeat,
        LeaveGroupRequest: sync_and_heartbeat.leave_group,
    }

    def built_in(self) -> Sequence[ConsumerGroupExtension]:
        """Return the client-side assignors, if enabled."""
        return (ClientAssignors(),) if self.config.group_consumer_client_assignors_enable else ()

    def handle(self, request: Message, context: RequestContext) -> Result[Any]:
        """Handle a request.

        Raises `ApiError` if the request fails as a whole: UNSUPPORTED_VERSION without a handler.
        """
        try:
            handler = self.all_handlers[type(request)]
        except KeyError:
            name = api_of(type(request)).name
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{name} requires a plug-in that is not enabled") from None
        return handler(self, request, context)

    def failed(self, request: Message, context: RequestContext, code: ErrorCode, message: str) -> Message:
        """Return the response to a request that failed as a whole.

        As in Kafka, errors of the server have no message.
        """
        if code in _WITHOUT_MESSAGE:
            message = ""
        failure = self.failures.get(type(request))
        if failure is not None:
            return failure(request, context, code, message)
        if not has_error(api_of(type(request)).response, context.api_version):
            return error_response(request, context.api_version, code, message=message)  # type: ignore[no-any-return]
        response: Any = api_of(type(request)).response.cls
        text = error_message(type(request), code, message)
        more = {"error_message": text} if text and hasattr(response, "error_message") else {}
        return response(error_code=code, **more)  # type: ignore[no-any-return]

    # ---- the log

    def replay_columns(self, blocks: Iterator["RawBlock"]) -> Iterator[None]:
        """Replay a log by columns, in steps, with the same result. Needs pyarrow."""
        for name in ("numpy", "pyarrow", "pyarrow.compute", "quorate.codecs.log.raw"):
            import_module(name)  # together they take 0.4 s
            yield
        from quorate.coordinator.bulk import replay_in_steps  # with the extra `arrow`

        yield
        yield from replay_in_steps(self.state, blocks)

    def not_written(self, records: Sequence[CoordinatorRecord]) -> None:
        """Revert changes of streams groups that are in no record."""
        self.state.not_written(records)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Complete or abort a producer's pending offsets after its marker is appended."""
        self.state.offsets.end_transaction(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> Result[None]:
        """Start sessions after the log is replayed.

        In Kafka's order of groups, so that timers that are due together fire in that order.
        """
        for _, group in self.state.groups.ordered():
            if isinstance(group, ClassicGroup):
                start_sessions(self, group, now_ms)
            elif isinstance(group, ConsumerGroup):
                share_equal_values(group)
                SESSIONS.restart(self, group, now_ms)
            elif isinstance(group, ShareGroup):
                share_leaving.restart_sessions(self, group, now_ms)
            elif isinstance(group, StreamsGroup):
                streams_leaving.SESSIONS.restart(self, group, now_ms)
        regexes.set_first_topics_version(self)
        self._schedule_clean_up(now_ms)
        return Result()

    def unloaded(self) -> None:
        """Fail pending requests, as another broker becomes the coordinator.

        The shard must not be used afterwards.
        """
        self.tasks.clear()
        fail_pending(self)

    # ---- metadata changes and expiry

    def take_image(
        self, image: MetadataImage, now_ms: int, delta: MetadataDelta | None = None
    ) -> tuple[MetadataDelta, list[Result[None]]]:
        """Take new cluster metadata. `delta`: the differences, if known.

        Returns the differences and the records to write.
        """
        delta = delta or MetadataDelta.between(self.image, image)
        self.image = image
        self.forget_topic_hashes([*delta.changed, *(topic.name for topic in delta.deleted)])
        return delta, [
            regexes.update_topics(self, delta, now_ms),
            offsets_delete.forget_topics(self, delta, now_ms),
            initialisation.forget_topics(self, delta, now_ms),
        ]

    def clean_up(self, now_ms: int) -> Result[None]:
        """Expire offsets and empty groups; repeats every `offsets.retention.check.interval.ms`."""
        expired = expire(self, now_ms)
        self._schedule_clean_up(now_ms)
        return expired

    def _schedule_clean_up(self, now_ms: int) -> None:
        interval_ms = self.config.offsets_retention_check_interval_ms
        self.timers.schedule("expire-group-metadata", now_ms + interval_ms, self.clean_up, retry_ms=interval_ms)
