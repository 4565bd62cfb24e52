"""The consumer protocol: subscriptions and assignments as Java's consumer writes and reads them.

Knows no client. Subscriptions are written in version 3: sorted topics and owned partitions, the
generation, and the rack (KIP-429, KIP-792, KIP-881).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.assignors.model import Member
from quorate.assignors.topology import grouped
from quorate.codecs import DecodeError
from quorate.codecs.consumer_protocol import decode_subscription, encode_protocol
from quorate.codecs.messages.protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ProtocolTopicPartition,
)
from quorate.codecs.printable import brief

log = logging.getLogger(__name__)

VERSION = 3
"""The version of subscriptions and assignments that Kafka's clients write since 3.5."""

EMPTY_SUBSCRIPTION = encode_protocol(ConsumerProtocolSubscription(topics=()), 0)
"""In place of a subscription that cannot be decoded, where a client decodes it itself."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A member in the leader's JoinGroup response; `group_instance_id` is in it since version 5."""

    member_id: str
    subscription: bytes = field(repr=False)
    group_instance_id: str | None = None


def subscription_bytes(
    topics: Iterable[str],
    *,
    user_data: bytes | None = None,
    owned: Iterable[tuple[str, int]] = (),
    generation: int = -1,
    rack: str | None = None,
) -> bytes:
    """Encode a member's subscription, byte for byte as Java's consumer does."""
    message = ConsumerProtocolSubscription(
        topics=tuple(sorted(topics)),
        user_data=user_data,
        owned_partitions=by_topic(sorted(owned)),
        generation_id=generation,
        rack_id=rack or None,
    )
    return encode_protocol(message, VERSION)


def assignment_bytes(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Encode a member's assignment, in the order given, as a Java leader does."""
    return encode_protocol(ConsumerProtocolAssignment(assigned_partitions=by_topic(partitions)), VERSION)


def by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[ProtocolTopicPartition, ...]:
    """Group partitions by topic; topics and partitions keep the order of first appearance."""
    by_name = grouped(partitions)
    return tuple(ProtocolTopicPartition(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_name.items())


def partitions_of(topics: Iterable[ProtocolTopicPartition]) -> list[tuple[str, int]]:
    """Reverse `by_topic`."""
    return [(topic.topic, partition) for topic in topics for partition in topic.partitions]


def read_members(joined: Sequence[Joined], *, group: str) -> dict[str, Member]:
    """Decode the members of a JoinGroup response, in its order.

    All versions from 0 are read by Kafka's rule (newer ones as 3). A member whose subscription
    cannot be decoded is logged and has an empty subscription, so it gets no partitions. A Java
    leader fails in this case, and the whole group with it.
    """
    members: dict[str, Member] = {}
    for one in joined:
        try:
            message = decode_subscription(one.subscription).message
        except DecodeError as error:
            log.error(
                "group %s: the subscription of member %s cannot be decoded (%s): it gets no partitions. "
                "Upgrade or remove it; its host is in `kafka-consumer-groups.sh --describe --members`",
                group,
                _named(one),
                error,
            )
            members[one.member_id] = Member(instance_id=one.group_instance_id)
            continue
        assert isinstance(message, ConsumerProtocolSubscription)
        members[one.member_id] = Member(
            topics=message.topics,
            rack=message.rack_id or None,
            instance_id=one.group_instance_id,
            owned=partitions_of(message.owned_partitions),
            generation=max(message.generation_id, -1),
            user_data=message.user_data,
        )
    return members


def fenced(group: str, instance: str | None, member: str) -> str:
    """Return the error message for a static member that another one has replaced (KIP-345)."""
    return (
        f"another consumer joined group {group} with group_instance_id {instance!r}, so this one "
        f"({member or 'not yet a member'}) is fenced: "
        f"close it, and give each running consumer its own group_instance_id"
    )


def unknown_topics(members: Mapping[str, Member], known: Iterable[str]) -> dict[str, list[str]]:
    """Return subscribed topics that are not known, with the members that subscribe to them."""
    found: dict[str, list[str]] = {}
    known = set(known)
    for member_id, member in members.items():
        for topic in member.topics:
            if topic not in known:
                found.setdefault(topic, []).append(member_id)
    return found


def _named(one: Joined) -> str:
    member = brief(one.member_id)
    return member if one.group_instance_id is None else f"{member} (instance {brief(one.group_instance_id)})"
