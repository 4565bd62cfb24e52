"""Compare our assignors with Kafka's own classes on 100,000 generated groups each.

`make bench-diff` runs it. Assignments must be equal lists in the same order.

It prints the seeds, how often and why Kafka fails, and the first differences as small cases for
`python -m tests.differential`. The exit status is 1 if there are differences. The same seeds give
the same cases: `--seed` repeats a run.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Appended last, so that `codecs` remains the module of the standard library.
sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))

from _groups import Cell, members_of, topology_of
from _sweep import SHOWN, Sweep

from quorate.assignors import Member, Topology
from quorate.assignors.registry import client_assignor
from tests.assignors import client_differential, server_differential, streams_differential
from tests.assignors.cases import Case
from tests.assignors.client_differential import kafka, ours, verdict
from tests.assignors.differential import Outcome
from tests.oracle.client import Oracle, missing_reason

CLIENT_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
CHUNK = 2000
ROUNDS = 4


class Tally:
    """The results of one assignor's cases."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases = 0
        self.kafka_failures: Counter[str] = Counter()
        self.reports: list[str] = []
        self.differences = 0

    def add(self, outcome: Outcome, oracle: Oracle) -> None:
        self.cases += outcome.cases
        self.kafka_failures += outcome.kafka_failures
        self.differences += len(outcome.differences)
        for difference in outcome.differences[: max(0, SHOWN - len(self.reports))]:
            self.reports.append(difference.report(oracle))
            print(self.reports[-1], file=sys.stderr, flush=True)


def compare_generated(name: str, module: Any, sweep: Sweep, oracle: Oracle) -> Tally:
    """Compare single cases; in every fifth chunk compare histories of groups.

    `module.run` and `module.histories` generate the cases from seeds and compare them.
    """
    tally = Tally(name)
    seed, number = sweep.first, 0
    assignor = name.partition(" ")[2]
    while tally.cases < sweep.count:
        left = sweep.count - tally.cases
        if number % 5 == 4:
            count = min(CHUNK, left) // (ROUNDS + 1) + 1
            tally.add(module.histories(oracle, assignor, range(seed, seed + count), rounds=ROUNDS), oracle)
        else:
            count = min(CHUNK, left)
            tally.add(module.run(oracle, assignor, range(seed, seed + count)), oracle)
        seed += count
        number += 1
        sweep.progress(tally.cases, tally.differences, f"{name}: ")
    return tally


# ---- large groups: the benchmark's cells, which exercise other code paths and larger hash tables


def compare_large(name: str, oracle: Oracle, most_members: int) -> Tally:
    """Compare assignments in cells of Kafka's benchmark, with at most 10 partitions per member."""
    assignor = name.partition(" ")[2]
    tally = Tally(f"{name}, large")
    for cell in _cells(assignor, most_members):
        group = members_of(cell, client_assignor(assignor), user_data=assignor == "sticky")
        case = _case(assignor, group, topology_of(cell.members, cell.ratio, cell.topics, cell.racks))
        difference = verdict(case, ours(case), kafka(oracle, case))
        tally.cases += 1
        if difference is not None:
            tally.differences += 1
            print(f"{name}, {cell}: {difference}", file=sys.stderr, flush=True)
    return tally


def _cells(assignor: str, most_members: int) -> Iterator[Cell]:
    for homogeneous in (True, False):
        for incremental in (False, True) if "sticky" in assignor else (False,):
            for racks in ("none", "rf1"):
                # Kafka's general sticky algorithm takes seconds here, and minutes with racks.
                small = "sticky" in assignor and not homogeneous and racks != "none"
                yield Cell(min(100, most_members) if small else most_members, 10, 100, homogeneous, incremental, racks)


def _case(assignor: str, members: dict[str, Member], topology: Topology) -> Case:
    return {
        "op": "clientAssign",
        "assignor": assignor,
        "partitions": [
            {"topic": topic.name, "partition": number, "racks": list(topic.racks[number]) if topic.racks else []}
            for topic in topology.topics
            for number in range(topic.partitions)
        ],
        "consumers": {
            name: {
                "topics": list(member.topics),
                "ownedPartitions": [f"{topic}-{number}" for topic, number in member.owned],
                "generationId": member.generation,
                **({"rackId": member.rack} if member.rack else {}),
                **({"userData": member.user_data.hex()} if member.user_data else {}),
            }
            for name, member in members.items()
        },
    }


FAMILIES = {
    "client": (CLIENT_ASSIGNORS, client_differential),
    "server": (server_differential.ASSIGNORS, server_differential),
    "streams": (("sticky",), streams_differential),
}
MODULES = {f"{family} {name}": module for family, (names, module) in FAMILIES.items() for name in names}
"""Assignor → module that compares it."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--assignor", action="append", choices=MODULES, help="only this one; may be given more than once"
    )
    sweep = Sweep(__doc__ or "", "cases", 100_000, quick=2000, smoke=5, each=" per assignor", parser=parser)
    if (reason := missing_reason()) is not None:
        sys.exit(f"error: {reason}")
    tallies: list[Tally] = []
    with Oracle() as oracle:
        for name in sweep.options.assignor or MODULES:
            tallies.append(compare_generated(name, MODULES[name], sweep, oracle))
            if MODULES[name] is client_differential:
                tallies.append(compare_large(name, oracle, 10 if sweep.options.smoke else 1000))
    rows = [
        {
            "assignor": tally.name,
            "seed": sweep.first,
            "cases": tally.cases,
            "differences": tally.differences,
            "unanswered": dict(tally.kafka_failures.most_common()),
            "reports": tally.reports,
        }
        for tally in tallies
    ]
    sweep.results("Differences from Kafka 4.4.0", rows)
    sys.exit(1 if any(tally.differences for tally in tallies) else 0)


if __name__ == "__main__":
    main()
