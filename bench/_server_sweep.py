"""The server-side part of assignor_differential.py: ops `serverAssign` and `shareAssign` on generated groups, records included, and histories of them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.assignors.client_differential import Outcome
from tests.assignors.server_cases import CROWDED, MID, SMALL, WIDE, next_server_round, server_case
from tests.differential.ops_server_assign import server_assign, share_assign
from tests.oracle.client import Oracle

__all__ = ["ASSIGNORS", "histories", "run"]

ASSIGNORS = ("uniform", "range", "simple")
SIZES = (*[SMALL] * 44, *[MID] * 3, *[WIDE] * 2, CROWDED)
"""In turn: mostly small groups."""

Case = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class ServerDifference:
    """A case whose answers differ; nothing makes it smaller here."""

    assignor: str
    seed: str
    case: Case

    def report(self, oracle: Oracle) -> str:
        """Both answers."""
        (kafka,) = _kafka(oracle, [self.case])
        return (
            f"server {self.assignor}, seed {self.seed}: the answers differ\n  case:  {json.dumps(self.case)}\n"
            f"  ours:  {json.dumps(_ours(self.case))}\n  kafka: {json.dumps(kafka)}"
        )


def run(oracle: Oracle, assignor: str, seeds: Iterable[int]) -> Outcome:
    """One case for each seed."""
    outcome = Outcome()
    cases = [(str(seed), server_case(Random(seed), assignor, size=SIZES[seed % len(SIZES)])) for seed in seeds]
    _compare(oracle, assignor, cases, outcome)
    return outcome


def histories(oracle: Oracle, assignor: str, seeds: Iterable[int], *, rounds: int = 4) -> Outcome:
    """For each seed a case and `rounds` rounds after it."""
    outcome = Outcome()
    playing = [(seed, Random(seed)) for seed in seeds]
    cases = [(f"{seed}, round 0", server_case(rng, assignor, size=SIZES[seed % len(SIZES)])) for seed, rng in playing]
    for number in range(rounds + 1):
        answers = _compare(oracle, assignor, cases, outcome)
        cases = [
            (
                f"{seed}, round {number + 1}",
                case if "error" in answer else next_server_round(rng, case, answer["assignment"]),
            )
            for (seed, rng), (_, case), answer in zip(playing, cases, answers, strict=True)
        ]
    return outcome


def _compare(oracle: Oracle, assignor: str, cases: Sequence[tuple[str, Case]], outcome: Outcome) -> list[Answer]:
    answers = _kafka(oracle, [case for _, case in cases])
    for (seed, case), kafka in zip(cases, answers, strict=True):
        outcome.cases += 1
        ours = _ours(case)
        if "error" in kafka and "error" in ours:
            outcome.unanswered[f"both refuse: {kafka['error']['class']}"] += 1
        elif ours != kafka:
            outcome.differences.append(ServerDifference(assignor, seed, case))
    return answers


def _kafka(oracle: Oracle, cases: Sequence[Case]) -> list[Answer]:
    return [
        {key: value for key, value in answer.items() if key not in ("id", "op")}
        for answer in oracle.exchange(map(json.dumps, cases))
    ]


def _ours(case: Case) -> Answer:
    try:
        return share_assign(case) if case["op"] == "shareAssign" else server_assign(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference that has a seed
        return {"error": {"class": type(error).__name__, "message": str(error)}}
