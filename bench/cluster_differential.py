"""Compare the embedded cluster with a real broker by random raw requests (`make bench-diff`).

Both get the same requests, and their responses must be equal. Prints the seeds, and each difference
with its seed and request. The exit status is 1 if there are differences. `--seed` repeats a run.
Needs Java and the jars of tests/broker, or containers for an older `--kafka-version`.
"""

import argparse
import json
import sys
import time
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import sweep_options

from tests.broker.broker import NEWEST, VERSION, missing
from tests.cluster.helpers.pair_play import Differs, duel
from tests.cluster.helpers.pair_themes import THEMES

STEPS = 60
SEEDS = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kafka-version",
        default=VERSION,
        help=f"{VERSION} (default), {NEWEST}, or another release, whose broker runs in a container, such as 3.9.2",
    )
    parser.add_argument(
        "--theme", choices=THEMES, help="the kind of requests; shares and streams are only sent if chosen"
    )
    options = sweep_options(parser, "seeds", SEEDS, quick=20, smoke=1)
    reason = missing(options.kafka_version) if options.kafka_version in (VERSION, NEWEST) else None
    if reason is not None:
        sys.exit(f"error: {reason}")
    first, count = options.first, options.count
    found: list[str] = []
    started = time.perf_counter()
    with duel(options.kafka_version) as both:
        for seed in range(first, first + count):
            try:
                both.play(seed, STEPS, THEMES.get(options.theme))
            except Differs as difference:
                found.append(str(difference))
                print(difference, file=sys.stderr, flush=True)
            if (seed - first + 1) % 50 == 0:
                rate = both.requests / (time.perf_counter() - started)
                status = f"  up to seed {seed}: {both.requests:,} requests, {len(found)} seeds differ, {rate:.0f}/s"
                print(status, file=sys.stderr, flush=True)
        counts = {"seed": first, "seeds": count, "requests": both.requests, "differ": len(found)}
    if options.as_json:
        print(json.dumps(counts))
    if options.as_table:
        print("  ".join(f"{name} {value:,}" for name, value in counts.items()))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
