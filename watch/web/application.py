"""The ASGI application: the page, its JSON, server-sent events, metrics and probes.

Routes call `Watched` in threads, because its methods may read a database. Groups are named by a
parameter, not by a path: an id may be empty, or contain slashes.
"""

import contextlib
from asyncio import create_task
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from quorate.codecs.errors import InputError
from quorate.codecs.releases import RELEASES
from quorate.watch.metrics import Metrics, MetricsOptions
from quorate.watch.model import EventKind, Watched
from quorate.watch.web.access import Guard, WebAccess, refuse
from quorate.watch.web.encoding import dumps
from quorate.watch.web.parameters import ParameterError, Parameters
from quorate.watch.web.stream import MOST_PAGES, Stream, status_json

PAGE = Path(__file__).parent / "page"
KINDS = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}

MOST_EVENTS = 1_000
MOST_POINTS = 1_000
MOST_SPANS = 50_000
"""Spans of ownership in a response: 10 MB."""


def app(
    watched: Watched,
    *,
    access: WebAccess | None = None,
    metrics: MetricsOptions | None = None,
    loopback: bool = True,
) -> Guard:
    """Return the ASGI application that shows what `watched` knows.

    `loopback`: the server listens on loopback only, so only its names are accepted as Host. Raises
    `AccessError` for options of access that contradict each other.
    """
    return with_stream(watched, access or WebAccess(), metrics, loopback=loopback)[0]


def with_stream(
    watched: Watched, access: WebAccess, metrics: MetricsOptions | None, *, loopback: bool
) -> tuple[Guard, Stream]:
    """Return the application, and its stream, which a server closes when it stops."""
    access.check("127.0.0.1" if loopback else "0.0.0.0")
    routes = _Routes(watched, Metrics(watched, metrics))

    @contextlib.asynccontextmanager
    async def lifespan(inner: Starlette) -> AsyncIterator[None]:
        running = create_task(routes.stream.run())
        try:
            yield
        finally:
            running.cancel()

    inner = Starlette(
        routes=[
            Route("/", _file(PAGE / "index.html")),
            *(Route(f"/page/{path.name}", _file(path)) for path in PAGE.iterdir()),
            Route("/health", routes.health),
            Route("/ready", routes.ready),
            Route("/metrics", routes.metrics),
            Route("/api/stream", routes.events_as_they_happen),
            *(Route(f"/api/{name}", _json(read)) for name, read in routes.json.items()),
        ],
        exception_handlers={HTTPException: _http_error, InputError: _input_error, Exception: _defect},
        lifespan=lifespan,
    )
    return Guard(inner, access, loopback=loopback), routes.stream


