"""Start embedded clusters on damaged data directories (`make bench-diff`).

Damage is a flipped bit, a truncation, or a missing file or folder, in every kind of file, after a
stop or a crash. Each start must restore everything, or be refused with a message about what is
lost. Prints the seed, the results for each kind of file, and each finding with its seed. The exit
status is 1 if there are findings. `--seed` repeats a run.
"""

import argparse
import json
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import sweep_options

from tests.cluster.helpers.damage import Finding, play

CASES = 1_000
EACH = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    options = sweep_options(parser, "cases", CASES, quick=30, smoke=5)
    first, wanted = options.first, options.count
    results: Counter[tuple[str, str]] = Counter()
    findings = 0
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        for seed in count(first):
            if sum(results.values()) + findings >= wanted:
                break
            for case in play(seed, Path(folder) / "case", min(EACH, wanted)):
                if isinstance(case, Finding):
                    findings += 1
                    print(f"seed {seed}: {case}", file=sys.stderr, flush=True)
                else:
                    results[case.kind, case.result] += 1
            done = sum(results.values()) + findings
            if done % 100 == 0:
                rate = done / (time.perf_counter() - started)
                print(
                    f"  up to seed {seed}: {done:,} cases, {findings} findings, {rate:.1f}/s",
                    file=sys.stderr,
                    flush=True,
                )
    kinds = {
        kind: {result: number for (one, result), number in sorted(results.items()) if one == kind}
        for kind in sorted({kind for kind, _ in results})
    }
    counts = {"seed": first, "cases": sum(results.values()) + findings, "findings": findings}
    if options.as_json:
        print(json.dumps({**counts, "kinds": kinds}))
    if options.as_table:
        for kind, found in kinds.items():
            print(f"{kind:24}" + "  ".join(f"{result} {number}" for result, number in found.items()))
        print("  ".join(f"{name} {value}" for name, value in counts.items()))
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
