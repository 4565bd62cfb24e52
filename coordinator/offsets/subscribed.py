"""Which topics a group subscribes to: their offsets neither expire nor may be deleted."""

from quorate.coordinator.state import ClassicGroup, ConsumerGroup, CoordinatorGroup
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL

__all__ = ["is_subscribed"]


def is_subscribed(group: CoordinatorGroup, topic: str) -> bool:
    """Whether some member reads the topic. In a classic group of consumers whose subscriptions are not known, it counts as read."""
    if isinstance(group, ConsumerGroup):
        return topic in group.topic_subscribers
    if not isinstance(group, ClassicGroup):
        return False
    topics = group.subscribed_topics
    return group.protocol_type == CONSUMER_PROTOCOL if topics is None else topic in topics
