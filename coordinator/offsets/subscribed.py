"""Which topics a group subscribes to: their offsets neither expire nor may be deleted."""

from quorate.codecs import DecodeError
from quorate.codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_subscription
from quorate.codecs.messages.protocol import ConsumerProtocolSubscription
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, Group

__all__ = ["is_subscribed", "subscribed_topics"]


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether some member reads the topic. In a classic group whose members' subscriptions cannot be read, it counts as read."""
    if isinstance(group, ConsumerGroup):
        return topic in group.topic_subscribers
    topics = subscribed_topics(group) if isinstance(group, ClassicGroup) else set()
    return topics is not None and topic in topics


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics of all members; `None` if it is not a group of consumers, or has no protocol."""
    if group.metadata is None or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if not group.members:
        return set()
    topics: set[str] = set()
    for member in group.members.values():
        try:
            found = decode_subscription(member.subscription).message
        except DecodeError:
            return None
        assert isinstance(found, ConsumerProtocolSubscription)
        topics.update(found.topics)
    return topics
