"""Schedules per second of simulations, whether tokens replay, and which planted faults are found.

Without options: 1,000 schedules of the standard scenario (a producer and three consumers of
aiokafka, three brokers) on one core, then tokens in new processes with other PYTHONHASHSEEDs. The
known defects of aiokafka are fixed meanwhile, as they would end the run.
`--mutants` plants faults into coordinators, the cluster and aiokafka, one after the other, and
prints after how many schedules an invariant finds each; the exit status is 1 if one is not found.
`--only` chooses by a part of the name.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import Report

from quorate.simulation import SimulationResult, simulate
from tests.simulation.helpers.defects import fixed_client
from tests.simulation.helpers.mutants import MUTANTS, search
from tests.simulation.helpers.scenarios import consumers

MOST = 2_000
"""Schedules within which each planted fault must be found."""

REPLAY = """
import sys
sys.path.append(sys.argv[1])
from quorate.simulation import simulate
from tests.simulation.helpers.defects import fixed_client
from tests.simulation.helpers.scenarios import consumers
with fixed_client():
    print(simulate(consumers, replay=sys.argv[2]).traces)
"""


def schedules(report: Report, count: int) -> SimulationResult:
    """Run the standard scenario."""
    began, cpu = time.perf_counter(), time.process_time()
    with fixed_client():
        found = simulate(consumers, seeds=count)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    report.cost(
        f"{count:,} schedules on one core",
        seconds,
        None,
        "",
        "s",
        f"below {300 * count / 1_000:,.0f}",
        CPU=cpu,
        schedules_per_s=count / seconds,
        faults=found.faults,
        virtual_s=found.virtual_s,
        steps=found.steps,
    )
    return found


def replays(report: Report, found: SimulationResult, count: int) -> bool:
    """Replay tokens, each in a new process."""
    same = 0
    for number, (seed, trace) in enumerate(list(found.traces.items())[:count]):
        ran = subprocess.run(
            [sys.executable, "-P", "-c", REPLAY, Path(__file__).parents[1], f"1-{seed}-{trace[:8]}"],
            env={**os.environ, "PYTHONHASHSEED": str(number + 1)},
            capture_output=True,
            text=True,
            check=False,
        )
        same += ran.stdout == f"{{{seed}: {trace!r}}}\n"
    report.rate("tokens replayed in new processes", same, None, "", "same trace", f"{count} of {count}")
    return same == count


def mutants(report: Report, most: int, only: str) -> bool:
    """Search for each planted fault."""
    missed = 0
    for mutant in [one for one in MUTANTS if only in one.name]:
        began = time.perf_counter()
        found = search(mutant, range(1, most + 1))
        missed += found is None
        report.cost(
            mutant.name,
            most + 1 if found is None else found[0],
            None,
            "",
            "schedules",
            "not found" if found is None else mutant.invariant,
            s=time.perf_counter() - began,
        )
    return not missed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", action="store_true", help="search for planted faults instead")
    parser.add_argument("--only", default="", help="with --mutants: those with this text in their name")
    report = Report("Simulations", __doc__ or "", parser)
    if report.options.mutants:
        good = mutants(report, report.pick(MOST, quick=20, smoke=5), report.options.only)
    else:
        found = schedules(report, report.pick(1_000, quick=50, smoke=3))
        good = replays(report, found, report.pick(100, quick=5, smoke=1))
    report.finish()
    sys.exit(not good)


if __name__ == "__main__":
    main()
