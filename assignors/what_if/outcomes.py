"""Runs assignors on a group situation."""

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from quorate.assignors import Assignment, Assignor, AssignorError, Explanation, GroupSpec, Topology, explain, java_order
from quorate.assignors.plug_ins import checked, installed
from quorate.assignors.registry import CLIENT_ASSIGNORS, SERVER_ASSIGNORS, assignor_class, server_assignor
from quorate.assignors.what_if.situation import GroupSituation
from quorate.codecs import Uuid
from quorate.codecs.errors import InputError
from quorate.codecs.releases import KafkaVersion

Side: TypeAlias = Literal["client", "server"]

CURRENT = "current"
"""The label of the current assignment."""

JAVA_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors of Kafka's Java client, whose names determine the rebalance protocol."""

COOPERATIVE = "cooperative-sticky"
"""The assignor that withholds partitions until their previous owner has revoked them."""

MOST_REBALANCES = 5
"""Upper limit; two are enough today. Beyond it, the output would show unassigned partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An assignor to run.

    `name`: of an assignor in quorate, or of a plug-in (`server_assignor`). `text`: the name as the
    user gave it; `options`: passed to its class.
    """

    name: str
    side: Side
    options: Mapping[str, Any]
    text: str

    @property
    def label(self) -> str:
        """The name, with the side if the other side has another assignor of the same name."""
        ambiguous = (
            self.name in CLIENT_ASSIGNORS
            and self.name in SERVER_ASSIGNORS
            and CLIENT_ASSIGNORS[self.name] != SERVER_ASSIGNORS[self.name]
        )
        return f"{self.text} ({self.side})" if ambiguous else self.text

    @property
    def is_plug_in(self) -> bool:
        """Whether the assignor is a plug-in: not in quorate."""
        return self.name not in (CLIENT_ASSIGNORS if self.side == "client" else SERVER_ASSIGNORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An assignment with its facts.

    `choice` is `None` for the group's current assignment. `took_ms`: run time of the assignor.
    `rebalances`: the number of rebalances until all partitions are assigned. In a cooperative
    rebalance, members first revoke the partitions that move; the next one assigns them (KIP-429).
    """

    label: str
    choice: Choice | None
    situation: GroupSituation
    explanation: Explanation
    took_ms: float | None
    rebalances: int

    @property
    def assignment(self) -> Assignment:
        """The assignment."""
        return self.explanation.assignment


def usual_choices(side: Side | None, situation: GroupSituation) -> list[Choice]:
    """Return the assignors that suit the situation, without duplicates, the group's own first."""
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
    """Return the group's assignor, if it exists.

    Our adapters prefix names with `cooperative-`, and may run server-side assignors.
    """
    known = CLIENT_ASSIGNORS if side == "client" else SERVER_ASSIGNORS
    if not name:
        return []
    if name in known:
        return [(name, side)]
    if side == "server":
        return [(name, side)] if name in installed() else []
    name = name.removeprefix("cooperative-")
    if name in CLIENT_ASSIGNORS.keys() - JAVA_ASSIGNORS:
        return [(name, "client")]
    return [(name, "server")] if name == "rack-aware-uniform" else []


def outcome_now(situation: GroupSituation) -> Outcome | None:
    """Return the group's current assignment, before any change; `None` if unknown."""
    assignment = situation.current_assignment
    if assignment is None:
        return None
    members = {member_id: situation.members[member_id] for member_id in situation.current}
    explanation = explain(members, situation.topology, assignment, lags=situation.lags, previous=assignment)
    return Outcome(label=CURRENT, choice=None, situation=situation, explanation=explanation, took_ms=None, rebalances=0)


def outcomes(
    chosen: Sequence[Choice], situation: GroupSituation, kafka_version: KafkaVersion = KafkaVersion.NEWEST
) -> list[Outcome]:
    """Run each assignor on the situation, with the results of that Kafka release.

    Raises `InputError` if the situation cannot be assigned.
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
        assignor = _create(choice, situation, kafka_version)
        began = time.perf_counter()
        assignment = checked(assignor, group) if choice.is_plug_in else assignor.assign_group(group)
        took_ms = (time.perf_counter() - began) * 1000
        assignment, rebalances = _settled(assignor, group, assignment)
    except (AssignorError, ValueError) as error:
        remedy = () if kafka_version == KafkaVersion.NEWEST else (f"--kafka-version {kafka_version} was given",)
        raise InputError(f"{choice.label}: {error}", *remedy) from error
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


def _create(choice: Choice, situation: GroupSituation, kafka_version: KafkaVersion) -> Assignor:
    if choice.is_plug_in:
        return server_assignor(choice.name, **choice.options)
    kind = assignor_class(choice.name, choice.side)
    options = dict(choice.options)
    if choice.name == "lag-aware":
        options["lags"] = situation.lags
    # Only assignors whose results changed between releases have the parameter.
    if kafka_version != KafkaVersion.NEWEST and "version" in inspect.signature(kind).parameters:
        options.setdefault("version", kafka_version)
    return kind(**options)


def _settled(assignor: Assignor, group: GroupSpec, first: Assignment) -> tuple[Assignment, int]:
    """Repeat the rebalance until no partition is withheld; return the number of rebalances too."""
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
    """Return the group as a coordinator sees it.

    Members are in the order of its map, and all topics have an id.

    A topic without an id gets one derived from its name: the results of server-side assignors
    depend on ids, and the same file must give the same result.
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
