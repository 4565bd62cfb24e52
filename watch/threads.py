"""What threads of the observer have in common."""

import threading
from collections.abc import Callable


class ObserverThread:
    """A thread that calls `run` once, and does not keep the process alive."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=run, name=f"quorate-watch-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
