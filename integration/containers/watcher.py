"""Removes what a session has started, once its process has ended.

`python -m quorate.integration.containers.watcher LABEL VALUE`

The process holds the other end of the standard input, which ends when the process closes it or
dies. A byte on it means that everything is kept.
"""

import signal
import sys

from quorate.integration.containers.engine import remove_labelled


def main() -> None:
    """Wait for the end of the process, then remove."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not sys.stdin.buffer.read(1):
        remove_labelled(*sys.argv[1:])


if __name__ == "__main__":
    main()
