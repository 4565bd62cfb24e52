"""Random histories of classic groups: Kafka's own coordinator and ours write the same records, give the same answers at the same time, and set the same timers.

A failure prints the seed and a script that is as short as it could be made.
"""

from random import Random
from typing import Any

import pytest

from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.minimise import minimised
from tests.coordinator.scripts import Differs
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

STEPS = 50


def play(oracle: Oracle, seed: int, **kind: Any) -> None:
    duel = NamedDuel(oracle, note=f"seed {seed} of {kind}")
    try:
        ClassicHistory(Random(seed), duel, **kind).run(STEPS)
    except Differs as found:
        raise minimised(oracle, duel.script, duel.note, kind=NamedDuel) or found from None


@pytest.mark.parametrize("seed", range(portion(25)))
def test_histories_of_two_groups_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed)


@pytest.mark.parametrize("seed", range(1000, 1025))
def test_histories_of_one_group_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed, groups=1)


@pytest.mark.parametrize("seed", range(2000, 2010))
def test_histories_without_static_members_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed, groups=1, statics=False)
