"""Crashes of a simulated cluster within writes to its data directory."""

import asyncio
from functools import partial

import pytest

from quorate.simulation import Chaos, Simulation, SimulationError, check_determinism, simulate
from tests.simulation.helpers.mutants import CONSUMER
from tests.simulation.helpers.scenarios import consumers, idempotent, transactions

CHAOS = Chaos.none(crashes=40.0, connection_cuts=4.0, down_ms=(20, 2_000))
SCENARIOS = {
    "classic groups": partial(consumers, records=12, data=True),
    "consumer protocol": partial(consumers, records=12, data=True, **CONSUMER),
    "idempotent producer": partial(idempotent, records=30, data=True),
    "transactions": partial(transactions, records=8, data=True),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_acknowledged_records_and_commits_survive_crashes(name: str) -> None:
    crashes = 0

    async def scenario(sim: Simulation) -> None:
        nonlocal crashes
        await SCENARIOS[name](sim)
        crashes += sum("crashes" in fault.text for fault in sim.faults)

    simulate(scenario, seeds=4, chaos=CHAOS)
    assert crashes > 4


def test_a_seed_with_crashes_has_one_trace() -> None:
    check_determinism(SCENARIOS["classic groups"], seed=1, chaos=CHAOS)


async def two_with_data(sim: Simulation) -> None:
    await sim.cluster(1, data=True)
    with pytest.raises(SimulationError, match="only one cluster"):
        await sim.cluster(1, data=True)


def test_one_cluster_has_a_data_directory() -> None:
    simulate(two_with_data, seeds=1, chaos=Chaos.none())


async def without_data(sim: Simulation) -> None:
    kafka = await sim.cluster(1)
    await asyncio.sleep(60)
    assert not sim.faults
    assert kafka.brokers[0].state == "running"


def test_a_cluster_in_memory_does_not_crash() -> None:
    simulate(without_data, seeds=1, chaos=Chaos.none(crashes=60.0))
