"""`quorate watch`: watch the groups of a running cluster, or of a copy of its logs.

This module has options and output; `quorate.watch` has the observer and the page.
"""

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.connection import (
    WithConnection,
    check_one_source,
    connection_config,
    connection_options,
    refuse_connection_options,
    servers_option,
)
from quorate.cli.errors import UserError, note

if TYPE_CHECKING:
    from quorate.watch import Observer, Output, WatchEvent

HELP = """Watch groups: each rebalance with its causes, offsets that went back, lags in records and in time.

Follows __consumer_offsets and __share_group_state of a cluster (-b), or reads a copy of its logs (SOURCE) and ends.
No group is joined, and nothing is committed or written to the cluster. Events go to stdout, problems to stderr.

\b
quorate watch -b broker:9092                                  events, as lines
quorate watch -b broker:9092 --http 127.0.0.1:8090 --state d  also a page, metrics, and history that is kept
quorate watch -b broker:9092 --webhook https://chat/hook      each event as JSON to a URL
quorate watch kafka-logs --json                               what happened, from files
quorate watch kafka-logs --http 127.0.0.1:8090                the page, of files
"""

_SERVING = frozenset(
    {"token_file", "proxy_header", "proxies", "hosts", "metrics_groups", "metrics_limit", "metrics_detail"}
)
"""Parameters of the page and of /metrics."""
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_TOO_LARGE = 1 << 53
"""SQLite's integers have 64 bits; times in it are in milliseconds."""
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _quantity(pattern: str, units: Mapping[str, float], what: str) -> Callable[..., float | None]:
    """Return a callback that parses a number with a unit."""

    def parsed(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        found = re.fullmatch(pattern, value.strip().lower())
        if found is None or not float(found[1]):
            raise click.BadParameter(f"{value!r} is not a {what}")
        number = float(found[1]) * units[found[2]]
        if number >= _TOO_LARGE:
            raise click.BadParameter(f"{value!r} is too large")
        return number

    return parsed


_duration = _quantity(r"(\d+(?:\.\d+)?)\s*([smhd]?)", _UNITS, "duration such as 30s, 5m, 12h or 7d")
_size = _quantity(r"(\d+)\s*([kmg]?)b?", _SIZES, "size such as 500M or 2G")


@click.command(cls=WithConnection, help=HELP)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@servers_option("Watch this cluster.")
@click.option("--http", metavar="HOST:PORT", help="Serve the page, its API and /metrics. Port 0 is a free one.")
@click.option("--state", type=click.Path(file_okay=False), metavar="DIR", help="Keep history here, and resume from it.")
@click.option(
    "--interval",
    callback=_duration,
    metavar="DURATION",
    default="10s",
    show_default=True,
    help="Time between samples of lags.",
)
@click.option(
    "--keep",
    callback=_duration,
    metavar="DURATION",
    default="7d",
    show_default=True,
    help="Age of history that is kept.",
)
@click.option("--keep-size", callback=_size, metavar="SIZE", help="Size of history that is kept, such as 500M.")
@click.option("--lag-limit", callback=_duration, metavar="DURATION", help="Report groups whose lag in time is over it.")
@click.option(
    "--stuck-after",
    callback=_duration,
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="Report longer rebalances.",
)
@click.option("--webhook", "webhooks", multiple=True, metavar="URL", help="Post each new event. May be repeated.")
@click.option("--webhook-header", "headers", multiple=True, metavar="NAME: VALUE", help="Header of these requests.")
@click.option("--topology", metavar="FILE", help="With a SOURCE: file of topics with their partitions, racks and ids.")
@click.option("--token-file", type=click.Path(), metavar="FILE", help="Secret for --http; or QUORATE_WATCH_TOKEN.")
@click.option("--proxy-header", metavar="NAME", help="Header in which a proxy names the user that it logged in.")
@click.option("--trusted-proxy", "proxies", multiple=True, metavar="ADDRESS", help="Address of that proxy.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Further name of the page's host.")
@click.option("--metrics-groups", metavar="REGEX", default=".*", help="Groups with metrics of their own.")
@click.option("--metrics-limit", type=click.IntRange(min=0), default=1_000, help="Number of such groups, at most.")
@click.option("--metrics-detail", type=click.Choice(["group", "topic", "partition"]), default="group")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--quiet", is_flag=True, help="Print no events.")
@connection_options
@click.pass_context
def watch(ctx: click.Context, /, **options: Any) -> None:
    """Watch until Ctrl-C, or until the files are read."""
    sources, servers = options["sources"], options["bootstrap_servers"]
    check_one_source(ctx, sources, servers)
    if servers is None:
        refuse_connection_options(ctx)
    elif options["topology"]:
        raise click.UsageError("--topology is for a SOURCE; topics of a live cluster are read from it", ctx)
    if options["headers"] and not options["webhooks"]:
        raise click.UsageError("--webhook-header needs --webhook", ctx)
    if options["http"] is None:
        _refuse_serving_options(ctx)
    page = None if options["http"] is None else _page(options)
    stop = threading.Event()
    printed = _printed(options, stop)
    with ExitStack() as stack:
        stack.enter_context(_terminated(stop))
        stack.enter_context(_log_on_stderr())
        if page is not None:  # before the observer reads a log and reports events
            page["listening"] = stack.enter_context(_listening(page["host"], page["port"]))
        observer = stack.enter_context(_observer(options, printed))
        if page is not None:
            from quorate.watch.web import serve

            note(f"serving {stack.enter_context(serve(observer, **page)).url}")
        _until_done(observer, stop, is_live=servers is not None, is_serving=page is not None)
        if printed.error is not None:
            raise printed.error
        if servers is None and observer.status().errors:
            ctx.exit(1)


def _refuse_serving_options(ctx: click.Context) -> None:
    """Raise `UsageError` for an option that has no effect without --http."""
    for parameter in ctx.command.params:
        name = parameter.name
        if name in _SERVING and ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} needs --http", ctx)


