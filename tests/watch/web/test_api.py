"""The JSON of the page's server."""

import json
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from quorate.watch.model import as_json
from quorate.watch.web import app, encoding
from quorate.watch.web.encoding import dumps
from tests.watch.helpers.generated import NAMES, GeneratedWatch

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def watched() -> GeneratedWatch:
    return GeneratedWatch(groups=20, members=5, partitions=30)


@pytest.fixture(scope="module")
def client(watched) -> TestClient:
    return TestClient(app(watched), base_url="http://localhost", raise_server_exceptions=False)


def test_everything_that_is_known_is_served_as_the_model_has_it(watched, client):
    name = "orders-fulfilment"
    first, last = watched.since_ms, watched.started_ms
    span = {"from_ms": first, "to_ms": last}
    query = {"id": name} | span

    def got(path: str, **parameters: object) -> object:
        response = client.get(f"/api/{path}", params=parameters)
        assert response.status_code == 200, response.text
        return response.json()

    at = last - 7 * MINUTE_MS
    assert got("groups", at_ms=at)["groups"] == as_json(watched.groups(at_ms=at))
    assert got("group", id=name, at_ms=at) == as_json(watched.group(name, at_ms=at))
    assert got("ownership", **query)["spans"] == as_json(watched.ownership(name, **span))
    assert got("lag", points=10, **query)["samples"] == as_json(watched.lag(name, points=10, **span))
    assert got("difference", **query)["sentences"] == watched.difference(name, **span)
    assert got("events")["events"] == as_json(watched.events())
    assert got("topics")["topics"] == as_json(watched.topics())
    assert got("upgrade", release="4.3.0")["findings"] == as_json(watched.upgrade_findings("4.3.0"))
    status = got("status")
    assert status["read"] == dict(watched.status().read)
    assert status["releases"][-1] == "4.4.0"
    assert status["now_ms"] >= last


def test_the_fast_encoding_equals_that_of_the_model(watched, monkeypatch):
    values = [
        watched.events(limit=50),
        watched.status(),
        watched.group("orders-fulfilment"),
        {"a": None, "b": {"\ud83d"}},
    ]
    for library in (encoding.orjson, None):
        monkeypatch.setattr(encoding, "orjson", library)
        assert [json.loads(dumps(value)) for value in values] == [as_json(value) for value in values]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_group_can_be_requested(client, name):
    found = client.get(f"/api/group?id={quote(name, safe='')}")
    assert (found.status_code, found.json()["group_id"]) == (200, name)
    assert found.headers["content-type"] == "application/json"


def test_groups_are_filtered_and_limited(client):
    some = client.get("/api/groups", params={"contains": "service-000", "limit": 4}).json()
    assert (len(some["groups"]), some["count"]) == (4, 10)


def test_events_are_filtered_and_ordered(watched, client):
    name = watched.groups()[3].group_id
    query = {"group": name, "kind": ["rebalance-began", "group-expired"], "order": "oldest", "limit": 2, "after_id": 5}
    found = client.get("/api/events", params=query).json()["events"]
    assert [event["kind"] for event in found] == ["rebalance-began"] * 2
    assert {event["group_id"] for event in found} == {name}
    assert 5 < found[0]["id"] < found[1]["id"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("events?grp=a", "unknown parameter 'grp'"),
        ("events?limit=0", "limit='0'"),
        ("events?limit=1001", "limit='1001'"),
        ("events?limit=-1", "limit='-1'"),
        ("events?limit=1e3", "limit='1e3'"),
        ("events?limit=" + "9" * 5_000, "no integer"),
        ("events?after_id=99999999999999999999", "after_id="),
        ("events?group=a&group=b", "more than once"),
        ("events?kind=rebalance", "kind='rebalance' is unknown"),
        ("events?order=random", "order='random'"),
        ("events?" + "&".join(["kind=stuck"] * 51), "given 51 times"),
        ("group", "'id' is missing"),
        ("group?id=a&at_ms=now", "at_ms='now'"),
        ("group?id=a&at_ms=%D9%A1", "at_ms="),  # a digit that is not ASCII
        ("lag?id=a&from_ms=2&to_ms=1", "from_ms=2 is after to_ms=1"),
        ("lag?id=a&from_ms=2", "'to_ms' is missing"),
        ("lag?id=a&from_ms=1&to_ms=2&points=1001", "points="),
        ("ownership?from_ms=1&to_ms=2", "'id' is missing"),
        ("status?x=", "unknown parameter 'x'"),
        ("upgrade?release=9.9", "release '9.9'"),
        ("stream?x=1", "unknown parameter 'x'"),
    ],
)
def test_a_wrong_parameter_is_named(client, query, message):
    response = client.get(f"/api/{query}")
    assert response.status_code == 400
    assert message in response.json()["error"]
    assert response.json()["help"]


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/nothing", "/page/nothing.js", "/page/../application.py", "/page/%2e%2e/application.py"]
)
def test_an_unknown_path_is_an_error_in_json(client, path):
    response = client.get(path)
    assert response.status_code == 404
    assert "does not exist" in response.json()["error"]


def test_a_group_that_does_not_exist_is_not_found(watched, client):
    assert client.get("/api/group?id=none").json()["error"] == "group 'none' does not exist now"
    early = client.get("/api/group", params={"id": "orders-fulfilment", "at_ms": watched.since_ms - 1})
    assert early.status_code == 404


def test_head_has_the_headers_of_get_and_no_body(client):
    for path in ("/", "/health", "/ready", "/metrics", "/api/groups", "/api/stream"):
        response = client.head(path)
        assert (response.status_code, response.content) == (200, b"")


def test_probes_count_problems_without_naming_topics(watched, client):
    assert [(client.get(path).status_code, client.get(path).json()) for path in ("/health", "/ready")] == [
        (200, {"status": "ok"})
    ] * 2
    watched.fail("broker 2 does not respond", "topic orders: not authorized")
    try:
        response = client.get("/ready")
        assert client.get("/health").status_code == 200
    finally:
        watched.fail()
    assert response.status_code == 503
    assert response.json() == {"status": "problems: 2; api/status has them"}


def test_a_defect_is_an_error_in_json_without_a_traceback(watched, client, monkeypatch):
    monkeypatch.setattr(watched, "topics", lambda: 1 // 0)
    response = client.get("/api/topics")
    assert (response.status_code, response.json()["error"]) == (500, "ZeroDivisionError in /api/topics")


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_scripts(client):
    page = client.get("/").text
    assert "<script>" not in page
    assert "style=" not in page
    modules = [name for name in page.split('"') if name.startswith("page/")]
    assert len(modules) > 12
    for name in modules:
        found = client.get(f"/{name}")
        assert found.status_code == 200
        assert "http://" not in found.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in found.text
        assert "innerHTML" not in found.text
