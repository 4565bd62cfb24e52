"""Requests to share coordinators: one operation of a shard for each of their partitions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from quorate.assignors.java_order import JavaHashMap
from quorate.codecs import Uuid
from quorate.codecs.api import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.share_state.key import SharePartitionKey
from quorate.coordinator.share_state.shard import ShareCoordinatorShard

PartResult = tuple[SharePartitionKey, Any]
"""A share-partition, and the result in a response's `partitions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateOperation:
    """What an API does with each partition.

    `name`: in error messages of the coordinator; `rpc`: in those of the persister. `run`: the
    operation; takes the shard, the partition, its element of the request and the time in ms.
    `topic_result`, `partition_result`: classes of the response.
    """

    name: str
    rpc: str
    run: Callable[[ShareCoordinatorShard, SharePartitionKey, Any, int], Result[Any]]
    topic_result: type[Any]
    partition_result: type[Any]

    def failed(self, key: SharePartitionKey, code: ErrorCode, message: str | None) -> PartResult:
        """Return the result of a partition that failed."""
        failure = self.partition_result(partition=key.partition, error_code=code, error_message=message)
        return key, failure


OPERATIONS: Final[Mapping[type[Message], ShareStateOperation]] = MappingProxyType(
    {
        InitializeShareGroupStateRequest: ShareStateOperation(
            name="initialize share group state",
            rpc="initialize state",
            run=ShareCoordinatorShard.initialize_state,
            topic_result=initialize_share_group_state.InitializeStateResult,
            partition_result=initialize_share_group_state.PartitionResult,
        ),
        ReadShareGroupStateRequest: ShareStateOperation(
            name="read share group state",
            rpc="read state",
            run=ShareCoordinatorShard.read_state,
            topic_result=read_share_group_state.ReadStateResult,
            partition_result=read_share_group_state.PartitionResult,
        ),
        WriteShareGroupStateRequest: ShareStateOperation(
            name="write share group state",
            rpc="write state",
            run=ShareCoordinatorShard.write_state,
            topic_result=write_share_group_state.WriteStateResult,
            partition_result=write_share_group_state.PartitionResult,
        ),
        DeleteShareGroupStateRequest: ShareStateOperation(
            name="delete share group state",
            rpc="delete state",
            run=ShareCoordinatorShard.delete_state,
            topic_result=delete_share_group_state.DeleteStateResult,
            partition_result=delete_share_group_state.PartitionResult,
        ),
        ReadShareGroupStateSummaryRequest: ShareStateOperation(
            name="read share group state summary",
            rpc="read state summary",
            run=ShareCoordinatorShard.read_summary,
            topic_result=read_share_group_state_summary.ReadStateSummaryResult,
            partition_result=read_share_group_state_summary.PartitionResult,
        ),
    }
)
"""Request type → operation."""


def parts(request: Any) -> Iterator[tuple[SharePartitionKey, Any]]:
    """Yield each share-partition of a request, with its element."""
    for topic in request.topics:
        for data in topic.partitions:
            yield SharePartitionKey(request.group_id, topic.topic_id, data.partition), data


def named(request: Any) -> bool:
    """Return whether a request names a group, topics, and partitions of each.

    If not, Kafka's response is empty. Only InitializeShareGroupState may have topics without
    partitions.
    """
    has_partitions = isinstance(request, InitializeShareGroupStateRequest) or all(
        one.partitions for one in request.topics
    )
    return bool(request.group_id and request.topics and has_partitions)


def persistable(request: Any) -> bool:
    """Return whether the persister sends a request.

    Kafka's `DefaultStatePersister` fails with an IllegalArgumentException without a group, topics,
    or partitions of each, and for negative partitions.
    """
    return bool(request.group_id and request.topics) and all(
        one.partitions and all(part.partition >= 0 for part in one.partitions) for one in request.topics
    )


def response(request: Message, results: Iterable[PartResult]) -> Any:
    """Return the response with these results, in Kafka's order."""
    topics: JavaHashMap[Uuid, JavaHashMap[int, Any]] = JavaHashMap()
    for key, result in results:
        topics.compute_if_absent(key.topic_id, JavaHashMap).put(key.partition, result)
    topic_result = OPERATIONS[type(request)].topic_result
    return request.api.response.cls(
        results=tuple(
            topic_result(topic_id=topic_id, partitions=tuple(result for _, result in partitions.items()))
            for topic_id, partitions in topics.items()
        )
    )
