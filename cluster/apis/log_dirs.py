"""DescribeLogDirs v1–5: how large logs are, and how much room there is (KIP-113, KIP-827). Each broker has one directory; in memory it has only a name."""

import shutil
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import DescribeLogDirsRequest, DescribeLogDirsResponse
from quorate.codecs.api.broker.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []


@answers(DescribeLogDirsRequest)
def describe_log_dirs(
    broker: "Broker", request: DescribeLogDirsRequest, context: Context
) -> Work[DescribeLogDirsResponse]:
    """Tell the sizes of the replicas that this broker has, of all topics or of those that are asked for."""
    cluster = broker.cluster
    wanted = None if request.topics is None else {one.topic: frozenset(one.partitions) for one in request.topics}
    topics = []
    for topic in list(cluster.topics.values()):
        yield None
        logs = tuple(
            DescribeLogDirsPartition(partition_index=one.index, partition_size=one.log.size_bytes)
            for one in topic.partitions
            if broker.id in one.replicas and (wanted is None or one.index in wanted.get(topic.name, ()))
        )
        if logs:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=logs))
    total = usable = -1
    place = f"/memory/broker-{broker.id}"
    if cluster.data is not None:
        folder = cluster.data.broker(broker.id).absolute()
        place = str(folder)
        room = shutil.disk_usage(folder)
        total, usable = room.total, room.free
    return DescribeLogDirsResponse(
        results=(DescribeLogDirsResult(log_dir=place, topics=tuple(topics), total_bytes=total, usable_bytes=usable),)
    )
