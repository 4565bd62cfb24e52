"""Start embedded clusters on damaged data directories (`make bench-diff`).

Damage is a flipped bit, a truncation, or a missing file or folder, in every kind of file, after a
stop or a crash. Each start must restore everything, or be refused with a message about what is
lost. Prints the seed, the results for each kind of file, and each finding with its seed. The exit
status is 1 if there are findings. `--seed` repeats a run.
"""

import sys
from collections import Counter, defaultdict
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _sweep import Sweep

from tests.cluster.helpers.damage import Finding, play

CASES = 1_000
EACH = 10


def main() -> None:
    sweep = Sweep(__doc__ or "", "cases", CASES, quick=30, smoke=5)
    results: dict[str, Counter[str]] = defaultdict(Counter)
    done = findings = 0
    with TemporaryDirectory() as folder:
        for seed in count(sweep.first):
            if done >= sweep.count:
                break
            for case in play(seed, Path(folder) / "case", min(EACH, sweep.count)):
                done += 1
                if isinstance(case, Finding):
                    findings += 1
                    print(f"seed {seed}: {case}", file=sys.stderr, flush=True)
                else:
                    results[case.kind][case.result] += 1
            if done % 100 == 0:
                sweep.progress(done, findings, f"up to seed {seed}: ")
    sweep.progress(done, findings)
    rows = [{"kind": kind, "results": dict(sorted(results[kind].items()))} for kind in sorted(results)]
    sweep.results("Starts on damaged data directories", rows)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
