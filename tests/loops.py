"""Which event loop clusters have that start in the process of a test: uvloop's, or asyncio's.

uvloop is an optional dependency. Half of the tests run as if it were not installed, and in `make
test-full` the other half. Clusters in other processes always use it. Where it is not installed, all
tests have asyncio's.
"""

import sys
from zlib import crc32

import pytest

from tests.extent import is_full

try:
    import uvloop
except ImportError:  # there is none for Windows and PyPy
    uvloop = None


@pytest.hookimpl(tryfirst=True)  # before fixtures
def pytest_runtest_setup(item: pytest.Item) -> None:
    has_uvloop = uvloop is not None and has_uvloop_in(item.nodeid, full=is_full())
    sys.modules["uvloop"] = uvloop if has_uvloop else None  # importing it fails
    item.add_report_section("setup", "event loop", "uvloop" if has_uvloop else "asyncio")


def has_uvloop_in(test: str, *, full: bool) -> bool:
    """Return whether a test can import uvloop."""
    return bool(crc32(test.encode()) & 1) != full
