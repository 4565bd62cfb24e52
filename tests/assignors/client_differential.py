"""Compares our client-side assignors with Kafka's, over seeds.

If Kafka's builder throws, or assigns partitions that do not exist, assigns them twice, or to
members that do not subscribe, our assignment must be valid. Such a case must have a declared cause
(declared.py); otherwise it is a difference.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tests.assignors.cases import MID, SMALL, Case, Owned, client_case, next_round
from tests.assignors.declared import causes
from tests.assignors.differential import DIFFERS, Differential, Result, thrown
from tests.assignors.odd_cases import odd
from tests.differential.ops_assign import client_assign

EVERY_MID = 50
"""One case in this many is of middle size."""


def kafka_failure(case: Case, theirs: Result) -> str | None:
    """Return why Kafka's result is not valid, so that ours must differ; `None` if it is valid."""
    if (why := thrown(case, theirs)) is not None:
        return why
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
    return DIFFERS if mine != theirs else None


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


def _first_of(rng: Random, assignor: str, seed: int) -> Case:
    return client_case(rng, assignor, owned="nothing", size=_size(seed))


def _following(rng: Random, case: Case, assignment: Mapping[str, Sequence[str]], number: int, seed: int) -> Case:
    following = next_round(rng, case, assignment, number)
    if is_odd(seed) and rng.random() < 0.5:
        odd(rng, following)
    return following


def _size(seed: int) -> Any:
    return MID if seed % EVERY_MID == EVERY_MID - 1 else SMALL


_CLIENT = Differential(
    assign=client_assign,
    case_of=lambda _, assignor, seed: case_of(assignor, seed),
    first_of=_first_of,
    following=_following,
    verdict=verdict,
    failure=kafka_failure,
)
ours, kafka, run, histories = _CLIENT.ours, _CLIENT.kafka, _CLIENT.run, _CLIENT.histories
