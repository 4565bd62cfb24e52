"""Our client-side assignors against Kafka's, over seeds: what test_differential_client.py does in thousands and bench/assignor_differential.py in 100,000s.

A seed stands for a case, or for a short history: the case, then rounds in which members own what
Kafka assigned in the round before. Where Kafka's builder throws, or hands out partitions that do
not exist, twice, or to members that do not subscribe, there is nothing to be equal to: our answer
then has to be a valid one. Each such case has to have a cause that is declared (declared.py); one
without is a difference.
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

Answer = Mapping[str, Any]

EVERY_MID = 50
"""One case in so many is of middle size."""


@dataclass(frozen=True)
class Difference:
    """A seed whose answers differ: `case` as generated, `what` in words."""

    assignor: str
    seed: str
    case: Case
    what: str

    def report(self, oracle: Oracle) -> str:
        """Both answers to a case that is as small as we can make it."""
        small = minimise(self.case, lambda case: verdict(case, ours(case), kafka(oracle, case)) is not None)
        return (
            f"{self.assignor}, seed {self.seed}: {self.what}\n"
            f"  smaller: {show(small)}\n"
            f"  ours:    {json.dumps(ours(small), sort_keys=True)}\n"
            f"  kafka:   {json.dumps(kafka(oracle, small), sort_keys=True)}"
        )


@dataclass
class Outcome:
    """How many cases were compared, in how many there was nothing to compare with and why, and where the answers differ."""

    cases: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)


def ours(case: Case) -> Answer:
    """Our answer. An exception is an answer, too, and never Kafka's."""
    try:
        return client_assign(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a difference that has a seed
        return {"error": {"class": type(error).__name__, "message": str(error)}}


def kafka(oracle: Oracle, case: Case) -> Answer:
    """Kafka's answer without the protocol's fields."""
    return {key: value for key, value in oracle.exchange([json.dumps(case)])[0].items() if key not in ("id", "op")}


def unanswered(case: Case, theirs: Answer) -> str | None:
    """Why Kafka's answer cannot be ours; `None` if it can."""
    if "error" in theirs:
        return f"Kafka throws {theirs['error']['class']}"
    wrong = invalid(case, theirs["assignment"])
    if wrong is None:
        if "a subscription names a topic twice" in causes(case):
            return "Kafka counts topics that a subscription repeats"
        # Kafka takes a group for one of equal subscriptions where members subscribe to nothing.
        # What it plans to give these may still be held back.
        subscriptions = {frozenset(consumer["topics"]) for consumer in case["consumers"].values()}
        held_back = invalid(case | {"assignor": "sticky"}, theirs["assignment"])
        if held_back and len(subscriptions) == 2 and frozenset() in subscriptions:
            return "Kafka holds partitions back for members without a subscription, perhaps"
        return None
    kinds = ("do not exist", "two owners", "without subscribing", "without an owner")
    return f"Kafka's answer is not valid: {next(kind for kind in kinds if kind in wrong)}"


def verdict(case: Case, mine: Answer, theirs: Answer) -> str | None:
    """What is wrong with our answer, in words; `None` if nothing is."""
    if "error" in mine:
        return f"ours fails: {mine['error']['class']}: {mine['error']['message']}"
    why = unanswered(case, theirs)
    if why is not None:
        return invalid(case, mine["assignment"]) if causes(case) else f"without a declared cause: {why}"
    if mine != {key: value for key, value in theirs.items() if key not in ("id", "op")}:
        return "the answers differ"
    return None


def invalid(case: Case, assignment: Mapping[str, Sequence[str]]) -> str | None:
    """Whether some partition has no owner, two, or one that does not subscribe.

    Cooperative assignors may keep partitions back.
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
    """What members own, in turn. Assignors that do not look at it need it rarely."""
    if assignor in ("range", "roundrobin"):
        return ("nothing", "nothing", "nothing", "nothing", "claims")
    return ("nothing", "history", "claims", "claims")


def case_of(assignor: str, seed: int) -> Case:
    """The case of a seed: every fifth one has odd things in it."""
    rng, owned = Random(seed), kinds(assignor)
    case = client_case(rng, assignor, owned=owned[seed % len(owned)], size=_size(seed))
    if is_odd(seed):
        odd(rng, case)
    return case


def is_odd(seed: int) -> bool:
    """Whether the case of a seed has odd things in it, or those of its history may."""
    return seed % 5 == 2


def run(oracle: Oracle, assignor: str, seeds: Iterable[int]) -> Outcome:
    """One case for each seed, answered by both."""
    outcome = Outcome()
    cases = [(str(seed), case_of(assignor, seed)) for seed in seeds]
    _compare(oracle, assignor, cases, outcome)
    return outcome


def histories(oracle: Oracle, assignor: str, seeds: Iterable[int], *, rounds: int = 4) -> Outcome:
    """For each seed a case and `rounds` rounds after it, in which members join, leave and change."""
    outcome = Outcome()
    playing = [(seed, Random(seed)) for seed in seeds]
    cases = [
        (f"{seed}, round 0", client_case(rng, assignor, owned="nothing", size=_size(seed))) for seed, rng in playing
    ]
    for number in range(rounds + 1):
        answers = _compare(oracle, assignor, cases, outcome)
        going_on = [
            (player, case, answer)
            for player, (_, case), answer in zip(playing, cases, answers, strict=True)
            if "assignment" in answer
        ]
        playing = [player for player, _, _ in going_on]
        cases = [
            (
                f"{seed}, round {number + 1}",
                _following(rng, case, answer["assignment"], number + 1, odd_too=is_odd(seed)),
            )
            for (seed, rng), case, answer in going_on
        ]
    return outcome


def _following(rng: Random, case: Case, assignment: Mapping[str, Sequence[str]], number: int, *, odd_too: bool) -> Case:
    following = next_round(rng, case, assignment, number)
    if odd_too and rng.random() < 0.5:
        odd(rng, following)
    return following


def _size(seed: int) -> Any:
    return MID if seed % EVERY_MID == EVERY_MID - 1 else SMALL


def _compare(oracle: Oracle, assignor: str, cases: Sequence[tuple[str, Case]], outcome: Outcome) -> list[Answer]:
    answers: list[Answer] = list(oracle.exchange(json.dumps(case) for _, case in cases))
    for (seed, case), theirs in zip(cases, answers, strict=True):
        outcome.cases += 1
        why = unanswered(case, theirs)
        if why is not None:
            outcome.unanswered[why] += 1
        wrong = verdict(case, ours(case), theirs)
        if wrong is not None:
            outcome.differences.append(Difference(assignor, seed, case, wrong))
    return answers
