"""Defects of aiokafka: seen in a simulation and over sockets, and gone with a fix.

When a release of aiokafka fixes one, its test fails: then move it to the fixed ones in
`docs/explanation/found-by-simulation.md`, and remove it here.
"""

import gc
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.simulation import ScheduleFailed, simulate
from tests.simulation.helpers.defects import DEFECTS, Defect, played

PAGE = (Path(__file__).parents[2] / "docs/explanation/found-by-simulation.md").read_text("utf-8")


@pytest.fixture(autouse=True)
def leftovers() -> Iterator[None]:
    """Collect the connections that a client leaves open, which is part of some defects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


defects = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)


@defects
def test_a_defect_shows_over_sockets_and_its_fix_removes_it(defect: Defect) -> None:
    assert played(defect)
    with defect.fixed():
        assert played(defect) is None


@defects
def test_a_defect_has_a_schedule_which_passes_with_the_fix(defect: Defect) -> None:
    with pytest.raises(ScheduleFailed, match=defect.invariant) as failed:
        simulate(defect.scenario, chaos=defect.chaos, replay=defect.token)
    # The tokens are of Python 3.11. Later ones take other steps, so the trace's hash differs.
    seed_and_faults, _, trace = failed.value.token.rpartition("-")
    assert seed_and_faults == defect.token.rpartition("-")[0]
    if sys.version_info < (3, 12):
        assert trace == defect.token.rpartition("-")[2]
    with defect.fixed():
        simulate(defect.scenario, chaos=defect.chaos, replay=defect.token)


@defects
def test_a_defect_is_documented(defect: Defect) -> None:
    assert defect.name in PAGE
    assert defect.token in PAGE
