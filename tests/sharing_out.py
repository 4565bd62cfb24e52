"""Which tests a worker of xdist runs as one group, and in which order groups are handed out.

The tests of a file stay together, because they share fixtures. So do files that share a cluster in
containers, a broker in a local JVM, or Spark, whose JVM takes seconds to start and a gigabyte.
Tests that only wait for a process of their own are groups by themselves.

Tests on clusters wait most of the time, for session timeouts and for brokers to notice changes. So
there are more workers than cores, groups of tests that take minutes start first, and those that
wait are spread among those that compute: neither only wait, nor compete, at the same time. Three of
the first six groups compute: when all six were on clusters, the cores were idle for minutes.

A scheduler of our own is needed because xdist's loadgroup (3.8) renames tests in a way that pytest
9.2 ignores: its groups are lost.
"""

from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

APART = {
    "test_beyond_kafka.py",
    "test_client_assignors.py",
    "test_compose.py",
    "test_history.py",
    "test_lab.py",
    "test_metrics.py",
    "test_node.py",
    "test_planted_clients.py",
    "test_plugin.py",
    "test_plugin_names.py",
    "test_rules.py",
    "test_serve_image.py",
    "test_since_4_4.py",
    "test_upgrade.py",
    "test_verify.py",
}
"""Files of tests/integration whose tests use no shared cluster."""
SECURE = {
    "test_a_coordinator_whose_disk_is_full",
    "test_a_follower_with_a_login_misses_nothing_while_its_broker_restarts",
    "test_a_secure_listener_wants_tls_and_the_password",
    "test_only_a_disk_of_a_limited_size_is_filled",
    "test_tls_and_login_are_those_of_aiokafka",
    "test_tls_and_login_are_those_of_kafka_python",
}
"""Tests on the secure cluster. One worker runs them, so that it starts once."""
LIVE = ("test_live.py", "test_live_failures.py", "test_lags.py")
"""Files whose tests share a broker in a local JVM: one of tests/assignors, cli and codecs each."""
FIRST = (
    "secure cluster",
    "shared cluster",
    "spark",
    "tests/bench/",
    "tests/integration/test_lab.py",
    "tests/test_packaging.py",
    "tests/integration/test_upgrade.py",
    "tests/cluster/pair",
    "broker of tests/assignors",
    "tests/codecs/api/test_api_messages.py",
    "tests/cluster/authorization/test_authorization.py",
    "tests/cluster/test_load.py",
    "tests/test_docs.py",
)
"""The first part of the names of the groups that take longest; all others follow in file order."""

SPREAD = 0.02, 0.9
"""The part of the groups among which those that wait are spread: not among the first six."""
PAGE = "tests/watch/web/test_page.py"
"""Starts after the tests in containers, because Chromium ends a load when Docker creates a network,
and before the last tests, because it would run alone at the end.
"""
PAGE_AT = 0.8
"""The part of the groups that start before it."""


class Scheduling(LoadScopeScheduling):
    """Distributes whole groups, in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the group of a test; one worker runs all tests of a group."""
    file = PurePosixPath(nodeid.partition("::")[0])
    if "[embedded" in nodeid and file.parts[1] == "integration":
        return nodeid  # a cluster starts in milliseconds, and each worker has its own
    match file.parts[:2]:
        case ("tests", "pipeline"):
            return "spark"
        case ("tests", "assignors" | "cli" | "codecs" as folder) if file.name in LIVE:
            return f"broker of tests/{folder}"
        case ("tests", "cluster") if file.parent.name in ("pair", "tools"):
            return str(file.parent)
        case ("tests", "integration") if file.name not in APART:
            test = nodeid.rpartition("::")[2].partition("[")[0]
            return "secure cluster" if test in SECURE else "shared cluster"
        case ("tests", "test_docs.py"):
            return "spark" if "pages_with_spark" in nodeid else nodeid  # others stand alone
        case ("tests", "bench"):
            return "spark" if "_with_spark" in nodeid else str(file)
    return str(file)


def waits(group: str) -> bool:
    """Return whether the tests of a group mostly wait, and it is not one of the first."""
    return group.startswith("tests/integration/") and group not in FIRST


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)  # after pytest, which puts all tests on embedded clusters one after another
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        order(items)


def order(items: list[pytest.Item]) -> None:
    """Sort the longest groups first, and spread those that wait.

    Checks that each cluster in containers has one group.
    """
    for item in items:
        if "[docker" in item.nodeid and {"kafka_cluster", "secure_cluster"} & {*getattr(item, "fixturenames", ())}:
            group = "secure cluster" if "secure_cluster" in item.fixturenames else "shared cluster"
            assert group_of(item.nodeid) == group, f"{item.nodeid} uses the {group}: change SECURE or APART"

    def rank(item: pytest.Item) -> int:
        group = group_of(item.nodeid)
        return next((place for place, name in enumerate(FIRST) if group.startswith(name)), len(FIRST))

    items.sort(key=rank)
    groups = list(dict.fromkeys(group_of(item.nodeid) for item in items))
    # Files, which take longer, before single tests on embedded clusters.
    waiting = sorted((group for group in groups if waits(group)), key=lambda group: "[embedded" in group)
    computing = [group for group in groups if not waits(group)]
    place = {group: number / len(computing) for number, group in enumerate(computing)}
    begin, end = SPREAD
    place |= {group: begin + (end - begin) * number / len(waiting) for number, group in enumerate(waiting)}
    if PAGE in place:
        place[PAGE] = PAGE_AT
    items.sort(key=lambda item: place[group_of(item.nodeid)])
