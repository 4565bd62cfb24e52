"""Random groups for the server-side assignors, from a seed.

    case = server_case(Random(seed), "uniform")  # or "range", "simple"
    group = read_server_case(case)

A case is plain JSON, a line of the oracle's `serverAssign` or `shareAssign`
(tests/oracle/README.md). Cases have equal and different subscriptions, the same topics in different
order, topics that do not exist, topic ids with colliding hashes, static members, members in the
order of the coordinator's TimelineHashMap, and previous targets: those of a previous round, or
stripes of partitions that crowd the buckets of hash sets. Several members may own one partition.
In share groups (`simple`) some partitions may not be assignable. `next_server_round` continues from
a result.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from quorate.assignors import GroupSpec, Member, Topic, Topology, java_order
from quorate.codecs import Uuid
from tests.assignors.cases import subset
from tests.assignors.smaller_cases import fewer_of, one_less, replaced, without

Case = dict[str, Any]
"""A line of op `serverAssign`, or for `simple` of `shareAssign`."""


@dataclass(frozen=True, slots=True)
class Size:
    """Upper bounds of what a case has."""

    members: int
    topics: int
    partitions: int
    """Per topic."""
    step: int = 1
    """Partition counts are multiples of this."""


SMALL = Size(members=6, topics=4, partitions=12)
MID = Size(members=40, topics=25, partitions=60)
WIDE = Size(members=12, topics=120, partitions=4)
CROWDED = Size(members=20, topics=3, partitions=1200, step=16)
"""Few members with many partitions: crowded buckets and trees."""


def server_case(rng: Random, assignor: str, *, size: Size = SMALL, owners: Sequence[int] | None = None) -> Case:
    """Create one case, with or without previous targets.

    `owners`: the maximum number of owners of a partition is one of these.
    """
    if owners is None:
        # In a consumer group a partition has two owners if a static member replaced another.
        owners = (1, 1, 2, 4) if assignor == "simple" else (1,) * 14 + (2,)
    topics = _topics(rng, size)
    names = [topic["name"] for topic in topics]
    share = assignor == "simple"
    case: Case = {"op": "shareAssign"} if share else {"op": "serverAssign", "assignor": assignor}
    case["topics"] = topics
    if share:
        size = replace(size, members=size.members * rng.choice((1, 1, 3)))
    if rng.random() < 0.3:
        case["order"] = "timeline"
    if rng.random() < 0.3:
        case |= {"epoch": rng.randrange(1, 99), "nowMs": rng.choice((0, 1_700_000_000_000))}
    wanted = _subscriptions(rng, names)
    case["members"] = {
        member: _member(rng, wanted, number)
        for number, member in enumerate(_member_ids(rng, rng.randint(1, size.members)))
    }
    if rng.random() < 0.05:
        case["subscriptionType"] = rng.choice(("HOMOGENEOUS", "HETEROGENEOUS"))
    if share and rng.random() < 0.1:
        case["assignable"] = {
            topic["name"]: [partition for partition in range(topic["partitions"]) if rng.random() < 0.8]
            for topic in topics
            if rng.random() < 0.9
        }
    if rng.random() < 0.7:
        _target(rng, case, owners=rng.choice(owners))
    return case


def _topics(rng: Random, size: Size) -> list[Case]:
    alike = rng.random() < 0.3
    count = rng.randint(1, size.topics)
    partitions = size.step * rng.randint(1, max(1, size.partitions // size.step))
    if rng.random() < 0.04:  # metadata with topics but without their partitions
        partitions, alike = 0, True
    return [
        {
            "name": f"t{number}" if rng.random() < 0.5 else f"{rng.choice(('orders', 'x-y', 'Z'))}-{number}",
            "id": str(_uuid(rng, number)),
            "partitions": partitions if alike else size.step * rng.randint(1, max(1, size.partitions // size.step)),
        }
        for number in range(count)
    ]


def _uuid(rng: Random, number: int) -> Uuid:
    if rng.random() < 0.1:  # its hash collides with others, or differs only in high bits
        return Uuid(
            bytes(
                [
                    0,
                    0,
                    0,
                    1 + number // 8,
                    0,
                    rng.choice((0, 64, 128)),
                    0,
                    0,
                    *rng.randbytes(2),
                    0,
                    number % 8,
                    0,
                    0,
                    0,
                    1,
                ]
            )
        )
    return Uuid(rng.randbytes(16))


def _member_ids(rng: Random, count: int) -> list[str]:
    match rng.randrange(4):
        case 0:
            ids = [f"member{number}" for number in range(count)]
        case 1:
            ids = [str(Uuid(rng.randbytes(16))) for _ in range(count)]
        case 2:
            pairs = ["Aa", "BB"]  # equal hashes
            ids = list(dict.fromkeys("m-" + "".join(rng.choice(pairs) for _ in range(5)) for _ in range(count)))
        case _:
            ids = [f"m-{number}" for number in rng.sample(range(100, 100 + 10 * count), count)]
    rng.shuffle(ids)
    return ids


def _subscriptions(rng: Random, topics: Sequence[str]) -> Callable[[], list[str]]:
    some = [*topics, "missing"] if rng.random() < 0.15 else list(topics)
    chance = rng.choice((0.3, 0.6, 0.9))
    match rng.randrange(4):
        case 0 | 1:  # all alike, perhaps in different words
            mixed = rng.random() < 0.4
            repeated = rng.random() < 0.1
            return lambda: (rng.sample(some, len(some)) if mixed else list(some)) + (some[:1] if repeated else [])
        case 2:  # a few applications
            few = [subset(rng, some, chance) for _ in range(rng.randint(2, 3))]
            return lambda: list(rng.choice(few))
        case _:
            return lambda: subset(rng, some, chance)


def _member(rng: Random, wanted: Callable[[], list[str]], number: int) -> Case:
    member: Case = {"topics": wanted()}
    if rng.random() < 0.25:
        member["instanceId"] = f"i{(number * 7) % 10}-{number}"
    if rng.random() < 0.1:
        member["rackId"] = rng.choice("ab")
    return member


def _target(rng: Random, case: Case, *, owners: int = 1) -> None:
    """Add previous targets in which each partition has at most `owners` owners."""
    members: dict[str, Case] = case["members"]
    before = [name for name in members if rng.random() < 0.85]
    targets: dict[str, dict[str, list[int]]] = {name: {} for name in before}
    skew = rng.choice((0.0, 0.0, 0.4, 0.9))
    topics = rng.sample(case["topics"], len(case["topics"]))
    if rng.random() < 0.15:  # topics deleted since
        topics.append({"name": str(Uuid(rng.randbytes(16))), "partitions": rng.randint(1, 4)})
    for topic in topics:
        able = [name for name in before if topic["name"] in members[name]["topics"] or rng.random() < 0.1]
        if not able or rng.random() < 0.1:
            continue
        turn, stripes, holes = rng.randrange(len(able)), rng.random() < 0.5, rng.random() < 0.5
        for partition in range(topic["partitions"]):
            if holes and rng.random() < 0.1:
                continue
            if stripes or rng.random() >= 0.8:
                turn += 0 if rng.random() < skew else 1
            for name in {able[(turn + more) % len(able)] for more in range(rng.randint(1, owners))}:
                targets[name].setdefault(topic["name"], []).append(partition)
    ids = {topic["name"]: topic.get("id", topic["name"]) for topic in topics}
    for name, target in targets.items():
        listed = list(target.items())
        if rng.random() < 0.3:
            rng.shuffle(listed)
            for _, partitions in listed:
                rng.shuffle(partitions)
        if listed or rng.random() < 0.5:
            members[name]["target"] = {ids[topic]: partitions for topic, partitions in listed}


def next_server_round(rng: Random, case: Case, assignment: dict[str, dict[str, list[int]]]) -> Case:
    """Return the group one rebalance later.

    Members have the targets of `assignment` (topic id → partitions). Perhaps a member joined, left
    or changed its subscription, or a topic grew or was deleted.
    """
    following = deepcopy(case)
    members: dict[str, Case] = following["members"]
    for name, member in members.items():
        member["target"] = assignment.get(name, {})
    for _ in range(rng.randint(0, 3)):
        match rng.randrange(7):
            case 0 | 1 if len(members) > 1:
                del members[rng.choice(list(members))]
            case 2 | 3:
                like = deepcopy(members[rng.choice(list(members))])
                like.pop("target", None)
                like.pop("instanceId", None)
                members[f"n-{rng.randrange(10_000)}"] = like
            case 4:
                rng.choice(following["topics"])["partitions"] += rng.randint(1, 5)
            case 5:
                members[rng.choice(list(members))]["topics"] = list(members[rng.choice(list(members))]["topics"])
            case 6 if len(following["topics"]) > 1 and rng.random() < 0.3:
                following["topics"].pop(rng.randrange(len(following["topics"])))
    return following


def smaller_server_cases(case: Case) -> Iterator[Case]:
    """Yield cases with one part removed, large parts first."""
    members: dict[str, Case] = case["members"]
    yield from fewer_of(case, "members")
    for topics in one_less(case["topics"]):
        yield case | {"topics": topics}
    for field in ("assignable", "order", "epoch", "nowMs", "subscriptionType"):
        if field in case:
            yield without(case, field)
    for name, member in members.items():
        for field in ("target", "instanceId", "rackId"):
            if field in member:
                yield case | {"members": members | {name: without(member, field)}}
        for fewer in one_less(member["topics"]):
            yield case | {"members": members | {name: member | {"topics": fewer}}}
        for topic, partitions in member.get("target", {}).items():
            kept = [member["target"] | {topic: left} for left in one_less(partitions) if left]
            for target in (without(member["target"], topic), *kept):
                yield case | {"members": members | {name: member | {"target": target}}}
    for number, topic in enumerate(case["topics"]):
        if topic["partitions"] > 1 and topic["partitions"] - 1 not in _targeted(case, topic["id"]):
            smaller = topic | {"partitions": topic["partitions"] - 1}
            yield case | {"topics": replaced(case["topics"], number, smaller)}


def _targeted(case: Case, topic_id: str) -> set[int]:
    """Return the partitions of a topic in any previous target."""
    targets = [member.get("target", {}) for member in case["members"].values()]
    return {partition for target in targets for partition in target.get(topic_id, ())}


def read_server_case(case: Case) -> GroupSpec:
    """Convert a case as the oracle does."""
    topology = Topology(
        Topic(name=topic["name"], partitions=_count(topic["partitions"]), id=Uuid.parse(topic["id"]))
        for topic in case.get("topics", ())
    )
    names = {str(topic.id): topic.name for topic in topology.topics}
    members = {name: _read_member(member, names) for name, member in case["members"].items()}
    if case.get("order") == "timeline":
        ids = list(members)
        walked = java_order.timeline_order(java_order.string_hashes(ids)).tolist()
        members = {ids[place]: members[ids[place]] for place in walked}
    return GroupSpec(members, topology)


def _count(partitions: int | Sequence[object]) -> int:
    return partitions if isinstance(partitions, int) else len(partitions)


def _read_member(member: Case, names: dict[str, str]) -> Member:
    # Partition -1 stands for a topic without partitions.
    return Member(
        topics=tuple(member["topics"]),
        rack=member.get("rackId"),
        instance_id=member.get("instanceId"),
        owned=tuple(
            (names.get(topic, topic), partition)
            for topic, partitions in (member.get("target") or {}).items()
            for partition in (partitions or [-1])
        ),
    )
