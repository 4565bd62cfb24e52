"""State transitions of share group members.

No partition is ever revoked first, so a member reaches its target in one step.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from quorate.coordinator.state.consumer_member import MemberState
from quorate.coordinator.state.share import ShareMember

TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = MappingProxyType(
    {
        MemberState.STABLE: frozenset({MemberState.STABLE}),
        # Kafka writes neither of these for a share group (KIP-932), but a log might have them.
        MemberState.UNREVOKED_PARTITIONS: frozenset({MemberState.STABLE}),
        MemberState.UNRELEASED_PARTITIONS: frozenset({MemberState.STABLE}),
        MemberState.UNKNOWN: frozenset({MemberState.STABLE}),
    }
)
"""State → possible next states."""


def advanced_to(member: ShareMember, epoch: int) -> ShareMember:
    """Return the member at the target epoch."""
    (state,) = TRANSITIONS[member.state]
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state)
