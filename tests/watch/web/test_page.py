"""The page in a browser: 1,000 groups with 50 members, one of them with 2,000 partitions.

Waits for conditions, never for a time; `bench/watch_page.py` measures times. All tests are in one
file, because playwright's loop occupies the thread until its browser is closed.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import Browser, Locator, Page, Route, expect

from quorate.cluster import EmbeddedCluster
from quorate.watch import Observer
from quorate.watch.web import Serving, WebAccess, serve
from tests.watch.helpers.browser import find_browser, launched
from tests.watch.helpers.generated import NAMES, GeneratedWatch
from tests.watch.helpers.members import member

NAME = "orders-fulfilment"
TOKEN = "a-secret-of-operators"
MINUTE_MS = 60_000

expect.set_options(timeout=120_000)

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no browser: scripts/setup-browser installs Chromium")
    with launched(path) as browser:
        yield browser


@pytest.fixture(scope="module")
def watched() -> GeneratedWatch:
    return GeneratedWatch(groups=1_000, members=50, partitions=2_000)


@pytest.fixture(scope="module")
def server(watched: GeneratedWatch) -> Iterator[Serving]:
    with serve(watched, port=0) as serving:
        yield serving


@pytest.fixture(scope="module")
def unused() -> dict[str, list[Page]]:
    """Return pages that no test uses, by the options of their contexts.

    Tests use them one after the other: a new window takes half a second of CPU time.
    """
    return {}


@pytest.fixture
def opened(browser: Browser, server: Serving, unused: dict[str, list[Page]]) -> Iterator[Open]:
    """Open pages without cookies. Fails if a page logs an error, or requests another host."""
    taken, wrong = ExitStack(), []

    def open_page(path: str = "", *, url: str = server.url, expected: str = "^$", **options: object) -> Page:
        options = {"viewport": {"width": 1_280, "height": 900}, "locale": "en-GB"} | options
        pages = unused.setdefault(repr(options), [])
        page = pages.pop() if pages else browser.new_context(**options).new_page()
        taken.callback(pages.append, page)
        page.set_default_timeout(120_000)
        page.set_viewport_size(options["viewport"])

        def note(text: str) -> None:
            if not re.search(expected, text):
                wrong.append(text)

        listeners = {
            "console": lambda message: note(message.text) if message.type in ("error", "warning") else None,
            "pageerror": lambda error: note(str(error)),
            "dialog": lambda dialog: note(f"dialog {dialog.message}"),
            "request": lambda request: None if request.url.startswith(url) else note(request.url),
        }
        for event, listener in listeners.items():
            page.on(event, listener)
            taken.callback(page.remove_listener, event, listener)
        taken.callback(leave, page)
        page.goto(url + path)
        return page

    with taken:
        yield open_page
    assert wrong == []


def leave(page: Page) -> None:
    """Disconnect a page from its server, and undo what tests change of it."""
    page.goto("about:blank")
    page.unroute_all(behavior="ignoreErrors")
    page.context.clear_cookies()
    page.emulate_media(color_scheme="null", reduced_motion="null")


def rows(page: Page, table: str) -> Locator:
    return page.get_by_role("table", name=table, exact=True).locator("tbody tr:not(.spacer)")


def row_of(page: Page, name: str) -> Locator:
    return rows(page, "Groups").filter(has=page.locator("a.row", has_text=re.compile(f"^{re.escape(name)}$")))


def moment(page: Page, at_ms: int) -> None:
    """Move the slider like a pointer does."""
    page.get_by_role("slider", name="Moment").evaluate(
        """(slider, at) => {
          slider.value = at;
          for (const name of ["input", "change"]) slider.dispatchEvent(new Event(name));
        }""",
        at_ms,
    )


def is_wider_than_the_window(page: Page) -> bool:
    return page.evaluate(
        "document.documentElement.scrollWidth > innerWidth || document.querySelector('main').scrollWidth > innerWidth"
    )


def test_a_thousand_groups_are_shown_by_some_rows(opened, watched):
    page = opened()
    total = len(watched.groups())
    expect(page.get_by_role("table", name="Groups")).to_have_attribute("aria-rowcount", str(total + 1))
    expect(page.get_by_role("heading", name="Groups")).to_be_visible()
    assert 10 < rows(page, "Groups").count() < 60
    assert page.title() == "Groups · quorate watch"
    last = max(group.lag_ms or 0 for group in watched.groups())
    assert last > 10_000
    page.get_by_role("button", name="Group", exact=True).click()
    names = sorted(group.group_id for group in watched.groups())
    expect(rows(page, "Groups").locator("a.row").nth(1)).to_have_text(names[1])
    page.get_by_role("region", name="Groups, scrollable").evaluate("one => one.scrollTop = one.scrollHeight")
    expect(row_of(page, names[-1])).to_be_visible()
    assert rows(page, "Groups").count() < 60


def test_a_rebalance_appears_at_once(opened, watched):
    page = opened(f"?group={NAME}")
    expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    expect(page.locator("[data-at=live]")).to_be_visible()
    epoch = page.locator(".tiles div", has_text="Epoch").locator("dd")
    last = watched.rebalance(NAME)
    event = page.locator(f"li[data-id='{last}']")
    expect(event).to_be_visible()
    expect(event).to_contain_text(re.compile("member (left|joined)"))
    expect(event).to_contain_text("partitions moved")
    expect(epoch).to_have_text(str(watched.group(NAME).summary.epoch))
    event.get_by_text("Details").click()
    expect(event).to_contain_text("orders-")
    other = opened("?view=events")
    last = watched.rebalance("team-01.service-0001")
    expect(other.locator(f"li[data-id='{last}']")).to_contain_text("team-01.service-0001")


HOLD_FRAMES = """() => {
  window.held = [];
  window.real = requestAnimationFrame;
  window.requestAnimationFrame = (one) => held.push(one);
}"""

RELEASE_FRAMES = """() => {
  window.requestAnimationFrame = real;
  for (const one of held) requestAnimationFrame(one);
}"""


def test_an_event_that_is_sent_while_a_response_is_under_way_is_kept(opened, watched):
    page = opened(f"?group={NAME}")
    expect(page.locator("[data-at=live]")).to_be_visible()
    held: list[Route] = []
    page.route("**/api/ownership*", lambda route: held.append(route))
    first = watched.rebalance(NAME)
    expect(page.locator(f"li[data-id='{first}']")).to_be_visible()
    wait_until(page, lambda: held)
    # Frames wait, so the response comes after the event was sent, and before it is shown.
    page.evaluate(HOLD_FRAMES)
    second = watched.rebalance(NAME)
    sent = "async (id) => (await import('/page/store.js')).store.events.some((one) => one.id === id)"
    wait_until(page, lambda: page.evaluate(sent, second))
    with page.expect_response("**/api/ownership*"):
        held.pop(0).continue_()
    page.evaluate("() => new Promise((done) => setTimeout(done))")
    page.evaluate(RELEASE_FRAMES)
    expect(page.locator(f"li[data-id='{second}']")).to_be_visible()
    wait_until(page, lambda: held)  # the charts are requested again
    held.pop().continue_()


def wait_until(page: Page, condition: Callable[[], object]) -> None:
    """Let the page run until a condition holds."""
    while not condition():
        page.evaluate("() => new Promise((done) => setTimeout(done, 10))")


def test_the_slider_shows_a_moment_and_goes_back(opened, watched):
    page = opened(f"?group={NAME}")
    now = watched.group(NAME)
    expect(page.get_by_role("heading", name=f"Members ({len(now.members)})")).to_be_visible()
    before = watched.started_ms - 59 * MINUTE_MS
    then = watched.group(NAME, at_ms=before)
    assert then.summary.epoch < now.summary.epoch
    moment(page, before)
    expect(page.locator(f"[data-at='{before}']")).to_be_visible()
    epoch = page.locator(".tiles div", has_text="Epoch").locator("dd")
    expect(epoch).to_have_text(str(then.summary.epoch))
    assert f"at={before}" in page.url
    expect(page.locator(".events li.later").first).to_be_visible()
    second = before + 10 * MINUTE_MS
    moment(page, second)
    expect(page.locator(f"[data-at='{second}']")).to_be_visible()
    page.go_back()
    expect(page.locator(f"[data-at='{before}']")).to_be_visible()
    page.go_back()
    expect(page.locator("[data-at=live]")).to_be_visible()
    expect(epoch).to_have_text(str(watched.group(NAME).summary.epoch))
    page.go_forward()
    page.get_by_role("button", name="Live").click()
    expect(page.locator("[data-at=live]")).to_be_visible()
    assert "at=" not in page.url


def test_a_link_carries_the_group_and_the_moment(opened, watched):
    at = watched.started_ms - 40 * MINUTE_MS
    page = opened(f"?group={NAME}&at={at}")
    expect(page.locator(f"[data-at='{at}']")).to_be_visible()
    page.get_by_role("link", name="All groups", exact=True).click()
    expect(page.get_by_role("heading", name="Groups")).to_be_visible()
    assert f"at={at}" in page.url
    page.get_by_label("Filter groups").fill(NAME)
    expect(row_of(page, NAME)).to_contain_text(str(len(watched.group(NAME, at_ms=at).members)))


def test_two_moments_are_compared(opened, watched):
    first, second = (watched.started_ms - minutes * MINUTE_MS for minutes in (58, 5))
    page = opened(f"?group={NAME}&at={second}&from={first}")
    section = page.get_by_role("region", name="Difference")
    for sentence in watched.difference(NAME, from_ms=first, to_ms=second):
        expect(section).to_contain_text(sentence)
    moment(page, first)
    expect(section).to_contain_text("Nothing changed.")
    page.get_by_role("button", name="End comparison").click()
    expect(section).to_be_hidden()
    page.get_by_role("button", name="Compare").click()
    assert f"from={first}" in page.url


def test_events_are_stepped_through(opened, watched):
    page = opened(f"?group={NAME}&window=0")
    expect(page.locator(".events li").first).to_be_visible()
    events = watched.events(group_id=NAME)
    page.get_by_role("button", name="Event before").click()
    expect(page.locator(f"[data-at='{events[0].at_ms}']")).to_be_visible()
    page.get_by_role("button", name="Event before").click()
    expect(page.locator(f"[data-at='{events[2].at_ms}']")).to_be_visible()
    page.get_by_role("button", name="Event after").click()
    expect(page.locator(f"[data-at='{events[0].at_ms}']")).to_be_visible()


def test_groups_are_filtered_and_sorted_and_the_address_keeps_it(opened, watched):
    page = opened()
    page.get_by_label("Filter groups").fill("SERVICE-000")
    expect(page.get_by_text(f"10 of {len(watched.groups()):,}")).to_be_visible()
    expect(rows(page, "Groups")).to_have_count(10)
    page.get_by_role("button", name="Group", exact=True).click()
    expect(page.get_by_role("columnheader", name="Group", exact=True)).to_have_attribute("aria-sort", "ascending")
    page.reload()
    expect(rows(page, "Groups")).to_have_count(10)
    expect(rows(page, "Groups").first.locator("a.row")).to_have_text("team-00.service-0000")
    page.get_by_label("State or protocol").select_option("Empty")
    empty = [group for group in watched.groups() if "service-000" in group.group_id and group.state == "Empty"]
    expect(rows(page, "Groups")).to_have_count(len(empty))
    page.get_by_label("Filter groups").fill("no such group")
    expect(page.get_by_text("No group matches.")).to_be_visible()


def test_names_are_texts(opened, watched):
    page = opened()
    page.get_by_role("button", name="Group", exact=True).click()  # the empty name comes first
    for name in NAMES:
        page.get_by_label("Filter groups").fill(name)
        row = row_of(page, name or "(empty)")
        expect(row).to_be_visible()
        row.locator("a.row").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name or "(empty)")
        expect(page.locator(".events li").first).to_contain_text(name)
        assert page.title() == f"{name} · quorate watch".strip()
        page.go_back()
    assert page.locator("main img, main script, main iframe").count() == 0
    other = opened(f"?view=events&q={quote(NAMES[0])}&kind={quote(NAMES[1])}", expected="400|unknown")
    expect(other.get_by_role("alert").first).to_contain_text(NAMES[1])


def test_two_thousand_partitions_are_some_rows(opened):
    page = opened(f"?group={NAME}")
    expect(page.get_by_role("heading", name="Partitions (2,000)")).to_be_visible()
    assert rows(page, "Partitions").count() < 40
    page.get_by_role("region", name="Partitions, scrollable").evaluate("one => one.scrollTop = one.scrollHeight")
    expect(rows(page, "Partitions").filter(has_text="1999")).to_be_visible()
    lanes = page.get_by_role("group", name="Owners of 2000 partitions")
    lanes.evaluate("one => one.scrollTop = one.scrollHeight")
    box = lanes.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 40, box["y"] + box["height"] - 40)
    expect(page.locator("#lane-readout")).to_contain_text(
        re.compile(r"orders-19\d\d: client-member-0-\d+ \(rack [abc], leader in")
    )
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    expect(page).to_have_url(re.compile(r"at=\d+"))


def test_everything_is_reached_by_keys(opened, watched):
    page = opened()
    expect(rows(page, "Groups").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    expect(page.get_by_label("Filter groups")).to_be_focused()
    page.keyboard.type("service-01")
    expect(page.get_by_text("100 of")).to_be_visible()
    rows_ = rows(page, "Groups")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('a.row')"):
            break
    expect(rows_.first.locator("a.row")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(rows_.nth(1).locator("a.row")).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator("tr[aria-rowindex='101'] a.row")).to_be_focused()
    name = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("slider", name="Moment").focus()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(r"at=\d+"))
    expect(page.locator("[data-at]:not([data-at=live])")).to_be_visible()
    assert page.get_by_role("slider", name="Moment").get_attribute("aria-valuetext").startswith("20")
    lanes = page.locator(".lanes")
    lanes.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#lane-readout")).to_contain_text("-1")
    page.keyboard.press("Escape")
    expect(page.locator("[data-at=live]")).to_be_visible()
    page.keyboard.press("Home")


def test_tables_and_controls_have_names_and_roles(opened):
    page = opened(f"?group={NAME}")
    expect(page.get_by_role("table", name="Members")).to_have_attribute("aria-rowcount", "51")
    for role, name in (
        ("navigation", "Views"),
        ("region", "Time"),
        ("slider", "Moment"),
        ("img", "Lag from"),
        ("group", "Owners of"),
        ("combobox", "Window"),
        ("status", "Connected"),
    ):
        found = page.get_by_role(role, name=name) if role != "status" else page.get_by_role(role).filter(has_text=name)
        expect(found.first).to_be_visible()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, a, input, select, [tabindex='0']")]
        .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length))
        .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("path", ["", f"?group={NAME}", "?view=topics", "?view=events", "?view=upgrade"])
def test_four_hundred_pixels_are_enough(opened, path):
    page = opened(path, viewport={"width": 400, "height": 800}, has_touch=True)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("slider", name="Moment")).to_be_visible()
    if not path:
        expect(rows(page, "Groups").first).to_contain_text("member")
    if "group" in path:
        expect(page.locator(".events li").first).to_be_attached()
        expect(rows(page, "Partitions").first).to_be_attached()
    assert not is_wider_than_the_window(page)


CUT = """() => [...document.querySelectorAll("td .state, td .sub")]
  .filter((one) => one.checkVisibility())
  .filter((one) => {
    const cell = one.closest("td").getBoundingClientRect();
    const { overflow, textOverflow } = getComputedStyle(one);
    const ends = overflow === "hidden" && textOverflow === "ellipsis";
    return one.getBoundingClientRect().right > cell.right - 9 || (one.scrollWidth > one.clientWidth && !ends);
  })
  .map((one) => one.textContent)"""


def test_long_states_end_with_an_ellipsis_and_tables_fill_their_width(opened):
    page = opened("?q=service-00")
    widths = (400, 1_000, 1_600)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        expect(rows(page, "Groups").filter(has_text="Preparing rebalance").first).to_be_visible()
        assert page.evaluate(CUT) == [], width
    page.get_by_role("link", name="Topics").click()
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        expect(rows(page, "Topics").first).to_be_visible()
        table = page.get_by_role("table", name="Topics").bounding_box()
        last = page.locator("thead th:visible").last.bounding_box()
        assert abs(table["x"] + table["width"] - last["x"] - last["width"]) < 2, width


CONTRAST = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(`--${name}`).trim();
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const pairs = [["fg", "bg"], ["fg", "surface"], ["dim", "bg"], ["dim", "surface"], ["dim", "hover"],
    ["accent", "surface"], ["ok", "ok-soft"], ["warn", "warn-soft"], ["bad", "bad-soft"], ["info", "info-soft"],
    ["warn", "surface"], ["on-accent", "accent"], ...Array.from({ length: 10 }, (_, index) => ["on-m", `m${index}`])];
  return pairs.map(([a, b]) => [`${a} on ${b}`, ratio(a, b)]);
}"""


