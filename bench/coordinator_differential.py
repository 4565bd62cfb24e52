"""Compare our coordinator with Kafka's own of two releases by random histories (`make bench-diff`).

Records, responses and timers of both must be equal. Prints the seeds, and each difference as a
minimized script. The exit status is 1 if there are differences. `--seed` repeats a run.
`--progress FILE` records the scripts that were played, and skips those in the file, so that a long
run can be resumed.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _sweep import SHOWN, Sweep

from quorate.codecs.releases import KafkaVersion
from tests.coordinator.any_requests import AnyRequests
from tests.coordinator.any_scripts import AnyHistory
from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import run_and_minimise
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.offsets.test_offsets import simple_history
from tests.coordinator.scripts import Differs, Duel, KnownFailure
from tests.coordinator.share_scripts import ShareHistory
from tests.coordinator.share_state_scripts import difference, share_state_script
from tests.coordinator.streams_scripts import StreamsHistory
from tests.oracle.client import Oracle, missing_reason

STREAMS = "streams"
"""Streams groups follow the newest release only."""

STEPS = 50
ROUND = 50
"""Consecutive scripts of one kind, so that an interrupted sweep has played every kind."""


@dataclass(frozen=True, slots=True)
class Played:
    """A played script: the number of its lines, and the difference, if any.

    `release`: an older release of Kafka, `None` for the newest.
    """

    kind: str
    seed: int
    lines: int
    difference: str | None = None
    release: str | None = None


def consumer(duel: Duel, seed: int, steps: int) -> None:
    History(Random(seed), duel).run(steps)


def static(duel: Duel, seed: int, steps: int) -> None:
    History(Random(seed), duel, statics=0.9, regexes=0.1).run(steps)


def regex(duel: Duel, seed: int, steps: int) -> None:
    History(Random(seed), duel, regexes=0.9, statics=0.1).run(steps)


def plug_in(duel: Duel, seed: int, steps: int) -> None:
    History(Random(seed), duel, plug_in=True).run(steps)


def classic(duel: NamedDuel, seed: int, steps: int) -> None:
    anything = AnyRequests if seed % 2 else None
    ClassicHistory(Random(seed), duel, groups=1 + seed // 2 % 2, anything=anything).run(steps)


def mixed(duel: NamedDuel, seed: int, steps: int) -> None:
    MixedHistory(Random(seed), duel, anything=AnyRequests if seed % 2 else None).run(steps)


def any_requests(duel: NamedDuel, seed: int, steps: int) -> None:
    AnyHistory(Random(seed), duel).run(steps)


def share(duel: Duel, seed: int, steps: int) -> None:
    ShareHistory(Random(seed), duel).run(steps)


def streams(duel: Duel, seed: int, steps: int) -> None:
    StreamsHistory(Random(seed), duel).run(steps)


KINDS: dict[str, tuple[type[Duel], Callable[[Any, int, int], None]]] = {
    "consumer": (Duel, consumer),
    "static": (Duel, static),
    "regex": (Duel, regex),
    "plug-in": (Duel, plug_in),
    "classic": (NamedDuel, classic),
    "mixed": (NamedDuel, mixed),
    "share": (Duel, share),
    STREAMS: (Duel, streams),
    "offsets": (Duel, simple_history),
    "any": (NamedDuel, any_requests),
}
"""Kind → class that sends requests to both sides, and function that plays a seed's history."""


def play(oracle: Oracle, kind: str, seed: int, steps: int) -> int:
    """Play a history; return the number of compared lines. Raises `Differs`."""
    if kind == SHARE_STATE:
        return share_state(oracle, seed, steps)
    made, history = KINDS[kind]
    duel = made(oracle, note=f"{kind}, seed {seed}")
    with suppress(KnownFailure):  # the lines before it were compared
        run_and_minimise(duel, lambda: history(duel, seed, steps))
    return len(duel.lines)


SHARE_STATE = "share-state"
"""Histories of share coordinators, which the oracle plays as a whole, in the newest release.

Kafka 4.3 never finishes some of them: its merge of state batches was another.
"""


