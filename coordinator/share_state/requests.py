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
)
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message, MessageSpec
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


def _operation(request: type[Message], rpc: str, run: Callable[..., Result[Any]]) -> ShareStateOperation:
    topics = _elements(request.api.response, "results")
    return ShareStateOperation(
        name=rpc.replace("state", "share group state"),
        rpc=rpc,
        run=run,
        topic_result=topics.cls,
        partition_result=_elements(topics, "partitions").cls,
    )


def _elements(spec: MessageSpec, name: str) -> MessageSpec:
    """Return the declaration of a list's structs."""
    kind: Any = next(field.type for field in spec.fields if field.name == name)
    found: MessageSpec = kind.element.spec
    return found


_RUN: Final[Mapping[type[Message], tuple[str, Callable[..., Result[Any]]]]] = {
    InitializeShareGroupStateRequest: ("initialize state", ShareCoordinatorShard.initialize_state),
    ReadShareGroupStateRequest: ("read state", ShareCoordinatorShard.read_state),
    WriteShareGroupStateRequest: ("write state", ShareCoordinatorShard.write_state),
    DeleteShareGroupStateRequest: ("delete state", ShareCoordinatorShard.delete_state),
    ReadShareGroupStateSummaryRequest: ("read state summary", ShareCoordinatorShard.read_summary),
}
OPERATIONS: Final[Mapping[type[Message], ShareStateOperation]] = MappingProxyType(
    {request: _operation(request, *how) for request, how in _RUN.items()}
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
