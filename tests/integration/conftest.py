"""Tests on clusters: on Kafka brokers in containers, and on embedded ones.

`make test` runs each on both. Of a scenario with several clients or assignors, all run on embedded
brokers, and one on Kafka's; which one differs between scenarios. `make test-full` runs all on both.
The summary reports which scenario ran on which runtime.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quorate.codecs.releases import KafkaVersion
from quorate.integration import Cluster

SCENARIOS: dict[str, dict[tuple[str, str], list[str]]] = {}
"""Scenario → runtime and Kafka version → outcomes of its tests."""

# Groups notice changes at heartbeats, and scenarios wait for that.
QUICK = {
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.assignment.interval.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
    # Every five minutes it would move coordinators in the middle of whichever test is running.
    "auto.leader.rebalance.enable": "false",
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "without_containers: needs no container engine, unlike the rest of this folder")
    config.addinivalue_line("markers", "scenario(name, versions=...): a row of the table at the end of the run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    """Test → its cases on real brokers."""
    for item in items:
        if not item.nodeid.startswith("tests/integration/"):
            continue
        embedded = runtime_of(item) == "embedded"
        given = "kafka_cluster_factory" in getattr(item, "fixturenames", ())
        if "without_containers" not in item.keywords and not (embedded and given):
            item.add_marker("containers")
        lacks = EMBEDDED_LACKS.get(getattr(item, "originalname", item.name))
        if lacks is not None and embedded:
            item.add_marker(pytest.mark.xfail(strict=True, reason=lacks))
        if "[docker" in item.nodeid and item.get_closest_marker("long_on_brokers"):
            item.add_marker("long")
        elif "[docker-" in item.nodeid:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, several in cases.items():
        chosen = sum(test.encode()) % len(several)
        for number, item in enumerate(several):
            if number != chosen:
                item.add_marker("long")


def runtime_of(item: pytest.Item) -> str:
    """Return the runtime of a test's clusters."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return str(parameters.get("kafka_runtime", item.config.getoption("--kafka-runtime")))


EMBEDDED_LACKS = {
    "test_a_coordinator_whose_disk_is_full": "there are no disks of a limited size",
    "test_only_a_disk_of_a_limited_size_is_filled": "there are no disks of a limited size",
}
"""What the embedded cluster cannot do of what these tests are about, and why. On it they have to
fail, so that the list stays true.
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    scenario = item.get_closest_marker("scenario")
    if scenario is not None and (report.when == "call" or report.outcome != "passed"):
        runtime = "docker" if item.get_closest_marker("containers") else "embedded"
        newest = "4.3.1" if runtime == "docker" else str(KafkaVersion.NEWEST)
        version = scenario.kwargs.get("versions") or item.config.getoption("--kafka-version") or newest
        report.user_properties.append(("scenario", (scenario.args[0], runtime, version)))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # Reports, unlike anything else, come from xdist's workers to the one that prints.
    for name, value in report.user_properties:
        if name == "scenario" and (report.when == "call" or report.outcome != "passed"):
            scenario, *where = value  # type: ignore[misc]
            outcome = "declared as lacking" if hasattr(report, "wasxfail") else report.outcome
            SCENARIOS.setdefault(scenario, {}).setdefault(tuple(where), []).append(outcome)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not SCENARIOS:
        return
    width = max(map(len, SCENARIOS))
    for runtime, title in (("docker", "scenarios on real brokers"), ("embedded", "scenarios on embedded brokers")):
        rows = [
            (name, version, outcomes)
            for name, results in sorted(SCENARIOS.items())
            for (ran_on, version), outcomes in results.items()
            if ran_on == runtime
        ]
        if rows:
            terminalreporter.section(title)
        for name, version, outcomes in rows:
            counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes))
            terminalreporter.write_line(f"{name:{width}}  {runtime}  {version:24}  {counts}")


@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_factory: Callable[..., Cluster]) -> Cluster:
    """Start the plugin's cluster, with groups that notice changes sooner."""
    return kafka_cluster_factory(properties=QUICK)


@pytest.fixture(scope="session")
def secure_cluster(kafka_cluster_factory: Callable[..., Cluster], kafka_runtime: str) -> Cluster:
    """Three brokers that want TLS and a login.

    The disk of broker 3 is small, and it is no controller: the cluster outlives the loss of its
    disk.
    """
    if kafka_runtime == "embedded":
        return kafka_cluster_factory(properties=QUICK, security="SASL_SSL")
    return kafka_cluster_factory(properties=QUICK, security="SASL_SSL", controllers=1, disk_mb={3: 96})


@pytest.fixture(autouse=True)
def one_after_the_other(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did to the shared cluster's brokers is undone for the next one."""
    yield
    for name in {"kafka_cluster", "secure_cluster"} & set(request.fixturenames):
        cluster = request.getfixturevalue(name)
        cluster.heal()
        for broker in cluster.brokers:
            if broker.state == "paused":
                cluster.resume_broker(broker.id)
            elif broker.state == "stopped":
                cluster.start_broker(broker.id)
