"""Classic groups (JoinGroup, SyncGroup) as stored in records.

No record has the state of a rebalance, so a log shows groups as stable or empty. A shard that
serves members uses `quorate.coordinator.classic.group.LiveGroup`s, which have that state.
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


class ClassicState(StrEnum):
    """States of a classic group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicMember(Protocol):
    """A member of a classic group, from a record or live."""

    @property
    def member_id(self) -> str:
        """The member id."""

    @property
    def group_instance_id(self) -> str | None:
        """The instance id of a static member (KIP-345)."""

    @property
    def client_id(self) -> str:
        """The client id."""

    @property
    def client_host(self) -> str:
        """The host from which it joined, such as "/1.2.3.4"."""

    @property
    def assignment(self) -> bytes:
        """The assignment from the leader."""


class ClassicGroup(CoordinatorGroup):
    """A classic group, or a group that only has offsets.

    `metadata`: its latest record of type 2; `None` if it was created by an offset commit.
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
        """The protocol type, such as "consumer" or "connect"; "" for a group of offsets only."""
        return "" if self.metadata is None else self.metadata.protocol_type

    @property
    def protocol(self) -> str | None:
        """The selected assignor; `None` without members."""
        return None if self.metadata is None else self.metadata.protocol

    @property
    def generation(self) -> int:
        """The generation: the number of rebalances."""
        return 0 if self.metadata is None else self.metadata.generation

    @property
    def since_ms(self) -> int:
        """When it entered its state, in ms; -1 if unknown."""
        return -1 if self.metadata is None else self.metadata.current_state_timestamp

    @property
    def is_empty(self) -> bool:
        """Whether its state is Empty."""
        return not self.members

    @property
    def is_simple(self) -> bool:
        """Whether it only has offsets; a group of any type may replace it."""
        return not self.protocol_type and not self.members

    @property
    def state(self) -> str:
        """Stable or Empty."""
        return (ClassicState.STABLE if self.members else ClassicState.EMPTY).value

    @property
    def subscribed_topics(self) -> AbstractSet[str] | None:
        """The topics of all members in the latest generation.

        `None` if the protocol type is not "consumer", or a subscription cannot be decoded.
        """
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not self.members:
            return frozenset()
        return None if self.protocol is None else topics_of(self.subscription(member) for member in self.members)

    def ordered_members(self) -> Sequence[ClassicMember]:
        """Return the members in the order of Kafka's map."""
        ordered: JavaHashMap[str, ClassicMember] = JavaHashMap()
        for member_id, member in self.members.items():
            ordered.put(member_id, member)
        return [member for _, member in ordered.items()]

    def subscription(self, member_id: str) -> bytes:
        """Return a member's metadata for the selected protocol."""
        member = self.members[member_id]
        assert isinstance(member, MemberMetadata)
        return member.subscription

    def static_member(self, instance_id: str) -> str | None:
        """Return the member id of an instance id."""
        return next(
            (member.member_id for member in self.members.values() if member.group_instance_id == instance_id), None
        )


def topics_of(subscriptions: Iterable[bytes]) -> AbstractSet[str] | None:
    """Return the topics of subscriptions; `None` if one cannot be decoded."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            found = decode_subscription(subscription).message
        except DecodeError:
            # Kafka reads the fields of version 0 only, with which all versions begin.
            try:
                found = decode_subscription(b"\0\0" + subscription[2:]).message
            except DecodeError:
                return None
        assert isinstance(found, ConsumerProtocolSubscription)
        topics.update(found.topics)
    return topics
