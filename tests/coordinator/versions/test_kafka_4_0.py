"""Random histories against the coordinator of Kafka 4.0.2: as that release, ours writes its records, gives its answers and sets its timers.

A failure prints the seed and a script that is as short as it could be made.
"""

from random import Random

import pytest

from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import minimised
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.scripts import Differs, Duel
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

STEPS = 40


@pytest.mark.parametrize("seed", range(25))
def test_histories_of_consumer_groups_are_kafkas(oracle_4_0: Oracle, seed: int) -> None:
    duel = Duel(oracle_4_0, note=f"seed {seed}, Kafka 4.0")
    try:
        History(Random(seed), duel).run(STEPS)
    except Differs as found:
        raise minimised(oracle_4_0, duel.lines, duel.note) or found from None


@pytest.mark.parametrize("seed", range(12))
def test_histories_of_classic_groups_and_offsets_are_kafkas(oracle_4_0: Oracle, seed: int) -> None:
    duel = NamedDuel(oracle_4_0, note=f"seed {seed}, Kafka 4.0")
    try:
        ClassicHistory(Random(seed), duel).run(STEPS)
    except Differs as found:
        raise minimised(oracle_4_0, duel.script, duel.note, kind=NamedDuel) or found from None


@pytest.mark.parametrize("seed", range(25))
def test_histories_of_groups_with_members_of_both_protocols_are_kafkas(oracle_4_0: Oracle, seed: int) -> None:
    duel = NamedDuel(oracle_4_0, note=f"seed {seed}, Kafka 4.0")
    try:
        MixedHistory(Random(seed), duel).run(STEPS)
    except Differs as found:
        raise minimised(oracle_4_0, duel.script, duel.note, kind=NamedDuel) or found from None
