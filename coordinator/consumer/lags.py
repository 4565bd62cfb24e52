"""Lags of a group, for assignors that run in its coordinator."""

import numpy as np

from quorate.assignors import GroupSpec, TopicPartition
from quorate.assignors.lags import lags_of
from quorate.coordinator.shard import CoordinatorShard


def lags_of_group(shard: CoordinatorShard, group_id: str, prepared: GroupSpec) -> dict[TopicPartition, int]:
    """Return the lag of each partition of the subscribed topics, as far as it is known.

    That is the high watermark minus the committed offset; without a committed offset, the number of
    records in the partition, as the coordinator does not know `auto.offset.reset`.
    """
    if shard.log_offsets is None:
        return {}
    topology = prepared.topology
    subscribed = np.isin(topology.topic_of, prepared.subscribed_topics)
    partitions = topology.topic_partitions(np.flatnonzero(subscribed))
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for at in partitions:
        found = shard.log_offsets(at.topic, at.partition)
        if found is not None:
            starts[at], ends[at] = found
    committed = {
        TopicPartition(topic, partition): offset.value.offset
        for topic, partition, offset in shard.state.offsets.of_group(group_id)
    }
    return lags_of(partitions, committed=committed, ends=ends, starts=starts)
