"""Equal values of a loaded group's members become the same objects.

Each record is decoded to objects of its own. With 500 members that own four partitions each, their
equal epochs and lists of partitions were a quarter of the group's memory.
"""

from collections.abc import Callable
from typing import Any

from quorate.codecs.messages.consumer_group import TopicPartitions
from quorate.coordinator.state.consumer import ConsumerGroup

Keep = Callable[[Any, Any], Any]


def share_equal_values(group: ConsumerGroup) -> None:
    """Share the partitions of targets and current assignments, and epochs."""
    kept: dict[Any, Any] = {}
    keep = kept.setdefault
    for target in group.targets.values():
        for topic in target:
            keep(topic.partitions, topic.partitions)
    for member in group.members.values():
        member.share(
            keep(member.epoch, member.epoch),
            keep(member.previous_epoch, member.previous_epoch),
            _shared(member.assigned_partitions, keep),
            _shared(member.partitions_pending_revocation, keep),
        )
    group.partition_epochs.share(keep)


def _shared(topics: tuple[TopicPartitions, ...], keep: Keep) -> tuple[TopicPartitions, ...]:
    return tuple(
        topic
        if topic.unknown_tags
        else TopicPartitions(
            topic_id=topic.topic_id,
            partitions=keep(topic.partitions, topic.partitions),
            assignment_epochs=keep(topic.assignment_epochs, topic.assignment_epochs),
        )
        for topic in topics
    )
