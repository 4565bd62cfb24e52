"""Second attempts for tests with groups of real clients, and for tests in containers.

Clients have faults of their own that a busy machine brings out: kafka-python 3.0 may stop sending
heartbeats, `close()` of librdkafka 2.16 may never return. Such a test runs a second time. If it
passes then, the summary shows the failure of its first attempt; more than `MOST` of them fail the
run, so that a fault of ours does not hide among them.

Spark gives a Python process ten seconds to connect, a constant in its code. Where many tests share
a core that is not always enough. A test that fails by that runs again, and does not count.
"""

import pytest

MOST = 3

CLIENTS = (
    "tests/assignors/adapters/",
    "tests/cluster/test_client_matrix.py",
    "tests/cluster/test_clients.py",
    "tests/cluster/test_load.py",
    "tests/integration/",
    "tests/test_docs.py",
)
"""Tests whose outcome depends on how a client behaves."""

TOO_SLOW = "Python worker failed to connect back"
"""Spark's error."""

FIRST: dict[str, str] = {}
"""Test → failure of its first attempt."""


def counted() -> int:
    """Return how many tests needed a second attempt for other reasons than Spark's ten seconds."""
    return sum(TOO_SLOW not in failure for failure in FIRST.values())


def own_name(request: pytest.FixtureRequest) -> str:
    """Return a name for a topic or group of the test: another one for its second attempt."""
    name = request.node.name.replace("[", "-").replace("]", "")
    attempt = getattr(request.node, "execution_count", 1)
    return name if attempt == 1 else f"{name}-{attempt}"


@pytest.hookimpl(trylast=True)  # after the folders have marked their tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("containers") or item.nodeid.startswith(CLIENTS):
            item.add_marker(pytest.mark.flaky(reruns=1))
        elif item.nodeid.startswith("tests/pipeline/"):
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=TOO_SLOW))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.outcome == "rerun":  # type: ignore[comparison-overlap]  # an outcome of pytest-rerunfailures
        FIRST[report.nodeid] = report.longreprtext


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FIRST:
        terminalreporter.section("needed a second attempt")
    for name, failure in FIRST.items():
        errors = [line for line in failure.splitlines() if line.startswith("E  ")]
        terminalreporter.write_line("\n".join([name, *(errors or failure.splitlines()[-5:])]))
    if (count := counted()) > MOST:
        terminalreporter.write_line(f"{count} tests needed a second attempt, more than {MOST}: the run fails")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if counted() > MOST and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
