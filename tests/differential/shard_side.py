"""Runs the oracle's ops on quorate's shard (tests/oracle/README.md, "Ops on the shard").

Unlike the oracle, it takes generated ids from `ids` as long as there are some. A comparison passes
the ids that Kafka generated.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from quorate.assignors.plug_ins import as_assignor
from quorate.codecs import Uuid, decode_record, encode_record, from_json, to_kafka_json
from quorate.codecs.api import api_of
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.config import ConfigError, CoordinatorConfig, group_configs
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog, StoredMarker, StoredRecord
from quorate.coordinator.partition_runtime import PartitionRuntime, WriteEvent
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.state import ReplayError
from tests.coordinator.plug_in import PlugIn
from tests.differential.ops import BadInput, Json, need, unhex

START_MS = 1_700_000_000_000
SIZE_COUNTER_MS = 60_000

# Configs that Kafka's coordinator has and ours does not. As by the oracle, all others are rejected.
IGNORED = {"max.message.bytes", "offset.commit.timeout.ms", "group.coordinator.threads", "offsets.topic.num.partitions"}
JAVA_PLUG_INS = {"oracle.PlugIn": as_assignor(PlugIn())}
"""Class in `group.consumer.assignors` → the same assignor in Python."""
OWN = {"id", "op", "startMs", "decode", "hex", "verbose", "executor", "kafkaApis", "holdCommits", "configs", "denied"}


class ShardSide:
    """A shard with its log and its clock.

    `version`: the release of Kafka to follow, by default the newest; `newest`: its newest version
    of each API.
    """

    def __init__(self, version: str | None = None, newest: Mapping[str, int] | None = None) -> None:
        self.ids: deque[UUID] = deque()
        self._version = {} if version is None else {"kafka.version": version}
        self._newest = newest or {}
        self._config = CoordinatorConfig.from_properties(self._version)
        self._denied: Mapping[str, frozenset[str]] = {}
        self._start_ms = START_MS
        self._manual_tasks = False
        self._image = MetadataImage.EMPTY
        self._mark = 0
        self._events: list[WriteEvent] = []
        self._completed: list[Json] = []
        self._ops: dict[str, Callable[[Json], Json]] = {
            "config": self._configure,
            "new": self._new,
            "image": self._take_image,
            "request": self._request,
            "advance": self._advance,
            "cleanup": self._clean_up,
            "load": self._load,
            "reload": self._reload,
            "log": self._read_log,
            "timers": self._timers,
            "runTasks": self._run_tasks,
            "failNextAppend": self._fail_next_append,
            "endTxn": self._end_txn,
            "groupConfig": self._group_config,
        }
        self._open(self._start_ms, [])

    @property
    def ops(self) -> list[str]:
        """The names of the ops."""
        return list(self._ops)

    def run(self, operation: Json) -> Json:
        """Run an op, and return the response without `id` and `op`."""
        return self._ops[operation["op"]](operation)

    @property
    def shard(self) -> GroupCoordinatorShard:
        """The shard, for a look at its state."""
        return self.runtime.shard

    # Life cycle

    def _configure(self, operation: Json) -> Json:
        given = {
            **{name: value for name, value in operation.items() if name not in OWN},
            **operation.get("configs", {}),
        }
        try:
            config = CoordinatorConfig.from_properties(
                {**self._version, **{k: v for k, v in given.items() if k not in IGNORED}}, JAVA_PLUG_INS
            )
        except ConfigError as error:
            raise BadInput(str(error)) from None
        if operation.get("holdCommits"):
            raise BadInput("quorate responds when a record is written, so commits cannot be held")
        self._config = config
        self._denied = {name: frozenset(topics) for name, topics in operation.get("denied", {}).items()}
        self._start_ms = operation.get("startMs", START_MS)
        self._manual_tasks = operation.get("executor", "auto") == "manual"
        self._image = MetadataImage.EMPTY
        self._open(self._start_ms, [])
        return self._finish()

    def _new(self, operation: Json) -> Json:
        if not operation.get("keepImage", False):
            self._image = MetadataImage.EMPTY
        self._start_ms = operation.get("startMs", self._start_ms)
        self._open(self._start_ms, [])
        return self._finish()

    def _open(self, now_ms: int, stored: list[StoredRecord | StoredMarker]) -> None:
        authorizer = self._may_describe if self._denied else None
        shard = GroupCoordinatorShard(
            self._config,
            image=self._image,
            new_id=self._new_id,
            may_describe=authorizer,
            on_fault=lambda text: None,  # plug-ins fail on purpose
        )
        self.log = MemoryLog(stored)
        self._events = []
        self._completed = []
        self.runtime = PartitionRuntime(
            shard, self.log, now_ms=now_ms, on_event=self._events.append, run_tasks_at_once=not self._manual_tasks
        )
        self.runtime.load()
        # Kafka's shard counts groups for its metrics every minute. This timer does nothing, so that
        # timers can be compared.
        shard.timers.schedule("group-size-counter", now_ms + SIZE_COUNTER_MS, self._count_sizes)
        self._events.clear()
        self._mark = len(stored)

    def _count_sizes(self, now_ms: int) -> Result[None]:
        self.shard.timers.schedule("group-size-counter", now_ms + SIZE_COUNTER_MS, self._count_sizes)
        return Result()

    def _may_describe(self, context: RequestContext, topics: frozenset[str]) -> frozenset[str]:
        return topics - self._denied.get(context.principal, frozenset())

    def _new_id(self) -> UUID:
        return self.ids.popleft() if self.ids else uuid4()

    def _load(self, operation: Json) -> Json:
        stored: list[StoredRecord | StoredMarker] = []
        for offset, one in enumerate(need(operation, "records")):
            producer = {"producer_id": one.get("producerId", -1), "producer_epoch": one.get("producerEpoch", -1)}
            if "control" in one:
                stored.append(
                    StoredMarker(offset=offset, timestamp_ms=0, commit=one["control"] == "COMMIT", **producer)
                )
            else:
                record = decode_record(unhex(one["key"]), unhex(one["value"]))
                stored.append(StoredRecord(offset=offset, timestamp_ms=0, record=record, **producer))
        return self._loaded(operation, stored)

    def _reload(self, operation: Json) -> Json:
        return self._loaded(operation, list(self.log.stored))

    def _loaded(self, operation: Json, stored: list[StoredRecord | StoredMarker]) -> Json:
        now_ms = operation.get("nowMs", self.runtime.now_ms)
        try:
            self._open(now_ms, stored)
        except ReplayError as error:  # a broker then does not coordinate this partition
            self._open(now_ms, [])
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            return {
                "state": "FAILED",
                "error": {"code": int(code), "name": code.name, "message": str(error)},
                **self._finish(),
            }
        return {"state": "ACTIVE", **self._finish()}

    # Metadata, requests and time

    def _take_image(self, operation: Json) -> Json:
        image = self._image
        if "brokers" in operation:
            image = image.with_brokers({broker["id"]: broker.get("rack") for broker in operation["brokers"]})
        if "topics" in operation:
            image = image.with_topics(
                TopicImage(name=topic["name"], id=Uuid.parse(topic["id"]), replicas=_replicas(topic["partitions"]))
                for topic in operation["topics"]
            )
        image = replace(image, version=self._image.version + 1)  # the oracle has one version for both
        before, self._image = self._image, image
        delta = self.runtime.take_image(image)
        reply: Json = {}
        if delta.changed or delta.deleted:
            reply = {"changedTopics": sorted(delta.changed), "deletedTopics": len(delta.deleted)}
        reply["brokersChanged"] = "brokers" in operation and dict(before.brokers) != dict(image.brokers)
        return {"delta": reply, **self._finish()}

    def _request(self, operation: Json) -> Json:
        api = api_of(str(need(operation, "api")))
        version = operation.get("version", self._newest.get(api.name, api.versions[-1]))
        if version not in api.versions:
            raise BadInput(f"{api.name} has no version {version}")
        request = from_json(api.request.cls, operation.get("body", {}), version)
        if type(request) not in GroupCoordinatorShard.handlers:
            raise BadInput(f"{api.name} has no handler yet")
        context = RequestContext(
            api_version=version,
            now_ms=self.runtime.now_ms,
            client_id=operation.get("clientId", "client"),
            client_host=operation.get("clientHost", "/127.0.0.1"),
            principal=operation.get("principal", "User:ANONYMOUS"),
        )
        reply: Json = {"api": api.name, "version": version}
        done: list[Json] = []

        def respond(response: Any) -> None:
            reported = to_kafka_json(response, version)
            done.append({"response": reported, **_error(reported)})
            if waiting:
                self._completed.append({"id": operation.get("id"), "api": api.name, **done[0]})

        waiting = False
        self.runtime.request(request, context).on_complete(respond)
        if done:
            reply |= done[0]
        else:
            waiting = True
            reply |= {"response": None, "pending": True}
        return reply | self._finish()

    def _advance(self, operation: Json) -> Json:
        fired = self.runtime.advance(self.runtime.now_ms + need(operation, "ms"))
        return {**self._finish(), "fired": fired}

    def _clean_up(self, operation: Json) -> Json:
        self.runtime.clean_up()
        return self._finish()

    def _run_tasks(self, operation: Json) -> Json:
        return {"ran": self.runtime.run_tasks(operation.get("max")), **self._finish()}

    def _fail_next_append(self, operation: Json) -> Json:
        self.log.fail_next = ErrorCode[need(operation, "error")]
        return self._finish()

    def _end_txn(self, operation: Json) -> Json:
        self.runtime.end_transaction(
            need(operation, "producerId"),
            need(operation, "producerEpoch"),
            commit=need(operation, "result") == "COMMIT",
        )
        return self._finish()

    def _group_config(self, operation: Json) -> Json:
        group = need(operation, "group")
        try:
            self.shard.group_configs[group] = group_configs(need(operation, "configs"))
        except ConfigError as error:
            raise BadInput(str(error)) from None
        return self._finish()

    # State and output

    def _timers(self, operation: Json) -> Json:
        timers = [{"atMs": timer.at_ms, "key": timer.key} for timer in self.shard.timers.pending()]
        return {"timers": timers, "tasks": len(self.shard.tasks), "now": self.runtime.now_ms}

    def _read_log(self, operation: Json) -> Json:
        if not operation.get("compact", False):
            return {"records": [_stored(one) for one in self.log.stored]}
        last: dict[str, StoredRecord] = {}
        for one in self.log.stored:
            if isinstance(one, StoredRecord):
                last[_stored(one)["key"]] = one
        kept = sorted(last.values(), key=lambda one: one.offset)
        return {"records": [reported for reported in map(_stored, kept) if reported["value"] is not None]}

    def _finish(self) -> Json:
        """Return everything that happened since the last response."""
        records = [_stored(one) for one in self.log.stored[self._mark :]]
        self._mark = len(self.log.stored)
        events, self._events[:] = list(self._events), []
        completed, self._completed = self._completed, []
        return {
            "now": self.runtime.now_ms,
            "records": records,
            "events": [{"n": event.records, "atMs": event.at_ms} for event in events if event.records],
            "completed": completed,
        }


def _stored(one: StoredRecord | StoredMarker) -> Json:
    if isinstance(one, StoredMarker):
        return {
            "control": "COMMIT" if one.commit else "ABORT",
            "producerId": one.producer_id,
            "producerEpoch": one.producer_epoch,
        }
    key, value = encode_record(one.record)
    reported: Json = {"key": None if key is None else key.hex(), "value": None if value is None else value.hex()}
    if one.producer_id >= 0:
        reported |= {"producerId": one.producer_id, "producerEpoch": one.producer_epoch}
    return reported


def _replicas(partitions: int | list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return ((),) * partitions if isinstance(partitions, int) else tuple(map(tuple, partitions))


def _error(response: Json) -> Json:
    code = response.get("errorCode", 0)
    return {"error": {"code": code, "name": ErrorCode(code).name}} if code else {}
