"""What everything in a cluster uses: time, chance, turns, configs, what there is, and where problems are reported."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from uuid import UUID

from quorate.cluster.broker_configs import BrokerConfigs
from quorate.cluster.clock import Clock
from quorate.cluster.controller.state import ClusterState
from quorate.cluster.turns import Turns
from quorate.codecs import Uuid
from quorate.codecs.printable import brief

__all__ = ["Reports", "Services"]

_MOST_NOTES = 10_000
"""A client that is refused over and over again must not fill the memory with what is said of it."""

_MOST_NOTE = 2_000
"""Characters in a line of a note."""
_MOST_TRACE = 20_000
_MOST_FAILURES = 100


class Reports:
    """What no response can say.

    `notes`: the last thousands; `failures`: the first hundred tracebacks of faults of quorate's
    own, of which there were `failure_count`.
    """

    def __init__(self, on_note: Callable[[str], object] | None = None) -> None:
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.failure_count = 0
        self._on_note = on_note or (lambda text: None)

    def note(self, text: str, trace: str = "") -> None:
        """Report something in one line, which may be followed by a traceback.

        Clients choose names and ids in it: nothing in it acts on a terminal, and it has a largest
        size.
        """
        text = brief(text, _MOST_NOTE)
        if trace:
            text += ":\n" + "\n".join(brief(line, _MOST_NOTE) for line in trace[-_MOST_TRACE:].splitlines())
        if len(self.notes) >= _MOST_NOTES:
            del self.notes[: _MOST_NOTES // 2]
        self.notes.append(text)
        self._on_note(text)

    def failed(self, what: str, error: BaseException, where: str = "") -> None:
        """Report that something failed by a fault of quorate's own, count it, and keep its traceback.

        `where`: the note begins with it.
        """
        trace = "".join(traceback.format_exception(error))
        self.note(f"{where}{what} failed, which is a fault of quorate's", trace)
        self.failure_count += 1
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(trace[-_MOST_TRACE:])


@dataclass(frozen=True, slots=True)
class Services:
    """`state`: what there is, which the controller alone changes; `turns`: of large requests; `random`: of ids, places and choices."""

    broker_configs: BrokerConfigs
    state: ClusterState
    clock: Clock
    turns: Turns
    random: Random
    reports: Reports

    def new_uuid(self) -> Uuid:
        """A random id."""
        return Uuid(self.new_id().bytes)

    def new_id(self) -> UUID:
        """A random UUID."""
        return UUID(int=self.random.getrandbits(128), version=4)