def share_state(oracle: Oracle, seed: int, steps: int) -> int:
    """Play a history of a share coordinator; return the number of steps. Raises `Differs`."""
    script = share_state_script(Random(seed), steps)
    found = difference(oracle, script)
    if found is not None:
        raise Differs(f"{SHARE_STATE}, seed {seed}: {found}")
    return len(script["steps"])


SCRIPTS = 20_000
"""Per kind and release."""

RELEASES: tuple[str | None, ...] = (None, "4.3")
"""The newest release, and older ones with an oracle that has all ops."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--kind", action="append", choices=[*KINDS, SHARE_STATE], help="only this one; may be given more than once"
    )
    parser.add_argument("--release", choices=[KafkaVersion.NEWEST.short, "4.3"], help="only this one (default: both)")
    parser.add_argument("--progress", type=Path, help="file of played scripts, to resume a run (needs --seed)")
    each = " per kind and release"
    sweep = Sweep(__doc__ or "", "scripts", SCRIPTS, quick=40, smoke=1, each=each, parser=parser)
    options = sweep.options
    if options.progress is not None and options.seed is None:
        parser.error("--progress resumes the scripts of a seed: give it with --seed")
    releases = RELEASES if options.release is None else [one for one in RELEASES if one == options.release] or [None]
    for release in releases:
        reason = missing_reason(release)
        if reason is not None:
            sys.exit(f"error: {reason}")
    kinds = options.kind or [*KINDS, SHARE_STATE]
    done = [one for one in _read(options.progress) if one.kind in kinds and one.seed in sweep.seeds]
    for release in releases:
        found = [one for one in done if one.release == release]
        played = [kind for kind in kinds if release is None or kind not in (SHARE_STATE, STREAMS)]
        found += _sweep(sweep, played, found, release)
        done += [one for one in found if one not in done]
        kafka = release or KafkaVersion.NEWEST.short
        rows = [_row(kind, kafka, sweep.first, [one for one in found if one.kind == kind]) for kind in played]
        sweep.results(f"Differences from Kafka {kafka}'s coordinator", rows)
    sys.exit(1 if any(one.difference is not None for one in done) else 0)


def _sweep(sweep: Sweep, kinds: list[str], done: list[Played], release: str | None) -> Iterator[Played]:
    """Play the remaining scripts, and report progress on stderr."""
    known = {(one.kind, one.seed) for one in done}
    differ = dict.fromkeys(kinds, 0)
    steps = 10 if sweep.options.smoke else STEPS
    played = 0
    with Oracle(release=release) as oracle:
        for first in sweep.seeds[::ROUND]:
            round_of = range(first, min(first + ROUND, sweep.seeds.stop))
            for kind in kinds:
                for seed in round_of:
                    if (kind, seed) in known:
                        continue
                    try:
                        one = Played(kind, seed, play(oracle, kind, seed, steps), release=release)
                    except Differs as found:
                        one = Played(kind, seed, 0, str(found), release)
                        differ[kind] += 1
                        if differ[kind] <= SHOWN:
                            print(one.difference, file=sys.stderr, flush=True)
                    if sweep.options.progress is not None:
                        with sweep.options.progress.open("a") as file:
                            file.write(json.dumps(asdict(one)) + "\n")
                    played += 1
                    yield one
            if played:
                sweep.progress(played, sum(differ.values()), f"up to seed {round_of[-1]}: ")


def _read(progress: Path | None) -> list[Played]:
    if progress is None or not progress.exists():
        return []
    return [Played(**json.loads(line)) for line in progress.read_text().splitlines()]


def _row(kind: str, kafka: str, seed: int, played: list[Played]) -> dict[str, Any]:
    differences = [one.difference for one in played if one.difference is not None]
    return {
        "histories": kind,
        "kafka": kafka,
        "seed": seed,
        "scripts": len(played),
        "lines": sum(one.lines for one in played),
        "differ": len(differences),
        "reports": differences[:SHOWN],
    }


if __name__ == "__main__":
    main()
