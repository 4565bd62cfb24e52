"""Runs scripts on two coordinators, Kafka's own (the oracle) and ours, and compares them.

Our coordinator uses the ids that Kafka generated. Everything else must be equal.

    with Oracle() as oracle:
        duel = Duel(oracle)
        duel.op("config", **{"group.consumer.assignment.interval.ms": 0})
        reply = duel.request("ConsumerGroupHeartbeat", groupId="g", ...)  # Kafka's, compared

A difference raises `Differs`. Its text has a script that reproduces it with
`python -m tests.differential`.

Compared are records (bytes and order), responses, timers and times. Not compared are:

- the names of events;
- which of several errors of a regex is reported (test_patterns compares single ones);
- the order of members that leave a consumer group with one LeaveGroup: Kafka's coordinator keeps
  them in a HashSet of objects, whose hashes differ in every process;
- the order of tombstones of what expires while a write fails;
- the order of the active partitions at an endpoint of a streams group: Kafka collects them in a map
  whose order differs in every process.
"""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from itertools import groupby
from typing import Any
from uuid import UUID

from quorate.codecs import Uuid
from quorate.codecs.api import api_of
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.state import ConsumerGroup
from tests.coordinator.kafka_failures import known_failure
from tests.differential.compare import compare
from tests.differential.shard_side import ShardSide
from tests.oracle.client import Oracle

Json = dict[str, Any]

LATER_CONFIGS = {
    "group.consumer.assignment.interval.ms": KafkaVersion(4, 3),
    "group.consumer.regex.refresh.interval.ms": KafkaVersion(4, 1),
}
"""Configs that were added after Kafka 4.0, and since which release."""

_MEMBER_KEYS = ("0005", "0007", "0008")
"""First bytes of keys with a group and member id: metadata, target and current assignment."""

_OFFSET_KEYS = ("0000", "0001")

_SHORT = re.compile(r"[A-Za-z0-9_-]{22}")
_INVALID_REGEX = " is not a valid regular expression: "
_NEW_STATIC = re.compile(r"^Static member (\S+) with instance id")
"""A member that did not send an id, and whose instance id another one has."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Differs(AssertionError):
    """Kafka and quorate differ."""


class KnownFailure(Differs):
    """Kafka itself fails in a way that kafka_failures.py lists, or neither side could load the log.

    What follows cannot be compared.
    """


class Duel:
    """Runs a script line by line on both sides. Ours behaves like the oracle's release of Kafka.

    `lines`: the ops so far; `generated_ids`: the ids that Kafka generated for the latest one;
    `any_order`: ignore the order of tombstones where it is random in Kafka.
    """

    def __init__(self, oracle: Oracle, *, note: str = "", any_order: bool = True) -> None:
        self.oracle = oracle
        self.any_order = any_order
        reported = oracle.call("versions")
        self.release = KafkaVersion.parse(reported["kafka"])
        self.is_newest = self.release == KafkaVersion.NEWEST
        newest = {} if self.is_newest else {name: versions[-1] for name, versions in reported["apis"].items()}
        self.ours = ShardSide(None if self.is_newest else reported["kafka"], newest)
        self._last_versions = newest
        self.note = note
        self.lines: list[Json] = []
        self.generated_ids: list[str] = []
        self._known: set[str] = set()
        self._order_was_random = False
        self._not_loaded = False
        oracle.call("config")

    def last_version(self, api: str) -> int:
        """Return the last version of an API in the oracle's release."""
        return self._last_versions.get(api, api_of(api).versions[-1])

    @property
    def script(self) -> list[Json]:
        """The lines that reproduce the run."""
        return self.lines

    def op(self, op: str, **fields: Any) -> Json:
        """Run an op on both sides and return Kafka's response.

        Configs that an older release does not have are left out. Raises `Differs`.
        """
        if op == "config":
            later = {name for name, since in LATER_CONFIGS.items() if self.release < since}
            fields = {name: value for name, value in fields.items() if name not in later}
        if self._not_loaded and op not in ("load", "reload"):
            # Kafka's shard is gone, and ours is half loaded.
            raise KnownFailure(f"{self.note}\nline {len(self.lines)}: the log could not be loaded")
        operation = {"op": op, "id": len(self.lines) + 1, **fields}
        self.lines.append(operation)
        kafka = self.oracle.call_many([operation])[0]
        seen: Any = kafka.get("response")
        if operation.get("api") == "JoinGroup":
            # The member may receive its id only after the rebalance, or never. The key of its
            # session timer contains it.
            seen = [seen, self.oracle.call("timers")["timers"]]
        self.generated_ids = [
            text for text in dict.fromkeys(_UUID.findall(json.dumps(seen))) if text not in self._known
        ]
        self._known.update(self.generated_ids)
        self.ours.ids.extend(map(UUID, self.generated_ids))
        if operation.get("api") in ("ConsumerGroupHeartbeat", "JoinGroup") and not operation["body"].get("memberId"):
            # In consumer groups an id has Kafka's own form. It may be in timers only, as above.
            timers = [] if operation["api"] != "JoinGroup" else [one["key"] for one in seen[1]]
            reply = kafka.get("response") or {}
            texts = [
                reply.get("memberId") or "",
                *_NEW_STATIC.findall(reply.get("errorMessage") or ""),
                *(key.partition(f"-{operation['body'].get('groupId')}-")[2] for key in timers),
            ]
            ids = [text for text in texts if _SHORT.fullmatch(text)]
            made = [text for text in dict.fromkeys(ids) if text not in self._known][:1]
            self._known.update(made)
            self.generated_ids += made
            self.ours.ids += [UUID(bytes=bytes(Uuid.parse(text))) for text in made]
        random_order = self.any_order and self._order_is_random(operation)
        self._order_was_random |= random_order
        ours = {"id": operation["id"], "op": op, **self.ours.run(operation)}
        self.ours.ids.clear()
        comparable = _in_any_order if random_order else _comparable
        differences = compare(len(self.lines), comparable(ours), comparable(kafka))
        fails = known_failure(kafka) is not None
        # If our write fails as well, the responses are equal, but what follows is not.
        if differences or fails:
            script = "\n".join(json.dumps(line) for line in self.lines)
            where = "\n".join(
                f"  {difference.path}\n"
                f"    ours  {json.dumps(difference.ours)[:1500]}\n"
                f"    kafka {json.dumps(difference.kafka)[:1500]}"
                for difference in differences[:8]
            )
            kind = KnownFailure if fails else Differs
            raise kind(f"{self.note}\nline {len(self.lines)}: {json.dumps(operation)[:600]}\n{where}\n\n{script}")
        if op in ("load", "reload"):
            self._not_loaded = kafka["state"] == "FAILED"
        return kafka

    def _order_is_random(self, operation: Json) -> bool:
        if operation["op"] == "advance":
            # What a failed write reverts has another position in Kafka's maps.
            return self.ours.log.fail_next is not None
        if operation["op"] == "log":
            return self._order_was_random
        group = self.ours.shard.state.groups.get((operation.get("body") or {}).get("groupId") or "")
        return operation.get("api") == "LeaveGroup" and isinstance(group, ConsumerGroup)

    def request(self, api: str, version: int | None = None, *, client_id: str = "client", **body: Any) -> Json:
        """Send a request with this body to both sides."""
        chosen = {} if version is None else {"version": version}
        return self.op("request", api=api, clientId=client_id, body=body, **chosen)


