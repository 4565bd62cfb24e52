"""The marker `simulate` of the pytest plugin: an `async def` test runs under many schedules."""

import functools
import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from quorate.simulation import Simulation

OPTIONS = ("--simulate-seeds", "--simulate-replay", "--simulate-trace")
MARKER = (
    "simulate(seeds=200, chaos=Chaos(), limit_s=3600): run an async test under many schedules in virtual time; "
    "arguments of quorate.simulation.simulate"
)
_LINES = 40


def add_options(group: pytest.OptionGroup) -> None:
    """Register the options of simulations."""
    group.addoption(OPTIONS[0], metavar="N", type=int, help="number of schedules of each test with the marker simulate")
    group.addoption(OPTIONS[1], metavar="TOKEN", help="run only the schedule of a token, in tests with that marker")
    group.addoption(OPTIONS[2], metavar="DIR", help="write traces of failed schedules, as text and as pages")


@pytest.fixture
def simulation() -> "Simulation":
    """Return the schedule of a test with the marker `simulate`: another one each time."""
    return None  # type: ignore[return-value]  # replaced by `call_simulated`


def call_simulated(item: pytest.Function) -> bool:
    """Run a test with the marker `simulate`; return whether it is one."""
    marker = item.get_closest_marker("simulate")
    if marker is None:
        return False
    if not inspect.iscoroutinefunction(item.obj) or "simulation" not in inspect.signature(item.obj).parameters:
        pytest.fail(f"a test with the marker simulate is: async def {item.originalname}(simulation)", pytrace=False)
    from quorate.simulation import ScheduleFailed, SimulationError, simulate

    names = [name for name in inspect.signature(item.obj).parameters if name != "simulation"]
    given = {name: item.funcargs[name] for name in names}

    @functools.wraps(item.obj)
    def scenario(simulation: "Simulation") -> Awaitable[object]:
        started: Awaitable[object] = item.obj(simulation=simulation, **given)
        return started

    seeds, replay, folder = (item.config.getoption(option) for option in OPTIONS)
    arguments: dict[str, Any] = {**marker.kwargs, "trace_dir": folder}
    if marker.args:
        pytest.fail(
            f"the marker simulate has no positional argument: use simulate(seeds={marker.args[0]!r})", pytrace=False
        )
    unknown = sorted(marker.kwargs.keys() - inspect.signature(simulate).parameters.keys())
    if unknown:
        pytest.fail(f"the marker simulate has no argument {', '.join(unknown)}", pytrace=False)
    if seeds is not None:
        arguments["seeds"] = seeds
    if replay is not None:
        arguments["replay"] = replay
    problem = None
    try:
        simulate(scenario, **arguments)
    except ScheduleFailed as failed:
        lines = failed.trace.splitlines()
        item.add_report_section("call", f"trace, last {_LINES} of {len(lines):,} lines", "\n".join(lines[-_LINES:]))
        failed.add_note(f"repeat it with pytest --simulate-replay={failed.token} {item.nodeid!r}")
        raise
    except SimulationError as error:
        problem = str(error)
    if problem is not None:  # not in the handler: pytest would show both exceptions
        pytest.fail(problem, pytrace=False)
    return True
