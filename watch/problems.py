"""The current problems of an observer, by what they are about."""

import logging
import threading

_LOG = logging.getLogger("quorate.watch")


class Problems:
    """Sentences by subject; each is logged once, and again when it is over. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, str] = {}

    def set(self, subject: str, sentence: str) -> None:
        """Set the problem of a subject."""
        with self._lock:
            is_new = self._found.get(subject) != sentence
            self._found[subject] = sentence
        if is_new:
            _LOG.warning("%s", sentence)

    def clear(self, subject: str) -> None:
        """Note that a subject has no problem any more."""
        with self._lock:
            over = self._found.pop(subject, None)
        if over is not None:
            _LOG.info("over: %s", over)

    def sentences(self) -> tuple[str, ...]:
        """Return all current problems."""
        with self._lock:
            return tuple(self._found.values())
