"""StreamsGroupDescribe of random topologies: partition counts of internal topics equal Kafka's.

A member joins Kafka's coordinator, and ours replays its records. Internal topics exist with the
partition counts that we compute, or sometimes with others. If our counts are wrong, Kafka
describes the topology without partition counts.
"""

import contextlib
from random import Random
from typing import Any

import pytest

from quorate.codecs import Uuid, from_json
from quorate.codecs.messages.streams_group import StreamsGroupTopologyValue
from quorate.coordinator.describe.topology import TopologyProblem, needed_topics
from quorate.coordinator.image import MetadataImage, TopicImage
from tests.differential.compare import compare
from tests.differential.shard_side import ShardSide
from tests.oracle.client import Oracle

Json = dict[str, Any]

SOURCES = {"in-a": 2, "in-b": 3, "in-c": 3, "gone": 0}
REPARTITION = ["app-r0-repartition", "app-r1-repartition", "app-r2-repartition"]


def topic(rng: Random, name: str, partitions: int = 0) -> Json:
    configs = [
        {"key": key, "value": "1"} for key in sorted(rng.sample(["cleanup.policy", "segment.bytes", "retention.ms"], 2))
    ]
    return {"name": name, "partitions": partitions, "replicationFactor": rng.choice([0, 1]), "topicConfigs": configs}


def topology(rng: Random) -> Json:
    """Return subtopologies that read topics or the output of others, some of them invalid."""
    subtopologies = []
    announced = {name: rng.choice([0, 0, 0, 2, 3]) for name in REPARTITION}
    for number in range(rng.randint(1, 4)):
        names = ["in-a", "in-b", "in-c"] if rng.random() < 0.95 else list(SOURCES)
        sources = rng.sample(names, rng.choice([0, 1, 1, 2]))
        reads = rng.sample(REPARTITION[:number], min(number, rng.choice([0, 1, 1, 2]), 3))
        if not sources and not reads:
            sources = ["in-a"]
        groups = []
        if len(sources) + len(reads) > 1 and rng.random() < 0.5:
            groups = [
                {
                    "sourceTopics": list(range(len(sources))),
                    "sourceTopicRegex": [],
                    "repartitionSourceTopics": list(range(len(reads))),
                }
            ]
        changelogs = [f"app-s{number}-{one}-changelog" for one in range(rng.choice([0, 1, 2]))]
        subtopologies.append(
            {
                "subtopologyId": str(number),
                "sourceTopics": sources,
                "sourceTopicRegex": [],
                "stateChangelogTopics": [topic(rng, name) for name in sorted(changelogs)],
                "repartitionSinkTopics": REPARTITION[number : number + 1] if number < 3 else [],
                "repartitionSourceTopics": [topic(rng, name, announced[name]) for name in sorted(reads)],
                "copartitionGroups": groups,
            }
        )
    return {"epoch": 0, "subtopologies": subtopologies}


@pytest.mark.parametrize("seed", range(60))
def test_internal_topics_have_kafkas_partition_counts(oracle: Oracle, seed: int) -> None:
    rng = Random(seed)
    announced = topology(rng)
    counts = {name: partitions for name, partitions in SOURCES.items() if partitions}
    image = MetadataImage().with_topics(
        TopicImage(name=name, id=Uuid(bytes(15) + bytes([number])), replicas=((),) * partitions)
        for number, (name, partitions) in enumerate(counts.items(), start=1)
    )
    with contextlib.suppress(TopologyProblem):
        counts |= needed_topics(from_json(StreamsGroupTopologyValue, announced, 0), image)
    internal = sorted(set(counts) - set(SOURCES))
    if internal and rng.random() < 0.2:
        counts[rng.choice(internal)] += 1
    if internal and rng.random() < 0.1:
        del counts[rng.choice(internal)]
    topics = [
        {"name": name, "id": str(Uuid(bytes(15) + bytes([number]))), "partitions": partitions}
        for number, (name, partitions) in enumerate(counts.items(), start=1)
    ]
    ours = ShardSide()
    oracle.call("config", **{"group.streams.initial.rebalance.delay.ms": 0})
    for side in (oracle.call, lambda op, **fields: ours.run({"op": op, **fields})):
        side("image", brokers=[{"id": 0}], topics=topics)
    body = {
        "groupId": "g",
        "memberId": "m1",
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 5000,
        "topology": announced,
        "activeTasks": [],
        "standbyTasks": [],
        "warmupTasks": [],
        "processId": "p",
        "clientTags": [{"key": "zone", "value": "a"}, {"key": "b", "value": "c"}],
    }
    joined = oracle.call("request", api="StreamsGroupHeartbeat", body=body)["response"]
    assert not joined["errorCode"], f"seed {seed}: {joined}"
    # The first heartbeat creates the group. The topology with partitions is not in the log: Kafka
    # caches it in an existing group, and describes it after another write.
    again = {"groupId": "g", "memberId": "m1", "memberEpoch": joined["memberEpoch"]}
    for client_id in ("one", "two"):
        reported = oracle.call("request", api="StreamsGroupHeartbeat", clientId=client_id, body=again)
        assert not reported["response"]["errorCode"]
    ours.run({"op": "load", "records": oracle.call("log")["records"]})
    operation = {
        "api": "StreamsGroupDescribe",
        "body": {"groupIds": ["g", "nothing"], "includeTopologyDescription": seed % 2 == 0},
    }
    wanted = oracle.call("request", **operation)["response"]
    found = ours.run({"op": "request", **operation})["response"]
    for group in (*wanted["groups"], *found["groups"]):
        del group["errorMessage"]
    differences = compare(seed, found, wanted)
    assert not differences, f"seed {seed}: {announced}\n{differences}"
