"""Random histories: ours writes the records, responses and timers of Kafka 4.0.2's coordinator.

A failure prints the seed and a shortened script.
"""

from random import Random

import pytest

from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import run_and_minimise
from tests.coordinator.mixed_scripts import MixedHistory
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

SEEDS = {
    History: (*range(portion(24)), 65),
    ClassicHistory: range(portion(12)),
    MixedHistory: (*range(portion(23)), 28, 41),
}
"""The seeds after the first range are of rare cases: a regex that is dropped, a migration policy
that excludes classic members, groups that are downgraded to classic.
"""


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in SEEDS.items() for seed in seeds])
def test_random_histories_equal_kafka_4_0s(
    oracle_4_0: Oracle, kind: type[History | ClassicHistory | MixedHistory], seed: int
) -> None:
    duel = NamedDuel(oracle_4_0, note=f"seed {seed} of {kind.__name__}, Kafka 4.0")
    run_and_minimise(duel, lambda: kind(Random(seed), duel).run(40))
