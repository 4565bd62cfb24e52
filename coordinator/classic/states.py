"""The states of a classic group, and their transitions."""

from collections.abc import Mapping
from types import MappingProxyType

from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state.classic import ClassicState

TRANSITIONS: Mapping[ClassicState, frozenset[ClassicState]] = MappingProxyType(
    {
        ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
        ClassicState.PREPARING_REBALANCE: frozenset(
            {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}
        ),
        ClassicState.COMPLETING_REBALANCE: frozenset(
            {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}
        ),
        ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
        ClassicState.DEAD: frozenset({ClassicState.DEAD}),
    }
)
"""State → possible next states. Clients never see a dead group, as its tombstone removes it."""


class IllegalTransition(ApiError):
    """An illegal state transition. Clients get UNKNOWN_SERVER_ERROR, as from Kafka."""

    def __init__(self, group_id: str, old: ClassicState, new: ClassicState) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group_id} cannot change from {old.value} to {new.value}"
        )


def can_rebalance(state: ClassicState) -> bool:
    """Return whether a rebalance may start: not while preparing one, and not for a dead group."""
    return ClassicState.PREPARING_REBALANCE in TRANSITIONS[state]


def check_transition(group_id: str, old: ClassicState, new: ClassicState) -> None:
    """Raise `IllegalTransition` unless `new` may follow `old`."""
    if new not in TRANSITIONS[old]:
        raise IllegalTransition(group_id, old, new)
