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

from _report import SMOKE, first_seed

from tests.broker.broker import NEWEST, VERSION, missing
from tests.cluster.helpers.pair_play import Differs, duel
from tests.cluster.helpers.pair_themes import THEMES

STEPS = 60
SEEDS = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seed", type=int, help="the first seed (default: a new one)")
    parser.add_argument("--quick", action="store_true", help="20 seeds")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE}: one seed")
    parser.add_argument(
        "--kafka-version",
        default=VERSION,
        help=f"{VERSION} (default), {NEWEST}, or another release, whose broker runs in a container, such as 3.9.2",
    )
    parser.add_argument(
        "--theme", choices=THEMES, help="the kind of requests; shares and streams are only sent if chosen"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    options = parser.parse_args()
    reason = missing(options.kafka_version) if options.kafka_version in (VERSION, NEWEST) else None
    if reason is not None:
        sys.exit(f"error: {reason}")
    first = first_seed(options, 3)
    count = 1 if options.smoke else 20 if options.quick else options.seeds
    print(f"seeds from {first}; --seed {first} repeats this run", file=sys.stderr)
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
    if options.json or options.smoke:
        print(json.dumps(counts))
    if not options.json:
        print("  ".join(f"{name} {value:,}" for name, value in counts.items()))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
