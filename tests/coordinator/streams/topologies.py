"""Random topologies of Kafka Streams applications, valid and invalid, from a seed.

A case is a line of the oracle's `streamsTopology` (tests/oracle/README.md).
"""

from random import Random
from typing import Any

from quorate.codecs import Uuid

Json = dict[str, Any]

SOURCES = ("in-a", "in-b", "in-c", "AaAa", "BBBB", "AaBB")
CONFIGS = ("cleanup.policy", "segment.bytes", "retention.ms", "message.timestamp.type", "AaAa", "BBBB")


def topology_case(rng: Random) -> Json:
    """Return a topology, the topics that exist, and tasks of a member."""
    count = rng.choice((1, 1, 2, 3, 4, 12))
    repartition = [f"app-r{number}-repartition" for number in range(count)]
    if rng.random() < 0.2:
        repartition = [f"{rng.choice(('AaAa', 'BBBB', 'x'))}-{name}" for name in repartition]
    announced = {name: rng.choice((0, 0, 0, 0, 2, 3)) for name in repartition}
    if rng.random() < 0.4:
        announced = dict.fromkeys(repartition, 0)
    acyclic = rng.random() < 0.9
    subtopologies = [_subtopology(rng, number, repartition, announced, acyclic=acyclic) for number in range(count)]
    if rng.random() < 0.3:
        rng.shuffle(subtopologies)
    if rng.random() < 0.02:
        subtopologies.append(subtopologies[0])
    topology = {"epoch": rng.choice((0, 0, 0, 3, -1)) if rng.random() < 0.1 else 0, "subtopologies": subtopologies}
    case: Json = {"op": "streamsTopology", "topology": topology, "topics": _topics(rng, subtopologies)}
    case["assignedTasks"] = {
        kind: {
            one["subtopologyId"]: sorted(rng.sample(range(4), rng.randint(1, 3)))
            for one in subtopologies
            if rng.random() < 0.5
        }
        for kind in ("active", "standby", "warmup")
    }
    return case


def _subtopology(rng: Random, number: int, repartition: list[str], announced: dict[str, int], *, acyclic: bool) -> Json:
    sources = rng.sample(SOURCES, rng.choice((0, 1, 1, 1, 2, 3)))
    before = repartition[:number] if acyclic else repartition
    reads = rng.sample(before, min(len(before), rng.choice((0, 1, 1, 2))))
    if not sources and not reads and rng.random() < 0.9:
        sources = ["in-a"]
    groups = []
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        some = [index for index in range(len(sources)) if rng.random() < 0.7]
        others = [index for index in range(len(reads)) if rng.random() < 0.7]
        if rng.random() < 0.03:
            others.append(len(reads))
        groups.append({"sourceTopics": some, "repartitionSourceTopics": others})
    changelogs = [f"app-s{number}-{one}-changelog" for one in range(rng.choice((0, 0, 1, 2)))]
    if rng.random() < 0.02:
        changelogs *= 2
    return {
        "subtopologyId": str(number),
        "sourceTopics": sources,
        "sourceTopicRegex": ["x.*"] if rng.random() < 0.1 else [],
        "stateChangelogTopics": [_internal(rng, name, rng.choice((0, 0, 0, 0, 5))) for name in changelogs],
        "repartitionSinkTopics": [repartition[number]] if rng.random() < 0.95 else [],
        "repartitionSourceTopics": [_internal(rng, name, announced[name]) for name in reads],
        "copartitionGroups": groups,
    }


def _internal(rng: Random, name: str, partitions: int) -> Json:
    keys = rng.sample(CONFIGS, rng.randint(0, 3))
    if keys and rng.random() < 0.02:
        keys.append(keys[0])
    return {
        "name": name,
        "partitions": partitions,
        "replicationFactor": rng.choice((0, 1, 3)),
        "topicConfigs": [{"key": key, "value": f"v-{key}"} for key in keys],
    }


def _topics(rng: Random, subtopologies: list[Json]) -> list[Json]:
    """Return the existing topics: all sources or fewer, and none, some or all internal topics."""
    alike = rng.randint(1, 4) if rng.random() < 0.6 else None
    counts = {name: alike or rng.randint(1, 4) for name in SOURCES if rng.random() < 0.97}
    internal = sorted(
        {
            topic["name"]
            for one in subtopologies
            for topic in (*one["repartitionSourceTopics"], *one["stateChangelogTopics"])
        }
    )
    chance = rng.choice((0, 0, 0.5, 1))
    counts |= {name: alike or rng.randint(1, 3) for name in internal if rng.random() < chance}
    return [
        {"name": name, "id": str(Uuid(bytes(15) + bytes([number]))), "partitions": partitions}
        for number, (name, partitions) in enumerate(counts.items(), start=1)
    ]
