"""Random histories of share coordinators, and how our shard plays them."""

from random import Random
from typing import Any

from quorate.codecs import CoordinatorRecord, Uuid, decode_record, encode_record
from quorate.codecs.api import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from quorate.codecs.json_form import from_json, to_kafka_json
from quorate.codecs.message import SHARE_GROUP_STATE, Message
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog, StoredRecord
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.share_state.requests import OPERATIONS, parts, response
from quorate.coordinator.share_state.shard import ShareCoordinatorConfig, ShareCoordinatorShard
from tests.oracle.client import Json, Oracle

START_MS = 1_700_000_000_000
TOPICS = {f"t{n}": str(Uuid(bytes([n, 7 * n % 256, 3]) * 5 + bytes([n]))) for n in range(6)}
REQUESTS: dict[str, type[Message]] = {
    request.api.name: request
    for request in (
        DeleteShareGroupStateRequest,
        InitializeShareGroupStateRequest,
        ReadShareGroupStateRequest,
        ReadShareGroupStateSummaryRequest,
        WriteShareGroupStateRequest,
    )
}


class _Script:
    """`ends`: by share-partition, the state epoch, leader epoch and end of what was written."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.groups = rng.sample(["g", "h", "a:b", "größe"], rng.choice([1, 1, 2, 3]))
        self.topics = {name: rng.choice([1, 1, 2, 3, 12]) for name in rng.sample(sorted(TOPICS), rng.randint(1, 5))}
        self.ends: dict[tuple[str, str, int], list[int]] = {}
        self.steps: list[Json] = [self._image()]

    def _image(self) -> Json:
        topics = [{"name": name, "id": TOPICS[name], "partitions": count} for name, count in self.topics.items()]
        return {"op": "image", "topics": topics}

    def _place(self) -> tuple[str, str, int]:
        rng = self.rng
        if self.ends and rng.random() < 0.9:
            return rng.choice(list(self.ends))
        if not self.topics or rng.random() < 0.03:
            return rng.choice(self.groups), rng.choice(sorted(TOPICS)), rng.choice([0, 1, 99])
        name = rng.choice(list(self.topics))
        return rng.choice(self.groups), name, rng.randrange(self.topics[name])

    def _send(self, api: str, place: tuple[str, str, int], **partition: Any) -> None:
        group, topic, index = place
        if self.rng.random() < 0.01:
            index = -1
        data = {"topicId": TOPICS[topic], "partitions": [{"partition": index, **partition}]}
        self.steps.append({"op": "request", "api": api, "body": {"groupId": group, "topics": [data]}})

    def initialize(self) -> None:
        place = self._place()
        known = self.ends.get(place)
        epoch = 0 if known is None else known[0] + self.rng.choice([0, 1, 1, 2, -1])
        start = self.rng.choice([-1, -1, 0, 5, 100, 1 << 40])
        self._send("InitializeShareGroupState", place, stateEpoch=epoch, startOffset=start)
        if known is None or epoch >= known[0]:
            self.ends[place] = [epoch, known[1] if known else 0, max(start, 0)]

    def read(self) -> None:
        place = self._place()
        known = self.ends.setdefault(place, [0, 0, 0])
        epoch = known[1] + self.rng.choice([0, 0, 1, 3, -1])
        self._send("ReadShareGroupState", place, leaderEpoch=epoch)
        known[1] = max(known[1], epoch)

    def write(self) -> None:
        rng, place = self.rng, self._place()
        known = self.ends.setdefault(place, [0, 0, 0])
        leader, state = (one + rng.choice([0] * 12 + [1, -1]) for one in (known[1], known[0]))
        start = rng.choice([-1, known[2], known[2], known[2] + rng.randint(0, 9), known[2] - rng.randint(0, 20)])
        end = known[2] + rng.randint(0, 12)
        batches = []
        for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
            first = max(0, end - rng.randint(-10, 25))
            last = first + rng.choice([0, 0, 1, 2, 5, 20])
            if rng.random() < 0.01:
                last = first - rng.randint(1, 4)  # Kafka does not check it
            states, counts = [0, 2, 4], [1, 1, 2, 3, 5]
            batches.append(
                {
                    "firstOffset": first,
                    "lastOffset": last,
                    "deliveryState": rng.choice(states),
                    "deliveryCount": rng.choice(counts),
                }
            )
        self._send(
            "WriteShareGroupState",
            place,
            stateEpoch=state,
            leaderEpoch=leader,
            startOffset=start,
            deliveryCompleteCount=rng.choice([-1, 0, 1, 5, 30]),
            stateBatches=batches,
        )
        known[2] = max(known[2], start)
        known[0] = max(known[0], 0)

    def delete(self) -> None:
        place = self._place()
        self._send("DeleteShareGroupState", place)
        self.ends.pop(place, None)

    def summary(self) -> None:
        self._send("ReadShareGroupStateSummary", self._place(), leaderEpoch=self.rng.choice([-1, 0, 1]))

    def advance(self) -> None:
        self.steps.append({"op": "advance", "ms": self.rng.choice([1, 500, 1000, 60_000])})

    def cold(self) -> None:
        self.steps.append({"op": "snapshotCold"})

    def reload(self) -> None:
        if self.rng.random() < 0.6:
            self.steps.append({"op": "prune"})
        self.steps.append({"op": "reload"})

    def change_topics(self) -> None:
        rng = self.rng
        name = rng.choice(sorted(TOPICS))
        if name in self.topics and rng.random() < 0.6:
            del self.topics[name]
            self.ends = {place: known for place, known in self.ends.items() if place[1] != name}
        else:
            self.topics[name] = self.topics.get(name, 0) + rng.randint(1, 3)
        self.steps.append(self._image())


def share_state_script(rng: Random, steps: int) -> Json:
    """Return a random script: configs, the time at its start, and steps."""
    script = _Script(rng)
    actions = [
        (12, script.initialize),
        (12, script.read),
        (40, script.write),
        (3, script.delete),
        (4, script.summary),
        (8, script.advance),
        (5, script.cold),
        (3, script.reload),
        (2, script.change_topics),
    ]
    weights = [weight for weight, _ in actions]
    while len(script.steps) < steps:
        rng.choices([action for _, action in actions], weights)[0]()
    configs = {
        "share.coordinator.snapshot.update.records.per.snapshot": rng.choice([0, 1, 2, 3, 5, 500]),
        "share.coordinator.cold.partition.snapshot.interval.ms": rng.choice([1, 600, 1000, 300_000]),
    }
    return {"startMs": START_MS, "configs": configs, "steps": script.steps}


def difference(oracle: Oracle, script: Json, behaviour: Behaviour = Behaviour.NEWEST) -> str | None:
    """Return the first step in which Kafka's shard and ours differ, with what both do.

    `behaviour`: that of the oracle's release.
    """
    theirs = oracle.call("shareState", **script)["steps"]
    for step, expected, found in zip(script["steps"], theirs, played(script, behaviour), strict=True):
        if "error" in expected:
            expected["error"] = expected["error"]["name"]
        if found != expected:
            return f"{step}\nours   {found}\nKafka's {expected}"
    return None


def played(script: Json, behaviour: Behaviour = Behaviour.NEWEST) -> list[Json]:
    """Return what our shard does in each step, in the form of the oracle."""
    return list(map(_Player(script, behaviour).step, script["steps"]))


class _Player:
    def __init__(self, script: Json, behaviour: Behaviour) -> None:
        configs = {name.replace(".", "_"): value for name, value in script["configs"].items()}
        self.config = ShareCoordinatorConfig(is_strict=behaviour.strict_share_state, **configs)
        self.log = MemoryLog()
        self.shard = ShareCoordinatorShard(self.config)
        self.now_ms = script["startMs"]
        self.image = MetadataImage.EMPTY
        self.pruned = 0

    def step(self, step: Json) -> Json:
        runtime = PartitionRuntime(self.shard, self.log, now_ms=self.now_ms)
        before = len(self.log.stored)
        found: Json = {}
        match step["op"]:
            case "request":
                found = self._request(runtime, step["api"], step["body"])
            case "advance":
                self.now_ms += step["ms"]
            case "snapshotCold":
                runtime.clean_up()
                found["records"] = []
            case "prune":
                self.pruned = self.shard.redundant.last or self.pruned
            case "reload":
                self._reload()
            case "image":
                topics = [
                    TopicImage(name=one["name"], id=Uuid.parse(one["id"]), replicas=((),) * one["partitions"])
                    for one in step["topics"]
                ]
                self.image = self.image.with_topics(topics)
                runtime.take_image(self.image)
                found["records"] = []
        if "records" in found:
            found["records"] = [_hex(stored) for stored in self.log.stored[before:]]
        return {**found, "redundant": self.shard.redundant.last}

    def _reload(self) -> None:
        self.shard = ShareCoordinatorShard(self.config, image=self.image)
        for stored in self.log.stored[self.pruned :]:
            assert isinstance(stored, StoredRecord)
            self.shard.replay(_stored_again(stored.record), offset=stored.offset)

    def _request(self, runtime: PartitionRuntime[ShareCoordinatorShard], api: str, body: Json) -> Json:
        cls = REQUESTS[api]
        version = cls.api.versions[-1]
        request = from_json(cls, body, version)
        operation = OPERATIONS[cls]
        ((key, data),) = parts(request)
        try:
            result = runtime.run(api, lambda shard, now_ms: operation.run(shard, key, data, now_ms)).response
        except ApiError as error:
            if error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                return {"error": error.code.name}
            _, result = operation.failed(key, error.code, error.message)
        reply = response(request, [(key, result)])
        return {"records": [], "response": to_kafka_json(reply, version)}


def _hex(stored: Any) -> Json:
    key, value = encode_record(stored.record)
    return {"key": key.hex(), "value": None if value is None else value.hex()}


def _stored_again(record: CoordinatorRecord) -> Any:
    return decode_record(*encode_record(record), topic=SHARE_GROUP_STATE)
