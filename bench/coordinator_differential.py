"""Long sweeps of our coordinator against Kafka's own: the same random histories on both sides, whose records, answers and timers have to be equal (`make bench-diff`).

Prints the seeds that it tried and each difference as a script that is as short as it could be made. Ends with 1 if there is any. `--seed` repeats a run.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

# Behind everything: `codecs` stays the standard library's.
sys.path.append(str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import minimised
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.scripts import Differs, Duel
from tests.coordinator.share_scripts import ShareHistory
from tests.coordinator.test_offsets import simple_history
from tests.oracle.client import Oracle, missing

STEPS = 50
SHOWN = 5
"""Differences that are made short and printed, per kind."""

Play = Callable[[Oracle, int], int]
"""Plays the history of a seed; gives how many lines were compared. Raises `Differs`."""


def consumer(oracle: Oracle, seed: int) -> int:
    duel = Duel(oracle, note=f"consumer, seed {seed}")
    kind = ({}, {"regexes": False}, {"statics": False})[seed % 3]
    return _played(duel, lambda: History(Random(seed), duel, **kind).run(STEPS))


def classic(oracle: Oracle, seed: int) -> int:
    duel = NamedDuel(oracle, note=f"classic, seed {seed}")
    return _played(duel, lambda: ClassicHistory(Random(seed), duel, groups=1 + seed % 2).run(STEPS))


def mixed(oracle: Oracle, seed: int) -> int:
    duel = NamedDuel(oracle, note=f"mixed, seed {seed}")
    return _played(duel, lambda: MixedHistory(Random(seed), duel).run(STEPS))


def share(oracle: Oracle, seed: int) -> int:
    duel = Duel(oracle, note=f"share, seed {seed}")
    return _played(duel, lambda: ShareHistory(Random(seed), duel).run(STEPS))


def offsets(oracle: Oracle, seed: int) -> int:
    duel = Duel(oracle, note=f"offsets, seed {seed}")
    return _played(duel, lambda: simple_history(duel, seed))


def _played(duel: Duel, run: Callable[[], object]) -> int:
    try:
        run()
    except Differs as found:
        script = duel.script if isinstance(duel, NamedDuel) else duel.lines
        raise minimised(duel.oracle, script, duel.note, kind=type(duel)) or found from None
    return len(duel.lines)


KINDS: dict[str, Play] = {
    "consumer": consumer,
    "classic": classic,
    "mixed": mixed,
    "share": share,
    "offsets": offsets,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this one; may be given more than once")
    parser.add_argument("--scripts", type=int, default=4000, help="per kind")
    parser.add_argument("--seed", type=int, help="the first seed (default: a new one)")
    parser.add_argument("--quick", action="store_true", help="40 scripts per kind")
    parser.add_argument("--json", action="store_true", help="one JSON object per kind")
    options = parser.parse_args()
    reason = missing()
    if reason is not None:
        sys.exit(f"error: {reason}")
    seed = int.from_bytes(os.urandom(3), "big") if options.seed is None else options.seed
    count = 40 if options.quick else options.scripts
    print(f"seeds from {seed}; --seed {seed} repeats this run", file=sys.stderr)
    table = Table(title=f"Differences from Kafka 4.3.1's coordinator, seeds from {seed}")
    for name in ("histories", "scripts", "lines", "differ"):
        table.add_column(name, justify="left" if name == "histories" else "right")
    failed = False
    with Oracle() as oracle:
        for kind in options.kind or KINDS:
            lines, differ, told = _sweep(kind, oracle, range(seed, seed + count))
            failed = failed or differ > 0
            table.add_row(kind, f"{count:,}", f"{lines:,}", f"{differ:,}")
            if options.json:
                print(
                    json.dumps(
                        {
                            "histories": kind,
                            "seed": seed,
                            "scripts": count,
                            "lines": lines,
                            "differ": differ,
                            "reports": told,
                        }
                    )
                )
    if not options.json:
        Console(width=100).print(table)
    sys.exit(1 if failed else 0)


def _sweep(kind: str, oracle: Oracle, seeds: range) -> tuple[int, int, list[str]]:
    """Lines compared, scripts that differ, and the first of these."""
    lines, told, differ = 0, list[str](), 0
    started = time.perf_counter()
    for number, seed in enumerate(seeds, start=1):
        try:
            lines += KINDS[kind](oracle, seed)
        except Differs as found:
            differ += 1
            if len(told) < SHOWN:
                told.append(str(found))
                print(told[-1], file=sys.stderr, flush=True)
        if number % 100 == 0 or number == len(seeds):
            rate = number / (time.perf_counter() - started)
            print(
                f"  {kind}: {number:,} scripts, {lines:,} lines, {differ} differ, {rate:.0f}/s",
                file=sys.stderr,
                flush=True,
            )
    return lines, differ, told


if __name__ == "__main__":
    main()
