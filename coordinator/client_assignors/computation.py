"""State of a target assignment's computation by a member (KIP-848).

It is in no record: after a load, the next member that sends a heartbeat computes the target.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Self

from quorate.codecs.lazy_dataclass import dataclass


class Phase(StrEnum):
    """The phase of a computation."""

    IDLE = "Idle"
    """No member computes a target assignment."""
    REQUESTED = "Requested"
    """A member was requested to compute one (ShouldComputeAssignment)."""
    COMPUTING = "Computing"
    """The member has fetched the group (ConsumerGroupPrepareAssignment)."""


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.IDLE: frozenset({Phase.IDLE, Phase.REQUESTED}),
        Phase.REQUESTED: frozenset({Phase.REQUESTED, Phase.COMPUTING, Phase.IDLE}),
        Phase.COMPUTING: frozenset({Phase.COMPUTING, Phase.REQUESTED, Phase.IDLE}),
    }
)
"""Phase → possible next phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """The computation of a target assignment, at most one per group.

    `member_id`: the computing member. `epoch`: the group epoch of the last request to it, or at
    which it fetched the group. `deadline_ms`: when another member is selected. `late`: members that
    missed a deadline since the last assignment; they are selected last.
    """

    phase: Phase = Phase.IDLE
    member_id: str = ""
    epoch: int = 0
    deadline_ms: int = 0
    late: frozenset[str] = frozenset()

    def requested(self, member_id: str, *, epoch: int, deadline_ms: int, late: frozenset[str]) -> Self:
        """Return the computation requested from this member."""
        return self._changed(Phase.REQUESTED, member_id=member_id, epoch=epoch, deadline_ms=deadline_ms, late=late)

    def computing(self, epoch: int) -> Self:
        """Return the computation after the member fetched the group at this epoch."""
        return self._changed(Phase.COMPUTING, epoch=epoch)

    def rejected(self) -> Self:
        """Return the computation after the member's assignment was rejected.

        The member must fetch the group again before its deadline.
        """
        return self._changed(Phase.REQUESTED)

    def timed_out(self) -> Self:
        """Return the computation after the member's deadline."""
        return self._changed(Phase.IDLE, member_id="", late=self.late | {self.member_id})

    def abandoned(self) -> Self:
        """Return the computation after the member left."""
        return self._changed(Phase.IDLE, member_id="")

    def _changed(self, phase: Phase, **changes: object) -> Self:
        if phase not in TRANSITIONS[self.phase]:
            raise AssertionError(f"the computation of an assignment cannot change from {self.phase} to {phase}")
        return replace(self, phase=phase, **changes)  # type: ignore[arg-type]  # the methods above know the fields


NO_COMPUTATION = Computation()
"""No computation, and no late members."""
