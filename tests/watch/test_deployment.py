"""docker/watch: the dashboard, alert rules and compose file fit what `quorate watch` has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from quorate.cli.watch import watch
from quorate.watch.metrics import Metrics, MetricsOptions
from tests.watch.helpers.generated import GeneratedWatch

FOLDER = Path(__file__).resolve().parents[2] / "docker" / "watch"
DASHBOARD = json.loads((FOLDER / "grafana" / "dashboards" / "quorate-watch.json").read_text())
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text())
ALERT_TESTS = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
COMMAND = COMPOSE["services"]["watch"]["command"]
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """Return the labels of each sample that Prometheus gets."""
    watched = GeneratedWatch(groups=8, members=3, partitions=4)
    found: dict[str, set[str]] = {}
    for detail in ("topic", "partition"):
        metrics = Metrics(watched, MetricsOptions(detail=detail))
        watched.rebalance("orders-fulfilment")
        for family in text_string_to_metric_families(metrics.scrape()[1].decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions(value: Any) -> Iterator[str]:  # plain: what PromQL calls them
    """Yield each text under the keys `expr` and `query`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("expr", "query") and isinstance(inner, str):
                yield inner
            else:
                yield from expressions(inner)  # plain: likewise
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)  # plain: likewise


@pytest.mark.parametrize("source", [DASHBOARD, ALERTS], ids=["dashboard", "alerts"])
def test_every_metric_and_label_exists(source, labels):
    found = [text for text in expressions(source) if "quorate_" in text]  # plain: likewise
    assert len(found) > 12
    for text in found:
        for name, matchers in re.findall(r"(quorate_\w+)(?:\{([^}]*)\})?", text):
            assert name in labels, text
            assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)) <= labels[name], text
        for listed in re.findall(r"\bby \(([\w, ]+)\)", text):
            known = set().union(*(labels[name] for name in re.findall(r"quorate_\w+", text)))
            assert set(listed.split(", ")) <= known, text


def test_the_dashboard_shows_each_kind_of_metric(labels):
    text = json.dumps(DASHBOARD)
    shown = {name for name in labels if name in text or name.removesuffix("_count").removesuffix("_sum") in text}
    missing = {
        name
        for name in labels
        if name not in shown and not re.search(r"_(created|count|sum)$|topic_|partition_lag", name)
    }
    assert missing == {"quorate_watch_next_offset", "quorate_watch_history_start_seconds"}


def test_panels_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_each_alert_has_a_severity_and_a_summary(labels):
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 10
    for rule in RULES:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
        names = re.findall(r"quorate_\w+", rule["expr"])
        known = set().union(*(labels[name] for name in names)) | {"instance"}
        assert set(re.findall(r"\$labels\.(\w+)", json.dumps(rule))) <= known


def test_each_alert_has_a_test_for_promtool(labels):
    """promtool itself is not run here: to build it takes ten minutes."""
    fired = {one["alertname"] for test in ALERT_TESTS for one in test["alert_rule_test"] if "exp_alerts" in one}
    assert fired == {rule["alert"] for rule in RULES}
    for test in ALERT_TESTS:
        for series in test["input_series"]:
            name, _, matchers = series["series"].partition("{")
            if name != "up":
                assert set(re.findall(r"(\w+)=", matchers)) <= labels[name], series


def test_the_compose_file_passes_options_that_exist():
    """No file is read, and nothing is started."""
    command = [part.partition(":-")[2].rstrip("}") if part.startswith("$") else part for part in COMMAND]
    given = watch.make_context("watch", command).params
    assert (given["http"], given["state"], given["token_file"]) == ("0.0.0.0:8090", "/data", "/run/secrets/token")


def test_the_compose_file_mounts_what_exists():
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (FOLDER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    build = COMPOSE["services"]["watch"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).samefile(FOLDER / "Dockerfile")
    prometheus = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["watch:8090"]
    assert prometheus["rule_files"] == ["alerts.yml"]
    path = job["authorization"]["credentials_file"]
    assert path.removeprefix("/run/secrets/") in COMPOSE["secrets"]
    assert path in COMMAND
