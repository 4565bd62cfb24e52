"""Compare our assignors with Kafka's own classes on 100,000 generated groups each.

`make bench-diff` runs it. Assignments must be equal lists in the same order.

It prints the seeds, how often and why Kafka fails, and the first differences as small cases for
`python -m tests.differential`. The exit status is 1 if there are differences. The same seeds give
the same cases: `--seed` repeats a run.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Appended last, so that `codecs` remains the module of the standard library.
sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))

from _groups import Cell, members_of, topology_of
from _report import sweep_options
from rich.console import Console
from rich.table import Table

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
MAX_REPORTS = 5
"""The number of differences per assignor that are minimized and printed."""


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
        for difference in outcome.differences[: max(0, MAX_REPORTS - len(self.reports))]:
            self.reports.append(difference.report(oracle))
            print(self.reports[-1], file=sys.stderr, flush=True)


def compare_generated(name: str, module: Any, cases: int, seed: int, oracle: Oracle) -> Tally:
    """Compare single cases; in every fifth chunk compare histories of groups.

    `module.run` and `module.histories` generate the cases from seeds and compare them.
    """
    tally = Tally(name)
    started = time.perf_counter()
    number = 0
    assignor = name.partition(" ")[2]
    while tally.cases < cases:
        left = cases - tally.cases
        if number % 5 == 4:
            count = min(CHUNK, left) // (ROUNDS + 1) + 1
            tally.add(module.histories(oracle, assignor, range(seed, seed + count), rounds=ROUNDS), oracle)
        else:
            count = min(CHUNK, left)
            tally.add(module.run(oracle, assignor, range(seed, seed + count)), oracle)
        seed += count
        number += 1
        rate = tally.cases / (time.perf_counter() - started)
        print(
            f"  {name}: {tally.cases:,} cases, {tally.differences} differ, {rate:,.0f}/s", file=sys.stderr, flush=True
        )
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


def comparisons(large_members: int = 1000) -> dict[str, Callable[[int, int, Oracle], list[Tally]]]:
    """Return assignor name → function that compares it: (cases, first seed, oracle) → tallies."""

    def client(name: str) -> Callable[[int, int, Oracle], list[Tally]]:
        return lambda cases, seed, oracle: [
            compare_generated(name, client_differential, cases, seed, oracle),
            compare_large(name, oracle, large_members),
        ]

    def server(name: str) -> Callable[[int, int, Oracle], list[Tally]]:
        return lambda cases, seed, oracle: [compare_generated(name, server_differential, cases, seed, oracle)]

    def streams(name: str) -> Callable[[int, int, Oracle], list[Tally]]:
        return lambda cases, seed, oracle: [compare_generated(name, streams_differential, cases, seed, oracle)]

    by_name = {f"client {assignor}": client(f"client {assignor}") for assignor in CLIENT_ASSIGNORS}
    by_name |= {f"server {assignor}": server(f"server {assignor}") for assignor in server_differential.ASSIGNORS}
    return by_name | {"streams sticky": streams("streams sticky")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--assignor", action="append", choices=comparisons(), help="only this one; may be given more than once"
    )
    options = sweep_options(parser, "cases", 100_000, quick=2000, smoke=5, each=" per assignor")
    reason = missing_reason()
    if reason is not None:
        sys.exit(f"error: {reason}")
    seed = options.first
    available = comparisons(10) if options.smoke else comparisons()
    tallies: list[Tally] = []
    with Oracle() as oracle:
        for name in options.assignor or available:
            tallies += available[name](options.count, seed, oracle)
    _print_results(tallies, seed, as_json=options.as_json, as_table=options.as_table)
    sys.exit(1 if any(tally.differences for tally in tallies) else 0)


def _print_results(tallies: list[Tally], seed: int, *, as_json: bool, as_table: bool) -> None:
    table = Table(title=f"Differences from Kafka 4.4.0, seeds from {seed}")
    for name in ("assignor", "cases", "differences", "Kafka fails"):
        table.add_column(name, justify="right" if name in ("cases", "differences") else "left")
    for tally in tallies:
        if as_json:
            line = {"assignor": tally.name, "seed": seed, "cases": tally.cases, "differences": tally.differences}
            print(json.dumps(line | {"unanswered": tally.kafka_failures, "reports": tally.reports}), flush=True)
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in tally.kafka_failures.most_common())
        table.add_row(tally.name, f"{tally.cases:,}", f"{tally.differences:,}", reasons)
    if as_table:
        Console(width=150).print(table)


if __name__ == "__main__":
    main()
