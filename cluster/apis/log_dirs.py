"""DescribeLogDirs v1–5, AlterReplicaLogDirs v1–2 (KIP-113, KIP-827): sizes of logs and free space.

Each broker has one log directory, so that replicas cannot move. Without a data directory it is only
a name.
"""

import shutil
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs.api.broker import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from quorate.codecs.api.broker.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from quorate.codecs.api.broker.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_MAX_NAME = 255
_FUTURE_SUFFIX = 40
"""Characters that a partition's folder name gains while it moves: a dot, 32 digits, "-future"."""


def describe_log_dirs(
    broker: "Broker", request: DescribeLogDirsRequest, context: Context
) -> Work[DescribeLogDirsResponse]:
    """Return the sizes of this broker's replicas, of the requested topics or of all."""
    cluster = broker.cluster
    requested = None if request.topics is None else {one.topic: frozenset(one.partitions) for one in request.topics}
    topics = []
    for topic in list(cluster.topics.values()):
        yield None
        logs = tuple(
            DescribeLogDirsPartition(partition_index=partition.index, partition_size=partition.log.size_bytes)
            for partition in topic.partitions
            if broker.id in partition.replicas
            and (requested is None or partition.index in requested.get(topic.name, ()))
        )
        if logs:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=logs))
    total = usable = -1
    log_dir = _log_dir(broker)
    if cluster.data is not None:
        disk = shutil.disk_usage(log_dir)
        total, usable = disk.total, disk.free
    return DescribeLogDirsResponse(
        results=(DescribeLogDirsResult(log_dir=log_dir, topics=tuple(topics), total_bytes=total, usable_bytes=usable),)
    )


def alter_replica_log_dirs(
    broker: "Broker", request: AlterReplicaLogDirsRequest, context: Context
) -> Work[AlterReplicaLogDirsResponse]:
    """Accept the broker's only directory, where replicas are already, and reject all others."""
    requested: dict[tuple[str, int], str] = {}  # of a partition that is named twice, the last directory counts
    for one in request.dirs:
        for topic in one.topics:
            for partition in topic.partitions:
                requested[topic.name, partition] = one.path
                yield None
            yield None
        yield None
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (name, partition), path in requested.items():
        error = _move_error(broker, name, partition, path)
        result = AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=error)
        results.setdefault(name, []).append(result)
        yield None
    moved = yield from map_in_turns(
        results.items(), lambda one: AlterReplicaLogDirTopicResult(topic_name=one[0], partitions=tuple(one[1]))
    )
    return AlterReplicaLogDirsResponse(results=moved)


def _move_error(broker: "Broker", topic: str, partition: int, path: str) -> ErrorCode:
    """Return the error of a move, checked in the order of Kafka's ReplicaManager."""
    if len(f"{topic}-{partition}") + _FUTURE_SUFFIX > _MAX_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != _log_dir(broker):
        return ErrorCode.LOG_DIR_NOT_FOUND
    found = broker.cluster.state.partition(topic, partition)
    if found is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker.id in found.replicas else ErrorCode.REPLICA_NOT_AVAILABLE


def _log_dir(broker: "Broker") -> str:
    data = broker.cluster.data
    return f"/memory/broker-{broker.id}" if data is None else str(data.broker(broker.id).absolute())
