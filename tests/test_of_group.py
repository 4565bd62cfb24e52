"""What the tests of a group share (tests/of_group.py)."""

from pathlib import Path

import pytest

from tests import of_group, sharing_out

CONFTEST = """
from contextlib import contextmanager

@contextmanager
def printed():
    print("\\nstarted")
    yield "shared"
    print("\\nclosed")

@pytest.fixture(scope="module")
def shared(request):
    return of_group(request.config, printed)
"""
TESTS = """
def test_one(shared):
    print("\\none")
    assert shared == "shared"

def test_another(shared):
    print("\\nanother")
    assert not shared
"""


def run(pytester: pytest.Pytester, files: list[str], *options: str) -> list[str]:
    """Run two tests in each file, of which the second fails; return what they printed."""
    own = Path(of_group.__file__).read_text().replace("from tests.sharing_out import group_of\n", "")
    pytester.makeconftest(Path(sharing_out.__file__).read_text() + own + CONFTEST)
    for file in files:
        path = pytester.path / "tests" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TESTS)
    result = pytester.runpytest_subprocess("-q", "-s", "-p", "no:quorate", "--import-mode=importlib", *options)
    return [line for line in result.outlines if line in ("started", "one", "another", "closed")]


def test_a_group_starts_it_once_and_closes_it_after_its_last_test(pytester: pytest.Pytester) -> None:
    """The files of tests/cluster/pair are one group; files next to that folder are groups."""
    printed = run(pytester, ["cluster/pair/test_a.py", "cluster/pair/test_b.py", "cluster/test_c.py"])
    tests = ["one", "another"]
    assert printed == ["started", *tests, *tests, "closed", "started", *tests, "closed"]


def test_a_run_that_stops_at_a_failure_closes_it(pytester: pytest.Pytester) -> None:
    printed = run(pytester, ["cluster/pair/test_a.py", "cluster/pair/test_b.py"], "-x")
    assert printed == ["started", "one", "another", "closed"]
