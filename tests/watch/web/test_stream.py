"""Server-sent events, over sockets."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from quorate.watch.web import AccessError, serve, stream
from tests.watch.helpers.generated import GeneratedWatch


class Page:
    """A page that is open: reads one message after the other."""

    def __init__(self, port: int, last_id: int | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
        self.connection.request("GET", "/api/stream", headers=headers)
        self.response = self.connection.getresponse()
        self.last_id: int | None = None
        self.deadline = time.monotonic() + 120

    def close(self) -> None:
        self.connection.close()
        self.response.close()

    def read(self) -> tuple[str, object]:
        kind, data = "", ""
        assert time.monotonic() < self.deadline, "the page got the status, but not what the test waits for"
        while line := self.response.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                data = value
            elif name == "id":
                self.last_id = int(value)
            elif not name and kind:
                return kind, json.loads(data)
        return "end", None

    def next(self, kind: str) -> object:
        while True:
            found, data = self.read()
            if found in (kind, "end"):
                return data

    def each_of(self, *kinds: str) -> list[object]:
        """Return the next message of each kind, whichever comes first."""
        found: dict[str, object] = {}
        while not set(kinds) <= set(found):
            kind, data = self.read()
            found.setdefault(kind, data)
            if kind == "end":
                break
        return [found[kind] for kind in kinds]

    def events_until(self, last: int) -> list[int]:
        ids: list[int] = []
        while last not in ids:
            ids += [event["id"] for event in self.next("events")]
        return ids


@pytest.fixture
def watched() -> GeneratedWatch:
    return GeneratedWatch(groups=20, members=5, partitions=12)


@contextmanager
def opened(port: int, last_id: int | None = None) -> Iterator[Page]:
    with closing(Page(port, last_id)) as page:
        yield page


def test_a_page_gets_all_groups_and_then_what_changed(watched):
    with serve(watched, port=0) as serving, opened(serving.port) as page:
        assert page.response.headers["content-type"].startswith("text/event-stream")
        assert page.response.headers["x-accel-buffering"] == "no"
        assert page.next("status")["caught_up"] is True
        first = page.next("groups")
        assert first["full"] is True
        assert [group["group_id"] for group in first["groups"]] == [group.group_id for group in watched.groups()]
        assert len(page.next("events")) == len(watched.events(limit=10_000))
        last = watched.rebalance("orders-fulfilment")
        # Groups come first if the rebalance happens after events were read, and before groups are.
        events, changed = page.each_of("events", "groups")
        assert [event["id"] for event in events] == [last - 1, last]
        assert page.last_id == last
        assert changed["full"] is False
        assert "orders-fulfilment" in [group["group_id"] for group in changed["groups"]]
        watched.delete("orders-fulfilment")
        gone = []
        while not gone:  # lags may change meanwhile, as they do each minute
            gone = page.next("groups")["gone"]
        assert gone == ["orders-fulfilment"]


def test_a_page_that_reconnects_gets_each_event_once(watched):
    with serve(watched, port=0) as serving:
        with opened(serving.port) as page:
            page.next("events")
            seen = page.last_id
        missed = [watched.rebalance("orders-fulfilment") for _ in range(3)]
        with opened(serving.port, last_id=seen) as page:
            assert page.events_until(missed[-1]) == list(range(seen + 1, missed[-1] + 1))
            later = watched.rebalance("orders-fulfilment")
            assert page.events_until(later) == [later - 1, later]


def test_events_do_not_wait_for_groups(watched, monkeypatch):
    reads, sent = threading.Semaphore(0), threading.Event()
    groups = watched.groups
    other = next(group.group_id for group in groups() if group.group_id != "orders-fulfilment")

    def after_events(**_):
        reads.release()
        assert sent.wait(60)
        return groups()

    with serve(watched, port=0) as serving, opened(serving.port) as page:
        page.next("events")
        page.next("status")  # comes after groups: none are read now
        monkeypatch.setattr(watched, "groups", after_events)
        first = watched.rebalance("orders-fulfilment")
        assert page.events_until(first) == [first - 1, first]
        assert reads.acquire(timeout=60)
        meanwhile = watched.rebalance(other)
        assert page.events_until(meanwhile) == [meanwhile - 1, meanwhile]
        sent.set()
        changed = set()
        while not {"orders-fulfilment", other} <= changed:
            changed |= {group["group_id"] for group in page.next("groups")["groups"]}


def test_a_page_after_a_time_without_pages_gets_all_events_since(watched):
    with serve(watched, port=0) as serving:
        for _ in range(3):
            with opened(serving.port) as page:
                page.next("events")
            last = watched.rebalance("orders-fulfilment")
        with opened(serving.port) as page:
            assert page.next("events")[-1]["id"] == last
            later = watched.rebalance("orders-fulfilment")
            assert page.events_until(later) == [later - 1, later]


def test_many_pages_see_the_same(watched):
    with serve(watched, port=0) as serving:
        pages = [Page(serving.port) for _ in range(8)]
        try:
            for page in pages:
                page.next("events")
            last = watched.rebalance("orders-fulfilment")
            assert [page.next("events")[-1]["id"] for page in pages] == [last] * 8
        finally:
            for page in pages:
                page.close()


def test_further_pages_are_refused_until_one_is_closed(watched, monkeypatch):
    monkeypatch.setattr("quorate.watch.web.application.MOST_PAGES", 1)
    with serve(watched, port=0) as serving:
        with opened(serving.port) as page:
            page.next("events")
            with opened(serving.port) as further:
                assert further.response.status == 503
                assert further.response.headers["retry-after"] == "5"
        wait_until_accepted(serving.port)


def wait_until_accepted(port: int) -> None:
    """Wait until the server has noticed that the first page is closed."""
    while True:
        with opened(port) as page:
            if page.response.status == 200:
                assert page.next("groups")["full"] is True
                return


def test_without_changes_the_status_shows_that_the_server_lives(watched, monkeypatch):
    monkeypatch.setattr(stream, "WAIT_S", 0.01)
    with serve(watched, port=0) as serving, opened(serving.port) as page:
        page.next("events")
        times = [page.next("status")["now_ms"] for _ in range(3)]
        assert times == sorted(times)


def test_stopping_the_server_disconnects_pages(watched):
    with serve(watched, port=0) as serving:
        page = Page(serving.port)
        page.next("events")
    assert page.next("end") is None
    page.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "quorate-watch-http"]


def test_pages_reconnect_after_the_observer_failed(watched, monkeypatch):
    with serve(watched, port=0) as serving:
        with opened(serving.port) as page:
            page.next("events")
            with monkeypatch.context() as patched:
                patched.setattr(watched, "groups", lambda **_: 1 // 0)
                watched.rebalance("orders-fulfilment")
                assert page.next("end") is None
        with opened(serving.port) as page:
            assert page.next("groups")["full"] is True


def test_a_server_on_other_addresses_needs_a_login(watched):
    with pytest.raises(AccessError, match="no login"), serve(watched, "0.0.0.0", 0):
        pass


def test_responses_do_not_wait_for_acknowledgements_of_packets(watched, monkeypatch):
    create, created = socket.create_server, []
    monkeypatch.setattr(
        socket, "create_server", lambda *args, **more: created.append(create(*args, **more)) or created[0]
    )
    with serve(watched, port=0), closing(socket.create_connection(created[0].getsockname())):
        assert created[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_an_error(watched):
    with (
        serve(watched, port=0) as serving,
        pytest.raises(OSError, match="Address already in use"),
        serve(watched, port=serving.port),
    ):
        pass
