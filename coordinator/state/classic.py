"""Classic groups (JoinGroup, SyncGroup), as their records tell them.

What happens while a group rebalances is in no record, so a log shows them stable or empty.

A shard that serves members keeps `quorate.coordinator.classic.group.LiveGroup`s instead, which know
the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import ClassVar, Protocol

from quorate.assignors.java_order import JavaHashMap
from quorate.codecs import DecodeError
from quorate.codecs.consumer_protocol import decode_subscription
from quorate.codecs.messages.classic_group import GroupMetadataValue, MemberMetadata
from quorate.codecs.messages.protocol import ConsumerProtocolSubscription
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL, CoordinatorGroup, GroupKind

__all__ = ["ClassicGroup", "ClassicMember", "ClassicState", "topics_of"]


class ClassicState(StrEnum):
    """States of a classic group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicMember(Protocol):
    """What there is to know of a member, wherever it comes from."""

    @property
    def member_id(self) -> str:
        """Its id."""

    @property
    def group_instance_id(self) -> str | None:
        """Its name, if it is a static member (KIP-345)."""

    @property
    def client_id(self) -> str:
        """Its client's id."""

    @property
    def client_host(self) -> str:
        """Where it joined from, such as "/1.2.3.4"."""

    @property
    def assignment(self) -> bytes:
        """What the leader gave it."""


class ClassicGroup(CoordinatorGroup):
    """A classic group, or a group that only has offsets.

    `metadata`: its latest record of type 2; `None` for one that was made for offsets.
    """

    __slots__ = ("members", "metadata")

    kind: ClassVar[GroupKind] = GroupKind.CLASSIC

    members: Mapping[str, ClassicMember]

    def __init__(self, group_id: str, metadata: GroupMetadataValue | None = None) -> None:
        super().__init__(group_id)
        self.metadata = metadata
        self.members = {} if metadata is None else {member.member_id: member for member in metadata.members}

    @property
    def protocol_type(self) -> str:
        """Such as "consumer" or "connect"; "" for a group that only has offsets."""
        return "" if self.metadata is None else self.metadata.protocol_type

    @property
    def protocol(self) -> str | None:
        """The assignor that was chosen; `None` without members."""
        return None if self.metadata is None else self.metadata.protocol

    @property
    def generation(self) -> int:
        """How many rebalances there were."""
        return 0 if self.metadata is None else self.metadata.generation

    @property
    def since_ms(self) -> int:
        """When it came into its state; -1 where that is not known."""
        return -1 if self.metadata is None else self.metadata.current_state_timestamp

    @property
    def is_empty(self) -> bool:
        """Whether its state is Empty."""
        return not self.members

    @property
    def is_simple(self) -> bool:
        """Whether it was made for offsets only; any other kind of group may take its place."""
        return not self.protocol_type and not self.members

    @property
    def state(self) -> str:
        """Stable or Empty."""
        return (ClassicState.STABLE if self.members else ClassicState.EMPTY).value

    @property
    def subscribed_topics(self) -> AbstractSet[str] | None:
        """The topics of all members, as of the latest generation; `None` if it is no group of consumers, or they are not known."""
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not self.members:
            return frozenset()
        return None if self.protocol is None else topics_of(self.subscription(one) for one in self.members)

    def ordered_members(self) -> Sequence[ClassicMember]:
        """The members in the order of Kafka's map."""
        ordered: JavaHashMap[str, ClassicMember] = JavaHashMap()
        for member_id, member in self.members.items():
            ordered.put(member_id, member)
        return [member for _, member in ordered.items()]

    def subscription(self, member_id: str) -> bytes:
        """What a member announced with the protocol that was chosen."""
        member = self.members[member_id]
        assert isinstance(member, MemberMetadata)
        return member.subscription

    def static_member(self, instance_id: str) -> str | None:
        """The id of the member that has this name."""
        return next((one.member_id for one in self.members.values() if one.group_instance_id == instance_id), None)


def topics_of(subscriptions: Iterable[bytes]) -> AbstractSet[str] | None:
    """The topics that these subscriptions name; `None` if one cannot be read."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            found = decode_subscription(subscription).message
        except DecodeError:
            # Kafka reads the fields of version 0 only, which all versions begin with, whatever
            # comes then.
            try:
                found = decode_subscription(b"\0\0" + subscription[2:]).message
            except DecodeError:
                return None
        assert isinstance(found, ConsumerProtocolSubscription)
        topics.update(found.topics)
    return topics
