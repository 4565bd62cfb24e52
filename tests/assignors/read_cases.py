"""Converts a case of the oracle's `clientAssign` to the input of our assignors."""

from collections.abc import Mapping
from typing import Any

from quorate.assignors import Member, Topic, Topology
from tests.assignors.cases import Case, topic_partition


def read_case(case: Mapping[str, Any]) -> tuple[dict[str, Member], Topology]:
    """Convert a case as the oracle does."""
    members = {name: _member(consumer) for name, consumer in case["consumers"].items()}
    return members, _topology(case)


def _member(consumer: Case) -> Member:
    data = consumer.get("userData")
    return Member(
        topics=tuple(consumer["topics"]),
        rack=consumer.get("rackId"),
        instance_id=consumer.get("groupInstanceId"),
        owned=tuple(map(topic_partition, consumer.get("ownedPartitions") or ())),
        generation=consumer.get("generationId", -1),
        user_data=None if data is None else bytes.fromhex(data),
    )


def _topology(case: Mapping[str, Any]) -> Topology:
    # A broker's rack is the one listed first.
    rack_of: dict[int, str | None] = {broker["id"]: broker.get("rack") for broker in case.get("brokers", ())}
    found: dict[str, dict[int, tuple[str | None, ...]]] = {}
    for partition in case["partitions"]:
        if "replicas" in partition:
            listed = partition.get("racks") or [None] * len(partition["replicas"])
            racks = tuple(
                rack_of.setdefault(broker, rack) for broker, rack in zip(partition["replicas"], listed, strict=True)
            )
        else:
            racks = tuple(partition.get("racks", ())) or (None,)
        found.setdefault(partition["topic"], {})[partition["partition"]] = racks
    topics = []
    for name, partitions in found.items():
        numbers = sorted(partitions)
        topics.append(
            Topic(
                name=name,
                partitions=len(numbers),
                racks=tuple(partitions[number] for number in numbers),
                numbers=None if numbers == list(range(len(numbers))) else numbers,
            )
        )
    return Topology(topics)
