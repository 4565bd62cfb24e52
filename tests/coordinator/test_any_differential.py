"""Random histories of any requests: Kafka's own coordinator and ours write the same records, give the same answers and set the same timers.

A failure prints the seed and a script that is as short as it could be made.
"""

from contextlib import suppress
from random import Random

import pytest

from tests.coordinator.any_requests import AnyRequests
from tests.coordinator.any_scripts import AnyHistory
from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.minimise import minimised
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.scripts import Declared, Differs
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

STEPS = 50


def play(oracle: Oracle, seed: int, kind: type[AnyHistory | ClassicHistory | MixedHistory]) -> None:
    duel = NamedDuel(oracle, note=f"{kind.__name__}, seed {seed}")
    anything = {} if kind is AnyHistory else {"anything": AnyRequests}
    try:
        with suppress(Declared):
            kind(Random(seed), duel, **anything).run(STEPS)
    except Differs as found:
        raise minimised(oracle, duel.script, duel.note, kind=NamedDuel) or found from None


@pytest.mark.parametrize("seed", range(portion(60)))
def test_any_requests_are_answered_as_by_kafka(oracle: Oracle, seed: int) -> None:
    play(oracle, seed, AnyHistory)


@pytest.mark.parametrize("seed", range(portion(20)))
@pytest.mark.parametrize("kind", [ClassicHistory, MixedHistory])
def test_any_requests_amid_a_groups_life_are_answered_as_by_kafka(
    oracle: Oracle, kind: type[ClassicHistory | MixedHistory], seed: int
) -> None:
    play(oracle, seed, kind)
