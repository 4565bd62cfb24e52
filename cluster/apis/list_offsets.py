"""ListOffsets v1–11: find offsets by timestamp.

Special timestamps: -1 latest, -2 earliest, -3 greatest timestamp (KIP-734), -4 earliest local
(KIP-405), -5 and -6 tiered. There is no tiered storage here: the earliest local offset is the
earliest offset, and -5 and -6 find none.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.storage.segment import StoredBatch
from quorate.cluster.topics import leader_error
from quorate.cluster.turns import ThreadCall, Work
from quorate.codecs.api.broker import ListOffsetsRequest, ListOffsetsResponse
from quorate.codecs.api.broker.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchProblem, BatchRecord, read_batches

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.log import PartitionLog

_LATEST, _EARLIEST, _GREATEST, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
_READ_COMMITTED = 1
_FEW = 1_000
"""A batch with at most so many offsets is searched without a thread."""
_SINCE = {_LATEST: 1, _EARLIEST: 1, _GREATEST: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING: 11}
"""Special timestamp → the version that introduced it."""


def list_offsets(broker: "Broker", request: ListOffsetsRequest, context: Context) -> Work[ListOffsetsResponse]:
    """Find each offset. Releases before 4.0 also return topics without requested partitions."""
    skips = broker.cluster.broker_configs.behaviour.skips_empty_topics
    topics = []
    for topic in request.topics:
        partitions = []
        for one, count in _counted(topic.partitions):
            if count == 1:
                found = yield from _found(broker, topic.name, one, request.isolation_level, context.api_version)
            else:
                found = ListOffsetsPartitionResponse(
                    partition_index=one.partition_index, error_code=ErrorCode.INVALID_REQUEST
                )
            partitions.append(found)
            yield None
        if topic.partitions or not skips:
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
        yield None
    return ListOffsetsResponse(topics=tuple(topics))


def _counted(partitions: Iterable[ListOffsetsPartition]) -> list[tuple[ListOffsetsPartition, int]]:
    """Return each partition with the number of times it is requested."""
    partitions = list(partitions)
    times = Counter(partition.partition_index for partition in partitions)
    return [
        (one, times[index]) for index, one in {partition.partition_index: partition for partition in partitions}.items()
    ]


def _found(
    broker: "Broker", topic: str, requested: ListOffsetsPartition, isolation_level: int, version: int
) -> Work[ListOffsetsPartitionResponse]:
    if requested.timestamp < 0 and version < _SINCE.get(requested.timestamp, version + 1):
        return ListOffsetsPartitionResponse(
            partition_index=requested.partition_index, error_code=ErrorCode.UNSUPPORTED_VERSION
        )
    partition = broker.cluster.state.partition(topic, requested.partition_index)
    error = leader_error(partition, broker.id, requested.current_leader_epoch)
    if partition is None or error:
        return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=error)
    log = partition.log
    until = log.last_stable_offset if isolation_level == _READ_COMMITTED else log.high_watermark
    offset, timestamp_ms, epoch = yield from _offset(log, partition.leader_epoch, requested.timestamp, until)
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=epoch if version >= 4 else -1,
    )


def _offset(log: "PartitionLog", leader_epoch: int, timestamp_ms: int, until: int) -> Work[tuple[int, int, int]]:
    """Return offset, timestamp and leader epoch for a requested timestamp; -1 where there is none.

    `leader_epoch`: the current one. `until`: the end of the records that the client may see.
    """
    if timestamp_ms == _LATEST:
        return until, -1, leader_epoch
    if timestamp_ms in (_EARLIEST, _EARLIEST_LOCAL):
        return log.start_offset, -1, log.epoch_of(log.start_offset, leader_epoch)
    if timestamp_ms in (_LATEST_TIERED, _EARLIEST_PENDING):
        return -1, -1, -1
    if timestamp_ms == _GREATEST:
        batch = log.greatest_timestamp()
        timestamp_ms = -1 if batch is None else batch.max_timestamp_ms
    else:
        batch = log.offset_for(timestamp_ms, until=until)
    if batch is None:
        return -1, -1, -1
    find = partial(record_at, batch, timestamp_ms, log.start_offset)
    if batch.last_offset - batch.base_offset < _FEW:
        return find()
    found: tuple[int, int, int] = yield ThreadCall(find)
    return found


def record_at(batch: StoredBatch, timestamp_ms: int, start_offset: int) -> tuple[int, int, int]:
    """Return the first record of a batch at or after a timestamp, and at or after an offset."""
    read = next(read_batches(batch.data))
    assert not isinstance(read, BatchProblem)
    for record in read.records():
        if (
            isinstance(record, BatchRecord)
            and record.offset >= start_offset
            and (record.timestamp_ms or 0) >= timestamp_ms
        ):
            return record.offset, record.timestamp_ms or 0, batch.leader_epoch
    return batch.base_offset, batch.max_timestamp_ms, batch.leader_epoch
