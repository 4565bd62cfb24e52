"""Standard streams that someone closed, or that cannot show every character. What goes through them is not known here."""

import io
import os
import sys

__all__ = ["ready_streams"]


def ready_streams() -> None:
    """Make the three streams safe to use.

    Python has `None` for a closed one. Instead, reading and writing it shall fail with the system's own words (EBADF); what goes to a closed
    stderr is dropped. Characters that the encoding of stdout lacks become question marks.
    """
    # In this order: the stand-ins get the lowest free descriptors, and these are the closed ones.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
