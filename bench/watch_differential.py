"""Compare the observer's rebalances with Kafka's own log, by random histories (`make bench-diff`).

Kafka's coordinator runs each history, and logs each rebalance with its reason. The observer, which
gets only the records, must report each one once, with the same cause. Prints the seeds of
disagreements; the exit status is 1 if there are any.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _sweep import SHOWN, Sweep

from tests.coordinator.classic_scripts import ClassicHistory
from tests.coordinator.consumer_scripts import History
from tests.coordinator.scripts import KnownFailure
from tests.oracle.client import Oracle, missing_reason
from tests.watch.helpers.judged import JudgedDuel

KINDS = {
    "consumer": lambda duel, seed: History(Random(seed), duel),
    "static": lambda duel, seed: History(Random(seed), duel, statics=0.9, regexes=0.1),
    "regex": lambda duel, seed: History(Random(seed), duel, regexes=0.9, statics=0.1),
    "classic": lambda duel, seed: ClassicHistory(Random(seed), duel),
}


def main() -> None:
    sweep = Sweep(__doc__ or "", "histories", 500, quick=40, smoke=4, each=", of all kinds together")
    if (reason := missing_reason()) is not None:
        sys.exit(f"error: {reason}")
    os.environ["ORACLE_LOG"] = "info"
    rows = {kind: {"rebalances": 0, "without cause": 0, "differ": 0} for kind in KINDS}
    differ = 0
    with Oracle() as oracle:
        for number, seed in enumerate(sweep.seeds):
            kind = list(KINDS)[number % len(KINDS)]
            note = f"{kind}, seed {seed}"
            duel = JudgedDuel(oracle, note=note)
            with suppress(KnownFailure):
                KINDS[kind](duel, seed).run(50)
            rows[kind]["rebalances"] += duel.judged
            rows[kind]["without cause"] += duel.unknown
            if duel.found:
                rows[kind]["differ"] += 1
                differ += 1
                if differ <= SHOWN:
                    print(note, duel.found[0], sep="\n", file=sys.stderr)
    sweep.progress(sweep.count, differ)
    sweep.results(
        "Rebalances that the observer reports as Kafka's log",
        [{"histories": kind, **counts} for kind, counts in rows.items()],
    )
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
