"""What goes with a share group: before the group is deleted, it is written that all its partitions lose their share state (DeleteGroups)."""

from quorate.assignors.java_order import JavaHashMap
from quorate.codecs import CoordinatorRecord, Uuid
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.share import records as write
from quorate.coordinator.share.partitions import NamedPartitions, combined, deleting_topics, in_map, read

__all__ = ["losing_state"]


def losing_state(shard: CoordinatorShard, group_id: str) -> list[CoordinatorRecord]:
    """The record that says so, if the group has share state, or had, or was about to get it."""
    state = shard.state.share_states.get(group_id)
    if state is None:
        return []
    jdk = shard.config.jdk
    lost = combined(read(state.initialized_topics, jdk=jdk), read(state.initializing_topics, jdk=jdk), jdk=jdk)
    already: dict[Uuid, tuple[str, range]] = {
        topic_id: (topic.name, range(topic.partitions))
        for topic_id in deleting_topics(state)
        if (topic := shard.image.topics_by_id.get(topic_id)) is not None
    }
    if already:
        found: NamedPartitions = in_map(already)
        lost = combined(lost, found, jdk=jdk)
    names: JavaHashMap[Uuid, str] = JavaHashMap()
    for topic_id, (name, _) in lost.items():
        names.put(topic_id, name)
    return [write.state_partitions(group_id, initializing={}, initialized={}, deleting=names.items())]
