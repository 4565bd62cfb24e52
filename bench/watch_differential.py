"""Compare the observer's rebalances with Kafka's own log, by random histories (`make bench-diff`).

Kafka's coordinator runs each history, and logs each rebalance with its reason. The observer, which
gets only the records, must report each one once, with the same cause. Prints the seeds of
disagreements; the exit status is 1 if there are any.
"""

import argparse
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import Report, first_seed

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
SHOWN = 5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=500, help="number of histories, of all kinds together")
    parser.add_argument("--seed", type=int, help="the first seed")
    report = Report("Rebalances that the observer reports as Kafka's log", __doc__ or "", parser)
    if (reason := missing_reason()) is not None:
        sys.exit(reason)
    histories = report.pick(report.options.histories, quick=40, smoke=4)
    seed = first_seed(report.options)
    os.environ["ORACLE_LOG"] = "info"
    began = time.monotonic()
    judged, unknown = (dict.fromkeys(KINDS, 0) for _ in range(2))
    bad: list[str] = []
    with Oracle() as oracle:
        for number in range(histories):
            kind = list(KINDS)[number % len(KINDS)]
            note = f"{kind}, seed {seed + number}"
            duel = JudgedDuel(oracle, note=note)
            with suppress(KnownFailure):
                KINDS[kind](duel, seed + number).run(50)
            judged[kind] += duel.judged
            unknown[kind] += duel.unknown
            if duel.found:
                bad.append(note)
                if len(bad) <= SHOWN:
                    print(note, duel.found[0], sep="\n", file=sys.stderr)
    for kind in KINDS:
        report.rate(kind, judged[kind], None, "", "rebalances", without_cause=unknown[kind])
    report.finish()
    took = time.monotonic() - began
    said = f"{histories:,} histories from seed {seed}, {len(bad):,} with disagreements, {took:.0f} s"
    print(said, file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
