"""What a share group subscribes to when a member changes or goes: topics, in the order of Kafka's map of them, and the kind of subscription."""

from collections.abc import Iterable, Mapping

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, copied_map_capacity, string_key
from quorate.assignors.server import SubscriptionType
from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.codecs.messages.share_group import ShareGroupMemberMetadataValue
from quorate.coordinator.results import RequestContext
from quorate.coordinator.state.share import ShareGroup

__all__ = ["announced", "subscribers", "subscription_type_of"]


def announced(
    old: ShareGroupMemberMetadataValue, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupMemberMetadataValue:
    """What is known of the member after this heartbeat; the same object if nothing is new. What the request leaves out stays as it was."""
    names = set(
        old.subscribed_topic_names if request.subscribed_topic_names is None else request.subscribed_topic_names
    )
    rack = old.rack_id if request.rack_id is None else request.rack_id
    if (names, rack, context.client_id, context.client_host) == (
        set(old.subscribed_topic_names),
        old.rack_id,
        old.client_id,
        old.client_host,
    ):
        return old
    return ShareGroupMemberMetadataValue(
        rack_id=rack,
        client_id=context.client_id,
        client_host=context.client_host,
        subscribed_topic_names=tuple(sorted(names, key=string_key)),
    )


def subscribers(group: ShareGroup, old: Iterable[str], new: Iterable[str], *, jdk: int) -> Mapping[str, int]:
    """Topic → how many members name it, after a member that named the `old` topics names the `new` ones; in the order of Kafka's copy of the group's map."""
    before = dict(group.topic_subscribers.ordered())
    counts: JavaHashMap[str, int] = JavaHashMap(copied_map_capacity(len(before), jdk) if before else None)
    for name, count in before.items():
        counts.put(name, count)
    # As `compute` does, which is not where `put` would put a name, and lets the map grow at another time.
    for name in JavaHashSet.of(old, jdk=jdk):
        count = counts.compute_if_absent(name, int)
        if count > 1:
            counts.put(name, count - 1)
        else:
            counts.remove(name)
    for name in JavaHashSet.of(new, jdk=jdk):
        counts.put(name, counts.compute_if_absent(name, int) + 1)
    return dict(counts.items())


def subscription_type_of(counts: Iterable[int], members: int) -> SubscriptionType:
    """Whether every member names every topic."""
    alike = all(count == members for count in counts)
    return SubscriptionType.HOMOGENEOUS if alike else SubscriptionType.HETEROGENEOUS
