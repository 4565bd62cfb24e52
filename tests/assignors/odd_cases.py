"""Groups that no Java client produces, but that a broker would pass on.

`odd` replaces parts of members and metadata by anything that the formats allow: subscriptions that
are empty, have duplicates or topics that do not exist; owned partitions that are duplicate, out of
range, negative, or of deleted, recreated or unsubscribed topics; generations above, below and next
to those of others; user data that is damaged, of another assignor or too long; racks that are empty
or of one member only; partitions without replicas.
"""

from collections.abc import Callable
from random import Random

from quorate.codecs.messages import CooperativeStickyAssignorUserData
from quorate.codecs.sticky_user_data import encode_cooperative_sticky_user_data
from tests.assignors.cases import Case, set_owned, topic_partition

GENERATIONS = (-2, -1, 0, 1, 2, 5, 2**31 - 1, -(2**31))
RACKS = ("", "a", "b", "A", "zz", "ä")


def odd(rng: Random, case: Case) -> None:
    """Change one to four parts of a case, in place."""
    changes: list[Callable[[Random, Case], None]] = [
        _topics,
        _topics,
        _owned,
        _owned,
        _owned_elsewhere,
        _generation,
        _user_data,
        _rack,
        _instance,
        _replicas,
        _without_partitions,
    ]
    for _ in range(rng.randint(1, 4)):
        rng.choice(changes)(rng, case)


def _someone(rng: Random, case: Case) -> Case:
    consumer: Case = rng.choice(list(case["consumers"].values()))
    return consumer


def _known(case: Case) -> list[str]:
    return sorted(
        {partition["topic"] for partition in case["partitions"]}
        | {t for c in case["consumers"].values() for t in c["topics"]}
    )


def _topics(rng: Random, case: Case) -> None:
    consumer, known = _someone(rng, case), _known(case)
    match rng.randrange(8):
        case 0:
            consumer["topics"] = []
        case 1 if consumer["topics"]:
            consumer["topics"] = [*consumer["topics"], rng.choice(consumer["topics"])]
        case 2 | 3 | 4 | 5 if known:
            consumer["topics"] = rng.sample(known, rng.randint(1, len(known)))
        case _ if "missing" not in consumer["topics"]:
            consumer["topics"] = [*consumer["topics"], "missing"]


def _set_owned(rng: Random, case: Case, consumer: Case, owned: list[str]) -> None:
    set_owned(consumer, case["assignor"], owned, consumer.get("generationId", rng.choice((1, 5))), rng=rng)


def _owned(rng: Random, case: Case) -> None:
    consumer = _someone(rng, case)
    owned = list(consumer.get("ownedPartitions", ()))
    some = [f"{partition['topic']}-{partition['partition']}" for partition in case["partitions"]]
    drawn = rng.sample(some, min(len(some), rng.randint(1, 4)))
    if owned and rng.random() < 0.2:
        drawn.append(rng.choice(owned))
    if rng.random() < 0.1:
        drawn.append(rng.choice(("gone-0", "missing-1", "-0")))
    if some and rng.random() < 0.1:
        topic, _ = topic_partition(rng.choice(some))
        drawn.append(f"{topic}-{rng.choice((50, 2**31 - 1))}")
    _set_owned(rng, case, consumer, owned + drawn)


def _owned_elsewhere(rng: Random, case: Case) -> None:
    """Let it own partitions of unsubscribed topics, mostly in an older generation."""
    consumer = _someone(rng, case)
    others = [partition for partition in case["partitions"] if partition["topic"] not in consumer["topics"]]
    if not others:
        return
    drawn = [f"{one['topic']}-{one['partition']}" for one in rng.sample(others, min(len(others), rng.randint(1, 5)))]
    consumer["generationId"] = max(consumer.get("generationId", 5) - rng.choice((0, 1, 2)), -1)
    _set_owned(rng, case, consumer, [*consumer.get("ownedPartitions", ()), *drawn])


def _generation(rng: Random, case: Case) -> None:
    consumer = _someone(rng, case)
    consumer["generationId"] = rng.choice(GENERATIONS)
    if rng.random() < 0.5:
        _set_owned(rng, case, consumer, list(consumer.get("ownedPartitions", ())))


def _user_data(rng: Random, case: Case) -> None:
    consumer = _someone(rng, case)
    data = bytes.fromhex(consumer.get("userData", ""))
    foreign = encode_cooperative_sticky_user_data(CooperativeStickyAssignorUserData(generation=rng.choice(GENERATIONS)))
    changed = bytearray(data or foreign)
    changed[rng.randrange(len(changed))] = rng.choice((0, 1, 4, 127, 128, 255))
    drawn = [
        b"",
        data[: rng.randrange(len(data) + 1)],
        data + rng.randbytes(rng.randint(1, 9)),
        foreign,
        bytes(changed),
    ]
    consumer["userData"] = rng.choice(drawn).hex()
    if rng.random() < 0.4:
        consumer.pop("generationId", None)


def _rack(rng: Random, case: Case) -> None:
    _someone(rng, case)["rackId"] = rng.choice(RACKS)


def _instance(rng: Random, case: Case) -> None:
    for _ in range(2):
        _someone(rng, case)["groupInstanceId"] = rng.choice(("", "i", "i", "zz"))


def _replicas(rng: Random, case: Case) -> None:
    if not case["partitions"]:
        return
    one = rng.choice(case["partitions"])
    if "replicas" in one:
        one["replicas"] = rng.choice(([], one["replicas"][:1], [99]))
        one.pop("isr", None)
        one.pop("leader", None)
        one.pop("racks", None)
    else:
        one["racks"] = rng.choice(([], ["zz"], [""]))


def _without_partitions(rng: Random, case: Case) -> None:
    """Remove all partitions of a topic, as if it was deleted."""
    known = _known(case)
    if known:
        gone = rng.choice(known)
        case["partitions"] = [partition for partition in case["partitions"] if partition["topic"] != gone]
