"""Our server-side assignors against Kafka's, over seeds: what test_server_differential.py does in thousands and bench/assignor_differential.py in 100,000s.

Ops `serverAssign` and `shareAssign` of the oracle: assignments, and the records that the
coordinator writes, in order. A seed stands for a case, or for a short history: the case, then
rounds that go on from Kafka's answer, in which members join, leave and change.
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
"""In turn: mostly small groups."""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class ServerDifference:
    """A seed whose answers differ, and its case as generated."""

    assignor: str
    seed: str
    case: Case

    def report(self, oracle: Oracle) -> str:
        """Both answers to a case that is as small as we can make it."""
        small = minimise(self.case, lambda case: differ(ours(case), kafka(oracle, case)), smaller=smaller_server_cases)
        return (
            f"server {self.assignor}, seed {self.seed}: the answers differ\n"
            f"  smaller: {show(small)}\n"
            f"  ours:    {json.dumps(ours(small))}\n"
            f"  kafka:   {json.dumps(kafka(oracle, small))}"
        )


def ours(case: Case) -> Answer:
    """Our answer. An exception is an answer, too."""
    try:
        return share_assign(case) if case["op"] == "shareAssign" else server_assign(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference that has a seed
        return {"error": {"class": type(error).__name__, "message": str(error)}}


def kafka(oracle: Oracle, case: Case) -> Answer:
    """Kafka's answer without the protocol's fields."""
    return _answers(oracle, [case])[0]


def differ(mine: Answer, theirs: Answer) -> bool:
    """Whether the answers differ.

    Where Kafka's assignor throws, ours has to refuse, by an error that says why.

    Members to whom no record is written keep the target that they had. In which order the assignor
    had it in its hands in between is not told by anything: it may have taken a partition out of a
    set and put it back.
    """
    if "error" in theirs:
        return mine.get("error", {}).get("class") != "AssignorError"
    return mine != theirs and ("error" in mine or _without_passing_order(mine) != _without_passing_order(theirs))


def _without_passing_order(answer: Answer) -> Answer:
    keys = [decode_record(bytes.fromhex(one["key"]), bytes.fromhex(one["value"])).key for one in answer["records"]]
    written = {getattr(key, "member_id", None) for key in keys}
    assignment = {
        member: topics if member in written else {topic: sorted(partitions) for topic, partitions in topics.items()}
        for member, topics in answer["assignment"].items()
    }
    return {**answer, "assignment": assignment}


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
    answers = _answers(oracle, [case for _, case in cases])
    for (seed, case), theirs in zip(cases, answers, strict=True):
        outcome.cases += 1
        if "error" in theirs:
            outcome.unanswered[f"Kafka throws {theirs['error']['class']}"] += 1
        if differ(ours(case), theirs):
            outcome.differences.append(ServerDifference(assignor, seed, case))
    return answers


def _answers(oracle: Oracle, cases: Sequence[Case]) -> list[Answer]:
    return [
        {key: value for key, value in answer.items() if key not in ("id", "op")}
        for answer in oracle.exchange(map(json.dumps, cases))
    ]
