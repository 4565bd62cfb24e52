"""Order of the members of a small group, and counts of the partitions in their targets.

A member that joins a group needs them for its target assignment. They change with a few records,
so replay updates them: they took half of its time to compute again.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quorate.assignors.java_order import TimelineMap
from quorate.assignors.java_order.copied_timeline import CopiedTimeline
from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import TopicPartition

_Target = Iterable[TopicPartition]


class TargetIndex:
    """What members have in their targets.

    `order`: of members. `counts`: member id → number of partitions. `owners`: topic id → partition
    → in how many targets it is; a partition in none is missing.
    """

    __slots__ = ("counts", "order", "owners")

    def __init__(self, members: TimelineMap[str, Any], targets: Mapping[str, _Target]) -> None:
        self.order = CopiedTimeline(members)
        self.counts: dict[str, int] = {}
        self.owners: dict[Uuid, dict[int, int]] = {}
        for member_id, target in targets.items():
            self.replace(member_id, (), target)

    def replace(self, member_id: str, old: _Target, new: _Target) -> None:
        """Take note that a member has another target; an empty one also stands for none."""
        owners = self.owners
        for topic in old:
            here = owners[topic.topic_id]
            for partition in topic.partitions:
                left = here[partition] - 1
                if left:
                    here[partition] = left
                else:
                    del here[partition]
            if not here:
                del owners[topic.topic_id]
        count = 0
        for topic in new:
            here = owners.setdefault(topic.topic_id, {})
            count += len(topic.partitions)
            for partition in topic.partitions:
                here[partition] = here.get(partition, 0) + 1
        self.counts[member_id] = count
