"""Random histories of groups with members of both protocols: Kafka's own coordinator and ours write the same records, give the same answers and set the same timers.

A failure prints the seed and a script that is as short as it could be made. Kafka makes up ids at random, by which it orders members, so a seed is not played twice
in the same way.
"""

from random import Random
from typing import Any

import pytest

from tests.coordinator.classic_scripts import NamedDuel
from tests.coordinator.minimise import minimised
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.scripts import Differs
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

STEPS = 40


def play(oracle: Oracle, seed: int, **kind: Any) -> None:
    duel = NamedDuel(oracle, note=f"seed {seed} of {kind}")
    try:
        MixedHistory(Random(seed), duel, **kind).run(STEPS)
    except Differs as found:
        raise minimised(oracle, duel.script, duel.note, kind=NamedDuel) or found from None


@pytest.mark.parametrize("seed", range(portion(30)))
def test_histories_with_everything_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed)


@pytest.mark.parametrize("seed", range(1000, 1015))
def test_histories_without_static_members_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed, statics=False)


@pytest.mark.parametrize("seed", range(2000, 2015))
def test_histories_of_well_behaved_members_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed, well_behaved=True)
