"""`Token`: what repeats a schedule, as a short text.

`1-4711-ab12cd34` is the schedule of seed 4711 with all of its faults; `1-4711:2,5-ab12cd34` has
only faults 2 and 5, and `1-4711:2q-ab12cd34` also a quiet network. The last part is the beginning
of the trace's hash.
"""

import re
from dataclasses import dataclass

from quorate.simulation.errors import SimulationError

_FORMAT = re.compile(r"1-(\d+)(?::([\d,]*)(q?))?-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Token:
    """A schedule.

    `faults`: the numbers of the faults that happen, by default all. `quiet`: without splits, and
    with a fixed latency. `trace`: the beginning of the trace's hash.
    """

    seed: int
    faults: tuple[int, ...] | None = None
    quiet: bool = False
    trace: str = "00000000"

    def __str__(self) -> str:
        chosen = "" if self.faults is None else ":" + ",".join(map(str, self.faults)) + "q" * self.quiet
        return f"1-{self.seed}{chosen}-{self.trace}"

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Return the token in a text. Raises `SimulationError`."""
        found = _FORMAT.fullmatch(text.strip())
        if found is None:
            raise SimulationError(f"{text!r} is no token of a simulation; a token is as 1-4711:2,5-ab12cd34")
        faults = None if found[2] is None else tuple(int(one) for one in found[2].split(",") if one)
        return cls(int(found[1]), faults, bool(found[3]), found[4])
