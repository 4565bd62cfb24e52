"""Which requests are allowed: the method, the Host header, and a login by token or proxy.

Nothing here knows the routes, except the paths that have no data: the page's own files, /login and
the probes. The page logs in with a GET request that has the token in its Authorization header, so
no token is ever part of an address, and no route needs POST.
"""

import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quorate.codecs.errors import InputError

MIN_TOKEN = 16
"""Characters that a token must have."""

SESSION_S = 24 * 3600
"""How long a login is valid."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

PUBLIC = ("/", "/login", "/logout", "/health", "/ready")
PUBLIC_FOLDER = "/page/"

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class AccessError(InputError):
    """The options of access would expose the page, or contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAccess:
    """Who may read.

    `token`: a secret of at least 16 characters, for the page's login and as a bearer token; without
    one, and without a proxy, every local process may read. `proxy_header`: the header in which a
    proxy that logs users in names the user; it counts only in requests from `proxies` (addresses or
    networks). `hosts`: further names in the Host header. On loopback, only names of loopback and
    these are accepted, so that no website can read the page by rebinding its own name.
    """

    token: str | None = None
    proxy_header: str | None = None
    proxies: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    def check(self, host: str) -> None:
        """Raise `AccessError` unless a server may listen on `host` with these options."""
        if self.token is not None and len(self.token) < MIN_TOKEN:
            raise AccessError(
                f"the token has {len(self.token)} characters, fewer than {MIN_TOKEN}",
                "generate one, such as: python3 -c 'import secrets; print(secrets.token_urlsafe(24))'",
            )
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise AccessError("the token has spaces or characters outside ASCII", "use letters, digits, - and _")
        if (self.proxy_header is None) != (not self.proxies):
            given, missing = (
                ("proxy header", "trusted proxy") if self.proxy_header else ("trusted proxy", "proxy header")
            )
            raise AccessError(
                f"a {given} without a {missing}",
                "name both: the header that the proxy sets, and the addresses from which it connects",
            )
        for proxy in self.proxies:
            _network(proxy)
        if not is_loopback(host) and self.token is None and self.proxy_header is None:
            raise AccessError(
                f"{host} is not a loopback address, and no login is configured: everyone who reaches it could read",
                "give a token, or a proxy header and its trusted proxies, or listen on 127.0.0.1",
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise AccessError(
            f"the trusted proxy {text!r} is no IP address or network", "write it as 127.0.0.1 or 10.0.0.0/8"
        ) from None


class Guard:
    """Middleware that refuses requests, and adds security headers to all responses.

    `loopback`: the server listens on loopback only. `now_s`: the time, for the end of logins.
    """

    def __init__(
        self, inner: ASGIApp, access: WebAccess, *, loopback: bool = True, now_s: Callable[[], float] = time.time
    ) -> None:
        self._inner = inner
        self._access = access
        self._networks = [_network(proxy) for proxy in access.proxies]
        self._now_s = now_s
        self._hosts: frozenset[str] | None = None
        if loopback or access.hosts:
            self._hosts = frozenset(name.lower() for name in (*LOOPBACK_NAMES, *access.hosts))
        key = (access.token or "").encode()
        self._key = hashlib.sha256(b"quorate watch: cookies\n" + key).digest()
        # Cookies do not differ by port: two servers on one host need different names.
        self.cookie = "quorate-watch-" + self._sign("name")[:8]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an allowed request to the application."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":  # no route is a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._inner)(scope, receive, secured)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return refuse(
                405, f"{scope['method']} is not allowed", "every route only reads: use GET", {"Allow": "GET, HEAD"}
            )
        if self._hosts is not None:
            hosts = headers.getlist("host")
            if len(hosts) != 1 or _name(hosts[0]) not in self._hosts:
                return refuse(
                    403,
                    f"the Host header {', '.join(hosts)!r} names none of this server's hosts",
                    "open the page by the address that the command printed, or start it with --allow-host NAME",
                )
        path = scope["path"]
        if path.startswith("/api/") and headers.get("sec-fetch-site") == "cross-site":
            return refuse(403, "another website requested this", "open the page itself")
        if path in PUBLIC or path.startswith(PUBLIC_FOLDER):
            if path not in ("/login", "/logout"):
                return None
            over_tls = scope.get("scheme") == "https" or (
                headers.get("x-forwarded-proto") == "https" and self._trusts(_peer(scope))
            )
            return self._login(scope, headers, secure=over_tls)
        return self._unauthorized(scope, headers)

    def _unauthorized(self, scope: Scope, headers: Headers) -> Response | None:
        access = self._access
        if access.token is None and access.proxy_header is None:
            return None
        if access.proxy_header is not None and access.proxy_header.lower() in headers:
            peer = _peer(scope)
            if not self._trusts(peer):
                return refuse(403, f"{access.proxy_header} comes from {peer or 'an unknown address'}, no trusted proxy")
            if headers[access.proxy_header].strip():
                return None
        if access.token is not None and (self._has_token(headers) or self._has_session(headers)):
            return None
        help_ = "log in on the page, or send Authorization: Bearer TOKEN" if access.token else "log in at the proxy"
        return refuse(401, "no login", help_, {"WWW-Authenticate": "Bearer"} if access.token else {})

    def _trusts(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address  # a dual-stack socket
        return any(mapped.version == network.version and mapped in network for network in self._networks)

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        token = self._access.token
        return token is not None and scheme.lower() == "bearer" and hmac.compare_digest(sent.encode(), token.encode())

    def _has_session(self, headers: Headers) -> bool:
        ends, _, signature = _cookie(headers.getlist("cookie"), self.cookie).partition(".")
        valid = hmac.compare_digest(signature.encode(), self._sign(ends).encode())
        return valid and ends.isdecimal() and int(ends) > self._now_s()

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _login(self, scope: Scope, headers: Headers, *, secure: bool) -> Response:
        response = Response(status_code=204)
        root = scope.get("root_path", "") or "/"
        if scope["path"] == "/logout":
            response.delete_cookie(self.cookie, path=root, httponly=True, samesite="strict", secure=secure)
        elif self._access.token is None:
            return refuse(404, "there is no login by token", "the server was started without a token")
        elif not self._has_token(headers):
            return refuse(
                401,
                "this is not the token",
                "the command printed it, or read it from its file",
                {"WWW-Authenticate": "Bearer"},
            )
        else:
            ends = str(int(self._now_s()) + SESSION_S)
            response.set_cookie(
                self.cookie,
                f"{ends}.{self._sign(ends)}",
                max_age=SESSION_S,
                path=root,
                httponly=True,
                samesite="strict",
                secure=secure,
            )
        return response


def refuse(status: int, error: str, help_: str = "", headers: dict[str, str] | None = None) -> Response:
    """Return the response for a request that is not served: what is wrong, and what to do."""
    return JSONResponse({"error": error, "help": help_}, status, headers)


def _name(host: str) -> str:
    """Return the name of a Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower().removesuffix(".")


def _peer(scope: Scope) -> str:
    """Return the address from which the connection comes."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _cookie(sent: Iterable[str], name: str) -> str:
    for header in sent:
        try:
            cookie = SimpleCookie(header)
        except CookieError:
            continue
        if name in cookie:
            return cookie[name].value
    return ""
