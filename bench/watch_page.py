"""The page of `quorate watch` in Chromium: load, live events, and steps of the time slider.

1,000 groups with 50 members each, one of them with 2,000 partitions, and a server in another
process, as in use. Times are those of the browser: from the start of the navigation until rows are
shown and a filter works, from a movement of the slider until the moment is drawn, and from an event
of the observer until it is in the page.
"""

import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import Report, p99
from playwright.sync_api import Browser, Page

from quorate.watch.web import serve
from tests.watch.helpers.browser import find_browser, launched
from tests.watch.helpers.generated import GeneratedWatch

NAME = "orders-fulfilment"
MINUTE_MS = 60_000

SLIDE = """async ([at]) => {
  const slider = document.querySelector("input[type=range]");
  const began = performance.now();
  slider.value = at;
  slider.dispatchEvent(new Event("input"));
  await new Promise((done) => {
    const look = () => (document.querySelector(`[data-at='${at}']`) ? done() : requestAnimationFrame(look));
    look();
  });
  return performance.now() - began;
}"""

FILTER = """async ([text]) => {
  const filter = document.querySelector("#filter");
  filter.value = text;
  filter.dispatchEvent(new Event("input"));
  const first = () => document.querySelector("tbody a.row")?.textContent ?? "";
  await new Promise((done) => {
    const look = () => (first().endsWith(text) ? done() : requestAnimationFrame(look));
    look();
  });
  return performance.now();
}"""

SHOWN = """async ([selector]) => {
  await new Promise((done) => {
    const look = () => (document.querySelector(selector) ? done() : requestAnimationFrame(look));
    look();
  });
  return [performance.now(), Date.now()];
}"""


def served(pipe: Connection, groups: int, members: int, partitions: int) -> None:
    """Serve the page in a process; the pipe has requests for rebalances, and their times."""
    watched = GeneratedWatch(groups=groups, members=members, partitions=partitions)
    with serve(watched, port=0) as serving:
        pipe.send((serving.url, watched.started_ms))
        while (name := pipe.recv()) is not None:
            began = time.time()
            pipe.send((watched.rebalance(name), began * 1_000))


def add(report: Report, case: str, values: list[float], goal: str) -> None:
    """Report the 99th percentile, and the median."""
    report.cost(case, p99(values), None, "", "ms, p99", goal, median=statistics.median(values), samples=len(values))


def fresh(browser: Browser) -> Page:
    return browser.new_context(viewport={"width": 1280, "height": 900}).new_page()


def main() -> int:
    report = Report("The page of quorate watch", __doc__ or "")
    path = find_browser()
    if path is None:
        print("error: no browser was found\n       install Chromium: scripts/setup-browser", file=sys.stderr)
        return 1
    groups, members, partitions = report.pick((1_000, 50, 2_000), quick=(1_000, 50, 2_000), smoke=(50, 5, 50))
    runs, steps, events = report.pick((15, 100, 200), quick=(5, 30, 60), smoke=(1, 2, 2))
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=served, args=(theirs, groups, members, partitions))
    process.start()
    try:
        url, started_ms = ours.recv()
        with launched(path) as browser:
            loads = []
            for _ in range(runs):
                page = fresh(browser)
                page.goto(url, wait_until="commit")
                page.evaluate(SHOWN, ["tbody tr a.row"])
                loads.append(page.evaluate(FILTER, ["service-0007"]))
                page.context.close()
            name = f"load until {groups:,} groups are shown, and filtered"
            add(report, name, loads, "below 1,000")

            page = fresh(browser)
            for name, address, wanted in (
                (f"step of the slider, {groups:,} groups", url, "tbody tr a.row"),
                (f"step of the slider, {partitions:,} partitions", f"{url}?group={NAME}", "[data-at=live]"),
            ):
                page.goto(address)
                page.evaluate(SHOWN, [wanted])
                moments = [started_ms - MINUTE_MS - (50 * MINUTE_MS * number) // steps for number in range(steps)]
                add(report, name, [page.evaluate(SLIDE, [at]) for at in moments], "below 100")

            page = fresh(browser)
            page.goto(f"{url}?group={NAME}")
            page.evaluate(SHOWN, [".events li"])
            delays = []
            for _ in range(events):
                ours.send(NAME)
                number, began = ours.recv()
                delays.append(page.evaluate(SHOWN, [f"li[data-id='{number}']"])[1] - began)
            add(report, "event on the page, after it was written", delays, "at most 1,000")
    finally:
        ours.send(None)
        process.join()
    report.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