def test_light_and_dark_have_enough_contrast(opened):
    page = opened(f"?group={NAME}")
    expect(page.locator(".tiles dd").first).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        red = int(re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[0])
        assert (red < 40) == (scheme == "dark")
        assert [pair for pair in page.evaluate(CONTRAST) if pair[1] < 4.5] == [], scheme


def test_without_motion_nothing_is_animated(opened):
    page = opened(f"?group={NAME}")
    first = page.locator(".events li").first
    expect(first).to_be_visible()
    for motion, animation in (("reduce", "none"), ("no-preference", "appear")):
        page.emulate_media(reduced_motion=motion)
        assert first.evaluate("one => getComputedStyle(one).animationName") == animation


def test_topics_have_their_groups_and_the_upgrade_check_its_findings(opened, watched):
    page = opened("?view=topics")
    expect(page.get_by_role("table", name="Topics")).to_have_attribute("aria-rowcount", str(len(watched.topics()) + 1))
    page.get_by_label("Filter topics or groups").fill(NAME)
    expect(rows(page, "Topics")).to_have_count(1)
    rows(page, "Topics").get_by_role("link", name=NAME).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    page.get_by_role("link", name="Upgrade").click()
    expect(page.get_by_text(f"{len(watched.upgrade_findings('4.4.0'))} findings")).to_be_visible()
    page.get_by_label("Brokers on Kafka").select_option("4.3.0")
    expect(page.get_by_text("will be rebalanced by 4.3.0").first).to_be_visible()
    expect(page).to_have_url(re.compile("release=4.3.0"))


