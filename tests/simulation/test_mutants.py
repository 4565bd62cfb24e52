"""Planted faults are found; `bench/simulation.py --mutants` goes through all of them."""

import pytest

from quorate.simulation import ScheduleFailed
from tests.simulation.helpers.defects import fixed_client
from tests.simulation.helpers.mutants import MUTANTS, Mutant, search

SAMPLE = (
    "a rebalance keeps the generation",
    "an aborted transaction is committed",
    "a consumer commits an old offset",
)
"""One of each part; those that few schedules find."""


def named(name: str) -> Mutant:
    (found,) = (mutant for mutant in MUTANTS if mutant.name == name)
    return found


@pytest.mark.parametrize("name", SAMPLE)
def test_a_planted_fault_is_found_by_its_invariant(name: str) -> None:
    mutant = named(name)
    found = search(mutant, range(1, 11))
    assert found is not None, f"{mutant.invariant}: not within 10 schedules"
    _, token = found
    with fixed_client(), mutant.planted(), pytest.raises(ScheduleFailed, match=mutant.invariant):
        mutant.run(replay=token)


def test_each_planted_fault_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
