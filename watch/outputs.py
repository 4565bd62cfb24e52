"""Where events go: JSON lines, a logger, webhooks. None of them delays the collector."""

import contextlib
import json
import logging
import queue
import re
import threading
from collections.abc import Callable
from typing import Any, Protocol, TextIO

from quorate.codecs.errors import InputError
from quorate.codecs.printable import printable
from quorate.watch.model import WatchEvent, as_json

_LOG = logging.getLogger("quorate.watch")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Output(Protocol):
    """Takes events in the order of their ids."""

    def take(self, event: WatchEvent, *, is_old: bool) -> None:
        """Take an event; `is_old`: its record is older than the observer."""
        ...

    def close(self) -> None:
        """Deliver what is pending, within some seconds."""
        ...


class EventLines:
    """Writes each event as a line of JSON."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def take(self, event: WatchEvent, *, is_old: bool) -> None:
        """See `Output`."""
        self._stream.write(json.dumps(as_json(event), ensure_ascii=False) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """See `Output`."""


class EventLog:
    """Logs each event with the logger `quorate.watch`, or calls `write` with it and its line."""

    def __init__(self, write: Callable[[WatchEvent, str], object] | None = None) -> None:
        self._write = write or (lambda _, line: _LOG.info("%s", line))

    def take(self, event: WatchEvent, *, is_old: bool) -> None:
        """See `Output`."""
        self._write(event, f"{event.kind} {printable(event.group_id)}: {printable(event.sentence)}")

    def close(self) -> None:
        """See `Output`."""


class Webhook:
    """Posts each new event as JSON to a URL, in a thread of its own.

    A failed request is repeated `retries` times, after 1, 2, 4, … seconds. While the receiver is
    slow, at most `most_waiting` events wait, and later ones are dropped; `dropped` counts them. Old
    events are not sent. Needs httpx (`pip install quorate[watch]`).
    """

    def __init__(
        self,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        timeout_s: float = 10.0,
        retries: int = 4,
        first_wait_s: float = 1.0,
        most_waiting: int = 10_000,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise InputError("webhooks need the package httpx", "install it: pip install 'quorate[watch]'") from None
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL:
            address = httpx.URL()
        if address.scheme not in ("http", "https") or not address.host:
            raise InputError(
                f"webhook {printable(url)}: is not an address of HTTP", "use http://HOST/PATH or https://HOST/PATH"
            )
        for name, value in (headers or {}).items():
            if not (_HEADER_NAME.fullmatch(name) and value.isascii() and value.replace("\t", " ").isprintable()):
                raise InputError(  # without the value, which may be a secret
                    f"webhook {url}: {name!r} cannot be sent as a header",
                    "use letters, digits and - in its name, and printable ASCII in its value",
                )
        self.url = url
        self.dropped = 0
        self._retries = retries
        self._first_wait_s = first_wait_s
        self._client: Any = httpx.Client(timeout=timeout_s, headers=headers)
        self._error: type[Exception] = httpx.HTTPError
        self._events: queue.Queue[WatchEvent | None] = queue.Queue(most_waiting)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="quorate-watch-webhook", daemon=True)
        self._thread.start()

    def take(self, event: WatchEvent, *, is_old: bool) -> None:
        """See `Output`."""
        if is_old:
            return
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._drop("too many events wait for it")

    def close(self) -> None:
        """See `Output`."""
        with contextlib.suppress(queue.Full):
            self._events.put_nowait(None)
        self._thread.join(_CLOSE_S)
        self._stop.set()
        self._thread.join(_CLOSE_S)
        self._client.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            event = self._events.get()
            if event is None:
                return
            self._send(event)

    def _send(self, event: WatchEvent) -> None:
        body = as_json(event)
        why = ""
        for attempt in range(self._retries + 1):
            if attempt and self._stop.wait(self._first_wait_s * 2 ** (attempt - 1)):
                break
            try:
                response = self._client.post(self.url, json=body)
            except self._error as error:
                why = str(error) or type(error).__name__
                continue
            if response.status_code < 300:
                return
            why = f"status {response.status_code}"
            if response.status_code < 500 and response.status_code not in (408, 429):
                break
        self._drop(why)

    def _drop(self, why: str) -> None:
        self.dropped += 1
        _LOG.warning("webhook %s: an event was not delivered: %s", self.url, why)


_CLOSE_S = 5.0
