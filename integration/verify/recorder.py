"""Run checks without a recording, to record what a cluster responds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from quorate.integration.verify.check import Check
from quorate.integration.verify.recordings import Recording
from quorate.integration.verify.session import CheckSession, CheckStep
from quorate.integration.verify.target import NotSupportedError, VerifyTarget


@dataclass(frozen=True, slots=True)
class Run:
    """A run of checks against a cluster; each check has names of its own."""

    target: VerifyTarget
    prefix: str
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def session(self, expected: Sequence[CheckStep] | None) -> CheckSession:
        """Return the session of the next check."""
        return CheckSession(self.target, f"{self.prefix}{next(self._numbers)}-", expected)


def record(target: VerifyTarget, prefix: str, checks: Sequence[Check]) -> Recording:
    """Return what a cluster responds to checks; no steps for those that it does not support."""
    run = Run(target, prefix)
    recording: dict[str, Sequence[CheckStep]] = {}
    for check in checks:
        session = run.session(None)
        try:
            check.script(session)
            recording[check.name] = tuple(session.steps)
        except NotSupportedError:
            recording[check.name] = ()
        finally:
            session.close()
    return recording