def test_a_login_is_required_once(opened):
    watched = GeneratedWatch(groups=3, members=2, partitions=6)
    with serve(watched, port=0, access=WebAccess(token=TOKEN)) as guarded:
        page = opened(f"?group={NAME}", url=guarded.url, expected="401")
        page.get_by_label("Token").fill("not the token at all")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert").filter(has_text="this is not the token")).to_be_visible()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
        expect(page.get_by_text("Connected")).to_be_visible()
        assert TOKEN not in page.url
        assert TOKEN not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
        leave(page)


def test_a_page_reconnects_and_gets_what_it_missed(opened):
    watched = GeneratedWatch(groups=3, members=2, partitions=6)
    with serve(watched, port=0) as first:
        page = opened(f"?group={NAME}", url=first.url, expected="ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|NetworkError")
        expect(page.get_by_text("Connected")).to_be_visible()
    expect(page.get_by_text("Connection lost, retrying")).to_be_visible()
    last = watched.rebalance(NAME)
    with serve(watched, port=first.port):
        expect(page.locator(f"li[data-id='{last}']")).to_be_visible()
        expect(page.get_by_text("Connected")).to_be_visible()
        leave(page)


def test_problems_of_the_observer_are_shown(opened):
    watched = GeneratedWatch(groups=3, members=2, partitions=6)
    with serve(watched, port=0) as serving:
        page = opened(url=serving.url)
        expect(rows(page, "Groups").first).to_be_visible()
        watched.fail("topic <b>orders</b>: not authorized")
        expect(page.get_by_role("alert").filter(has_text="topic <b>orders</b>: not authorized")).to_be_visible()
        watched.fail()
        expect(page.get_by_role("alert").filter(has_text="not authorized")).to_have_count(0)
        leave(page)


