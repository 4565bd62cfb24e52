"""Compare the embedded cluster with a real broker by random raw requests (`make bench-diff`).

Both get the same requests, and their responses must be equal. Prints the seeds, and each difference
with its seed and request. The exit status is 1 if there are differences. `--seed` repeats a run.
Needs Java and the jars of tests/broker, or containers for an older `--kafka-version`.
"""

import argparse
import sys
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _sweep import Sweep

from tests.broker.broker import NEWEST, VERSION, missing
from tests.cluster.helpers.pair_play import Differs, duel
from tests.cluster.helpers.pair_themes import THEMES

STEPS = 60
SEEDS = 2_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--kafka-version",
        help=f"{VERSION} (default; with --theme streams {NEWEST}, whose streams groups embedded clusters have in each "
        "release), or another release, whose broker runs in a container, such as 3.9.2",
    )
    parser.add_argument(
        "--theme", choices=THEMES, help="the kind of requests; conversions, shares and streams are only sent if chosen"
    )
    sweep = Sweep(__doc__ or "", "seeds", SEEDS, quick=20, smoke=1, parser=parser)
    theme = sweep.options.theme
    version = sweep.options.kafka_version or (NEWEST if theme == "streams" else VERSION)
    if version in (VERSION, NEWEST) and (reason := missing(version)) is not None:
        sys.exit(f"error: {reason}")
    differ = 0
    with duel(version) as both:
        for done, seed in enumerate(sweep.seeds, 1):
            try:
                both.play(seed, STEPS, THEMES.get(theme))
            except Differs as difference:
                differ += 1
                print(difference, file=sys.stderr, flush=True)
            if done % 50 == 0:
                sweep.progress(done, differ)
        counts = {"seed": sweep.first, "seeds": sweep.count, "requests": both.requests, "differ": differ}
    sweep.results(f"Differences from a broker of Kafka {version}", [counts])
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
