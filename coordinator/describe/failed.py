"""What an answer about several groups is if all of it fails, such as where another broker coordinates them: the error with each group."""

from typing import Any

from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    consumer_group_describe,
    describe_groups,
    offset_fetch,
    share_group_describe,
    streams_group_describe,
)
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import RequestContext
from quorate.coordinator.shard import fails

__all__: list[str] = []


@fails(DescribeGroupsRequest)
def _groups(
    request: DescribeGroupsRequest, context: RequestContext, code: ErrorCode, message: str
) -> DescribeGroupsResponse:
    each = (describe_groups.DescribedGroup(group_id=group, error_code=code) for group in request.groups)
    return DescribeGroupsResponse(groups=tuple(each))


def _described(struct: Any, group_ids: tuple[str, ...], code: ErrorCode, message: str) -> tuple[Any, ...]:
    return tuple(struct(group_id=group, error_code=code, error_message=message or None) for group in group_ids)


@fails(ConsumerGroupDescribeRequest)
def _consumer_groups(
    request: ConsumerGroupDescribeRequest, context: RequestContext, code: ErrorCode, message: str
) -> ConsumerGroupDescribeResponse:
    struct = consumer_group_describe.DescribedGroup
    return ConsumerGroupDescribeResponse(groups=_described(struct, request.group_ids, code, message))


@fails(ShareGroupDescribeRequest)
def _share_groups(
    request: ShareGroupDescribeRequest, context: RequestContext, code: ErrorCode, message: str
) -> ShareGroupDescribeResponse:
    struct = share_group_describe.DescribedGroup
    return ShareGroupDescribeResponse(groups=_described(struct, request.group_ids, code, message))


@fails(StreamsGroupDescribeRequest)
def _streams_groups(
    request: StreamsGroupDescribeRequest, context: RequestContext, code: ErrorCode, message: str
) -> StreamsGroupDescribeResponse:
    struct = streams_group_describe.DescribedGroup
    return StreamsGroupDescribeResponse(groups=_described(struct, request.group_ids, code, message))


@fails(OffsetFetchRequest)
def _offsets(
    request: OffsetFetchRequest, context: RequestContext, code: ErrorCode, message: str
) -> OffsetFetchResponse:
    """With each group since version 8; on top since version 2; before that with each partition."""
    if context.api_version >= 8:
        groups = tuple(
            offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups
        )
        return OffsetFetchResponse(groups=groups)
    if context.api_version >= 2:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=tuple(
            offset_fetch.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    offset_fetch.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, error_code=code
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        )
    )
