"""OffsetForLeaderEpoch v2–4: end offsets of epochs, to detect truncation (KIP-101, KIP-320)."""

from functools import partial
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.topics import leader_error
from quorate.cluster.turns import Work, map_in_turns
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
    """Return the end offset of each requested leader epoch."""
    topics = []
    for topic in request.topics:
        partitions = yield from map_in_turns(topic.partitions, partial(_end, broker, topic.topic))
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield None
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _end(broker: "Broker", topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.cluster.state.partition(topic, requested.partition)
    error = leader_error(partition, broker.id, requested.current_leader_epoch)
    if partition is None or error:
        return EpochEndOffset(error_code=error, partition=requested.partition)
    epoch, end = partition.log.end_of_epoch(requested.leader_epoch, partition.leader_epoch)
    return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end)
