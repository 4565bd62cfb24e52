"""Compares assignors with Kafka's own classes, over seeds.

A seed stands for a case, or for a short history: the case, then rounds that continue from Kafka's
result, in which members join, leave and change. The suite runs thousands of seeds,
bench/assignor_differential.py 100,000s.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.assignors.cases import Case
from tests.assignors.smaller_cases import minimise, show
from tests.oracle.client import Oracle

Result = Mapping[str, Any]

DIFFERS = "the results differ"


@dataclass(frozen=True)
class Difference:
    """A seed with different results: `case` as generated, `what` as text."""

    of: "Differential"
    assignor: str
    seed: str
    case: Case
    what: str

    def report(self, oracle: Oracle) -> str:
        """Return both results for the case after minimising it."""
        ours, kafka, verdict = self.of.ours, self.of.kafka, self.of.verdict
        small = minimise(
            self.case, lambda case: verdict(case, ours(case), kafka(oracle, case)) is not None, smaller=self.of.smaller
        )
        return (
            f"{self.assignor}, seed {self.seed}: {self.what}\n"
            f"  smaller: {show(small)}\n"
            f"  ours:    {json.dumps(ours(small))}\n"
            f"  kafka:   {json.dumps(kafka(oracle, small))}"
        )


@dataclass
class Outcome:
    """Counts of compared cases and of invalid results of Kafka by cause, and the differences."""

    cases: int = 0
    kafka_failures: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)


def thrown(_case: Case, theirs: Result) -> str | None:
    """Return the exception of Kafka's assignor, if it throws one."""
    return f"Kafka throws {theirs['error']['class']}" if "error" in theirs else None


@dataclass(frozen=True, kw_only=True)
class Differential:
    """How to compare one kind of assignors.

    `assign`: returns our result. `case_of`: the case of a seed; `first_of`: the first case of its
    history, if it is another one. `following`: the next round, from Kafka's assignment. `verdict`:
    why our result is wrong, `None` if it is right. `failure`: why Kafka's result is not valid.
    `smaller`: see `minimise`.
    """

    assign: Callable[[Case], Result]
    case_of: Callable[[Random, str, int], Case]
    first_of: Callable[[Random, str, int], Case] | None = None
    following: Callable[[Random, Case, Mapping[str, Any], int, int], Case]
    verdict: Callable[[Case, Result, Result], str | None]
    failure: Callable[[Case, Result], str | None] = thrown
    smaller: Callable[[Case], Iterator[Case]] | None = None

    def ours(self, case: Case) -> Result:
        """Return our result. An exception is a result too."""
        try:
            return self.assign(case)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference that has a seed
            return {"error": {"class": type(error).__name__, "message": str(error)}}

    def kafka(self, oracle: Oracle, case: Case) -> Result:
        """Return Kafka's result without the protocol's fields."""
        return _results(oracle, [case])[0]

    def run(self, oracle: Oracle, assignor: str, seeds: Iterable[int]) -> Outcome:
        """Compare one case for each seed."""
        outcome = Outcome()
        cases = [(str(seed), self.case_of(Random(seed), assignor, seed)) for seed in seeds]
        self._compare(oracle, assignor, cases, outcome)
        return outcome

    def histories(self, oracle: Oracle, assignor: str, seeds: Iterable[int], *, rounds: int = 4) -> Outcome:
        """Compare for each seed a case and `rounds` rounds; a history ends where Kafka throws."""
        outcome = Outcome()
        first_of = self.first_of or self.case_of
        playing = [(seed, Random(seed)) for seed in seeds]
        cases = [(f"{seed}, round 0", first_of(rng, assignor, seed)) for seed, rng in playing]
        for number in range(1, rounds + 2):
            results = self._compare(oracle, assignor, cases, outcome)
            continued = [
                (player, case, result["assignment"])
                for player, (_, case), result in zip(playing, cases, results, strict=True)
                if "assignment" in result
            ]
            playing = [player for player, _, _ in continued]
            cases = [
                (f"{seed}, round {number}", self.following(rng, case, assignment, number, seed))
                for (seed, rng), case, assignment in continued
            ]
        return outcome

    def _compare(
        self, oracle: Oracle, assignor: str, cases: Sequence[tuple[str, Case]], outcome: Outcome
    ) -> list[Result]:
        results = _results(oracle, [case for _, case in cases])
        for (seed, case), theirs in zip(cases, results, strict=True):
            outcome.cases += 1
            why = self.failure(case, theirs)
            if why is not None:
                outcome.kafka_failures[why] += 1
            wrong = self.verdict(case, self.ours(case), theirs)
            if wrong is not None:
                outcome.differences.append(Difference(self, assignor, seed, case, wrong))
        return results


def _results(oracle: Oracle, cases: Sequence[Case]) -> list[Result]:
    return [
        {key: value for key, value in result.items() if key not in ("id", "op")}
        for result in oracle.exchange(map(json.dumps, cases))
    ]
