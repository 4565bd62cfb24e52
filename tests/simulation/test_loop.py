"""The loop: virtual time, and a process that a simulation controls and then restores."""

import asyncio
import gc
import math
import os
import random
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from quorate.simulation import (
    Chaos,
    ScheduleFailed,
    Simulation,
    SimulationError,
    SimulationResult,
    check_determinism,
    simulate,
)
from quorate.simulation.errors import NotDeterministic
from quorate.simulation.loop import SimulatedLoop
from quorate.simulation.stable_sets import StableSet


def run(scenario: Any, **given: Any) -> SimulationResult:
    return simulate(scenario, **{"seeds": 3, "chaos": Chaos.none(), "shrink": False, **given})


def test_a_day_passes_at_once() -> None:
    async def scenario(sim: Simulation) -> None:
        before = time.monotonic(), time.time()
        await asyncio.sleep(86_400)
        assert time.monotonic() - before[0] == pytest.approx(86_400, abs=1)
        assert time.time() - before[1] == pytest.approx(86_400, abs=1)

    assert run(scenario, limit_s=90_000).virtual_s > 3 * 86_400


def test_timers_fire_in_their_order() -> None:
    found: list[int] = []

    async def scenario(sim: Simulation) -> None:
        found.clear()
        for delay in (3, 1, 2):
            sim.loop.call_later(delay, found.append, delay)
        sim.loop.call_later(1.5, found.append, 9).cancel()
        await asyncio.sleep(4)
        assert found == [1, 2, 3]

    run(scenario)


def test_a_timer_that_rounds_down_ends() -> None:
    async def scenario(sim: Simulation) -> None:
        until = time.monotonic() + 0.0105
        while time.monotonic() < until:
            await asyncio.sleep(0)  # a delay rounded down to 0 ms: each step takes some time

    run(scenario)


def test_a_timer_in_centuries_fires() -> None:
    async def scenario(sim: Simulation) -> None:
        await asyncio.sleep(1e12)

    assert run(scenario, limit_s=1e13).virtual_s >= 1e12


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("wait", "deadlock"),
        ("never", "deadlock"),
        ("forever", r"did not end within 100 s of virtual time: all tasks wait, the next timer is due at 10\d s"),
        (
            1e12,
            "within 100 s of virtual time: all tasks wait, the next timer is due at 1,000,000,000,000 s",
        ),
        (1e305, "did not end within 100 s of virtual time: all tasks wait, the next timer is due at 179,769,"),
        ("busy", "read the clock a million times"),
        ("thread", "starts no threads"),
        ("sleep", "time.sleep blocks the loop"),
        ("tls", "TLS"),
    ],
)
def test_what_a_simulation_cannot_do_is_an_error(what: str | float, message: str) -> None:
    async def scenario(sim: Simulation) -> None:
        if isinstance(what, float):
            await asyncio.sleep(what)
        elif what == "never":
            await asyncio.sleep(math.inf)
        elif what == "wait":
            await sim.loop.create_future()
        elif what == "forever":
            while True:
                await asyncio.sleep(1)
        elif what == "busy":
            while True:
                time.monotonic()
        elif what == "thread":
            threading.Thread(target=print).start()
        elif what == "sleep":
            time.sleep(1)
        else:
            await asyncio.open_connection("example.org", 443, ssl=True)

    with pytest.raises(ScheduleFailed, match=message) as caught:
        run(scenario, limit_s=100)
    assert isinstance(caught.value.__cause__, SimulationError)


def test_executors_run_in_the_loop() -> None:
    async def scenario(sim: Simulation) -> None:
        assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    run(scenario)


FIRST_OF_5 = (0.6229016948897019, 0.7417869892607294)
"""The first numbers of `Random(5)`."""


def test_random_numbers_come_from_the_seed() -> None:
    found: list[Any] = []

    async def scenario(sim: Simulation) -> None:
        one = random.Random()
        one.seed()
        known = random.Random(5)
        assert (known.random(), known.random()) == FIRST_OF_5
        found.append((random.random(), random.choice(range(1000)), uuid.uuid4(), os.urandom(8), sim.random.random()))
        found[-1] += (random.Random().random(), one.random())

    run(scenario, seeds=2)
    run(scenario, seeds=2)
    assert found[:2] == found[2:]
    assert found[0] != found[1]


