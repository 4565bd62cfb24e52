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

__all__ = [
    "consumer_group_describe_failed",
    "describe_groups_failed",
    "offset_fetch_failed",
    "share_group_describe_failed",
    "streams_group_describe_failed",
]


def describe_groups_failed(
    request: DescribeGroupsRequest, context: RequestContext, code: ErrorCode, message: str
) -> DescribeGroupsResponse:
    """The error with each group."""
    each = (describe_groups.DescribedGroup(group_id=group, error_code=code) for group in request.groups)
    return DescribeGroupsResponse(groups=tuple(each))


def _described(struct: Any, group_ids: tuple[str, ...], code: ErrorCode, message: str) -> tuple[Any, ...]:
    return tuple(struct(group_id=group, error_code=code, error_message=message or None) for group in group_ids)


def consumer_group_describe_failed(
    request: ConsumerGroupDescribeRequest, context: RequestContext, code: ErrorCode, message: str
) -> ConsumerGroupDescribeResponse:
    """The error with each group."""
    struct = consumer_group_describe.DescribedGroup
    return ConsumerGroupDescribeResponse(groups=_described(struct, request.group_ids, code, message))


def share_group_describe_failed(
    request: ShareGroupDescribeRequest, context: RequestContext, code: ErrorCode, message: str
) -> ShareGroupDescribeResponse:
    """The error with each group."""
    struct = share_group_describe.DescribedGroup
    return ShareGroupDescribeResponse(groups=_described(struct, request.group_ids, code, message))


def streams_group_describe_failed(
    request: StreamsGroupDescribeRequest, context: RequestContext, code: ErrorCode, message: str
) -> StreamsGroupDescribeResponse:
    """The error with each group."""
    struct = streams_group_describe.DescribedGroup
    return StreamsGroupDescribeResponse(groups=_described(struct, request.group_ids, code, message))


def offset_fetch_failed(
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
