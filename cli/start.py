"""Where the installed command begins: Ctrl-C ends it without a traceback while Python still imports what the command needs.

Imports nothing of ours before that; what is imported behind it takes most of the time until a command begins.
"""

import os
import signal
from types import FrameType

__all__ = ["INTERRUPTED", "main", "ready"]

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""


def _end(_: int, __: FrameType | None) -> None:
    # Not an exception: in the middle of an import, some would be swallowed, or told as something else. Nothing has been printed that could get lost.
    os._exit(INTERRUPTED)


def ready() -> None:
    """A command begins, and Ctrl-C is `KeyboardInterrupt` from now on, as in other programs. Nothing is changed where it was already."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """The command `quorate`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started us wants it ignored
        signal.signal(signal.SIGINT, _end)
    from quorate.cli.main import main as command

    command()
