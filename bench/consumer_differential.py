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

from _report import sweep_options
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
    options = sweep_options(parser, "scripts", SCRIPTS, quick=500, smoke=3)
    reason = missing_reason()
    if reason is not None:
        sys.exit(f"error: {reason}")
    seed, count = options.first, options.count
    counts = _sweep(range(seed, seed + count))
    if options.as_json:
        print(json.dumps({"histories": "consumer", "seed": seed, "scripts": count, **counts}))
    if options.as_table:
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