class _Printed:
    """Prints events, until stdout fails; then it stops the command, which ends with the error.

    Threads of the observer call it. The reader of a pipe may close it, as `head` does.
    """

    def __init__(self, inner: "Output | None", stop: threading.Event) -> None:
        self._inner = inner
        self._stop = stop
        self.error: OSError | None = None

    def take(self, event: "WatchEvent", *, is_old: bool) -> None:
        if self._inner is None or self.error is not None:
            return
        try:
            self._inner.take(event, is_old=is_old)
        except OSError as error:
            self.error = error
            self._stop.set()

    def close(self) -> None:
        """Nothing is pending."""


class _Notes(logging.Handler):
    """Prints log messages as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


@contextmanager
def _log_on_stderr() -> Iterator[None]:
    """Show what the observer logs: each problem when it begins, and when it is over."""
    logger, handler = logging.getLogger("quorate.watch"), _Notes()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def _terminated(stop: threading.Event) -> Iterator[None]:
    """Stop at SIGTERM, as containers are stopped."""

    def end(_: int, __: FrameType | None) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _printed(options: dict[str, Any], stop: threading.Event) -> _Printed:
    from quorate.watch import EventLines, EventLog

    if options["as_json"]:
        return _Printed(EventLines(sys.stdout), stop)
    return _Printed(None if options["quiet"] else EventLog(_echo), stop)


def _observer(options: dict[str, Any], printed: _Printed) -> "Observer":
    from quorate.watch import Observer, WatchLimits

    limits = WatchLimits(
        stuck_ms=round(options["stuck_after"] * 1000),
        lag_ms=None if options["lag_limit"] is None else round(options["lag_limit"] * 1000),
    )
    common: dict[str, Any] = {
        "state": options["state"],
        "limits": limits,
        "keep_bytes": options["keep_size"] and int(options["keep_size"]),
        "outputs": [printed, *_webhooks(options)],
    }
    if options["bootstrap_servers"] is None:
        return Observer.of_files(*options["sources"], topology=options["topology"], **common)
    return Observer(
        options["bootstrap_servers"],
        interval_s=options["interval"],
        keep_ms=round(options["keep"] * 1000),
        connect_timeout_ms=options["connect_timeout_ms"],
        **common,
        **connection_config(options),
    )


def _webhooks(options: dict[str, Any]) -> "list[Output]":
    from quorate.watch import Webhook

    headers = {}
    for text in options["headers"]:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise UserError(f"--webhook-header {text}: is not NAME: VALUE")
        headers[name.strip()] = value.strip()
    return [Webhook(url, headers=headers) for url in options["webhooks"]]


def _echo(event: "WatchEvent", line: str) -> None:
    from quorate.codecs.printable import time_text

    click.echo(f"{time_text(event.at_ms)}  {line}")


def _page(options: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for `serve`, checked before the observer reads a log and reports events."""
    host, port = _address(options["http"])
    try:
        from quorate.watch.metrics import MetricsOptions
        from quorate.watch.web import WebAccess
    except ModuleNotFoundError as error:
        raise UserError(f"--http needs the package {error.name}", "install it: pip install 'quorate[watch]'") from None
    access = WebAccess(
        token=_token(options["token_file"]),
        proxy_header=options["proxy_header"],
        proxies=options["proxies"],
        hosts=options["hosts"],
    )
    access.check(host)
    metrics = MetricsOptions(
        groups=options["metrics_groups"], limit=options["metrics_limit"], detail=options["metrics_detail"]
    )
    return {"host": host, "port": port, "access": access, "metrics": metrics}


def _listening(host: str, port: int) -> socket.socket:
    from quorate.watch.web.server import listen

    try:
        return listen(host, port)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # which repeats the address
        raise UserError(
            f"--http {host}:{port}: cannot listen: {reason}",
            "choose another port, or a free one: HOST:0",
        ) from None


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise UserError(f"--http {text}: is not HOST:PORT", "write an address such as 127.0.0.1:8090")
    return host, int(port)


def _token(path: str | None) -> str | None:
    if path is None:
        return os.environ.get("QUORATE_WATCH_TOKEN")
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _until_done(observer: "Observer", stop: threading.Event, *, is_live: bool, is_serving: bool) -> None:
    """Wait for the signal, or until files are read and no page is served."""
    is_read = False
    while not stop.wait(_TURN_S):
        if not is_read and observer.is_caught_up:
            is_read = True
            status = observer.status()
            all_read = "not all could be read" if status.errors else "all files are read"
            note(f"{status.records:,} records read; " + ("watching" if is_live else all_read))
            if not is_live and not is_serving:
                return


_TURN_S = 0.2
