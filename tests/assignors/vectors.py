"""Assignments recorded from Kafka's own classes, which need no Java; see tests/data/README.md."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.assignors.cases import Case, set_owned

FILE = Path(__file__).resolve().parents[1] / "data" / "assignor_vectors.jsonl"
CLIENT = ("range", "roundrobin", "sticky", "cooperative-sticky")

Vector = Mapping[str, Any]


def client_vectors(assignor: str) -> list[Vector]:
    """Return the vectors of one client-side assignor."""
    return [vector for vector in _vectors() if vector["assignor"] == assignor and "homogeneous" not in vector]


def server_vectors(assignor: str) -> list[Vector]:
    """Return the vectors of one server-side assignor."""
    return [vector for vector in _vectors() if vector["assignor"] == assignor and "homogeneous" in vector]


def vector_case(vector: Vector) -> Case:
    """Return a client-side vector as a line of `clientAssign`."""
    consumers: dict[str, Case] = {}
    for member in vector["members"]:
        consumer: Case = {"topics": member["topics"]}
        if "rack" in member:
            consumer["rackId"] = member["rack"]
        if "instance" in member:
            consumer["groupInstanceId"] = member["instance"]
        if "owned" in member:
            set_owned(consumer, vector["assignor"], member["owned"], member["gen"])
        consumers[member["id"]] = consumer
    return {
        "op": "clientAssign",
        "assignor": vector["assignor"],
        "partitions": [
            {"topic": topic, "partition": number, "racks": racks}
            for topic, partitions in vector["topics"].items()
            for number, racks in enumerate(partitions)
        ],
        "consumers": consumers,
    }


def server_vector_case(vector: Vector) -> Case:
    """Return a server-side vector as a line of `serverAssign`."""
    members: dict[str, Case] = {}
    for member in vector["members"]:
        fields = {"instanceId": member.get("instance"), "target": member.get("target")}
        members[member["id"]] = {"topics": member["topics"]} | {
            field: value for field, value in fields.items() if value is not None
        }
    return {
        "op": "serverAssign",
        "assignor": vector["assignor"],
        "topics": [{"name": name, "id": one, "partitions": count} for name, (one, count) in vector["topics"].items()],
        "members": members,
    }


def _vectors() -> list[Vector]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