class _Routes:
    """What each path returns."""

    def __init__(self, watched: Watched, metrics: Metrics) -> None:
        self._watched = watched
        self._metrics = metrics
        self.stream = Stream(watched)
        self.json: dict[str, Callable[[Request], Any]] = {
            "status": self._status,
            "groups": self._groups,
            "group": self._group,
            "ownership": self._ownership,
            "events": self._events,
            "lag": self._lag,
            "difference": self._difference,
            "topics": self._topics,
            "upgrade": self._upgrade,
        }

    def health(self, request: Request) -> Response:
        """Return 200 while the observer responds."""
        self._watched.status()
        return Response(dumps({"status": "ok"}), media_type="application/json")

    def ready(self, request: Request) -> Response:
        """Return 200 once all existing records are read and nothing fails, otherwise 503.

        Needs no login, so it only counts problems, which name topics.
        """
        status = self._watched.status()
        missing = [] if status.caught_up else ["existing records are still being read"]
        if status.errors:
            missing.append(f"problems: {len(status.errors)}; api/status has them")
        body = {"status": "; ".join(missing) or "ok"}
        return Response(dumps(body), 503 if missing else 200, media_type="application/json")

    def metrics(self, request: Request) -> Response:
        """Return metrics for Prometheus, in the format that it accepts."""
        kind, body = self._metrics.scrape(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": kind})

    async def events_as_they_happen(self, request: Request) -> Response:
        """Return server-sent events."""
        Parameters(request.query_params, ())
        if self.stream.pages >= MOST_PAGES:
            return refuse(503, f"{MOST_PAGES} pages are open", "close some of them", {"Retry-After": "5"})
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx would wait for more
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        last = request.headers.get("last-event-id", "")
        after_id = int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else None
        return StreamingResponse(self.stream.messages(after_id), headers=headers, media_type="text/event-stream")

    def _status(self, request: Request) -> Any:
        Parameters(request.query_params, ())
        return status_json(self._watched.status()) | {"releases": [str(release) for release in RELEASES]}

    def _groups(self, request: Request) -> Any:
        query = Parameters(request.query_params, ("at_ms", "contains", "limit"))
        contains, limit = query.text("contains") or "", query.count("limit", 100_000, most=100_000)
        groups = self._watched.groups(at_ms=query.integer("at_ms"))
        found = [group for group in groups if contains in group.group_id]
        return {"groups": found[:limit], "count": len(found)}

    def _group(self, request: Request) -> Any:
        query = Parameters(request.query_params, ("id", "at_ms"))
        name, at_ms = query.required("id"), query.integer("at_ms")
        found = self._watched.group(name, at_ms=at_ms)
        if found is None:
            when = "now" if at_ms is None else f"at {at_ms}"
            raise HTTPException(404, f"group {name!r} does not exist {when}")
        return found

    def _ownership(self, request: Request) -> Any:
        query = Parameters(request.query_params, ("id", "from_ms", "to_ms"))
        from_ms, to_ms = query.span()
        spans = self._watched.ownership(query.required("id"), from_ms=from_ms, to_ms=to_ms)
        return {"spans": spans[:MOST_SPANS], "left_out": max(0, len(spans) - MOST_SPANS)}

    def _events(self, request: Request) -> Any:
        query = Parameters(
            request.query_params, ("group", "from_ms", "to_ms", "after_id", "limit", "order"), repeated=("kind",)
        )
        order = query.text("order") or "newest"
        if order not in ("newest", "oldest"):
            raise ParameterError(f"order={order!r} is unknown", "use newest or oldest")
        kinds = []
        for name in query.texts("kind"):
            try:
                kinds.append(EventKind(name))
            except ValueError:
                raise ParameterError(f"kind={name!r} is unknown", f"use {', '.join(EventKind)}") from None
        events = self._watched.events(
            group_id=query.text("group"),
            kinds=kinds or None,
            from_ms=query.integer("from_ms"),
            to_ms=query.integer("to_ms"),
            after_id=query.integer("after_id"),
            limit=query.count("limit", 500, most=MOST_EVENTS),
            newest_first=order == "newest",
        )
        return {"events": events}

    def _lag(self, request: Request) -> Any:
        query = Parameters(request.query_params, ("id", "from_ms", "to_ms", "points"))
        from_ms, to_ms = query.span()
        points = query.count("points", 200, most=MOST_POINTS)
        return {"samples": self._watched.lag(query.required("id"), from_ms=from_ms, to_ms=to_ms, points=points)}

    def _difference(self, request: Request) -> Any:
        query = Parameters(request.query_params, ("id", "from_ms", "to_ms"))
        from_ms, to_ms = query.span()
        return {"sentences": self._watched.difference(query.required("id"), from_ms=from_ms, to_ms=to_ms)}

    def _topics(self, request: Request) -> Any:
        Parameters(request.query_params, ())
        return {"topics": self._watched.topics()}

    def _upgrade(self, request: Request) -> Any:
        query = Parameters(request.query_params, ("release",))
        return {"findings": self._watched.upgrade_findings(query.required("release"))}


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    """Return a route to a file of the page. It has no data, and may be loaded without a login.

    Files are read once, so that a load of the page waits for no thread.
    """
    body, kind = path.read_bytes(), KINDS[path.suffix]

    async def respond(request: Request) -> Response:
        return Response(body, media_type=kind, headers={"Cache-Control": "no-cache"})

    return respond


def _json(read: Callable[[Request], Any]) -> Callable[[Request], Response]:
    def respond(request: Request) -> Response:
        return Response(dumps(read(request)), media_type="application/json")

    return respond


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and error.detail == "Not Found":
        return refuse(404, f"{request.url.path} does not exist", "the page is at /, its JSON under /api/")
    return refuse(error.status_code, error.detail)


async def _input_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return refuse(400, error.message, " ".join(str(error).split("\n")[1:]))


async def _defect(request: Request, error: Exception) -> Response:
    return refuse(
        500, f"{type(error).__name__} in {request.url.path}", "this is a defect; the command's log has the traceback"
    )
