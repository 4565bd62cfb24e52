"""The order in which workers get tests (tests/sharing_out.py)."""

import re
from itertools import groupby
from pathlib import Path

import pytest

from tests import sharing_out

CONFTEST = """
import pytest

@pytest.fixture(scope="session", params=["embedded"])
def kafka_runtime(request): ...
"""


def test_tests_on_embedded_clusters_are_spread_although_pytest_puts_them_together(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(sharing_out.__file__).read_text() + CONFTEST)
    folder = pytester.mkdir("tests")
    integration = folder / "integration"
    integration.mkdir()
    integration.joinpath("test_waiting.py").write_text(
        "\n".join(f"def test_{number}(kafka_runtime): ..." for number in range(7))
    )
    for number in range(10):
        folder.joinpath(f"test_computing_{number}.py").write_text("def test(): ...")
    result = pytester.runpytest_subprocess("-n1", "-v", "-p", "no:quorate", "--no-loadscope-reorder")
    result.assert_outcomes(passed=17)
    ran = re.findall(r"PASSED tests/(integration|test_computing)", result.stdout.str())
    assert len(ran) == 17
    together = [len(list(tests)) for kind, tests in groupby(ran) if kind == "integration"]
    assert together == [1] * 7