def beat(duel: Duel, member: str, epoch: int, **more: Any) -> Json:
    """Send a heartbeat of a member of group "g"; return the response with the types of records."""
    reply = duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId=member, memberEpoch=epoch, **more)
    response: Json = reply["response"] | {"types": [record["key"][:4] for record in reply["records"]]}
    return response


def join(duel: Duel, member: str, **more: Any) -> Json:
    """Let a member join group "g" with topic "t"."""
    given = {"rebalanceTimeoutMs": 5000, "subscribedTopicNames": ["t"], "topicPartitions": [], **more}
    return beat(duel, member, 0, **given)


def _comparable(response: Json) -> Json:
    """Remove the names of events, why a regex is invalid, and what only one side can know."""
    has_sets = "partitionsByUserEndpoint" in (response.get("response") or ())
    reported = deepcopy(response) if has_sets else dict(response)
    if reported.get("op") in ("load", "reload"):
        reported.pop("events", None)  # Kafka counts what was read
        reported.pop("skipped", None)
    if "events" in reported:
        reported["events"] = [{"n": event["n"], "atMs": event["atMs"]} for event in reported["events"] if event["n"]]
    reply = reported.get("response") or {}
    if _INVALID_REGEX in (reply.get("errorMessage") or ""):
        reported["response"] = {**reply, "errorMessage": reply["errorMessage"].partition(_INVALID_REGEX)[0]}
    delta = reported.get("delta")
    for one in (reported.get("response") or {}).get("partitionsByUserEndpoint") or ():
        one["activePartitions"].sort(key=lambda each: (each["topic"], each["partitions"]))
    if isinstance(delta, dict) and "changedTopics" in delta:
        reported["delta"] = {**delta, "changedTopics": sorted(delta["changedTopics"])}
    return reported


def _in_any_order(response: Json) -> Json:
    """Sort runs of tombstones of offsets, and of members. Those of one member keep their order."""
    reported = _comparable(response)
    runs = [(order, list(run)) for order, run in groupby(reported.get("records", []), _order_of)]
    ordered = [sorted(run, key=order) if order else run for order, run in runs]
    return {**reported, "records": [one for run in ordered for one in run]}


def _order_of(record: Json) -> Callable[[Json], str] | None:
    """Return the sort key for tombstones of this kind, or `None` if their order matters."""
    key = record.get("key") or ""
    if record.get("value") is not None:
        return None
    return _member if key.startswith(_MEMBER_KEYS) else _offset if key.startswith(_OFFSET_KEYS) else None


def _member(record: Json) -> str:
    return str(record["key"][4:])


def _offset(record: Json) -> str:
    return str(record["key"])
