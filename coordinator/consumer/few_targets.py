"""Target assignments by `uniform` of small groups with equal subscriptions (KIP-848).

It is `run_assignor` without a `GroupSpec`: most groups are small, and for those the arrays took
longer to make than the assignment. NumPy is not needed.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat

from quorate.assignors.java_order import copied_set, copied_set_capacity
from quorate.assignors.java_order.few import few_in_order, map_of_timeline
from quorate.assignors.server.homogeneous_few import (
    STABLE_SINCE,
    FewMembers,
    Previous,
    assign_in_c,
    assign_lists,
    previous_target,
)
from quorate.assignors.subscription_type import SubscriptionType
from quorate.assignors.topic_lists import TopicLists
from quorate.codecs import Uuid
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.consumer.target import NewTargets, TargetRequest
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.target_index import TargetIndex

FEW = 2000
"""For so many members and partitions together, or fewer, lists are faster."""

_OLDEST = KafkaVersion(4, 0, 0)
"""The first release whose algorithm is implemented."""


def few_targets(shard: CoordinatorShard, request: TargetRequest) -> NewTargets | None:
    """Return the target assignments of a small group; `None` if `run_assignor` is needed.

    It is needed for more members and partitions than `FEW`, different subscriptions, regexes, a
    static member that is replaced, and targets with partitions that the group does not subscribe to
    or that were deleted. Raises `AssignorError`.
    """
    group, own, jdk = request.group, request.member, shard.config.jdk
    members, stored = group.members, group.targets
    if (
        len(members) > FEW
        or request.subscription_type is not SubscriptionType.HOMOGENEOUS
        or group.regex_subscribers
        or own.metadata.subscribed_topic_regex
        or request.replaced is not None
        or shard.config.kafka_version < _OLDEST
    ):
        return None
    index, own_id = group.target_index, own.member_id
    order = map_of_timeline(members, own_id) if index is None else index.order.with_last(own_id)
    first = order[0]
    names = request.topics if first == own_id else members[first].metadata.subscribed_topic_names
    topics = _Topics(shard.image, names, jdk)
    if len(order) + topics.total > FEW:
        group.target_index = None
        return None
    if index is None:
        index = group.target_index = TargetIndex(members, stored)
    unowned = topics.unowned(index.owners)
    if unowned is None or not stored.keys() <= members.keys():
        return None
    counts = list(map(index.counts.get, order, repeat(0)))

    def record(place: int) -> list[int]:
        numbers: list[int] = []
        for one in stored[order[place]]:
            numbers += topics.lists.numbers(topics.number_of[one.topic_id], one.partitions)
        return numbers

    def previous(place: int) -> Previous:
        return previous_target(topics.lists, topics.lists.by_topic(record(place)), 0, jdk)

    stable = shard.config.kafka_version >= STABLE_SINCE
    found = assign_in_c(topics.lists, counts, unowned, record, jdk, stable=stable)
    if found is None:
        places = range(len(order))
        few = FewMembers(topics.lists, topics.subscribed, places, counts, counts, unowned, topics.total, previous)
        found = assign_lists(few, jdk, stable=stable)
    changed = {order[place]: topics.by_id(numbers) for place, numbers in found}
    return NewTargets(order, changed)


class _Topics:
    """The existing topics of a subscription.

    `ids`: in the broker's order; `number_of`: their places in it; `total`: number of partitions.
    """

    __slots__ = ("ids", "lists", "number_of", "sizes", "subscribed", "total")

    def __init__(self, image: MetadataImage, names: tuple[str, ...], jdk: int) -> None:
        known = image.topics
        topics = [known[name] for name in copied_set(names, jdk) if name in known]
        # The size is that of all names, whether they exist or not.
        ids = few_in_order([topic.id for topic in topics], copied_set_capacity(len(set(names)), jdk))
        size_of = {topic.id: topic.partitions for topic in topics}
        self.ids = ids
        self.sizes = sizes = [size_of[topic_id] for topic_id in ids]
        self.number_of = {topic_id: number for number, topic_id in enumerate(ids)}
        self.subscribed = frozenset(range(len(ids)))
        first, topic_of, partition_of = [0], list[int](), list[int]()
        for number, size in enumerate(sizes):
            first.append(first[-1] + size)
            topic_of += [number] * size
            partition_of += range(size)
        self.total = first[-1]
        self.lists = TopicLists(ids, first, topic_of, partition_of)

    def by_id(self, numbers: Sequence[int]) -> dict[Uuid, list[int]]:
        """Return a target's partitions by topic."""
        ids = self.ids
        return {ids[topic]: partitions for topic, partitions in self.lists.by_topic(numbers).items()}

    def unowned(self, owners: Mapping[Uuid, Mapping[int, int]]) -> list[int] | None:
        """Return the numbers of partitions without owner; `None` if others have owners."""
        found: list[int] = []
        topics_with_owner = 0
        for topic_id, first, size in zip(self.ids, self.lists.first, self.sizes, strict=False):
            owned = owners.get(topic_id)
            if owned is None:
                found += range(first, first + size)
                continue
            topics_with_owner += 1
            free = [first + partition for partition in range(size) if partition not in owned]
            if len(free) + len(owned) != size:
                return None
            found += free
        return found if topics_with_owner == len(owners) else None
