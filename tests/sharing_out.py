"""Which tests a worker of xdist does in one go, and which are handed out first.

Files stay whole, as their tests share fixtures. So do files that share what is dear: clusters in containers, which mostly wait, and Spark, whose JVM
takes seconds to start and a gigabyte. Those come first: nothing that takes minutes is left for the end.

This is a scheduler of our own because xdist's loadgroup (3.8) renames tests in a way that pytest 9.2 does not heed: its groups are lost.
"""

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

__all__ = ["Scheduling", "order"]

OWN_CLUSTERS = {"test_compose.py", "test_lab.py", "test_plugin.py", "test_upgrade.py"}
"""Files of tests/integration whose tests start clusters of their own; the others share two."""
FIRST = ("shared clusters", "clusters of their own", "spark", "pages with Spark")


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
        case ("tests", "integration"):
            return "clusters of their own" if file.name in OWN_CLUSTERS else "shared clusters"
        case ("tests", "test_docs.py"):
            return "pages with Spark" if "pages_with_spark" in nodeid else nodeid  # others stand alone
    return str(file)


def order(items: list[pytest.Item]) -> None:
    """Put first what takes longest."""

    def rank(item: pytest.Item) -> int:
        group = group_of(item.nodeid)
        return FIRST.index(group) if group in FIRST else len(FIRST) + ("test_docs" not in group)

    items.sort(key=rank)
