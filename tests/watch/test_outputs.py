"""JSON lines and webhooks of events."""

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from quorate.codecs.errors import InputError
from quorate.watch import EventKind, EventLines, EventLog, MemberTimedOut, WatchEvent, Webhook

EVENT = WatchEvent(
    id=7,
    at_ms=1,
    seen_ms=2,
    group_id="g\n",
    kind=EventKind.REBALANCE_ENDED,
    sentence="ended",
    cause=MemberTimedOut(member_id="m", instance_id=None, timer="session", silent_ms=45_100),
)


@contextmanager
def receiver(*statuses: int) -> Iterator[tuple[str, list[dict]]]:
    """A server that responds with these statuses, then with 200."""
    bodies: list[dict] = []
    pending = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(pending.pop(0) if pending else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook", bodies
        server.shutdown()
        thread.join()


def test_a_line_has_the_cause_with_its_name():
    stream = io.StringIO()
    EventLines(stream).take(EVENT, is_old=True)
    found = json.loads(stream.getvalue())
    assert found["cause"]["name"] == "member-timed-out"
    assert found["cause"]["silent_ms"] == 45_100
    assert found["kind"] == "rebalance-ended"


def test_control_characters_do_not_reach_a_log_line():
    lines: list[str] = []
    EventLog(lambda _, line: lines.append(line)).take(EVENT, is_old=False)
    assert lines == ["rebalance-ended g\\n: ended"]


def test_a_webhook_repeats_failed_requests_and_gives_up_on_rejected_ones():
    with receiver(503, 429, 200, 400) as (url, bodies):
        hook = Webhook(url, first_wait_s=0.01)
        hook.take(EVENT, is_old=False)
        hook.take(EVENT, is_old=False)
        hook.close()
    assert [body["id"] for body in bodies] == [7, 7, 7, 7]
    assert hook.dropped == 1


def test_a_webhook_gets_no_events_of_before_the_start():
    with receiver() as (url, bodies):
        hook = Webhook(url)
        hook.take(EVENT, is_old=True)
        hook.close()
    assert bodies == []
    assert hook.dropped == 0


def test_a_webhook_without_receiver_drops_events_and_does_not_block():
    hook = Webhook("http://127.0.0.1:9/", retries=0, most_waiting=1)
    for _ in range(50):
        hook.take(EVENT, is_old=False)
    hook.close()
    assert hook.dropped >= 48


@pytest.mark.parametrize("url", ["ftp://host/", "http://host:port/", "http:///path", "http://\x1b/"])
def test_the_address_of_a_webhook_is_checked(url):
    with pytest.raises(InputError, match="not an address"):
        Webhook(url)


@pytest.mark.parametrize(
    "header", [("X-Key", "secret\r\nHost: x"), ("X-Key", "secrét"), ("X Key", "secret"), ("", "x")]
)
def test_headers_of_a_webhook_are_checked_and_their_values_not_shown(header):
    name, value = header
    with pytest.raises(InputError, match="cannot be sent as a header") as raised:
        Webhook("http://127.0.0.1:9/", headers={name: value})
    assert "secr" not in str(raised.value)
