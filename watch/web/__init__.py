"""The page of `quorate watch`: HTTP, JSON, server-sent events and metrics over a `Watched`.

Every route only reads. `WebAccess` says which requests are allowed; `serve` runs the server in a
thread, and `app` is the ASGI application for other servers.
"""

from quorate.watch.web.access import AccessError, WebAccess
from quorate.watch.web.application import app
from quorate.watch.web.server import Serving, serve

__all__ = ["AccessError", "Serving", "WebAccess", "app", "serve"]
