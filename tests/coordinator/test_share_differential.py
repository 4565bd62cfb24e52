"""Random histories of share groups: Kafka's own coordinator and ours write the same records, give the same answers and set the same timers.

A failure prints the seed and a script that is as short as it could be made; `python -m tests.differential FILE` runs it.
"""

from random import Random

import pytest

from tests.coordinator.minimise import minimised
from tests.coordinator.scripts import Differs, Duel
from tests.coordinator.share_scripts import ShareHistory
from tests.extent import portion
from tests.oracle.client import Oracle

STEPS = 40


@pytest.mark.parametrize("seed", range(portion(80)))
def test_histories_of_share_groups_are_kafkas(oracle: Oracle, seed: int) -> None:
    duel = Duel(oracle, note=f"seed {seed}")
    try:
        ShareHistory(Random(seed), duel).run(STEPS)
    except Differs as found:
        raise minimised(oracle, duel.lines, duel.note) or found from None