def test_a_group_of_a_cluster_is_shown_from_its_first_member_on(opened):
    with EmbeddedCluster(racks=["a", "b"]) as kafka:
        kafka.create_topic("orders", partitions=4)
        with Observer(kafka.bootstrap_servers, interval_s=0.5) as observer, serve(observer, port=0) as serving:
            observer.wait_until_caught_up()
            page = opened(url=serving.url)
            expect(page.get_by_text("Connected")).to_be_visible()
            with member(kafka, "orders", "billing", "consumer", **{"client.rack": "a"}):
                row_of(page, "billing").locator("a.row").click()
                expect(page.get_by_role("heading", name="Members (1)")).to_be_visible()
                with member(kafka, "orders", "billing", "consumer", **{"client.rack": "b"}):
                    joined = page.locator("li[data-kind=rebalance-ended]", has_text="joined").first
                    expect(joined).to_contain_text("2 partitions moved")
                    expect(rows(page, "Members")).to_have_count(2)
                    expect(rows(page, "Partitions")).to_have_count(4)
                    page.get_by_role("link", name="Topics").click()
                    expect(rows(page, "Topics")).to_contain_text("orders")
                    page.go_back()
            expect(page.get_by_role("heading", name="Members (0)")).to_be_visible()
            # By key: the last events of those who left may move the button during a click.
            joined.locator("button.at").press("Enter")
            expect(page.get_by_role("heading", name="Members (2)")).to_be_visible()
            page.get_by_role("link", name="Upgrade").click()
            expect(page.get_by_text(re.compile("findings|No group is affected"))).to_be_visible()
            leave(page)


def test_a_copy_of_logs_is_shown_at_the_time_at_which_it_ends(opened):
    logs = Path(__file__).parents[3] / "cli" / "demo" / "data" / "kafka-logs"
    with Observer.of_files(logs) as observer, serve(observer, port=0) as serving:
        observer.wait_until_caught_up()
        page = opened("?group=bill-orders", url=serving.url)
        expect(page.get_by_text("From files")).to_be_visible()
        events = observer.events(group_id="bill-orders")
        expect(page.locator(".events li")).to_have_count(len(events))
        page.get_by_role("button", name="Event before").click()
        expect(page.locator(f"[data-at='{events[0].at_ms}']")).to_be_visible()
        leave(page)
