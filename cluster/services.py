"""Services for all parts of a cluster: clock, randomness, turns, configs, metadata and reports."""

import traceback
from collections.abc import Callable
from random import Random
from uuid import UUID

from quorate.cluster.broker_configs import BrokerConfigs
from quorate.cluster.clock import Clock
from quorate.cluster.controller.state import ClusterState
from quorate.cluster.turns import Turns
from quorate.codecs import Uuid
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.printable import brief

_MAX_NOTES = 10_000
"""Limits the memory that notes about repeated errors take."""

_MAX_LINE = 2_000
"""The maximum length of a line in a note."""
_MAX_TRACE = 20_000
_MAX_FAILURES = 100


class Reports:
    """Reports of problems that are in no response.

    `notes`: the last thousands; `failures`: the first hundred tracebacks of internal errors;
    `failure_count`: the number of internal errors; `has_listener`: whether notes are passed on.
    """

    def __init__(self, on_note: Callable[[str], object] | None = None) -> None:
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.failure_count = 0
        self.has_listener = on_note is not None
        self._on_note = on_note or (lambda text: None)

    def note(self, text: str, trace: str = "") -> None:
        """Report a line of text, optionally with a traceback.

        The text may contain names and ids that clients chose, so control characters are escaped and
        its length is limited.
        """
        text = brief(text, _MAX_LINE)
        if trace:
            text += ":\n" + "\n".join(brief(line, _MAX_LINE) for line in trace[-_MAX_TRACE:].splitlines())
        if len(self.notes) >= _MAX_NOTES:
            del self.notes[: _MAX_NOTES // 2]
        self.notes.append(text)
        self._on_note(text)

    def failed(self, what: str, error: BaseException, where: str = "") -> None:
        """Report an internal error, count it, and keep its traceback.

        `where`: the prefix of the note.
        """
        trace = "".join(traceback.format_exception(error))
        self.note(f"{where}{what} failed with an internal error", trace)
        self.failure_count += 1
        if len(self.failures) < _MAX_FAILURES:
            self.failures.append(trace[-_MAX_TRACE:])


@dataclass(frozen=True, slots=True)
class Services:
    """`state`: the metadata, which only the controller changes; `turns`: run large requests."""

    broker_configs: BrokerConfigs
    state: ClusterState
    clock: Clock
    turns: Turns
    random: Random
    reports: Reports

    def new_uuid(self) -> Uuid:
        """Return a random id."""
        return Uuid(self.new_id().bytes)

    def new_id(self) -> UUID:
        """Return a random UUID."""
        return UUID(int=self.random.getrandbits(128), version=4)
