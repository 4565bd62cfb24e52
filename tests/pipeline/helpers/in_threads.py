"""Run work in threads while a test reads a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def in_threads(*work: Callable[[Event], None]) -> Iterator[None]:
    """Run functions in threads during the block.

    Each gets an event that is set at the end of the block, and is joined.
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
