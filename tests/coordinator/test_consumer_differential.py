"""Random histories of consumer groups: Kafka's own coordinator and ours write the same records, give the same answers and set the same timers.

A failure prints the seed and a script that is as short as it could be made; `python -m tests.differential FILE` runs it.
"""

from random import Random
from typing import Any

import pytest

from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import minimised
from tests.coordinator.scripts import Differs, Duel
from tests.extent import portion
from tests.oracle.client import Oracle

STEPS = 40


def play(oracle: Oracle, seed: int, **kind: Any) -> None:
    duel = Duel(oracle, note=f"seed {seed} of {kind}")
    try:
        History(Random(seed), duel, **kind).run(STEPS)
    except Differs as found:
        raise minimised(oracle, duel.lines, duel.note) or found from None


@pytest.mark.parametrize("seed", range(portion(60)))
def test_histories_with_everything_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed)


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_histories_of_named_topics_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed, regexes=0)


@pytest.mark.parametrize("seed", range(2000, 2020))
def test_histories_without_static_members_are_kafkas(oracle: Oracle, seed: int) -> None:
    play(oracle, seed, statics=0)
