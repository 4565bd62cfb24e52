"""Random groups for the client-side assignors, from a seed.

    case = client_case(Random(seed), "sticky", owned="claims")
    members, topology = read_case(case)

A case is plain JSON, a line of the oracle's `clientAssign` (tests/oracle/README.md). Cases have
equal and different subscriptions, topics that do not exist, static members, ids with colliding
hashes, racks of one member only, replicas on unknown, offline and rackless brokers, gaps between
partitions, and owned partitions (`Owned`). `next_round` continues from an assignment, for
histories of joins, leaves and changes. `minimise` reduces a failing case.

Knows nothing of assignors; tests/differential/ops_assign.py runs ours.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from quorate.codecs.messages import (
    CooperativeStickyAssignorUserData,
    ProtocolTopicPartition,
    StickyAssignorUserData,
)
from quorate.codecs.sticky_user_data import encode_cooperative_sticky_user_data, encode_sticky_user_data

Case = dict[str, Any]
"""A line of op `clientAssign`."""

Owned = Literal["nothing", "history", "claims"]
"""Owned partitions: none; those of a previous round, each once; or claims of all kinds.

Claims include partitions with several owners, stale and missing generations, and topics that were
deleted or are not subscribed.
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Upper bounds of what a case has."""

    members: int
    topics: int
    partitions: int
    """Per topic."""


SMALL = Size(members=7, topics=4, partitions=8)
MID = Size(members=60, topics=15, partitions=40)

GAPS = {"range": 0.1, "roundrobin": 0.02}
"""How often metadata lacks partitions. Kafka's roundrobin then assigns others, and its sticky
assignors fail.
"""

RACKS = ("a", "b", "c", "d")
# "Aa" and "BB" have the same hash, and so have sequences of the two. The last two sort differently
# by code points and by UTF-16 units.
COLLIDING = ("AaAa", "AaBB", "BBAa", "BBBB")
ODD_MEMBERS = ("m-\uff5e", "m-\U0001f680")


def client_case(rng: Random, assignor: str, *, size: Size = SMALL, owned: Owned = "nothing") -> Case:
    """Create one case.

    For `sticky` and `cooperative-sticky`, owned partitions are sent as these do (user data, owned
    partitions, or both).
    """
    topics = _names(rng, rng.randint(1, size.topics))
    case: Case = {"op": "clientAssign", "assignor": assignor}
    case |= _cluster(rng, topics, size, gaps=rng.random() < GAPS.get(assignor, 0.0))
    racks = _member_racks(rng)
    wanted = _subscriptions(rng, topics)
    case["consumers"] = {
        member: _consumer(rng, racks, wanted, number)
        for number, member in enumerate(member_ids(rng, rng.randint(1, size.members)))
    }
    if owned != "nothing":
        _own(rng, case, owned)
    return case


# ---- the cluster


def _names(rng: Random, count: int) -> list[str]:
    names = [f"t{number}" for number in range(1, count + 1)]
    match rng.randrange(6):
        case 0:  # hash order is not the order of names
            names = [f"{rng.choice(('orders', 'a.b', 'x-y', 'Z'))}-{rng.randrange(1000)}-{name}" for name in names]
        case 1:
            names = [*COLLIDING, *names][:count]
            rng.shuffle(names)
    return names


def _cluster(rng: Random, topics: Sequence[str], size: Size, *, gaps: bool) -> Case:
    """Create `partitions` and, in most cases, `brokers`. `gaps`: metadata may lack partitions."""
    counts = [
        rng.choice((rng.randint(1, size.partitions), rng.randint(1, max(1, size.partitions // 2)))) for _ in topics
    ]
    if rng.random() < 0.4:  # co-partitioned
        counts = [rng.choice(counts[:2]) for _ in topics]
    racks = RACKS[: rng.randint(1, len(RACKS))]
    style = rng.choice(("none", "replicas", "replicas", "racks"))
    factor = rng.randint(1, 3)
    brokers: list[Case] = [
        {"id": number, "rack": None if rng.random() < 0.08 else racks[number % len(racks)]}
        for number in range(rng.randint(max(2, len(racks)), 6))
    ]
    alike = rng.random() < 0.3
    partitions = []
    for topic, count in zip(topics, counts, strict=True):
        if rng.random() < 0.05:
            continue  # subscribed to, but missing
        start = 0 if alike else rng.randrange(6)
        numbers: Iterable[int] = range(count)
        if gaps and rng.random() < 0.5:
            numbers = sorted(rng.sample(range(count + 3), count))
        for number in numbers:
            one: Case = {"topic": topic, "partition": number}
            if style == "racks":
                one["racks"] = [rng.choice((*racks, *racks, "z")) for _ in range(rng.randint(0, factor))]
                one["racks"] = list(dict.fromkeys(one["racks"]))
            elif style == "replicas":
                replicas = [
                    brokers[(start + number + k) % len(brokers)]["id"] for k in range(min(factor, len(brokers)))
                ]
                if rng.random() < 0.05:
                    replicas[rng.randrange(len(replicas))] = 90 + rng.randrange(2)  # an unknown broker
                one["replicas"] = replicas
                if rng.random() < 0.1:  # some replicas offline
                    one["isr"] = replicas[: rng.randint(0, len(replicas) - 1)]
                    one["leader"] = one["isr"][0] if one["isr"] else None
            else:
                one["replicas"] = [0]
            partitions.append(one)
    if rng.random() < 0.2:
        rng.shuffle(partitions)
    if style == "none":
        return {"brokers": [{"id": 0, "rack": None}], "partitions": partitions}
    return {"partitions": partitions} if style == "racks" else {"brokers": brokers, "partitions": partitions}


# ---- members


def member_ids(rng: Random, count: int) -> list[str]:
    match rng.randrange(5):
        case 0:
            ids = [f"member{number}" for number in range(count)]
        case 1:
            ids = [f"consumer-g-{number}-{rng.getrandbits(128):032x}" for number in range(count)]
        case 2:
            ids = [*(f"m-{tail}" for tail in COLLIDING), *ODD_MEMBERS][:count]
            ids += [f"m-{number}" for number in range(count - len(ids))]
        case _:
            ids = [f"m-{number}" for number in rng.sample(range(100, 100 + 10 * count), count)]
    rng.shuffle(ids)
    return ids


def _member_racks(rng: Random) -> list[str | None]:
    """Return the racks from which members draw theirs."""
    match rng.randrange(5):
        case 0:
            return [None]
        case 1:
            return list(RACKS)
        case 2:
            return ["a", "b", "c"]
        case 3:
            return ["a", "a", "b", "c", None, "y", ""]
        case _:
            return ["a", "b", None]


def _subscriptions(rng: Random, topics: Sequence[str]) -> Callable[[], list[str]]:
    """Return a function that draws a member's subscription."""
    some = [*topics, "missing"] if rng.random() < 0.15 else list(topics)
    chance = rng.choice((0.3, 0.6, 0.8))
    match rng.randrange(4):
        case 0 | 1:  # all alike, perhaps in different words
            mixed = rng.random() < 0.3
            return lambda: rng.sample(some, len(some)) if mixed else list(some)
        case 2:  # a few applications
            few = [subset(rng, some, chance) for _ in range(rng.randint(2, 3))]
            return lambda: list(rng.choice(few))
        case _:
            return lambda: subset(rng, some, chance)


