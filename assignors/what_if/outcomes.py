"""Which assignors suit a situation, and what they make of it."""

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from quorate.assignors import Assignment, Assignor, AssignorError, Explanation, GroupSpec, Topology, explain, java_order
from quorate.assignors.registry import CLIENT_ASSIGNORS, SERVER_ASSIGNORS, assignor_class
from quorate.assignors.what_if.situation import GroupSituation
from quorate.codecs import Uuid
from quorate.codecs.errors import InputError
from quorate.codecs.releases import KafkaVersion

__all__ = ["CURRENT", "Choice", "Outcome", "Side", "outcome_now", "outcomes", "usual_choices"]

Side: TypeAlias = Literal["client", "server"]

CURRENT = "current"
"""What the column of the present assignment is called."""

JAVA_NAMES = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Whose cooperation their names tell."""

COOPERATIVE = "cooperative-sticky"
"""The assignor that keeps back what another member still has."""

MOST_REBALANCES = 5
"""Two are enough; should one day more be needed, the page says that something belongs to nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An assignor to run: `text` as the user called it, `options` as its constructor takes them."""

    name: str
    side: Side
    options: Mapping[str, Any]
    text: str

    @property
    def label(self) -> str:
        """The name; with the side, if there is another assignor of that name on the other."""
        both = self.name in CLIENT_ASSIGNORS and self.name in SERVER_ASSIGNORS
        return f"{self.text} ({self.side})" if both else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An assignment with its facts.

    `choice` is `None` for what the group has now; `took_ms` is how long the assignor took.

    `rebalances`: how many it takes to get there. Cooperative members first give up what is to move,
    and get it in the rebalance after (KIP-429).
    """

    label: str
    choice: Choice | None
    situation: GroupSituation
    explanation: Explanation
    took_ms: float | None
    rebalances: int

    @property
    def assignment(self) -> Assignment:
        """Who has what."""
        return self.explanation.assignment


def usual_choices(side: Side | None, situation: GroupSituation) -> list[Choice]:
    """The assignors that make sense for the situation, each once; that of the group first."""
    return [Choice(name=name, side=on, options={}, text=name) for name, on in dict.fromkeys(_usual(side, situation))]


def _usual(side: Side | None, situation: GroupSituation) -> list[tuple[str, Side]]:
    client: list[tuple[str, Side]] = [("range", "client"), ("cooperative-sticky", "client")]
    if situation.lags is not None:
        client.append(("lag-aware", "client"))
    server: list[tuple[str, Side]] = [("uniform", "server"), ("range", "server")]
    if situation.racks_known:
        server.append(("rack-aware-uniform", "server"))
    if side is None and situation.protocol is not None:
        side = "client" if situation.protocol == "classic" else "server"
    if side is None:
        return [*client[:2], *[one for one in server if one[0] != "range"], *client[2:]]
    found = client if side == "client" else server
    return [*_of_group(situation.assignor or "", side), *found]


def _of_group(name: str, side: Side) -> list[tuple[str, Side]]:
    """The assignor that the group has, if there is one of that name; those of our adapters say `cooperative-` before theirs, and may be for brokers."""
    known = CLIENT_ASSIGNORS if side == "client" else SERVER_ASSIGNORS
    if name in known:
        return [(name, side)]
    name = name.removeprefix("cooperative-")
    if side == "client" and name in CLIENT_ASSIGNORS.keys() - JAVA_NAMES:
        return [(name, "client")]
    if side == "client" and name == "rack-aware-uniform":
        return [(name, "server")]
    return []


def outcome_now(situation: GroupSituation) -> Outcome | None:
    """What the group has now, before any change; `None` if that is not known."""
    assignment = situation.current_assignment
    if assignment is None:
        return None
    members = {member_id: situation.members[member_id] for member_id in situation.current}
    explanation = explain(members, situation.topology, assignment, lags=situation.lags, previous=assignment)
    return Outcome(label=CURRENT, choice=None, situation=situation, explanation=explanation, took_ms=None, rebalances=0)


def outcomes(
    chosen: Sequence[Choice], situation: GroupSituation, kafka_version: KafkaVersion = KafkaVersion.NEWEST
) -> list[Outcome]:
    """What each assignor makes of the situation, as in that release.

    Raises `InputError` for what cannot be assigned.
    """
    prepared: dict[Side, tuple[GroupSituation, GroupSpec]] = {}
    found = []
    for choice in chosen:
        if choice.side not in prepared:
            seen = situation if choice.side == "client" else _as_coordinator(situation)
            prepared[choice.side] = seen, GroupSpec(seen.members, seen.topology)
        found.append(_outcome(choice, *prepared[choice.side], kafka_version))
    return found


def _outcome(choice: Choice, situation: GroupSituation, group: GroupSpec, kafka_version: KafkaVersion) -> Outcome:
    try:
        assignor = _made(choice, situation, kafka_version)
        began = time.perf_counter()
        assignment = assignor.assign_group(group)
        took_ms = (time.perf_counter() - began) * 1000
        assignment, rebalances = _settled(assignor, group, assignment)
    except (AssignorError, ValueError) as error:
        asked = () if kafka_version == KafkaVersion.NEWEST else (f"it was asked by --kafka-version {kafka_version}",)
        raise InputError(f"{choice.label}: {error}", *asked) from error
    explanation = explain(
        group, situation.topology, assignment, lags=situation.lags, previous=situation.current_assignment
    )
    return Outcome(
        label=choice.label,
        choice=choice,
        situation=situation,
        explanation=explanation,
        took_ms=took_ms,
        rebalances=rebalances,
    )


def _made(choice: Choice, situation: GroupSituation, kafka_version: KafkaVersion) -> Assignor:
    kind = assignor_class(choice.name, choice.side)
    options = dict(choice.options)
    if choice.name == "lag-aware":
        options["lags"] = situation.lags
    if (
        kafka_version != KafkaVersion.NEWEST and "version" in inspect.signature(kind).parameters
    ):  # whose answers changed
        options.setdefault("version", kafka_version)
    return kind(**options)


def _settled(assignor: Assignor, group: GroupSpec, first: Assignment) -> tuple[Assignment, int]:
    """Where rebalances end, each beginning with what the one before gave: only then has everything found its owner."""
    assignment, rebalances = first, 1
    if assignor.name != COOPERATIVE:
        return assignment, rebalances
    generation = int(group.generations.max(initial=0))
    while rebalances < MOST_REBALANCES:
        then = assignor.assign_group(group.with_owned(assignment, generation=generation + rebalances))
        if len(then.partitions) == len(assignment.partitions):
            break
        assignment, rebalances = then, rebalances + 1
    return assignment, rebalances


def _as_coordinator(situation: GroupSituation) -> GroupSituation:
    """The group as a coordinator has it: members in the order of its map, every topic with an id.

    Topics without one get an id that follows from their name: server-side assignors go by ids, and
    the same file shall give the same answer.
    """
    ids = list(situation.members)
    order = java_order.timeline_order(java_order.string_hashes(ids))
    topology = situation.topology
    if any(topic.id is None for topic in topology.topics):
        topology = Topology(
            topic if topic.id is not None else replace(topic, id=Uuid(sha256(topic.name.encode()).digest()[:16]))
            for topic in topology.topics
        )
    members = {ids[index]: situation.members[ids[index]] for index in order.tolist()}
    return replace(situation, members=members, topology=topology)
