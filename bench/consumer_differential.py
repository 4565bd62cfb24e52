"""Compare a member with that of Kafka's own consumer by random histories (`make bench-diff`).

Requests, actions, states and times to wait of both must be equal. Prints the seeds, and each
difference as a minimized script. The exit status is 1 if there are differences. `--seed` repeats a
run. A script that ends by a declared difference (`tests/consumers/member_duel.py`) is counted.
"""

import sys
from collections import Counter
from pathlib import Path
from random import Random

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _sweep import SHOWN, Sweep

from tests.consumers.member_duel import MemberDuel
from tests.consumers.member_scripts import MemberHistory
from tests.coordinator.minimise import run_and_minimise
from tests.coordinator.scripts import Differs, KnownFailure
from tests.oracle.client import Oracle, missing_reason

STEPS = 60
SCRIPTS = 5_000


def main() -> None:
    sweep = Sweep(__doc__ or "", "scripts", SCRIPTS, quick=500, smoke=3)
    if (reason := missing_reason()) is not None:
        sys.exit(f"error: {reason}")
    lines = differ = 0
    declared: Counter[str] = Counter()
    with Oracle() as oracle:
        for seed in sweep.seeds:
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
    sweep.progress(sweep.count, differ)
    counts = {"seed": sweep.first, "scripts": sweep.count, "lines": lines, "differ": differ, "declared": declared}
    sweep.results("Differences from Kafka's consumer", [{"histories": "consumer", **counts}])
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
