"""Take the pictures of `quorate watch` in docs/images (`make picture`), of generated groups.

Needs Chromium (scripts/setup-browser) and the development dependencies.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[1])]  # last: `codecs` stays the standard library's

from playwright.sync_api import Browser, Page

from quorate.watch.web import serve
from tests.watch.helpers.browser import find_browser, launched
from tests.watch.helpers.generated import GeneratedWatch

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
NAME = "orders-fulfilment"
MINUTE_MS = 60_000


@contextmanager
def shown(
    browser: Browser, url: str, width: int, height: int, scheme: str = "light", scale: float = 1.0
) -> Iterator[Page]:
    """Open a page, without motion."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=scale,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    page = context.new_page()
    page.goto(url)
    page.get_by_text("Connected").wait_for()
    page.wait_for_load_state("load")
    try:
        yield page
    finally:
        context.close()


def take(page: Page, name: str, folder: Path) -> None:
    """Save a picture after two frames, in which canvases are drawn."""
    page.evaluate(
        "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 400))"
    )
    page.screenshot(path=folder / f"{name}.png")
    print(f"wrote {name}.png", file=sys.stderr)


def main(folder: Path = IMAGES) -> int:
    """Take all pictures."""
    path = find_browser()
    if path is None:
        print("error: no browser was found\n       install Chromium: scripts/setup-browser", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    watched = GeneratedWatch(groups=240, members=6, partitions=24, steps=5, names=False)
    then, now = watched.started_ms - 44 * MINUTE_MS, watched.started_ms - 12 * MINUTE_MS
    with serve(watched, port=0) as serving, launched(path) as browser:
        url = serving.url
        with shown(browser, url, 1280, 720) as page:
            page.locator("a.row").first.wait_for()
            take(page, "watch-groups", folder)
        with shown(browser, f"{url}?group={NAME}&at={now}", 1280, 1060) as page:
            page.locator(".events li").first.wait_for()
            take(page, "watch-group", folder)
        with shown(browser, f"{url}?group={NAME}&at={now}&from={then}", 1280, 860, "dark") as page:
            page.locator(".difference li").first.wait_for()
            take(page, "watch-difference-dark", folder)
        with shown(browser, f"{url}?group={NAME}", 400, 860, scale=1.5) as page:
            page.locator(".events li").first.wait_for()
            take(page, "watch-narrow", folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
