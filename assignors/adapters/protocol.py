"""What members tell each other through the group coordinator, as Java's consumer writes and reads it.

Knows no client.

A subscription is written as version 3: topics and owned partitions sorted, the generation, and the
rack (KIP-429, KIP-792, KIP-881).
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

__all__ = [
    "EMPTY_SUBSCRIPTION",
    "VERSION",
    "Joined",
    "assignment_bytes",
    "by_topic",
    "fenced",
    "partitions_of",
    "read_members",
    "subscription_bytes",
    "unknown_topics",
]

log = logging.getLogger(__name__)

VERSION = 3
"""The version of subscriptions and assignments that Kafka's clients have written since 3.5."""

EMPTY_SUBSCRIPTION = encode_protocol(ConsumerProtocolSubscription(topics=()), 0)
"""Stands for a subscription that cannot be read, where a client insists on reading it itself."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A member as JoinGroup's answer shows it to the leader; `group_instance_id` is in it since version 5."""

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
    """A member's subscription, byte for byte what Java's consumer sends for it."""
    message = ConsumerProtocolSubscription(
        topics=tuple(sorted(topics)),
        user_data=user_data,
        owned_partitions=by_topic(sorted(owned)),
        generation_id=generation,
        rack_id=rack or None,
    )
    return encode_protocol(message, VERSION)


def assignment_bytes(partitions: Iterable[tuple[str, int]]) -> bytes:
    """A member's assignment, in the order given, as a Java leader sends it."""
    return encode_protocol(ConsumerProtocolAssignment(assigned_partitions=by_topic(partitions)), VERSION)


def by_topic(partitions: Iterable[tuple[str, int]]) -> tuple[ProtocolTopicPartition, ...]:
    """Partitions grouped by topic; topics and partitions in the order in which they appear first."""
    by_name = grouped(partitions)
    return tuple(ProtocolTopicPartition(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_name.items())


def partitions_of(topics: Iterable[ProtocolTopicPartition]) -> list[tuple[str, int]]:
    """The reverse of `by_topic`."""
    return [(one.topic, partition) for one in topics for partition in one.partitions]


def read_members(joined: Sequence[Joined], *, group: str) -> dict[str, Member]:
    """The members that the leader assigns to, in the order of JoinGroup's answer.

    Versions from 0 on are read by Kafka's rule (one newer than 3 as 3). A member whose subscription
    cannot be read subscribes to nothing and gets nothing, and the log names it: Java's leader fails
    there, and with it the whole group.
    """
    members: dict[str, Member] = {}
    for one in joined:
        try:
            message = decode_subscription(one.subscription).message
        except DecodeError as error:
            log.error(
                "group %s: the subscription of member %s cannot be read (%s): it gets no partitions. "
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
    """What to tell the user of a static member that another one has replaced (KIP-345)."""
    return (
        f"another consumer joined group {group} with group_instance_id {instance!r}, so this one ({member or 'not yet a member'}) is out: "
        f"close it, and give each consumer that runs a group_instance_id of its own"
    )


def unknown_topics(members: Mapping[str, Member], known: Iterable[str]) -> dict[str, list[str]]:
    """Topics that are subscribed to and not known, with the members that want them."""
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
