"""Classic groups (JoinGroup, SyncGroup), as their records tell them. What happens while a group rebalances is in no record, so a log shows them stable or empty."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from quorate.codecs.messages.classic_group import GroupMetadataValue, MemberMetadata
from quorate.coordinator.state.groups import Group, GroupKind

__all__ = ["ClassicGroup", "ClassicState"]


class ClassicState(StrEnum):
    """States of a classic group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup(Group):
    """A classic group, or a group that only has offsets. `metadata`: its latest record of type 2; `None` for one that was made for offsets."""

    __slots__ = ("members", "metadata")

    kind: ClassVar[GroupKind] = GroupKind.CLASSIC

    def __init__(self, group_id: str, metadata: GroupMetadataValue | None = None) -> None:
        super().__init__(group_id)
        self.metadata = metadata
        self.members: Mapping[str, MemberMetadata] = (
            {} if metadata is None else {member.member_id: member for member in metadata.members}
        )

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
    def is_empty(self) -> bool:
        """Whether nobody is a member."""
        return not self.members

    @property
    def is_simple(self) -> bool:
        """Whether it was made for offsets only; any other kind of group may take its place."""
        return not self.protocol_type and not self.members

    @property
    def state(self) -> str:
        """Stable or Empty."""
        return (ClassicState.STABLE if self.members else ClassicState.EMPTY).value
