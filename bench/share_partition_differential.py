"""Compare our share-partition with Kafka's SharePartition by random scripts (`make bench-diff`).

Acquired records, states, delivery counts, offsets, what is stored, and responses of both must be
equal after each step. Prints the seeds and each difference. The exit status is 1 if there are
differences. `--seed` repeats a run.
"""

import sys
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _sweep import SHOWN, Sweep

from tests.cluster.share.scripts import run_script
from tests.oracle.client import Oracle, missing_reason

SCRIPTS = 5_000


def main() -> None:
    sweep = Sweep(__doc__ or "", "scripts", SCRIPTS, quick=200, smoke=5)
    if (reason := missing_reason()) is not None:
        sys.exit(f"error: {reason}")
    steps = differ = 0
    with Oracle() as oracle:
        for seed in sweep.seeds:
            script, difference = run_script(seed, oracle)
            steps += len(script.steps)
            if difference is not None:
                differ += 1
                if differ <= SHOWN:
                    print(difference, file=sys.stderr, flush=True)
    sweep.progress(sweep.count, differ)
    counts = {"seed": sweep.first, "scripts": sweep.count, "steps": steps, "differ": differ}
    sweep.results("Differences from Kafka's SharePartition", [counts])
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
