"""Compares our client-side assignors with Kafka's, over seeds.

test_differential_client.py runs thousands of seeds, bench/assignor_differential.py 100,000s. A seed
stands for a case, or for a short history: the case, then rounds in which members own what Kafka
assigned in the previous round. If Kafka's builder throws, or assigns partitions that do not exist,
assigns them twice, or to members that do not subscribe, our assignment must be valid. Such a case
must have a declared cause (declared.py); otherwise it is a difference.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.assignors.cases import MID, SMALL, Case, Owned, client_case, next_round
from tests.assignors.declared import causes
from tests.assignors.odd_cases import odd
from tests.assignors.smaller_cases import minimise, show
from tests.differential.ops_assign import client_assign
from tests.oracle.client import Oracle

__all__ = ["Difference", "Outcome", "histories", "invalid", "is_odd", "run", "verdict"]

Result = Mapping[str, Any]

EVERY_MID = 50
"""One case in this many is of middle size."""


@dataclass(frozen=True)
class Difference:
    """A seed with different results: `case` as generated, `what` as text."""

    assignor: str
    seed: str
    case: Case
    what: str

    def report(self, oracle: Oracle) -> str:
        """Return both results for the case after minimising it."""
        small = minimise(self.case, lambda case: verdict(case, ours(case), kafka(oracle, case)) is not None)
        return (
            f"{self.assignor}, seed {self.seed}: {self.what}\n"
            f"  smaller: {show(small)}\n"
            f"  ours:    {json.dumps(ours(small), sort_keys=True)}\n"
            f"  kafka:   {json.dumps(kafka(oracle, small), sort_keys=True)}"
        )


@dataclass
class Outcome:
    """Counts of compared cases and of invalid results of Kafka by cause, and the differences."""

    cases: int = 0
    kafka_failures: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)


def ours(case: Case) -> Result:
    """Return our result. An exception is a result too, but never Kafka's."""
    try:
        return client_assign(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference that has a seed
        return {"error": {"class": type(error).__name__, "message": str(error)}}


def kafka(oracle: Oracle, case: Case) -> Result:
    """Return Kafka's result without the protocol's fields."""
    return {key: value for key, value in oracle.exchange([json.dumps(case)])[0].items() if key not in ("id", "op")}


def kafka_failure(case: Case, theirs: Result) -> str | None:
    """Return why Kafka's result is not valid, so that ours must differ; `None` if it is valid."""
    if "error" in theirs:
        return f"Kafka throws {theirs['error']['class']}"
    wrong = invalid(case, theirs["assignment"])
    if wrong is None:
        if "a subscription names a topic twice" in causes(case):
            return "Kafka counts topics that a subscription repeats"
        # Kafka takes a group's subscriptions for equal if the others are empty. Partitions planned
        # for such members may still be withheld.
        subscriptions = {frozenset(consumer["topics"]) for consumer in case["consumers"].values()}
        held_back = invalid(case | {"assignor": "sticky"}, theirs["assignment"])
        if held_back and len(subscriptions) == 2 and frozenset() in subscriptions:
            return "Kafka holds partitions back for members without a subscription, perhaps"
        return None
    kinds = ("do not exist", "two owners", "without subscribing", "without an owner")
    return f"Kafka's assignment is not valid: {next(kind for kind in kinds if kind in wrong)}"


def verdict(case: Case, mine: Result, theirs: Result) -> str | None:
    """Return why our result is wrong; `None` if it is right."""
    if "error" in mine:
        return f"ours fails: {mine['error']['class']}: {mine['error']['message']}"
    why = kafka_failure(case, theirs)
    if why is not None:
        return invalid(case, mine["assignment"]) if causes(case) else f"without a declared cause: {why}"
    if mine != {key: value for key, value in theirs.items() if key not in ("id", "op")}:
        return "the results differ"
    return None


def invalid(case: Case, assignment: Mapping[str, Sequence[str]]) -> str | None:
    """Return whether a partition has no owner, two, or one that does not subscribe.

    Cooperative assignors may withhold partitions.
    """
    consumers = case["consumers"]
    if set(assignment) != set(consumers):
        return "members are missing, or are too many"
    owners: dict[str, str] = {}
    for member, given in assignment.items():
        for partition in given:
            if partition in owners:
                return f"{partition} has two owners"
            if partition.rpartition("-")[0] not in consumers[member]["topics"]:
                return f"{member} has {partition} without subscribing"
            owners[partition] = member
    subscribed = {topic for consumer in consumers.values() for topic in consumer["topics"]}
    wanted = {f"{one['topic']}-{one['partition']}" for one in case["partitions"] if one["topic"] in subscribed}
    if not wanted >= set(owners):
        return "partitions that do not exist are handed out"
    if wanted != set(owners) and case["assignor"] != "cooperative-sticky":
        return f"without an owner: {', '.join(sorted(wanted - set(owners)))}"
    return None


def kinds(assignor: str) -> Sequence[Owned]:
    """Return the kinds of owned partitions, in turn; rare for assignors that ignore them."""
    if assignor in ("range", "roundrobin"):
        return ("nothing", "nothing", "nothing", "nothing", "claims")
    return ("nothing", "history", "claims", "claims")


def case_of(assignor: str, seed: int) -> Case:
    """Return the case of a seed; every fifth has odd input."""
    rng, owned = Random(seed), kinds(assignor)
    case = client_case(rng, assignor, owned=owned[seed % len(owned)], size=_size(seed))
    if is_odd(seed):
        odd(rng, case)
    return case


def is_odd(seed: int) -> bool:
    """Return whether the case of a seed, or its history, may have odd input."""
    return seed % 5 == 2


def run(oracle: Oracle, assignor: str, seeds: Iterable[int]) -> Outcome:
    """Compare one case for each seed."""
    outcome = Outcome()
    cases = [(str(seed), case_of(assignor, seed)) for seed in seeds]
    _compare(oracle, assignor, cases, outcome)
    return outcome


def histories(oracle: Oracle, assignor: str, seeds: Iterable[int], *, rounds: int = 4) -> Outcome:
    """Compare for each seed a case and `rounds` rounds, in which members join, leave and change."""
    outcome = Outcome()
    playing = [(seed, Random(seed)) for seed in seeds]
    cases = [
        (f"{seed}, round 0", client_case(rng, assignor, owned="nothing", size=_size(seed))) for seed, rng in playing
    ]
    for number in range(rounds + 1):
        results = _compare(oracle, assignor, cases, outcome)
        going_on = [
            (player, case, result)
            for player, (_, case), result in zip(playing, cases, results, strict=True)
            if "assignment" in result
        ]
        playing = [player for player, _, _ in going_on]
        cases = [
            (
                f"{seed}, round {number + 1}",
                _following(rng, case, result["assignment"], number + 1, odd_too=is_odd(seed)),
            )
            for (seed, rng), case, result in going_on
        ]
    return outcome


def _following(rng: Random, case: Case, assignment: Mapping[str, Sequence[str]], number: int, *, odd_too: bool) -> Case:
    following = next_round(rng, case, assignment, number)
    if odd_too and rng.random() < 0.5:
        odd(rng, following)
    return following


def _size(seed: int) -> Any:
    return MID if seed % EVERY_MID == EVERY_MID - 1 else SMALL


def _compare(oracle: Oracle, assignor: str, cases: Sequence[tuple[str, Case]], outcome: Outcome) -> list[Result]:
    results: list[Result] = list(oracle.exchange(json.dumps(case) for _, case in cases))
    for (seed, case), theirs in zip(cases, results, strict=True):
        outcome.cases += 1
        why = kafka_failure(case, theirs)
        if why is not None:
            outcome.kafka_failures[why] += 1
        wrong = verdict(case, ours(case), theirs)
        if wrong is not None:
            outcome.differences.append(Difference(assignor, seed, case, wrong))
    return results
