"""Compares our task assignor of streams groups with Kafka's, over seeds.

The suite runs some seeds, bench/assignor_differential.py many. The oracle's `streamsAssign` runs
Kafka's StickyTaskAssignor. A seed stands for a case, or for a short history: the case, then rounds
in which members adopt Kafka's result, and members, processes and partitions change.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.assignors.cases import Case
from tests.assignors.client_differential import Outcome
from tests.assignors.smaller_cases import minimise, show
from tests.assignors.streams_cases import MID, SMALL, next_streams_round, smaller_streams_cases, streams_case
from tests.differential.ops_streams import streams_assign
from tests.oracle.client import Oracle

__all__ = ["StreamsDifference", "differ", "histories", "kafka", "ours", "run"]

SIZES = (*[SMALL] * 18, *[MID] * 2)
"""Sizes in turn: mostly small groups."""

Result = Mapping[str, Any]


@dataclass(frozen=True)
class StreamsDifference:
    """A seed with different results, and its case as generated."""

    seed: str
    case: Case

    def report(self, oracle: Oracle) -> str:
        """Return both results for the case after minimising it."""
        small = minimise(self.case, lambda case: differ(ours(case), kafka(oracle, case)), smaller=smaller_streams_cases)
        return (
            f"streams sticky, seed {self.seed}: the results differ\n"
            f"  smaller: {show(small)}\n"
            f"  ours:    {json.dumps(ours(small))}\n"
            f"  kafka:   {json.dumps(kafka(oracle, small))}"
        )


def ours(case: Case) -> Result:
    """Return our result. An exception is a result too."""
    try:
        return streams_assign(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference that has a seed
        return {"error": {"class": type(error).__name__, "message": str(error)}}


def kafka(oracle: Oracle, case: Case) -> Result:
    """Return Kafka's result without the protocol's fields."""
    return _results(oracle, [case])[0]


def differ(mine: Result, theirs: Result) -> bool:
    """Return whether the results differ, or the order of members or subtopologies.

    The former is the order of the broker's records, the latter that of its responses.
    """
    if "error" in theirs:
        return mine.get("error") != {"class": "AssignorError", "message": theirs["error"]["message"]}
    return json.dumps(mine) != json.dumps(theirs)


def run(oracle: Oracle, _assignor: str, seeds: Iterable[int]) -> Outcome:
    """Compare one case for each seed."""
    outcome = Outcome()
    cases = [(str(seed), streams_case(Random(seed), size=SIZES[seed % len(SIZES)])) for seed in seeds]
    _compare(oracle, cases, outcome)
    return outcome


def histories(oracle: Oracle, _assignor: str, seeds: Iterable[int], *, rounds: int = 4) -> Outcome:
    """Compare for each seed a case and `rounds` rounds."""
    outcome = Outcome()
    playing = [(seed, Random(seed)) for seed in seeds]
    cases = [(f"{seed}, round 0", streams_case(rng, size=SIZES[seed % len(SIZES)])) for seed, rng in playing]
    for number in range(rounds + 1):
        results = _compare(oracle, cases, outcome)
        cases = [
            (
                f"{seed}, round {number + 1}",
                case if "error" in result else next_streams_round(rng, case, result["assignment"]),
            )
            for (seed, rng), (_, case), result in zip(playing, cases, results, strict=True)
        ]
    return outcome


def _compare(oracle: Oracle, cases: Sequence[tuple[str, Case]], outcome: Outcome) -> list[Result]:
    results = _results(oracle, [case for _, case in cases])
    for (seed, case), theirs in zip(cases, results, strict=True):
        outcome.cases += 1
        if "error" in theirs:
            outcome.kafka_failures[f"Kafka throws {theirs['error']['class']}"] += 1
        if differ(ours(case), theirs):
            outcome.differences.append(StreamsDifference(seed, case))
    return results


def _results(oracle: Oracle, cases: Sequence[Case]) -> list[Result]:
    return [
        {key: value for key, value in result.items() if key not in ("id", "op")}
        for result in oracle.exchange(map(json.dumps, cases))
    ]
