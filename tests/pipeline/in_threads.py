"""What goes on in a cluster while a test reads it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

__all__ = ["in_threads"]


@contextmanager
def in_threads(*work: Callable[[Event], None]) -> Iterator[None]:
    """Have all of these run while the block does.

    Each is given what tells it to come to its end, which is waited for.
    """
    done = Event()
    threads = [Thread(target=one, args=(done,)) for one in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
