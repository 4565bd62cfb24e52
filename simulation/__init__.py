"""Kafka clients and clusters under a deterministic scheduler, in virtual time.

    async def scenario(sim: Simulation) -> None:
        kafka = await sim.cluster(brokers=3, topics={"orders": 6})
        ...

    simulate(scenario, seeds=200)

Each seed is one schedule: latencies, faults and the order of events come from it. A schedule that
fails raises with a token, which repeats it.
"""

from quorate.simulation.chaos import Chaos
from quorate.simulation.errors import InvariantBroken, NotDeterministic, ScheduleFailed, SimulationError
from quorate.simulation.run import SimulationResult, check_determinism, simulate
from quorate.simulation.simulation import Simulation

__all__ = [
    "Chaos",
    "InvariantBroken",
    "NotDeterministic",
    "ScheduleFailed",
    "Simulation",
    "SimulationError",
    "SimulationResult",
    "check_determinism",
    "simulate",
]
