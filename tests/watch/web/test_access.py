"""Which requests the page's server allows."""

from http.cookies import SimpleCookie

import pytest
from starlette.testclient import TestClient

from quorate.watch.web import AccessError, WebAccess, app
from quorate.watch.web.access import Guard
from tests.watch.helpers.generated import GeneratedWatch

TOKEN = "a-secret-of-operators"


@pytest.fixture(scope="module")
def watched() -> GeneratedWatch:
    return GeneratedWatch(groups=3, members=2, partitions=6)


def client(watched, address="127.0.0.1", base_url="http://127.0.0.1:8090", loopback=True, **access) -> TestClient:
    application = app(watched, access=WebAccess(**access), loopback=loopback)
    return TestClient(application, base_url=base_url, client=(address, 50_000))


@pytest.mark.parametrize(
    "path", ["/", "/page/app.js", "/health", "/metrics", "/api/groups", "/api/stream", "/login", "/x"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_every_route_only_reads(watched, method, path):
    response = client(watched).request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
    assert "error" in response.json()


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/metrics", "/api/groups", "/api/nothing", "/api/group?id=none"])
def test_every_response_has_the_security_headers(watched, path):
    headers = client(watched).get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize("host", ["127.0.0.1:8090", "localhost:1", "LOCALHOST", "[::1]:8090", "localhost."])
def test_names_of_loopback_are_accepted_as_host(watched, host):
    assert client(watched).get("/api/groups", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8090", "", "[::2]", "0"]
)
@pytest.mark.parametrize("path", ["/", "/api/groups", "/metrics"])
def test_a_website_that_rebinds_its_name_is_refused(watched, host, path):
    response = client(watched).get(path, headers={"Host": host})
    assert response.status_code == 403
    assert "--allow-host" in response.json()["help"]


def test_further_hosts_are_accepted_when_named(watched):
    allowed = client(watched, hosts=("watch.example",))
    assert allowed.get("/api/groups", headers={"Host": "Watch.example:443"}).status_code == 200
    assert allowed.get("/api/groups", headers={"Host": "other.example"}).status_code == 403


def test_requests_from_other_websites_are_refused(watched):
    assert client(watched).get("/api/groups", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client(watched).get("/api/groups", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    assert client(watched).get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200  # a link to the page


PROXY = {"proxy_header": "X-Forwarded-User", "proxies": ("10.1.0.0/16", "::1")}
DATA = ("/api/status", "/api/groups", "/api/group?id=x", "/api/events", "/api/topics", "/api/stream", "/metrics")


@pytest.mark.parametrize("path", DATA)
def test_data_requires_the_token(watched, path):
    guarded = client(watched, token=TOKEN)
    assert guarded.get(path).status_code == 401
    for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer é"):
        response = guarded.get(path, headers={"Authorization": wrong.encode()})
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


def test_the_token_reads_everything(watched):
    guarded = client(watched, token=TOKEN)
    for path in ("/api/status", "/api/groups", "/api/events", "/api/topics", "/metrics"):
        assert guarded.get(path, headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


def test_a_token_in_the_address_does_not_count(watched):
    assert client(watched, token=TOKEN).get(f"/api/status?token={TOKEN}").status_code == 401


def test_the_page_itself_and_its_health_need_no_login(watched):
    guarded = client(watched, token=TOKEN)
    assert [guarded.get(path).status_code for path in ("/", "/page/app.js", "/health")] == [200, 200, 200]


def test_a_login_sets_a_cookie_that_scripts_and_other_sites_do_not_get(watched):
    guarded = client(watched, token=TOKEN)
    assert guarded.get("/login").status_code == 401
    assert guarded.get("/login", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert guarded.get("/api/groups").status_code == 401
    response = guarded.get("/login", headers={"Authorization": f"Bearer {TOKEN}"})
    assert response.status_code == 204
    (cookie,) = SimpleCookie(response.headers["set-cookie"]).values()
    assert cookie["httponly"] is True
    assert cookie["samesite"] == "strict"
    assert TOKEN not in response.headers["set-cookie"]
    assert guarded.get("/api/groups").status_code == 200
    assert guarded.get("/logout").status_code == 204
    assert guarded.get("/api/groups").status_code == 401


def test_a_login_over_tls_is_only_sent_over_tls(watched):
    guarded = client(watched, base_url="https://localhost", token=TOKEN)
    response = guarded.get("/login", headers={"Authorization": f"Bearer {TOKEN}"})
    assert "secure" in response.headers["set-cookie"].lower()


@pytest.mark.parametrize(("address", "secure"), [("10.1.2.3", True), ("10.2.0.1", False)])
def test_a_trusted_proxy_says_whether_the_login_came_over_tls(watched, address, secure):
    proxied = client(watched, address, base_url="http://watch.example", loopback=False, token=TOKEN, **PROXY)
    sent = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-Proto": "https"}
    assert ("secure" in proxied.get("/login", headers=sent).headers["set-cookie"].lower()) == secure


def test_a_login_ends_and_cannot_be_extended_or_used_with_another_token(watched):
    now = [1_000.0]

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def guarded(token: str) -> TestClient:
        return TestClient(Guard(inner, WebAccess(token=token), now_s=lambda: now[0]), base_url="http://localhost")

    first = guarded(TOKEN)
    first.get("/login", headers={"Authorization": f"Bearer {TOKEN}"})
    (name, value), *_ = first.cookies.items()
    ends, _, signature = value.partition(".")

    def status(token: str, value: str) -> int:
        return guarded(token).get("/api/groups", headers={"Cookie": f"{name}={value}".encode()}).status_code

    assert status(TOKEN, value) == 200
    assert status(TOKEN, f"{int(ends) + 1}.{signature}") == 401
    assert status(TOKEN, f"{ends}.") == 401
    assert status(TOKEN, "é.x") == 401
    assert status(TOKEN + "-2", value) == 401
    now[0] = float(ends)
    assert status(TOKEN, value) == 401


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "::1"])
def test_a_trusted_proxy_names_the_user(watched, address):
    proxied = client(watched, address, base_url="http://watch.example", loopback=False, **PROXY)
    assert proxied.get("/api/groups", headers={"X-Forwarded-User": "ann"}).status_code == 200
    assert proxied.get("/api/groups").status_code == 401
    assert proxied.get("/api/groups", headers={"X-Forwarded-User": " "}).status_code == 401


@pytest.mark.parametrize("address", ["10.2.0.1", "127.0.0.1", "not an address"])
def test_the_header_of_another_address_is_refused(watched, address):
    other = client(watched, address, base_url="http://watch.example", loopback=False, **PROXY)
    sent = {"X-Forwarded-User": "ann", "X-Forwarded-For": "10.1.2.3"}
    assert other.get("/api/groups", headers=sent).status_code == 403


def test_a_proxys_header_has_no_meaning_unless_it_is_configured(watched):
    guarded = client(watched, "127.0.0.1", token=TOKEN)
    assert guarded.get("/api/groups", headers={"X-Forwarded-User": "ann"}).status_code == 401


@pytest.mark.parametrize(
    ("host", "access", "message"),
    [
        ("0.0.0.0", {}, "no login is configured"),
        ("192.168.0.7", {}, "no login is configured"),
        ("watch.example", {}, "no login is configured"),
        ("127.0.0.1", {"token": "short"}, "5 characters"),
        ("127.0.0.1", {"token": "with spaces in the token"}, "spaces"),
        ("127.0.0.1", {"proxy_header": "X-User"}, "without a trusted proxy"),
        ("127.0.0.1", {"proxies": ("10.0.0.1",)}, "without a proxy header"),
        ("127.0.0.1", {"proxy_header": "X-User", "proxies": ("proxy.example",)}, "no IP address"),
    ],
)
def test_options_that_would_expose_the_page_are_refused(host, access, message):
    with pytest.raises(AccessError, match=message) as refused:
        WebAccess(**access).check(host)
    assert "\n" in str(refused.value)  # what to do


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_login(host):
    WebAccess().check(host)


def test_a_websocket_is_refused(watched):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client(watched).websocket_connect("/api/stream"):
        pass
