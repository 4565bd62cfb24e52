"""Shortens a failing script while the two sides still differ in the same field."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tests.coordinator.scripts import Differs, Duel, KnownFailure
from tests.oracle.client import Oracle, OracleError

Line = dict[str, Any]

_FIELD = re.compile(r"^line \d+: .*\n  (\S+)", re.MULTILINE)


class Compared(Protocol):
    """Two sides that run the same ops, such as `Duel`."""

    oracle: Oracle
    note: str

    def __init__(self, oracle: Oracle, *, note: str = "") -> None: ...

    @property
    def script(self) -> list[Line]:
        """The ops so far."""

    def op(self, op: str, **fields: Any) -> Line:
        """Run an op on both sides. Raises `Differs`."""


def run_and_minimise(duel: Compared, history: Callable[[], object]) -> None:
    """Run a history. Raises `Differs` with the shortest script that was found."""
    try:
        history()
    except KnownFailure:
        raise
    except Differs as found:
        raise minimise(duel.oracle, duel.script, duel.note, kind=type(duel)) or found from None


def failure(oracle: Oracle, lines: Sequence[Line], note: str = "", *, kind: type[Compared] = Duel) -> Differs | None:
    """Return the difference in a script, or `None` if there is none or only a known failure."""
    duel = kind(oracle, note=note)
    for line in lines:
        fields = {name: value for name, value in line.items() if name not in ("op", "id")}
        try:
            duel.op(line["op"], **fields)
        except KnownFailure:
            return None
        except Differs as found:
            return found
        except OracleError:
            return None  # an invalid line, as an earlier one was left out
    return None


def minimise(
    oracle: Oracle, lines: Sequence[Line], note: str = "", *, tries: int = 400, kind: type[Compared] = Duel
) -> Differs | None:
    """Shorten a script in up to `tries` attempts, and return its difference.

    Returns `None` if the script does not fail when it is run again.
    """
    kept = list(lines)
    found = failure(oracle, kept, note, kind=kind)
    if found is None:
        return None
    field = _field(found)
    chunk = max(len(kept) // 2, 1)
    while tries > 0:
        at = 0
        while at < len(kept) and tries > 0:
            shorter = kept[:at] + kept[at + chunk :]
            tries -= 1
            shorter_found = failure(oracle, shorter, note, kind=kind)
            # Without an early line, such as the image, the sides may differ in another way.
            if shorter_found is None or _field(shorter_found) != field:
                at += chunk
            else:
                kept, found = shorter, shorter_found
        if chunk == 1:
            break
        chunk //= 2
    return found


def _field(found: Differs) -> str | None:
    """Return the first field that differs, without the positions of elements."""
    match = _FIELD.search(str(found))
    return None if match is None else re.sub(r"\d+", "", match[1])
