"""Ctrl-C: it ends the process without a traceback while Python imports, and is `KeyboardInterrupt` once a command begins."""

import _thread
import os
import signal
import sys
import time
from types import FrameType

__all__ = ["INTERRUPTED", "end_at_once", "ready"]

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

_AGAIN_S = 0.01


def _end(_: int, __: FrameType | None) -> None:
    # Not an exception: in the middle of an import, some would be swallowed, or told as something
    # else. Nothing has been printed that could get lost.
    os._exit(INTERRUPTED)


def end_at_once() -> None:
    """Until `ready`, Ctrl-C ends the process. Nothing is changed for whoever ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def ready() -> None:
    """A command begins, and Ctrl-C is `KeyboardInterrupt` from now on, as in other programs.

    Nothing is changed where it was already.
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _unraisable


def _unraisable(lost: "sys.UnraisableHookArgs", /) -> None:
    # Python drops what is raised in destructors and callbacks of weak references, of which imports
    # have many: Ctrl-C comes again, once this one is over.
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_again, (_thread.get_ident(),))
    else:
        sys.__unraisablehook__(lost)


def _interrupt_again(thread: int) -> None:
    time.sleep(_AGAIN_S)
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(thread, signal.SIGINT)  # which also ends what the thread waits for
