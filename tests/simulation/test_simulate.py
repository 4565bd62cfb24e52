"""aiokafka's consumers and an embedded cluster, unchanged, under many schedules."""

import asyncio
import os
import subprocess
import sys
import time
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import pytest

from quorate.assignors import RangeAssignor
from quorate.consumers.aiokafka import AIOKafkaConsumer
from quorate.simulation import (
    Chaos,
    InvariantBroken,
    ScheduleFailed,
    Simulation,
    SimulationError,
    check_determinism,
    simulate,
)
from tests.extent import is_full, portion
from tests.simulation.helpers.scenarios import consumers

ROOT = Path(__file__).parents[2]
SMALL = partial(consumers, records=12)


def test_no_acknowledged_record_is_lost_under_chaos() -> None:
    count = portion(200, usual=20)
    found = simulate(SMALL, seeds=count)
    assert found.schedules == count
    assert found.faults > 2 * count  # each schedule lasts 13 s of virtual time
    assert found.virtual_s > 3 * count
    assert len(set(found.traces.values())) == count


def test_a_seed_has_one_trace() -> None:
    simulated = check_determinism(SMALL, seed=3)
    assert simulate(SMALL, seeds=[3]).traces == {3: simulated}


def test_the_brokers_clock_shows_the_latest_time_again_when_the_faults_end() -> None:
    """Kafka computes no target assignment before the time of the last one (KIP-1263)."""
    set_back: list[int] = []

    async def watched(sim: Simulation) -> None:
        kafka = await sim.cluster(brokers=1)
        latest_ms = 0
        for _ in range(200):
            await asyncio.sleep(0.1)
            latest_ms = max(latest_ms, kafka.core.clock.now_ms())
        set_back.append(latest_ms - kafka.core.clock.now_ms())
        await sim.calm()
        assert kafka.core.clock.now_ms() >= latest_ms

    simulate(watched, seeds=10, chaos=Chaos.none(clock_steps=20.0))
    assert max(set_back) > 10_000


async def stops_of_broker_2(sim: Simulation) -> None:
    """Fail when broker 2 is down, whatever else happens."""
    kafka = await sim.cluster(brokers=3)
    for _ in range(600):
        await asyncio.sleep(0.1)
        if not kafka.core.brokers[2].serving:
            raise InvariantBroken("broker 2 is up", "it is down")


def test_a_failing_schedule_shrinks_to_the_fault_that_matters(tmp_path: Path) -> None:
    with pytest.raises(ScheduleFailed, match="broker 2 is up: it is down") as caught:
        simulate(stops_of_broker_2, trace_dir=tmp_path)
    (fault,) = caught.value.faults
    assert "broker 2 stops for" in fault
    assert "1 of " in str(caught.value)
    assert f"replay='{caught.value.token}'" in str(caught.value)
    assert isinstance(caught.value.__cause__, InvariantBroken)
    text, page = (next(tmp_path.glob(f"*.{kind}")).read_text("utf-8") for kind in ("txt", "html"))
    assert "FAULT" in text
    assert "broker 2 stops for" in page
    with pytest.raises(ScheduleFailed) as again:
        simulate(stops_of_broker_2, replay=caught.value.token)
    assert (again.value.token, again.value.faults, again.value.trace) == (
        caught.value.token,
        caught.value.faults,
        caught.value.trace,
    )


REPLAY = """
import random, sys
sys.path.append(sys.argv[1])  # last: `codecs` stays the standard library's
from functools import partial
from math import nan
from quorate.simulation import simulate
from tests.simulation.helpers.scenarios import consumers
before = random.getstate()
traces = simulate(partial(consumers, records=12), replay=sys.argv[2]).traces
assert random.getstate() == before  # here no other thread uses it
print(traces)
"""


