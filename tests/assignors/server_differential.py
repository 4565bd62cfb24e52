"""Compares our server-side assignors with Kafka's, over seeds.

test_server_differential.py runs thousands of seeds, bench/assignor_differential.py 100,000s. The
oracle's `serverAssign` and `shareAssign` return assignments and the records that the coordinator
writes, in order. A seed stands for a case, or for a short history: the case, then rounds that
continue from Kafka's result, in which members join, leave and change.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from quorate.codecs import decode_record
from tests.assignors.client_differential import Outcome
from tests.assignors.server_cases import (
    CROWDED,
    MID,
    SMALL,
    WIDE,
    Case,
    next_server_round,
    server_case,
    smaller_server_cases,
)
from tests.assignors.smaller_cases import minimise, show
from tests.differential.ops_server_assign import server_assign, share_assign
from tests.oracle.client import Oracle

__all__ = ["ASSIGNORS", "ServerDifference", "differ", "histories", "kafka", "ours", "run"]

ASSIGNORS = ("uniform", "range", "simple")
SIZES = (*[SMALL] * 44, *[MID] * 3, *[WIDE] * 2, CROWDED)
"""Sizes in turn: mostly small groups."""

Result = Mapping[str, Any]


@dataclass(frozen=True)
class ServerDifference:
    """A seed with different results, and its case as generated."""

    assignor: str
    seed: str
    case: Case

    def report(self, oracle: Oracle) -> str:
        """Return both results for the case after minimising it."""
        small = minimise(self.case, lambda case: differ(ours(case), kafka(oracle, case)), smaller=smaller_server_cases)
        return (
            f"server {self.assignor}, seed {self.seed}: the results differ\n"
            f"  smaller: {show(small)}\n"
            f"  ours:    {json.dumps(ours(small))}\n"
            f"  kafka:   {json.dumps(kafka(oracle, small))}"
        )


def ours(case: Case) -> Result:
    """Return our result. An exception is a result too."""
    try:
        return share_assign(case) if case["op"] == "shareAssign" else server_assign(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference that has a seed
        return {"error": {"class": type(error).__name__, "message": str(error)}}


def kafka(oracle: Oracle, case: Case) -> Result:
    """Return Kafka's result without the protocol's fields."""
    return _results(oracle, [case])[0]


def differ(mine: Result, theirs: Result) -> bool:
    """Return whether the results differ.

    Where Kafka's assignor throws, ours must raise an error that says why. Members without a record
    keep their target. The order of its partitions inside the assignor does not matter: it may have
    removed a partition from a set and added it again.
    """
    if "error" in theirs:
        return mine.get("error", {}).get("class") != "AssignorError"
    return mine != theirs and ("error" in mine or _without_passing_order(mine) != _without_passing_order(theirs))


def _without_passing_order(result: Result) -> Result:
    keys = [
        decode_record(bytes.fromhex(record["key"]), bytes.fromhex(record["value"])).key for record in result["records"]
    ]
    written = {getattr(key, "member_id", None) for key in keys}
    assignment = {
        member: topics if member in written else {topic: sorted(partitions) for topic, partitions in topics.items()}
        for member, topics in result["assignment"].items()
    }
    return {**result, "assignment": assignment}


def run(oracle: Oracle, assignor: str, seeds: Iterable[int]) -> Outcome:
    """Compare one case for each seed."""
    outcome = Outcome()
    cases = [(str(seed), server_case(Random(seed), assignor, size=SIZES[seed % len(SIZES)])) for seed in seeds]
    _compare(oracle, assignor, cases, outcome)
    return outcome


def histories(oracle: Oracle, assignor: str, seeds: Iterable[int], *, rounds: int = 4) -> Outcome:
    """Compare for each seed a case and `rounds` rounds."""
    outcome = Outcome()
    playing = [(seed, Random(seed)) for seed in seeds]
    cases = [(f"{seed}, round 0", server_case(rng, assignor, size=SIZES[seed % len(SIZES)])) for seed, rng in playing]
    for number in range(rounds + 1):
        results = _compare(oracle, assignor, cases, outcome)
        cases = [
            (
                f"{seed}, round {number + 1}",
                case if "error" in result else next_server_round(rng, case, result["assignment"]),
            )
            for (seed, rng), (_, case), result in zip(playing, cases, results, strict=True)
        ]
    return outcome


def _compare(oracle: Oracle, assignor: str, cases: Sequence[tuple[str, Case]], outcome: Outcome) -> list[Result]:
    results = _results(oracle, [case for _, case in cases])
    for (seed, case), theirs in zip(cases, results, strict=True):
        outcome.cases += 1
        if "error" in theirs:
            outcome.kafka_failures[f"Kafka throws {theirs['error']['class']}"] += 1
        if differ(ours(case), theirs):
            outcome.differences.append(ServerDifference(assignor, seed, case))
    return results


def _results(oracle: Oracle, cases: Sequence[Case]) -> list[Result]:
    return [
        {key: value for key, value in result.items() if key not in ("id", "op")}
        for result in oracle.exchange(map(json.dumps, cases))
    ]
