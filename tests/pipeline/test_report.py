"""The report: one page with charts, the same from both engines."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from quorate.coordinator.history import Cause
from quorate.pipeline.jobs.audit_rows import AUDIT
from quorate.pipeline.jobs.locality_rows import LOCALITY
from quorate.pipeline.jobs.rebalance_rows import REBALANCES
from quorate.pipeline.jobs.state_rows import MEMBER, OFFSET, STATE
from quorate.pipeline.report import page
from quorate.pipeline.report_charts import human, kind_of, seconds_text
from quorate.pipeline.report_data import Facts, LagSeries, thinned
from tests.extent import is_full
from tests.pipeline.helpers.command import CONSUMER, Run
from tests.pipeline.helpers.command import inputs as inputs
from tests.pipeline.helpers.command import run as run
from tests.pipeline.helpers.command import run_in_spark as run_in_spark


class Checked(HTMLParser):
    """A parser that fails on tags that are not closed, and collects tags and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def checked(html: str) -> Checked:
    parser = Checked()
    parser.feed(html)
    assert parser.open == []
    # Self-contained: no scripts, and no external resources.
    assert not {"script", "link", "img", "iframe"} & set(parser.tags)
    assert not [value for name, value in parser.attributes if name in ("src", "href") or name.startswith("on")]
    assert "url(" not in html
    assert "http" not in html.replace("http-equiv", "")
    return parser


def test_the_report_of_a_capture_has_all_charts(run: Run, inputs: list[object], tmp_path: Path) -> None:
    status, out, err = run("report", CONSUMER, "--output", tmp_path / "report.html", *inputs)
    assert (status, out) == (0, "")
    assert f"report: {tmp_path}/report.html" in err
    html = (tmp_path / "report.html").read_text()
    found = checked(html)
    assert "Captured <groups>" in found.texts
    assert found.tags.count("polyline") >= 2
    assert len(re.findall(r'class="bar (?:membership|metadata|subscription|upgrade|other)', html)) > 40
    assert html.count('class="matrix"') == 2
    for text in ("cg-migrates", "converted-back", "t-alpha", "current", "Lag over time"):
        assert any(text in one for one in found.texts), text


@pytest.mark.parametrize("collected", [50_000, 0] if is_full() else [0])
def test_both_engines_write_the_same_report(
    run_in_spark: Run, inputs: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collected: int
) -> None:
    monkeypatch.setattr("quorate.pipeline.jobs.results.MOST_COLLECTED", collected)  # 0: Spark aggregates
    pages = []
    for engine in ("local", "spark"):
        done = run_in_spark("report", CONSUMER, "--output", tmp_path / engine, "--engine", engine, *inputs)
        assert done[0] == 0, done[2]
        pages.append(re.sub("; written [^;]+;", "", (tmp_path / engine).read_text()))
    assert pages[0] == pages[1]


def facts(**changes: Any) -> Facts:
    """Return the facts of an empty report, with changes."""
    nothing = Facts(
        title="t", made_at=datetime(2026, 1, 1, tzinfo=UTC), groups=[], group_count=0, members=0, offsets=0,
        skipped=0, rebalances=[], rebalance_count=0, lanes=[], storms=[], lags=None, lag_groups=0, racks=None,
        matrix=None, priced=False, findings=[], finding_counts={}, compared_hashes=False,
    )  # fmt: skip
    return replace(nothing, **changes)


def test_an_empty_report_names_missing_inputs() -> None:
    found = checked(page(facts()))
    text = " ".join(found.texts)
    assert "Lags need end offsets, which __consumer_offsets does not contain." in text
    assert "Racks need a topology; __consumer_offsets does not contain racks of replicas." in text
    assert "No rebalances." in text


def test_names_cannot_become_markup() -> None:
    evil = "<script>alert('x')</script>\" onload=\"x"
    series = LagSeries(
        group=evil,
        points=[(0.0, 1.0), (60.0, 5.0)],
        partitions=1,
        production_rate=1.0,
        consumption_rate=None,
        drain_seconds=None,
    )
    group = {
        "group": evil,
        "kind": "Consumer",
        "state": "Stable",
        "epoch": 1,
        "assignor": evil,
        "members": 1,
        "offsets": 0,
        "topics": [evil],
    }
    bar = {
        "group": evil, "epoch": 2, "started_at": datetime(2026, 1, 1, tzinfo=UTC), "completed_at": None,
        "duration_ms": None, "causes": ["joined"], "partitions_moved": 0, "why": evil,
    }  # fmt: skip
    found = checked(
        page(
            facts(
                groups=[group],
                group_count=1,
                lags=[series],
                lag_groups=1,
                rebalances=[bar],
                rebalance_count=1,
                lanes=[(evil, 1)],
            )
        )
    )
    assert "never" in found.texts
    assert "script" not in found.tags


def test_colours_show_the_most_important_cause() -> None:
    assert kind_of(["joined", "hash-first"]) == "upgrade"
    assert kind_of(["hash", "left"]) == "metadata"
    assert kind_of(["unknown"]) == kind_of([]) == "other"


def test_peaks_survive_thinning() -> None:
    points = [(float(at), 100.0 if at == 777 else 1.0) for at in range(1000)]
    found = thinned(points, 50)
    assert len(found) <= 50
    assert (777.0, 100.0) in found
    assert found[-1] == points[-1]
    assert sorted(found) == list(found)


def test_numbers_and_durations_are_short() -> None:
    assert [human(one) for one in (0, 7, 999, 1000, 1234, 250_000, 3_400_000)] == [
        "0",
        "7",
        "999",
        "1 k",
        "1.2 k",
        "250 k",
        "3.4 M",
    ]
    assert [seconds_text(one) for one in (None, 0.0, 0.4, 45, 180, 7200, 864_000)] == [
        "never",
        "0 s",
        "0.4 s",
        "45 s",
        "3 min",
        "2 h",
        "10 days",
    ]


def test_the_reference_names_every_column() -> None:
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "spark-jobs.md").read_text()
    nested = [field.name for kind in (MEMBER, OFFSET) for field in kind]
    for name in {*REBALANCES.names, *AUDIT.names, *STATE.names, *LOCALITY.names, *nested}:
        assert f"`{name}`" in reference, name
    for cause in Cause:
        assert f"`{cause.value}`" in reference
