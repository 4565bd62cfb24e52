"""States of a member of a share group, as a table.

There is little to tell: nobody has to give anything up, so a member is where the target is with one
step.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from quorate.coordinator.state.consumer import MemberState
from quorate.coordinator.state.share import ShareMember

__all__ = ["TRANSITIONS", "reached"]

TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = MappingProxyType(
    {
        MemberState.STABLE: frozenset({MemberState.STABLE}),
        # Kafka writes neither of these for a share group (KIP-932); they could come out of a log.
        MemberState.UNREVOKED_PARTITIONS: frozenset({MemberState.STABLE}),
        MemberState.UNRELEASED_PARTITIONS: frozenset({MemberState.STABLE}),
        MemberState.UNKNOWN: frozenset({MemberState.STABLE}),
    }
)
"""State → what may follow it."""


def reached(member: ShareMember, epoch: int) -> ShareMember:
    """The member at the target's epoch."""
    (state,) = TRANSITIONS[member.state]
    return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state)
