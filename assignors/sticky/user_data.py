"""Encodes the user data of sticky members as Kafka's clients do."""

from collections.abc import Sequence

from quorate.assignors import java_order
from quorate.assignors.topology import grouped
from quorate.codecs.messages.protocol import (
    CooperativeStickyAssignorUserData,
    ProtocolTopicPartition,
    StickyAssignorUserData,
)
from quorate.codecs.sticky_user_data import encode_cooperative_sticky_user_data, encode_sticky_user_data


def sticky_user_data(owned: Sequence[tuple[str, int]], generation: int) -> bytes:
    """Encode owned partitions by topic, in Kafka's hash map order, and the generation."""
    by_topic = grouped(owned)
    last_is_new = bool(owned) and len(by_topic[owned[-1][0]]) == 1
    entries = [ProtocolTopicPartition(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items()]
    order = java_order.computed_map_order(java_order.string_hashes(list(by_topic)), last_is_new=last_is_new)
    data = StickyAssignorUserData(previous_assignment=tuple(entries[index] for index in order), generation=generation)
    return encode_sticky_user_data(data)


def cooperative_user_data(generation: int) -> bytes:
    """Encode the generation."""
    return encode_cooperative_sticky_user_data(CooperativeStickyAssignorUserData(generation=generation))
