"""Ctrl-C: ends the process without a traceback during imports, then raises `KeyboardInterrupt`."""

import _thread
import os
import signal
import sys
import time
from types import FrameType

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT, as in shells."""

_AGAIN_S = 0.01


def _end(_: int, __: FrameType | None) -> None:
    # Not an exception: code that is being imported may swallow or replace it. Nothing has been
    # printed that could get lost.
    os._exit(INTERRUPTED)


def end_on_interrupt() -> None:
    """End the process on Ctrl-C, until `raise_interrupts`. An ignored SIGINT stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_interrupts() -> None:
    """Raise `KeyboardInterrupt` on Ctrl-C from now on. Does nothing without `end_on_interrupt`."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _unraisable


def _unraisable(lost: "sys.UnraisableHookArgs", /) -> None:
    # Python drops exceptions in destructors and callbacks of weak references, of which imports
    # have many. Send the signal again after the callback.
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_again, (_thread.get_ident(),))
    else:
        sys.__unraisablehook__(lost)


def _interrupt_again(thread: int) -> None:
    time.sleep(_AGAIN_S)
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(thread, signal.SIGINT)  # also interrupts a blocking call of the thread
