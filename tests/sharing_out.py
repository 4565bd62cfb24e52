"""Which tests a worker of xdist runs as one group, and in which order groups are handed out.

Files stay whole, as their tests share fixtures. So do files that share what is expensive: a cluster
in containers, and Spark, whose JVM takes seconds to start and a gigabyte. Tests that only wait for
a process of their own are groups by themselves.

Tests on clusters wait for much of their time, for sessions to time out and for brokers to notice.
So there are more workers than cores, and the groups on clusters begin first, next to those that
compute: nothing that takes a minute is left for the end.

This is a scheduler of our own because xdist's loadgroup (3.8) renames tests in a way that pytest
9.2 does not heed: its groups are lost.
"""

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["Scheduling", "order"]

OWN_CLUSTERS = {"test_compose.py", "test_lab.py", "test_plugin.py", "test_plugin_names.py", "test_upgrade.py"}
"""Files of tests/integration whose tests start clusters of their own; the others share two."""
SECURE = {"test_faults.py", "test_live_decode.py"}
"""Those that share the secure cluster."""
FIRST = (
    "secure cluster",
    "shared cluster",
    "spark",
    "tests/integration/test_lab.py",
    "tests/integration/test_upgrade.py",
    "pages with Spark",
    "tests/bench/test_smoke.py::test_a_benchmark_runs_and_prints_its_cases[pipeline]",
    "tests/assignors/adapters/test_live.py",
    "tests/integration/",
    "tests/codecs/test_api_messages.py",
    "tests/cluster/test_authorization.py",
    "tests/bench/",
    "tests/cluster/test_load.py",
    "tests/test_docs.py",
    "tests/test_packaging.py",
)
"""Groups that take longest, by how their names begin. All others follow in the order of their
files.
"""


class Scheduling(LoadScopeScheduling):
    """Hands out whole groups, in the order in which the tests were collected."""

    def _split_scope(self, nodeid: str) -> str:
        if self.config.getoption("--kafka-runtime") == "embedded" and nodeid.startswith("tests/integration/"):
            return nodeid  # a cluster is there in milliseconds, and each worker has its own
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The group of a test: all of a group are one worker's."""
    file = PurePosixPath(nodeid.partition("::")[0])
    match file.parts[:2]:
        case ("tests", "pipeline"):
            return "spark"
        case ("tests", "integration") if file.name not in OWN_CLUSTERS:
            return "secure cluster" if file.name in SECURE else "shared cluster"
        case ("tests", "test_docs.py"):
            return "pages with Spark" if "pages_with_spark" in nodeid else nodeid  # others stand alone
        case ("tests", "bench"):
            return nodeid
    return str(file)


def order(items: list[pytest.Item]) -> None:
    """Put first what takes longest."""

    def rank(item: pytest.Item) -> int:
        group = group_of(item.nodeid)
        return next((place for place, name in enumerate(FIRST) if group.startswith(name)), len(FIRST))

    items.sort(key=rank)