@pytest.mark.usefixtures("thawed")
def test_everything_is_restored() -> None:
    async def scenario(sim: Simulation) -> None:
        assert time.time() < 1_700_000_100
        assert not gc.isenabled()

    before = (time.time, time.monotonic, random.random, os.urandom, threading.Thread.start, random.Random.seed)
    import aiokafka.cluster

    run(scenario)
    assert before == (
        time.time,
        time.monotonic,
        random.random,
        os.urandom,
        threading.Thread.start,
        random.Random.seed,
    )
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert not {"set", "frozenset"} & vars(aiokafka.cluster).keys()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    gc.freeze()
    run(scenario)
    assert gc.get_freeze_count() > 0


def test_other_threads_have_the_real_clock() -> None:
    found: list[float] = []
    started, ready = threading.Event(), threading.Event()

    def other() -> None:
        started.wait()
        found.append(time.time())
        ready.set()

    thread = threading.Thread(target=other)
    thread.start()

    async def scenario(sim: Simulation) -> None:
        started.set()
        ready.wait()

    run(scenario, seeds=1)
    thread.join()
    assert found[0] > 1_700_001_000


def test_network_events_at_one_time_come_in_an_order_of_the_seed() -> None:
    def order(seed: int) -> list[int]:
        loop = SimulatedLoop(seed)
        found: list[int] = []
        for number in range(8):
            loop.at_ns(1_000_000, found.append, number)
        loop.run_until_complete(asyncio.sleep(0.01))
        return found

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) > 5
    assert all(sorted(order(seed)) == list(range(8)) for seed in range(10))


def test_ready_callbacks_keep_their_order_by_default() -> None:
    orders = set()

    async def scenario(sim: Simulation) -> None:
        found: list[int] = []
        for number in range(6):
            sim.loop.call_soon(found.append, number)
        await asyncio.sleep(0.1)
        orders.add(tuple(found))

    run(scenario, seeds=20)
    assert orders == {(0, 1, 2, 3, 4, 5)}
    run(scenario, seeds=20, chaos=Chaos.none(reorder=0.5))
    assert len(orders) > 5


def test_lost_exceptions_fail_the_schedule() -> None:
    async def broken() -> None:
        raise LookupError("of a task")

    async def scenario(sim: Simulation) -> None:
        task = asyncio.ensure_future(broken())
        await asyncio.sleep(1)
        del task

    with pytest.raises(ScheduleFailed, match=r"no exception is lost.*LookupError: of a task"):
        run(scenario)


def test_stable_sets_are_sets() -> None:
    found = StableSet(["b", "a", "c"])
    assert list(found) == ["a", "b", "c"]
    assert list(found | {"0"}) == ["0", "a", "b", "c"]
    assert found == {"a", "b", "c"}
    assert found - {"b"} == {"a", "c"}
    assert isinstance({1}, StableSet)
    assert {"z"} | found == {"a", "b", "c", "z"}
    assert found.pop() == "a"
    found.update(["x"])
    assert found.copy() == {"b", "c", "x"}


@pytest.mark.parametrize("what", ["state", "address", "date"])
def test_a_scenario_that_is_not_deterministic_is_found(what: str) -> None:
    kept: list[Any] = [0]

    async def scenario(sim: Simulation) -> None:
        kept[0] += 1
        if what == "state":
            delay = kept[0]
        elif what == "address":
            kept.append(object())  # so that the next one has another address
            delay = id(kept[-1]) % 3_001
        else:
            delay = datetime.now(UTC).microsecond / 1e6
        await asyncio.sleep(delay)

    with pytest.raises(NotDeterministic, match=r"step 2 differs: .* at .* in one run"):
        check_determinism(scenario, chaos=Chaos.none())


def test_a_deterministic_scenario_passes_the_check() -> None:
    async def scenario(sim: Simulation) -> None:
        await asyncio.sleep(random.random())
        sim.note(f"{random.random()}")

    assert check_determinism(scenario) == check_determinism(scenario) != check_determinism(scenario, seed=2)
