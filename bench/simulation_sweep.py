"""Search many schedules for broken invariants of the embedded cluster (`make bench-diff`).

Scenarios of aiokafka's consumers, of quorate's consumers with the consumer protocol, of idempotent
producers, of transactions, of share groups and of streams groups take turns, in memory, and with
crashes within writes to disk. The known defects of aiokafka are fixed meanwhile
(`tests/simulation/helpers/defects.py`). Prints the seeds, and each failure with its token. The exit
status is 1 if there are failures. `--seed` repeats a run.
"""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import sweep_options

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=float, default=1.0, help="how many times the default rates of faults")
    options = sweep_options(parser, "schedules", SCHEDULES, quick=80, smoke=len(SCENARIOS))
    first, wanted = options.first, options.count
    each = 1 if options.smoke else EACH
    chaos = Chaos().times(options.rates)
    failed: Counter[str] = Counter()
    done = faults = 0
    began = time.perf_counter()
    with fixed_client():
        for turn in range(-(-wanted // each)):
            name = list(SCENARIOS)[turn % len(SCENARIOS)]
            for seed in range(first + turn * each, first + min((turn + 1) * each, wanted)):
                try:
                    plan = replace(chaos, crashes=CRASHES) if "crashes" in name else chaos
                    faults += simulate(SCENARIOS[name], seeds=[seed], chaos=plan).faults
                except ScheduleFailed as failure:
                    failed[name] += 1
                    print(f"{name}: {failure}", file=sys.stderr, flush=True)
                done += 1
            if done % 200 == 0:
                rate = done / (time.perf_counter() - began)
                print(f"  {done:,} schedules, {failed.total()} failures, {rate:.1f}/s", file=sys.stderr, flush=True)
    counts = {"seed": first, "schedules": done, "faults": faults, "failures": failed.total()}
    if options.as_json:
        print(json.dumps({"sweep": "simulation", **counts, "by_scenario": dict(failed)}))
    if options.as_table:
        print("simulation: " + "  ".join(f"{name} {value}" for name, value in counts.items()))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
