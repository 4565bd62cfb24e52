"""Chromium of the machine, driven by playwright, which needs to download nothing."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Return the path of a browser; QUORATE_BROWSER overrides the search."""
    return os.environ.get("QUORATE_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def launched(path: str) -> Iterator[Browser]:
    """Run a browser while the block runs. asyncio cannot be used in this thread meanwhile."""
    with sync_playwright() as playwright:
        # As root, as in containers, Chromium has no sandbox. Pages are those of a local server.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()
