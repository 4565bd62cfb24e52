"""Compare a member with that of Kafka's own consumer by random histories (`make bench-diff`).

Requests, actions, states and times to wait of both must be equal. Prints the seeds, and each
difference as a minimized script. The exit status is 1 if there are differences. `--seed` repeats a
run. A script that ends by a declared difference (`tests/consumers/member_duel.py`) is counted.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import SMOKE, first_seed
from rich.console import Console
from rich.table import Table

from tests.consumers.member_duel import MemberDuel
from tests.consumers.member_scripts import MemberHistory
from tests.coordinator.minimise import run_and_minimise
from tests.coordinator.scripts import Differs, KnownFailure
from tests.oracle.client import Oracle, missing_reason

STEPS = 60
SCRIPTS = 5_000
SHOWN = 5
"""The number of differences that are printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=int, default=SCRIPTS)
    parser.add_argument("--seed", type=int, help="the first seed (default: a new one)")
    parser.add_argument("--quick", action="store_true", help="500 scripts")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE}: 3 scripts")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    reason = missing_reason()
    if reason is not None:
        sys.exit(f"error: {reason}")
    seed = first_seed(options, 3)
    count = 3 if options.smoke else 500 if options.quick else options.scripts
    print(f"seeds from {seed}; --seed {seed} repeats this run", file=sys.stderr)
    counts = _sweep(range(seed, seed + count))
    if options.json or options.smoke:
        print(json.dumps({"histories": "consumer", "seed": seed, "scripts": count, **counts}))
    if not options.json:
        table = Table(title=f"Differences from Kafka's consumer, seeds from {seed}")
        table.add_column("histories")
        table.add_column("consumer", justify="right")
        table.add_row("scripts", f"{count:,}")
        for name, value in counts.items():
            table.add_row(name, f"{value:,}")
        Console(width=100).print(table)
    sys.exit(1 if counts["differ"] else 0)


def _sweep(seeds: range) -> dict[str, int]:
    """Play the scripts; return the numbers of lines, states and declared differences."""
    lines = differ = 0
    declared: Counter[str] = Counter()
    started = time.perf_counter()
    with Oracle() as oracle:
        for seed in seeds:
            duel = MemberDuel(oracle, note=f"seed {seed}")
            try:
                run_and_minimise(duel, lambda duel=duel, seed=seed: MemberHistory(Random(seed), duel).run(STEPS))
            except KnownFailure as found:
                declared[type(found).__name__] += 1
            except Differs as found:
                differ += 1
                if differ <= SHOWN:
                    print(found, file=sys.stderr, flush=True)
            lines += len(duel.lines)
    rate = len(seeds) / (time.perf_counter() - started)
    print(f"  {len(seeds):,} scripts, {differ} differ, {rate:.0f}/s", file=sys.stderr, flush=True)
    return {"lines": lines, "differ": differ, **dict(sorted(declared.items()))}


if __name__ == "__main__":
    main()
