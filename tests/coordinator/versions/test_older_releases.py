"""Random histories: ours writes the records, responses and timers of Kafka 4.3.1's and 4.0.2's.

A failure prints the seed and a shortened script.
"""

from random import Random

import pytest

from tests.coordinator.any_scripts import AnyHistory
from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import run_and_minimise
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.share_scripts import ShareHistory
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

SEEDS = {
    History: (*range(portion(16, usual=3)), 65),
    ClassicHistory: range(portion(8, usual=2)),
    MixedHistory: (*range(portion(15, usual=3)), 28, 41),
}
"""The seeds after the first range are of rare cases: a regex that is dropped, a migration policy
that excludes classic members, groups that are downgraded to classic.
"""


SEEDS_4_3 = {
    History: range(portion(8, usual=2)),
    ClassicHistory: range(portion(5, usual=2)),
    MixedHistory: range(portion(8, usual=2)),
    ShareHistory: range(portion(4, usual=2)),
}


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in SEEDS_4_3.items() for seed in seeds])
def test_random_histories_equal_kafka_4_3s(
    oracle_4_3: Oracle, kind: type[History | ClassicHistory | MixedHistory | ShareHistory], seed: int
) -> None:
    duel = NamedDuel(oracle_4_3, note=f"seed {seed} of {kind.__name__}, Kafka 4.3")
    run_and_minimise(duel, lambda: kind(Random(seed), duel).run(40))


@pytest.mark.parametrize("seed", range(portion(4, usual=2)))
def test_any_requests_have_the_responses_of_kafka_4_3(oracle_4_3: Oracle, seed: int) -> None:
    duel = NamedDuel(oracle_4_3, note=f"seed {seed}, Kafka 4.3")
    run_and_minimise(duel, lambda: AnyHistory(Random(seed), duel).run(40))


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in SEEDS.items() for seed in seeds])
def test_random_histories_equal_kafka_4_0s(
    oracle_4_0: Oracle, kind: type[History | ClassicHistory | MixedHistory], seed: int
) -> None:
    duel = NamedDuel(oracle_4_0, note=f"seed {seed} of {kind.__name__}, Kafka 4.0")
    run_and_minimise(duel, lambda: kind(Random(seed), duel).run(40))
