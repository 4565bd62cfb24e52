"""Server-sent events: what changed, computed once for all pages that are open.

Events are sent as they come, also while groups are read, which takes longer with thousands of
groups.

A page that connects gets all groups, then only those that changed. An event's id is the id of the
server-sent event, so a browser that reconnects (Last-Event-ID) misses none and repeats none. A page
that reads too slowly is disconnected, and reconnects.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from anyio import to_thread

from quorate.watch.model import GroupSummary, Watched, WatchEvent, WatchStatus
from quorate.watch.web.encoding import dumps

_LOG = logging.getLogger(__name__)

MOST_PAGES = 64
"""Pages that may be connected at a time."""

QUEUE = 256
"""Messages that wait for one page."""

PAUSE_S = 0.1
"""The pause after each message, so that a busy cluster costs a bounded share of a core."""

WAIT_S = 1.0
"""How long a wait for changes takes at most. Without changes, only the status is sent."""

FIRST_EVENTS = 200
"""The newest events that a new page gets; it loads older ones by itself."""

CATCH_UP = 1_000
"""The newest events that a page gets when it reconnects, at most."""


@dataclass(eq=False)
class _Page:
    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    late: bool = False

    def put(self, data: bytes) -> None:
        if self.queue.full():
            self.late = True
        else:
            self.queue.put_nowait(data)


class Stream:
    """Sends changes to all pages. `run` runs in the application's loop until it is cancelled."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._pages: set[_Page] = set()
        self._groups: dict[str, GroupSummary] | None = None  # as the pages have them; `None` without pages
        self._last_id = 0  # of the newest event that was sent
        self._lock = asyncio.Lock()  # nothing is sent between what a new page gets first and its next message
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def pages(self) -> int:
        """The number of connected pages."""
        return len(self._pages)

    def close(self) -> None:
        """Disconnect all pages. May be called in any thread."""
        self._closed = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._disconnect)

    def _disconnect(self) -> None:
        for page in self._pages:
            page.late = True
            if not page.queue.full():
                page.queue.put_nowait(None)

    async def run(self) -> None:
        """Wait for changes and send them."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as both:
            both.create_task(self._repeat(self._send_events))
            both.create_task(self._repeat(self._send_groups))

    async def _repeat(self, send: Callable[[bool], Awaitable[None]]) -> None:
        version = -1
        while not self._closed:
            found = await to_thread.run_sync(self._watched.wait, version, WAIT_S, abandon_on_cancel=True)
            try:
                await send(found > version)
            except Exception:  # noqa: BLE001  # of the store: pages reconnect, and get what works then
                _LOG.exception("what changed could not be read; open pages reconnect")
                self._disconnect()
            version = found
            await asyncio.sleep(PAUSE_S)

    async def _send_events(self, changed: bool) -> None:
        async with self._lock:
            if self._pages and changed:
                events = await to_thread.run_sync(self._events_after, self._last_id)
                if events:
                    self._last_id = events[-1].id
                    self._send(_message("events", events, id_=self._last_id))

    async def _send_groups(self, changed: bool) -> None:
        async with self._lock:
            if not self._pages:
                self._groups = None  # the next page reads them again
                return
        groups, status = await to_thread.run_sync(self._read, changed)
        async with self._lock:
            if groups is not None:
                before = self._groups
                assert before is not None  # set for the first page, and removed by this task only
                different = [group for name, group in groups.items() if before.get(name) != group]
                gone = [name for name in before if name not in groups]
                if different or gone:
                    self._send(_message("groups", {"full": False, "groups": different, "gone": gone}))
                self._groups = groups
            self._send(_message("status", status))

    def _events_after(self, last_id: int) -> list[WatchEvent]:
        events: list[WatchEvent] = []
        while found := self._watched.events(after_id=last_id, newest_first=False, limit=CATCH_UP):
            events += found
            last_id = found[-1].id
        return events

    def _read(self, groups: bool) -> tuple[dict[str, GroupSummary] | None, dict[str, object]]:
        found = {group.group_id: group for group in self._watched.groups()} if groups else None
        return found, self._status()

    def _status(self) -> dict[str, object]:
        return status_json(self._watched.status())

    def _send(self, data: bytes) -> None:
        for page in self._pages:
            page.put(data)

    async def messages(self, after_id: int | None) -> AsyncIterator[bytes]:
        """Yield server-sent events for one page.

        `after_id`: the last event that the page has; `None` for a new page, which gets the newest
        ones.
        """
        page = _Page()
        async with self._lock:
            first = await to_thread.run_sync(self._first, after_id)
            self._pages.add(page)
        try:
            yield b"retry: 1000\n\n"
            for data in first:
                yield data
            while not page.late:
                change = await page.queue.get()
                if change is None:
                    return
                yield change
        finally:
            self._pages.discard(page)

    def _first(self, after_id: int | None) -> list[bytes]:
        if not self._pages:  # the events since the last page left were sent to no page
            newest = self._watched.events(limit=1)
            self._last_id = newest[0].id if newest else 0
        if self._groups is None:
            self._groups = {group.group_id: group for group in self._watched.groups()}
        limit = FIRST_EVENTS if after_id is None else CATCH_UP
        events = self._watched.events(after_id=after_id, limit=limit)[::-1]
        events = [event for event in events if event.id <= self._last_id]
        return [
            _message("status", self._status()),
            _message("groups", {"full": True, "groups": list(self._groups.values()), "gone": []}),
            _message("events", events, id_=self._last_id),
        ]


def status_json(status: WatchStatus) -> dict[str, object]:
    """Return the status, and the server's time, by which the page corrects its clock."""
    plain = {name: getattr(status, name) for name in status.__dataclass_fields__}
    return plain | {"read": dict(status.read), "now_ms": time.time_ns() // 1_000_000}


def _message(kind: str, data: object, *, id_: int | None = None) -> bytes:
    """Return a server-sent event. JSON has no line ends, so it is one line of data."""
    first = b"" if id_ is None else b"id: %d\n" % id_
    return b"%bevent: %b\ndata: %b\n\n" % (first, kind.encode(), dumps(data))
