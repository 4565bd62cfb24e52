"""The marker `simulate` in a project's tests."""

import pytest

PROJECT = """
import asyncio, pytest
from quorate.simulation import Chaos, InvariantBroken

@pytest.fixture
def topics():
    return {"orders": 2}

@pytest.mark.simulate(seeds=5, chaos=Chaos.none(broker_stops=20.0))
async def test_ok(simulation, topics):
    kafka = await simulation.cluster(topics=topics)
    await asyncio.sleep(30)
    assert simulation.faults
    print("seed", simulation.seed)

@pytest.mark.simulate(chaos=Chaos.none(broker_stops=20.0))
async def test_fails(simulation):
    kafka = await simulation.cluster()
    await asyncio.sleep(30)
    assert kafka.core.brokers[1].serving
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_it=PROJECT)
    return pytester


def test_an_async_test_runs_under_many_schedules(project: pytest.Pytester) -> None:
    ran = project.runpytest_subprocess("-k", "ok", "-s")
    ran.assert_outcomes(passed=1)
    ran.stdout.fnmatch_lines([f"*seed {seed}" for seed in range(1, 6)])
    ran = project.runpytest_subprocess("-k", "ok", "-s", "--simulate-seeds=2")
    ran.stdout.no_fnmatch_line("*seed 3")


def test_a_failure_shows_the_token_which_repeats_it(project: pytest.Pytester) -> None:
    ran = project.runpytest_subprocess("-k", "fails", "--simulate-trace=traces")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*repeat it with pytest --simulate-replay=1-*", "*trace, last 40 of *"])
    token = next(line for line in ran.outlines if "--simulate-replay=" in line).split("=")[1].split()[0]
    assert len(list((project.path / "traces").iterdir())) == 2
    again = project.runpytest_subprocess("-k", "fails", f"--simulate-replay={token}")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines([f"*replay='{token}'*"])


def test_a_wrong_use_is_explained(pytester: pytest.Pytester) -> None:
    wrong = {
        "@pytest.mark.simulate\ndef test(simulation): pass": "*is: async def test(simulation)*",
        "@pytest.mark.simulate(5)\nasync def test(simulation): pass": "*use simulate(seeds=5)*",
        "@pytest.mark.simulate(sed=5)\nasync def test(simulation): pass": "*no argument sed*",
    }
    pytester.makepyfile(**{f"test_{number}": f"import pytest\n{test}\n" for number, test in enumerate(wrong)})
    ran = pytester.runpytest_subprocess()
    ran.assert_outcomes(failed=3)
    for message in wrong.values():
        ran.stdout.fnmatch_lines([message])
