"""Share groups (KIP-932) under many schedules.

Acknowledged records stay acknowledged while brokers stop, coordinators move, and the cluster
crashes within writes.
"""

from functools import partial

from quorate.simulation import Chaos, check_determinism, simulate
from tests.extent import portion
from tests.simulation.helpers.shares import shares

SMALL = partial(shares, records=15)


def test_no_acknowledged_record_is_delivered_again_and_none_is_lost() -> None:
    count = portion(100, usual=10)
    found = simulate(SMALL, seeds=count, chaos=Chaos().times(2))
    assert found.faults > 3 * count


def test_acknowledgements_survive_crashes() -> None:
    found = simulate(partial(SMALL, data=True), seeds=8, chaos=Chaos.none(crashes=40.0, down_ms=(20, 2_000)))
    assert found.faults > 12


def test_a_seed_has_one_trace() -> None:
    check_determinism(SMALL, seed=3)
