"""What goes wrong in a simulation."""

from quorate.codecs.errors import QuorateError


class SimulationError(QuorateError, RuntimeError):
    """A scenario used what a simulation does not have, such as threads, or did not end in time.

    Also parameters that are not valid. `remedy`: what to do, if known.
    """

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__("; ".join((message, *remedy)))
        self.remedy = remedy


class NotDeterministic(SimulationError):
    """Two runs with the same seed differ. The message names the first step that differs."""


class InvariantBroken(QuorateError, AssertionError):
    """A schedule broke an invariant.

    `invariant`: its name, such as "acknowledged records are consumed".
    """

    def __init__(self, invariant: str, problem: str) -> None:
        super().__init__(f"{invariant}: {problem}")
        self.invariant = invariant


class ScheduleFailed(QuorateError, AssertionError):
    """A schedule failed; the exception that it raised is the cause (`__cause__`).

    `token`: repeats the schedule. `faults`: a description of each remaining fault. `trace`: what
    happened, as text.
    """

    def __init__(self, message: str, token: str, faults: tuple[str, ...], trace: str) -> None:
        super().__init__(message)
        self.token = token
        self.faults = faults
        self.trace = trace
