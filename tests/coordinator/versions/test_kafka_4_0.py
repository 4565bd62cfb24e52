"""Random histories against the coordinator of Kafka 4.0.2: as that release, ours writes its records, gives its answers and sets its timers.

A failure prints the seed and a script that is as short as it could be made.
"""

from random import Random

import pytest

from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import played
from tests.coordinator.mixed_scripts import MixedHistory
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

SEEDS = {
    History: (*range(portion(24)), 65),
    ClassicHistory: range(portion(12)),
    MixedHistory: (*range(portion(23)), 28, 41),
}
"""The seeds behind the first show what few histories do: an expression that is dropped, a policy
that is against classic members, groups that become classic.
"""


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in SEEDS.items() for seed in seeds])
def test_histories_are_those_of_kafka_4_0(
    oracle_4_0: Oracle, kind: type[History | ClassicHistory | MixedHistory], seed: int
) -> None:
    duel = NamedDuel(oracle_4_0, note=f"seed {seed} of {kind.__name__}, Kafka 4.0")
    played(duel, lambda: kind(Random(seed), duel).run(40))