def subset(rng: Random, topics: Sequence[str], chance: float) -> list[str]:
    """Draw some of the topics, rarely none."""
    chosen = [topic for topic in topics if rng.random() < chance]
    if not chosen and rng.random() < 0.9:
        chosen = [rng.choice(topics)]
    return chosen


def _consumer(rng: Random, racks: Sequence[str | None], wanted: Callable[[], list[str]], number: int) -> Case:
    consumer: Case = {"topics": wanted()}
    rack = rng.choice(racks)
    if rack is not None:
        consumer["rackId"] = rack
    if rng.random() < 0.25:
        consumer["groupInstanceId"] = f"i{(number * 7) % 10}-{number}"
    return consumer


# ---- what members own


def topic_partition(text: str) -> tuple[str, int]:
    """Read "topic-0" as the oracle does."""
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def set_owned(
    consumer: Case, assignor: str, owned: Sequence[str], generation: int, *, rng: Random | None = None
) -> None:
    """Let a consumer own partitions of a generation, as the assignor's subscriptions send them.

    `sticky` sends them in its user data, and newer clients also in the subscription;
    `cooperative-sticky` in the subscription, with the generation there (v2 and newer) or in its
    user data. With `rng`, older clients and damaged user data occur.
    """
    odd = rng.random() if rng is not None else 1.0
    consumer["ownedPartitions"] = list(owned)
    consumer["generationId"] = generation
    consumer.pop("userData", None)
    if assignor == "sticky":
        by_topic: dict[str, list[int]] = {}
        for topic, number in map(topic_partition, owned):
            by_topic.setdefault(topic, []).append(number)
        user_data = StickyAssignorUserData(
            previous_assignment=tuple(
                ProtocolTopicPartition(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items()
            ),
            generation=generation,
        )
        consumer["userData"] = encode_sticky_user_data(user_data, 0 if odd < 0.08 else 1).hex()
        if (
            odd > 0.9 and rng is not None
        ):  # a subscription older than v2 has no generation, one older than v1 no partitions
            del consumer["generationId"]
            if rng.random() < 0.5:
                del consumer["ownedPartitions"]
        elif 0.08 <= odd < 0.1:
            consumer["userData"] = consumer["userData"][: len(consumer["userData"]) // 4 * 2]
    elif assignor == "cooperative-sticky":
        data = encode_cooperative_sticky_user_data(CooperativeStickyAssignorUserData(generation=generation)).hex()
        if odd < 0.15:  # v1: the generation only in the user data
            del consumer["generationId"]
            consumer["userData"] = data[: 8 if odd > 0.02 else 4]
        elif odd > 0.5:
            consumer["userData"] = data


def _own(rng: Random, case: Case, how: Owned) -> None:
    consumers: dict[str, Case] = case["consumers"]
    assignor = case["assignor"]
    names = list(consumers)
    by_topic: dict[str, list[str]] = {}
    for one in case["partitions"]:
        by_topic.setdefault(one["topic"], []).append(f"{one['topic']}-{one['partition']}")
    lists: dict[str, list[str]] = {name: [] for name in names}
    # The previous group: some of today's members and partitions did not exist.
    before = [name for name in names if rng.random() < 0.85]
    skew = rng.choice((0.0, 0.0, 0.5))
    for topic, partitions in by_topic.items():
        able = [name for name in before if topic in consumers[name]["topics"] or rng.random() < 0.05]
        if not able or rng.random() < 0.1:
            continue
        turn = rng.randrange(len(able))
        for partition in partitions:
            if rng.random() < 0.08:
                continue
            turn += 0 if rng.random() < skew else 1
            lists[able[turn % len(able)]].append(partition)
    newest = rng.choice((1, 1, 5, 0))
    generations = dict.fromkeys(names, newest)
    if how == "claims":
        every = [partition for partitions in by_topic.values() for partition in partitions]
        chance = rng.choice((0.1, 0.4, 0.8))
        for name in names:
            if rng.random() < chance and every:
                lists[name] += rng.sample(every, rng.randint(1, min(len(every), 4)))
            if rng.random() < 0.1:
                lists[name].append("gone-0")
            if (
                rng.random() < 0.02 and by_topic
            ):  # recreated with fewer partitions; Kafka's sticky assignors fail on most of these
                lists[name].append(f"{rng.choice(list(by_topic))}-999")
            generations[name] = rng.choice((newest, newest, newest, newest - 1, newest + 1, -1))
    for name in names:
        owned = list(dict.fromkeys(lists[name]))
        if rng.random() < 0.5:
            rng.shuffle(owned)
        if owned or rng.random() < 0.5:
            set_owned(
                consumers[name], assignor, owned, max(-1, generations[name]), rng=rng if how == "claims" else None
            )


def concentrate(rng: Random, case: Case) -> None:
    """Let few members own nearly all partitions, some in an older generation."""
    consumers: dict[str, Case] = case["consumers"]
    chance = rng.choice((0.05, 0.3, 0.7))
    few = [name for name in consumers if rng.random() < chance]
    lists: dict[str, list[str]] = {name: [] for name in consumers}
    for partition in case["partitions"]:
        able = [name for name in few if partition["topic"] in consumers[name]["topics"]]
        if able and rng.random() < 0.95:
            lists[rng.choice(able)].append(f"{partition['topic']}-{partition['partition']}")
    stale = rng.choice((0, 0, 0.1))
    for name, owned in lists.items():
        set_owned(consumers[name], case["assignor"], owned, 4 if rng.random() < stale else 5)


def next_round(rng: Random, case: Case, assignment: Mapping[str, Sequence[str]], generation: int) -> Case:
    """Return the group one rebalance later.

    Members own what `assignment` gave them in `generation`. Perhaps a member joined, left, returned
    with an older generation, changed rack or subscription, or a topic grew.
    """
    following = deepcopy(case)
    consumers: dict[str, Case] = following["consumers"]
    for name, consumer in consumers.items():
        if rng.random() < 0.9:
            set_owned(consumer, case["assignor"], assignment[name], generation)
        # The others missed this round and send what they owned in an older generation.
    names = list(consumers)
    topics = sorted({partition["topic"] for partition in case["partitions"]})
    for _ in range(rng.randint(0, 3)):
        match rng.randrange(6):
            case 0 if len(consumers) > 1:
                del consumers[rng.choice(list(consumers))]
            case 1 | 2:
                like = deepcopy(consumers[rng.choice(list(consumers))])
                for field in ("ownedPartitions", "generationId", "userData", "groupInstanceId"):
                    like.pop(field, None)
                consumers[f"n-{rng.randrange(10_000)}"] = like
            case 3 if topics:
                topic = rng.choice(topics)
                last = [partition for partition in following["partitions"] if partition["topic"] == topic][-1]
                number = (
                    max(partition["partition"] for partition in following["partitions"] if partition["topic"] == topic)
                    + 1
                )
                following["partitions"].append({**deepcopy(last), "partition": number})
            case 4:
                consumers[rng.choice(list(consumers))]["topics"] = list(
                    consumers[rng.choice(list(consumers))]["topics"]
                )
            case 5:
                consumers[rng.choice(list(consumers))]["rackId"] = rng.choice(RACKS)
    if rng.random() < 0.3 and names:
        shuffled = list(consumers.items())
        rng.shuffle(shuffled)
        following["consumers"] = dict(shuffled)
    return following


# ---- reading a case
