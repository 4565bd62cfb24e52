"""Whose turn it is to compute a group's target assignment by a client-side assignor (KIP-848).

In no record: after a load it is nobody's, and the next is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Self

__all__ = ["IDLE", "TRANSITIONS", "Computation", "Phase"]


class Phase(StrEnum):
    """How far the computation is."""

    NOBODY = "Nobody"
    """Nothing is to be computed, or the next heartbeat that comes gets the turn."""
    TOLD = "Told"
    """A member was told that it is its turn (ShouldComputeAssignment)."""
    COMPUTING = "Computing"
    """It has fetched the group (ConsumerGroupPrepareAssignment)."""


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.NOBODY: frozenset({Phase.NOBODY, Phase.TOLD}),
        Phase.TOLD: frozenset({Phase.TOLD, Phase.COMPUTING, Phase.NOBODY}),
        Phase.COMPUTING: frozenset({Phase.COMPUTING, Phase.TOLD, Phase.NOBODY}),
    }
)
"""Phase → what may follow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """One computation at a time.

    `member_id`: whose turn it is; `epoch`: the group epoch that it was told of, or fetched the
    group at.

    `deadline_ms`: when its time is over, and another one gets the turn. `late`: those whose time
    was over since the last assignment; they come last.
    """

    phase: Phase = Phase.NOBODY
    member_id: str = ""
    epoch: int = 0
    deadline_ms: int = 0
    late: frozenset[str] = frozenset()

    def told(self, member_id: str, *, epoch: int, deadline_ms: int, late: frozenset[str]) -> Self:
        """It is this member's turn, and it is told so."""
        return self._moved(Phase.TOLD, member_id=member_id, epoch=epoch, deadline_ms=deadline_ms, late=late)

    def computing(self, epoch: int) -> Self:
        """The member has fetched the group, as of this epoch."""
        return self._moved(Phase.COMPUTING, epoch=epoch)

    def refused(self) -> Self:
        """What the member handed in was not taken.

        It is to fetch the group again, in what time is left to it.
        """
        return self._moved(Phase.TOLD)

    def over(self) -> Self:
        """The member's time is over."""
        return self._moved(Phase.NOBODY, member_id="", late=self.late | {self.member_id})

    def given_up(self) -> Self:
        """The member is gone, so it is nobody's turn."""
        return self._moved(Phase.NOBODY, member_id="")

    def _moved(self, phase: Phase, **changes: object) -> Self:
        if phase not in TRANSITIONS[self.phase]:
            raise AssertionError(f"the computation of an assignment cannot go from {self.phase} to {phase}")
        return replace(self, phase=phase, **changes)  # type: ignore[arg-type]  # the methods above know the fields


IDLE = Computation()
"""Nothing to compute, nobody late."""
