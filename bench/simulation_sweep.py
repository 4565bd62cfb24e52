"""Search many schedules for broken invariants of the embedded cluster (`make bench-diff`).

Scenarios of aiokafka's consumers, of quorate's consumers with the consumer protocol, of idempotent
producers, of transactions, of share groups and of streams groups take turns, in memory, and with
crashes within writes to disk. The known defects of aiokafka are fixed meanwhile
(`tests/simulation/helpers/defects.py`). Prints the seeds, and each failure with its token. The exit
status is 1 if there are failures. `--seed` repeats a run.
"""

import argparse
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _sweep import Sweep

from quorate.simulation import Chaos, ScheduleFailed, simulate
from quorate.simulation.run import Scenario
from tests.simulation.helpers.defects import fixed_client
from tests.simulation.helpers.mutants import CONSUMER
from tests.simulation.helpers.scenarios import consumers, idempotent, transactions
from tests.simulation.helpers.shares import shares
from tests.simulation.helpers.streams import streams

SCHEDULES = 10_000
EACH = 10
"""Schedules of a scenario before the next scenario's turn."""

SCENARIOS: dict[str, Scenario] = {
    "classic groups": consumers,
    "consumer protocol": partial(consumers, **CONSUMER),
    "idempotent producers": idempotent,
    "transactions": transactions,
    "classic groups, crashes": partial(consumers, data=True),
    "consumer protocol, crashes": partial(consumers, data=True, **CONSUMER),
    "idempotent producers, crashes": partial(idempotent, data=True),
    "transactions, crashes": partial(transactions, data=True),
    "share groups": shares,
    "share groups, crashes": partial(shares, data=True),
    "streams groups": streams,
    "streams groups, crashes": partial(streams, data=True),
}
CRASHES = 4.0
"""Rate of crashes, for scenarios with a data directory."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", type=float, default=1.0, help="how many times the default rates of faults")
    sweep = Sweep(__doc__ or "", "schedules", SCHEDULES, quick=80, smoke=2, parser=parser)
    each = 1 if sweep.options.smoke else EACH
    chaos = Chaos().times(sweep.options.rates)
    failed: Counter[str] = Counter()
    faults = 0
    with fixed_client():
        for done, seed in enumerate(sweep.seeds):
            name = list(SCENARIOS)[done // each % len(SCENARIOS)]
            try:
                plan = replace(chaos, crashes=CRASHES) if "crashes" in name else chaos
                faults += simulate(SCENARIOS[name], seeds=[seed], chaos=plan).faults
            except ScheduleFailed as failure:
                failed[name] += 1
                print(f"{name}: {failure}", file=sys.stderr, flush=True)
            if (done + 1) % 200 == 0:
                sweep.progress(done + 1, failed.total())
    counts = {"seed": sweep.first, "schedules": sweep.count, "faults": faults, "failures": failed.total()}
    sweep.results("Schedules that break an invariant", [{"sweep": "simulation", **counts, "by_scenario": failed}])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
