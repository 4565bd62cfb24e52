"""Random values of requests of streams groups (KIP-1071) for `pair_requests`.

Members report the tasks of their last response, so `StreamsMembers.observe` follows the responses.
All members of a group send the same topology, mostly.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from quorate.codecs import from_json
from quorate.codecs.api import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from quorate.codecs.api.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset
from quorate.codecs.message import Message
from quorate.codecs.releases import KafkaVersion
from tests.coordinator.streams_scripts import random_topology

if TYPE_CHECKING:
    from tests.cluster.helpers.pair_requests import Requests

STREAMS_GROUPS = ("streams-0", "streams-1")
STREAMS_WEIGHTS = {
    "StreamsGroupHeartbeat": 40,
    "StreamsGroupDescribe": 8,
    "OffsetCommit": 3,
    "OffsetFetch": 2,
    "OffsetDelete": 2,
    "DeleteGroups": 1,
    "ListGroups": 2,
    "CreateTopics": 1,
    "CreatePartitions": 2,
    "DeleteTopics": 1,
    "IncrementalAlterConfigs": 1,
    "DescribeConfigs": 2,
    "StreamsGroupTopologyDescriptionUpdate": 1,
    "JoinGroup": 1,
}
"""API → weight, in seeds about streams groups."""
KIND_OF_STREAMS = dict.fromkeys(
    ("StreamsGroupHeartbeat", "StreamsGroupDescribe", "StreamsGroupTopologyDescriptionUpdate"), "streams"
)
_INSTANCES = (*[None] * 12, "i", "i", "j", "")
_SOURCES = ("a", "b", "c", "e")
_ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")

Values = dict[str, Any]
Make = Callable[["Requests", Values], Any]
Tasks = Mapping[str, tuple[TaskIds, ...]]


class StreamsMembers:
    """What members know. `tasks`: (group, member) → role → tasks; `endpoint_epochs`: by the same.

    `instances`: (group, member) → the instance id with which it joined.
    """

    def __init__(self) -> None:
        self.tasks: dict[tuple[str, str], Tasks] = {}
        self.endpoint_epochs: dict[tuple[str, str], int] = {}
        self.instances: dict[tuple[str, str], str | None] = {}

    def observe(self, request: StreamsGroupHeartbeatRequest, response: StreamsGroupHeartbeatResponse) -> None:
        """Take the response to a heartbeat."""
        key = request.group_id, request.member_id
        if response.error_code:
            return
        self.endpoint_epochs[key] = response.endpoint_information_epoch
        if request.member_epoch == 0:
            self.instances[key] = request.instance_id
        if response.active_tasks is not None:
            self.tasks[key] = {role: getattr(response, role) or () for role in _ROLES}


def _pick(*values: Any) -> Make:
    return lambda gen, _: gen.random.choice(values)


def _key(values: Values) -> tuple[str, str]:
    return values["group_id"], values["member_id"]


def _if_joining(make: Make, share: float) -> Make:
    """Return a value in the first heartbeat, and in a share of the others."""
    return lambda gen, values: make(gen, values) if values["member_epoch"] == 0 or gen.random.random() < share else None


def _instance(gen: "Requests", values: Values) -> str | None:
    known: str | None = gen.random.choice(_INSTANCES)
    return known if values["member_epoch"] == 0 else gen.streams.instances.get(_key(values), known)


def _topology(gen: "Requests", values: Values) -> Message | None:
    if gen.core.broker_configs.kafka_version < KafkaVersion(4, 4):
        return None  # without one no member joins: older streams groups are not reproduced
    if values["member_epoch"] != 0 and gen.random.random() < 0.97:
        return None
    group, usual = values["group_id"], gen.random.random() < 0.9
    return _topology_of(gen.prefix, group, Random(group if usual else gen.random.random()), 0 if usual else 1)


def _topology_of(prefix: str, group: str, random: Random, epoch: int) -> Message | None:
    """Return a topology whose internal topics one broker can create."""
    sources = [prefix + name for name in (*_SOURCES, *(["d.1"] if random.random() < 0.1 else []))]
    made = random_topology(random, group, epoch, sources)
    for one in made["subtopologies"]:
        for topic in one["stateChangelogTopics"]:
            topic["topicConfigs"] = [{"key": "cleanup.policy", "value": "compact"}]
        for topic in (*one["stateChangelogTopics"], *one["repartitionSourceTopics"]):
            topic["replicationFactor"] = min(topic["replicationFactor"], 1)
    return from_json(StreamsGroupHeartbeatRequest, {"topology": made}, 1).topology


def _tasks(role: str) -> Make:
    def make(gen: "Requests", values: Values) -> tuple[TaskIds, ...] | None:
        if values["member_epoch"] == 0:
            return ()
        if role == _ROLES[0]:  # all three, or none
            gen.scratch["reports"] = gen.random.random() < 0.6
        if gen.random.random() < 0.02:
            return (TaskIds(subtopology_id=gen.random.choice(("0", "1", "10", "x")), partitions=(0,)),)
        known = gen.streams.tasks.get(_key(values), {})
        return known.get(role, ()) if gen.scratch.get("reports") else None

    return make


def _offsets(gen: "Requests", values: Values) -> tuple[TaskOffset, ...] | None:
    if gen.random.random() < 0.85:
        return None
    tasks = gen.streams.tasks.get(_key(values), {}).get(_ROLES[0], ())
    return tuple(
        TaskOffset(subtopology_id=one.subtopology_id, partition=index, offset=gen.random.choice((0, 7, 1 << 40)))
        for one in tasks
        for index in one.partitions
    )


_TAGS = ((), (KeyValue(key="zone", value="a"),), (KeyValue(key="zone", value="b"), KeyValue(key="rack", value="r1")))
_ENDPOINTS = (None, None, Endpoint(host="host-1", port=80), Endpoint(host="host-2", port=81))
_HEARTBEAT: Mapping[str, Make] = {
    "endpoint_information_epoch": lambda gen, values: (
        gen.streams.endpoint_epochs.get(_key(values), 0) if gen.random.random() < 0.8 else gen.random.choice((-1, 0, 5))
    ),
    "instance_id": _instance,
    "rack_id": _pick(*[None] * 16, "a", "a", "b", ""),
    "rebalance_timeout_ms": lambda gen, values: 60_000 if values["member_epoch"] == 0 else -1,
    "topology": _topology,
    **{role: _tasks(role) for role in _ROLES},
    "process_id": _if_joining(_pick("p", "q"), 0.02),
    "user_endpoint": _if_joining(_pick(*_ENDPOINTS), 0.1),
    "client_tags": _if_joining(_pick(*_TAGS), 0.1),
    "task_offsets": _offsets,
    "task_end_offsets": _offsets,
    "shutdown_application": lambda gen, _: gen.random.random() < 0.01,
}
SENSIBLE_STREAMS: Mapping[str, Make] = {
    f"StreamsGroupHeartbeatRequest.{name}": make for name, make in _HEARTBEAT.items()
}
"""As `SENSIBLE` of `pair_values`."""


def joins(prefix: str) -> list[tuple[Message, int]]:
    """Return requests after which streams groups have members, or lack topics."""
    return [
        (
            StreamsGroupHeartbeatRequest(
                group_id=prefix + group,
                member_id=member,
                rebalance_timeout_ms=60_000,
                topology=_topology_of(prefix, prefix + group, Random(prefix + group), 0),
                process_id=process,
                active_tasks=(),
                standby_tasks=(),
                warmup_tasks=(),
            ),
            0,
        )
        for group in STREAMS_GROUPS
        for member, process in (("m", "p"), ("n", "q"))
    ]
