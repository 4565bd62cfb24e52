"""Compare our share-partition with Kafka's SharePartition by random scripts (`make bench-diff`).

Acquired records, states, delivery counts, offsets, what is stored, and responses of both must be
equal after each step. Prints the seeds and each difference. The exit status is 1 if there are
differences. `--seed` repeats a run.
"""

import argparse
import json
import sys
import time
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import sweep_options

from tests.cluster.share.scripts import run_script
from tests.oracle.client import Oracle, missing_reason

SCRIPTS = 5_000
SHOWN = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    options = sweep_options(parser, "scripts", SCRIPTS, quick=200, smoke=5)
    reason = missing_reason()
    if reason is not None:
        sys.exit(f"error: {reason}")
    seed, count = options.first, options.count
    differences: list[str] = []
    steps, started = 0, time.perf_counter()
    with Oracle() as oracle:
        for one in range(seed, seed + count):
            script, difference = run_script(one, oracle)
            steps += len(script.steps)
            if difference is not None:
                differences.append(difference)
                if len(differences) <= SHOWN:
                    print(difference, file=sys.stderr, flush=True)
    counts = {"seed": seed, "scripts": count, "steps": steps, "differ": len(differences)}
    if options.as_json:
        print(json.dumps(counts))
    if options.as_table:
        seconds = time.perf_counter() - started
        print(f"seeds from {seed}: {count:,} scripts, {steps:,} steps, {len(differences):,} differ, {seconds:.0f} s")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
