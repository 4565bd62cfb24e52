"""OffsetForLeaderEpoch v2–4 (KIP-101, KIP-320): where a leader epoch ended, for clients that check whether a log was truncated."""

from functools import partial
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.topics import leader_error
from quorate.cluster.turns import Work, each
from quorate.codecs.api.broker import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from quorate.codecs.api.broker.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []


def offset_for_leader_epoch(
    broker: "Broker", request: OffsetForLeaderEpochRequest, context: Context
) -> Work[OffsetForLeaderEpochResponse]:
    """Find the end of each."""
    topics = []
    for topic in request.topics:
        partitions = yield from each(topic.partitions, partial(_end, broker, topic.topic))
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield None
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _end(broker: "Broker", topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.cluster.state.partition(topic, asked.partition)
    error = leader_error(partition, broker.id, asked.current_leader_epoch)
    if partition is None or error:
        return EpochEndOffset(error_code=error, partition=asked.partition)
    epoch, end = partition.log.end_of_epoch(asked.leader_epoch, partition.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
