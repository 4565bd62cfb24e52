"""Configured topologies against Kafka's InternalTopicManager, errors with their texts included."""

import os
from collections import Counter
from random import Random
from typing import Any

import pytest

from quorate.codecs import Uuid, from_json, to_kafka_json
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.streams_group_heartbeat import Endpoint, Topology
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.streams.endpoints import endpoint_to_partitions
from quorate.coordinator.streams.topology import (
    InternalTopologyError,
    InvalidTopologyError,
    configure_topics,
    describe,
    described_stored_topology,
    described_topology,
    required_topics,
    topology_value,
)
from tests.conftest import CI
from tests.coordinator.streams.topologies import topology_case
from tests.extent import portion
from tests.oracle.client import Oracle

Json = dict[str, Any]

START = 0 if CI else int.from_bytes(os.urandom(4), "big")


def configured(case: Json) -> Json:
    """Return what the oracle's `streamsTopology` returns, from our implementation."""
    image = MetadataImage().with_topics(
        TopicImage(name=topic["name"], id=Uuid.parse(topic["id"]), replicas=((),) * topic["partitions"])
        for topic in case["topics"]
    )
    out: Json = {}
    try:
        _configure(case, image, out)
    except InvalidTopologyError as error:
        out["thrown"] = {"class": "StreamsInvalidTopologyException", "message": str(error)}
    except InternalTopologyError as error:
        out["thrown"] = {"class": "internal", "message": str(error)}
    return out


def _configure(case: Json, image: MetadataImage, out: Json) -> None:
    topology = topology_value(from_json(Topology, case["topology"], 1))
    out["record"] = to_kafka_json(topology, 0)
    out["requiredTopics"] = sorted(required_topics(topology))
    out["describedStored"] = to_kafka_json(described_stored_topology(topology), 0)
    found = configure_topics(topology, image)
    out["ready"] = found.is_ready
    if found.topic_configuration_error is not None:
        error = found.topic_configuration_error
        out["status"] = {"code": int(error.status), "detail": str(error)}
    out["internalTopicsToBeCreated"] = [
        to_kafka_json(topic, 7) for topic in found.internal_topics_to_be_created.values()
    ]
    out["described"] = to_kafka_json(described_topology(found), 0)
    if found.subtopologies is None:
        return
    out["describer"] = [
        {"id": one.subtopology_id, "partitions": one.max_num_input_partitions, "stateful": one.is_stateful}
        for one in describe(found)
    ]
    tasks = case["assignedTasks"]
    others = {
        name: set(tasks["standby"].get(name, ())) | set(tasks["warmup"].get(name, ()))
        for name in sorted({*tasks["standby"], *tasks["warmup"]})
    }
    active = {name: set(partitions) for name, partitions in sorted(tasks["active"].items())}
    try:
        endpoint = endpoint_to_partitions(Endpoint(host="h", port=1), active, others, found, image)
        out["endpoint"] = to_kafka_json(endpoint, 1)
    except InternalTopologyError as error:
        out["endpoint"] = {"thrown": {"class": "internal", "message": str(error)}}


def kafkas(result: Json) -> Json:
    """Return Kafka's result in the same form: what it throws, shortened, and topics sorted.

    Kafka iterates the active tasks of an endpoint in an order that differs between runs.
    """
    out = {key: value for key, value in result.items() if key not in ("id", "op")}
    for holder in (out, out.get("endpoint", {})):
        if "thrown" in holder:
            thrown = holder["thrown"]
            known = thrown["class"] == "StreamsInvalidTopologyException"
            message = thrown["message"].partition(" (attempted merging")[0]
            holder["thrown"] = {"class": thrown["class"] if known else "internal", "message": message}
    return out


def sorted_endpoint(result: Json) -> Json:
    endpoint = dict(result.get("endpoint", {}))
    if "thrown" in endpoint:  # which topic of several depends on that order, too
        endpoint["thrown"] = endpoint["thrown"]["class"]
    for field in ("activePartitions", "standbyPartitions"):
        if field in endpoint:
            endpoint[field] = sorted(endpoint[field], key=lambda one: (one["topic"], one["partitions"]))
    return {**result, "endpoint": endpoint}


@pytest.mark.oracle
def test_topologies_are_configured_as_in_kafka(oracle: Oracle) -> None:
    seeds = range(START, START + portion(3000))
    cases = [topology_case(Random(seed)) for seed in seeds]
    seen: Counter[str] = Counter()
    for seed, case, theirs in zip(seeds, cases, oracle.call_many(cases), strict=True):
        expected = kafkas(theirs)
        assert sorted_endpoint(configured(case)) == sorted_endpoint(expected), f"seed {seed}"
        seen[expected.get("thrown", {}).get("class", f"status {expected.get('status', {}).get('code')}")] += 1
    # Otherwise the test would compare too little.
    assert set(seen) == {
        "status None",
        "status 1",
        "status 2",
        "status 3",
        "StreamsInvalidTopologyException",
        "internal",
    }


def one_subtopology(**fields: Any) -> Json:
    return {
        "topology": {"epoch": 0, "subtopologies": [{"subtopologyId": "0", "sourceTopics": ["in"], **fields}]},
        "topics": [{"name": "in", "id": "s3EzeZ2eYDCUdBwL6zrHEw", "partitions": 3}],
        "assignedTasks": {"active": {}, "standby": {}, "warmup": {}},
    }


def test_a_changelog_has_as_many_partitions_as_the_largest_source() -> None:
    case = one_subtopology(stateChangelogTopics=[{"name": "c", "topicConfigs": [{"key": "k", "value": "v"}]}])
    result = configured(case)
    assert result["status"] == {"code": 3, "detail": "Internal topics are missing: c"}
    (topic,) = result["internalTopicsToBeCreated"]
    assert from_json(CreatableTopic, topic, 7).num_partitions == 3
    assert topic["replicationFactor"] == -1
    assert topic["configs"] == [{"name": "k", "value": "v"}]


def test_missing_source_topics_are_named() -> None:
    case = one_subtopology(sourceTopics=["e", "d", "c", "b", "in"])
    assert configured(case)["status"] == {
        "code": 1,
        "detail": "Source topics b, c, d and 1 additional topics are missing.",
    }


def test_two_subtopologies_with_one_id_are_an_error() -> None:
    case = one_subtopology()
    case["topology"]["subtopologies"] *= 2
    assert configured(case)["thrown"]["message"] == "Duplicate key 0"