@pytest.mark.parametrize("hash_seed", ["1", "77", "random"] if is_full() else ["1", "random"])
def test_a_token_repeats_a_schedule_in_another_process(hash_seed: str) -> None:
    (seed, trace), *_ = simulate(SMALL, seeds=[5]).traces.items()
    ran = subprocess.run(
        [sys.executable, "-P", "-c", REPLAY, ROOT, f"1-{seed}-{trace[:8]}"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == f"{{{seed}: {trace!r}}}\n", ran.stderr


def test_the_trace_shows_decoded_messages_with_their_client(tmp_path: Path) -> None:
    simulate(SMALL, replay="1-2-00000000", trace_dir=tmp_path)
    (text,) = (path.read_text("utf-8") for path in tmp_path.glob("*.txt"))
    lines = text.splitlines()
    assert any(" a -> broker (+" in line and "JoinGroupv" in line and "group_id=group" in line for line in lines)
    assert any("broker -> producer (+" in line and "Producev" in line and "base_offset=" in line for line in lines)
    assert any("note: a gets [" in line for line in lines)


@pytest.mark.parametrize("token", ["", "1-2", "2-1-00000000", "1-x-00000000", "1-1:a-00000000"])
def test_a_text_that_is_no_token_is_an_error(token: str) -> None:
    with pytest.raises(SimulationError, match="is no token"):
        simulate(SMALL, replay=token)


@pytest.mark.parametrize(
    "given", [{"broker_stops": -1.0}, {"split": 1.0}, {"down_ms": (5, 1)}, {"typo": 1.0}, {"stalls": nan}]
)
def test_rates_are_checked(given: dict[str, float]) -> None:
    with pytest.raises(SimulationError, match=next(iter(given))):
        Chaos.none(**given)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"seeds": 0}, "seeds=0: no schedule was run"),
        ({"seeds": []}, "no schedule was run"),
        ({"seeds": "3"}, "seed '3' is no whole number"),
        ({"chaos": "none"}, r"chaos='none': use Chaos\(...\)"),
        ({"limit_s": "60"}, "limit_s='60': give seconds"),
        ({"limit_s": 0}, "limit_s=0: give seconds"),
        ({"seeds": 1.5}, "seeds=1.5: give how many"),
        ({"max_steps": "5"}, "max_steps='5': give a whole number above 0"),
        ({"max_steps": -1}, "max_steps=-1: give a whole number above 0"),
        ({"replay": 5}, "replay=5: give the token of a schedule"),
        ({"limit_s": 1e300}, r"limit_s=1e\+300: give seconds"),
        ({"trace_dir": __file__}, "test_simulate.py': is a file; give the path of a folder"),
        ({"trace_dir": 5}, "trace_dir=5: give the path of a folder"),
        ({"clients": 5}, "clients=5: give a list of packages"),
        ({"clients": "asyncpg"}, r"give a list of packages: \['asyncpg'\]"),
    ],
)
def test_parameters_are_checked(given: dict[str, Any], complaint: str) -> None:
    async def scenario(sim: Simulation) -> None: ...

    with pytest.raises(SimulationError, match=complaint):
        simulate(scenario, **{"seeds": 1, "chaos": Chaos.none(), **given})


def test_a_scenario_that_is_not_async_is_an_error() -> None:
    with pytest.raises(ScheduleFailed, match="the scenario is no `async def` function: it returned None"):
        simulate(lambda sim: None, seeds=1, chaos=Chaos.none())  # type: ignore[arg-type,return-value]


def test_a_simulation_in_a_scenario_is_an_error() -> None:
    async def inner(sim: Simulation) -> None: ...

    async def outer(sim: Simulation) -> None:
        simulate(inner, seeds=1)

    with pytest.raises(ScheduleFailed, match="SimulationError: a scenario cannot run another simulation"):
        simulate(outer, seeds=1, chaos=Chaos.none())


def test_the_message_of_a_failed_schedule_has_the_remedy() -> None:
    async def blocking(sim: Simulation) -> None:
        time.sleep(1)

    with pytest.raises(ScheduleFailed, match=r"time\.sleep blocks the loop.*; await asyncio\.sleep"):
        simulate(blocking, seeds=1, chaos=Chaos.none())


def test_a_second_owner_in_a_generation_is_found() -> None:
    async def scenario(sim: Simulation) -> None:
        sim.owns("a", 1, [0, 1])
        sim.owns("b", 2, [0])
        sim.owns("b", 1, [2, 1])

    with pytest.raises(ScheduleFailed, match="a partition has one owner: 1 is used by a and b in generation 1"):
        simulate(scenario, seeds=1)


def test_a_stop_that_hangs_is_found() -> None:
    async def scenario(sim: Simulation) -> None:
        await sim.within(60, asyncio.sleep(61), "stop()")

    with pytest.raises(ScheduleFailed, match=r"closing ends in bounded time: stop\(\) runs for more than 60 s"):
        simulate(scenario, seeds=1)


def test_lost_records_are_found() -> None:
    async def scenario(sim: Simulation) -> None:
        for number in range(3):
            sim.acknowledged(number)
        sim.consumed(1)

    with pytest.raises(ScheduleFailed, match="acknowledged records are consumed: 2 of 3 were not: 0, 2"):
        simulate(scenario, seeds=1)


def test_commits_that_are_not_in_the_log_are_found() -> None:
    async def scenario(sim: Simulation) -> None:
        await sim.cluster(topics={"orders": 1}, chaos=False)
        sim.committed("group", {("orders", 0): 7})
        sim.committed("group", {("orders", 0): 5})

    with pytest.raises(ScheduleFailed, match="acknowledged commits are kept: 7 of orders-0 by group group"):
        simulate(scenario, seeds=1)


@pytest.mark.usefixtures("thawed")
@pytest.mark.parametrize("grows", [True, False])
def test_growing_memory_is_found(grows: bool) -> None:
    async def scenario(sim: Simulation) -> None:
        kept = []
        for _ in range(8):
            kept.append([[] for _ in range(1_000)])
            if not grows and len(kept) > 1:
                kept.pop(0)
            sim.memory()

    if not grows:
        simulate(scenario, seeds=1)
        return
    with pytest.raises(ScheduleFailed, match="memory does not grow"):
        simulate(scenario, seeds=1)


def test_client_side_assignors_of_quorates_consumer_run_in_the_loop() -> None:
    async def scenario(sim: Simulation) -> None:
        kafka = await sim.cluster(
            brokers=1, topics={"orders": 2}, properties={"group.consumer.client.assignors.enable": "true"}
        )
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            group_protocol="consumer",
            client_assignors=[RangeAssignor()],
        )
        await consumer.start()
        while len(consumer.assignment()) < 2:
            await consumer.getmany(timeout_ms=100)
        await sim.within(60, consumer.stop())

    assert simulate(scenario, seeds=2, chaos=Chaos.none()).schedules == 2
