"""Removes what a session has started once the process that started it is gone.

`python -m quorate.integration.containers.watcher LABEL VALUE`.

That process holds the other end of our standard input: reading ends when it closes it, or dies. One
byte instead means that everything shall stay.
"""

import signal
import sys

from quorate.integration.containers.engine import remove_labelled


def main() -> None:
    """Wait, then remove."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not sys.stdin.buffer.read(1):
        remove_labelled(*sys.argv[1:])


if __name__ == "__main__":
    main()
