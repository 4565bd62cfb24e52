"""Subscriptions of a share group: topics in the order of Kafka's map, and subscription type."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from quorate.assignors.java_order import (
    JavaHashMap,
    JavaHashSet,
    copied_map_capacity,
    copied_set,
    hash_map_capacity,
    in_java_order,
)
from quorate.assignors.subscription_type import SubscriptionType
from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.codecs.messages.share_group import ShareGroupMemberMetadataValue
from quorate.coordinator.consumer.members import same_names
from quorate.coordinator.results import RequestContext
from quorate.coordinator.state.share import ShareGroup
from quorate.coordinator.state.topic_counts import recounted

_LARGE = 256
"""Maps with fewer buckets are simulated step by step."""


def updated_metadata(
    old: ShareGroupMemberMetadataValue, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupMemberMetadataValue:
    """Return the member's metadata after this heartbeat; the same object if nothing changed.

    Fields that the request omits stay unchanged.
    """
    names = old.subscribed_topic_names if request.subscribed_topic_names is None else request.subscribed_topic_names
    rack = old.rack_id if request.rack_id is None else request.rack_id
    client = (rack, context.client_id, context.client_host)
    if client == (old.rack_id, old.client_id, old.client_host) and same_names(names, old.subscribed_topic_names):
        return old
    return ShareGroupMemberMetadataValue(
        rack_id=rack,
        client_id=context.client_id,
        client_host=context.client_host,
        subscribed_topic_names=tuple(in_java_order(dict.fromkeys(names))),
    )


def subscribers(group: ShareGroup, old: Iterable[str], new: Iterable[str]) -> Mapping[str, int]:
    """Return topic → number of members, after a member's topics change from `old` to `new`."""
    counts: dict[str, int] = dict(group.topic_subscribers)
    before, after = dict.fromkeys(old), dict.fromkeys(new)
    left, came = [name for name in before if name not in after], [name for name in after if name not in before]
    fewer = recounted(counts, left, 0, lambda count: count - 1)
    counts.update(fewer)
    counts.update(recounted(counts, came, 0, lambda count: count + 1))
    for name in [name for name, count in fewer.items() if count <= 0]:
        del counts[name]
    return counts


def in_map_order(
    group: ShareGroup, old: Sequence[str], new: Sequence[str], names: Collection[str], *, size: int, jdk: int
) -> list[str]:
    """Return `names`, some of the `size` topics of `subscribers`, in Kafka's order."""
    capacity = _capacity(group, old, new, size, jdk)
    if capacity >= _LARGE:
        from quorate.assignors.java_order import placed  # with NumPy, which takes 0.1 s to load

        found = placed(names, capacity)
        if found is not None:
            return found
    return [name for name in _counted(group, old, new, jdk) if name in names]


def _capacity(group: ShareGroup, old: Sequence[str], new: Sequence[str], size: int, jdk: int) -> int:
    """Return the number of buckets of the map of `_counted`, if at least `_LARGE`.

    A smaller map also grows when a bucket has too many entries.
    """
    before = group.topic_subscribers
    capacity = copied_map_capacity(len(before), jdk) if before else 16
    grown = hash_map_capacity(size, capacity)
    if new and grown != hash_map_capacity(size - 1, capacity):
        # It grows before a lookup: not for the last name, unless that is in the map.
        last = copied_set(new, jdk)[-1]
        if before.get(last, 0) - (last in old) <= 0:
            return hash_map_capacity(size - 1, capacity)
    return grown


def _counted(group: ShareGroup, old: Iterable[str], new: Iterable[str], jdk: int) -> Iterable[str]:
    """Return the topics of `subscribers` in the order of Kafka's copy of the map, step by step."""
    before = dict(group.topic_subscribers.ordered())
    counts: JavaHashMap[str, int] = JavaHashMap(copied_map_capacity(len(before), jdk) if before else None)
    for name, count in before.items():
        counts.put(name, count)
    # Like `compute`, which inserts at another place than `put`, and lets the map grow at another
    # time.
    for name in JavaHashSet.of(old, jdk=jdk):
        count = counts.compute_if_absent(name, int)
        if count > 1:
            counts.put(name, count - 1)
        else:
            counts.remove(name)
    for name in JavaHashSet.of(new, jdk=jdk):
        counts.put(name, counts.compute_if_absent(name, int) + 1)
    return counts


def subscription_type_of(counts: Iterable[int], members: int) -> SubscriptionType:
    """Return the subscription type: homogeneous if every member subscribes to every topic."""
    alike = set(counts) <= {members}
    return SubscriptionType.HOMOGENEOUS if alike else SubscriptionType.HETEROGENEOUS
