"""Whether output is coloured: on terminals, unless NO_COLOR or FORCE_COLOR says otherwise (https://no-color.org)."""

import os
import sys

__all__ = ["colour_asked_for", "stdout_has_colour"]


def colour_asked_for() -> bool | None:
    """What the environment asks for; `None` leaves it to each stream."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def stdout_has_colour() -> bool:
    """Whether to colour what goes to stdout."""
    asked = colour_asked_for()
    return sys.stdout.isatty() if asked is None else asked
