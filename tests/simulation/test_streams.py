"""Streams groups (KIP-1071) under many schedules.

No active task has two owners, and all records are processed, while brokers stop, coordinators move,
and the cluster crashes within writes.
"""

from functools import partial

from quorate.simulation import Chaos, check_determinism, simulate
from tests.extent import portion
from tests.simulation.helpers.streams import streams

SMALL = partial(streams, records=15)


def test_no_task_has_two_owners_and_no_record_is_lost() -> None:
    count = portion(80, usual=8)
    found = simulate(SMALL, seeds=count, chaos=Chaos().times(2))
    assert found.faults > 3 * count


def test_offsets_and_tasks_survive_crashes() -> None:
    found = simulate(partial(SMALL, data=True), seeds=8, chaos=Chaos.none(crashes=40.0, down_ms=(20, 2_000)))
    assert found.faults > 6


def test_a_seed_has_one_trace() -> None:
    check_determinism(SMALL, seed=3)
