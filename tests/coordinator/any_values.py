"""Values of request fields: existing and unknown ids, nearby epochs, boundaries, null.

A value depends on the field's name, or else on its type. Existing ids are read from our shard.
"""

import base64
from collections.abc import Sequence
from random import Random
from typing import Any

from quorate.codecs import Uuid
from quorate.codecs.message import FieldSpec, MessageSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.state import ConsumerGroup, StreamsGroup
from tests.coordinator.classic_scripts import NamedDuel
from tests.coordinator.mixed_scripts import assignment, subscription
from tests.coordinator.scripts import Json

GROUPS = ["g", "h", "my.group"]
TOPICS = ["t0", "t1", "foo", "orders.eu", "ä-topic"]
MEMBERS = ["m1", "m2", "m3", "AaAa", "BBBB"]
INSTANCES = ["i0", "i1"]
GONE_ID = "AAAAAAAAAAEAAAAAAAAAZQ"

INTS = {
    "int8": [0, 1, -1, 127, -128],
    "int16": [0, 1, -1, 32767, -32768],
    "int32": [0, 1, -1, -2, -3, 2, 7, 2**31 - 1, -(2**31)],
    "uint16": [0, 1, 80, 65535],
    "int64": [0, 1, -1, -2, 7, 2**31, 2**63 - 1, -(2**63)],
}
TEXTS = ["", " ", "a", "ünï-ß", "🚀", "x" * 300]


class AnyValues:
    """Generates values.

    `topics`: name → id, as in the latest image; `deleted_topic_ids`: ids of deleted topics;
    `seen_members`: ids that were sent.
    """

    def __init__(self, rng: Random, duel: NamedDuel, groups: Sequence[str]) -> None:
        self.rng = rng
        self.duel = duel
        self.groups = groups
        self.topics: dict[str, str] = {}
        self.deleted_topic_ids: list[str] = [GONE_ID]
        self.seen_members: list[str] = []

    @property
    def state(self) -> Any:
        """The existing groups."""
        return self.duel.ours.shard.state.groups

    def names(self, least: int = 0) -> list[str]:
        """Return names of topics."""
        return self.rng.sample(TOPICS, max(least, self.rng.choice([0, 1, 1, 2, 3])))

    def value(self, one: FieldSpec, version: int) -> Any:
        """Return any value of a field."""
        if one.nullable_in(version) and self.rng.random() < 0.25:
            return None
        return self._of_type(one.type, one.json_name, version)

    def _of_type(self, kind: Any, name: str, version: int) -> Any:
        rng = self.rng
        match kind:
            case ArrayType():
                return [self._of_type(kind.element, name, version) for _ in range(rng.choice([0, 0, 1, 2]))]
            case StructType():
                fields = [field for field in kind.spec.fields if version in field.versions]
                return {field.json_name: self.value(field, version) for field in fields if rng.random() < 0.8}
            case UuidType():
                ids = [*self.topics.values(), *self.deleted_topic_ids, str(Uuid.ZERO)]
                return rng.choice(ids)
            case BytesType() if name == "metadata":
                return rng.choice(self._subscriptions())
            case BytesType():
                drawn = [b"", b"\0\0", b"\xff\xfa\0\0", rng.randbytes(9)]
                some = [base64.b64encode(one).decode() for one in drawn]
                owned = {topic: [0, 1] for topic in rng.sample(TOPICS, 2)}
                some += [subscription(*self.names(), owned=owned, rack="a"), assignment(owned)]
                return rng.choice(some)
            case StringType():
                return rng.choice(self._texts(name))
            case FixedType() if kind.name == "bool":
                return rng.random() < 0.5
            case FixedType():
                return self._number(kind, name)
        raise TypeError(kind)

    def _subscriptions(self) -> list[str]:
        """Return subscriptions that Kafka can decode, or that it rejects as too short.

        Kafka never responds to one with inconsistent lengths (test_known_differences.py).
        """
        rng = self.rng
        owned = {topic: [0, 1] for topic in rng.sample(TOPICS, 2)}
        whole = subscription(*self.names(), owned=owned, rack=rng.choice(["a", ""]), version=rng.choice([0, 1, 2, 3]))
        data = base64.b64decode(whole)
        other_version = rng.choice([b"\xff\xfa", b"\x80\0", b"\0\4", b"\x7f\xff", b"\0\0"]) + data[2:]
        drawn = [data, data, other_version, data + rng.randbytes(5), b"", b"\0", data[:2], data[:5]]
        return [base64.b64encode(one).decode() for one in drawn]

    def _texts(self, name: str) -> Sequence[str]:
        match name:
            case "groupId" | "groups" | "groupsNames" | "groupIds":
                return [*self.groups, *self.groups, "share", "streams", "nothing", ""]
            case "memberId":
                return [*MEMBERS, *self.seen_members[-4:], "chosen-1", "nobody", "", " "]
            case "instanceId" | "groupInstanceId":
                return [*INSTANCES, *INSTANCES, "i9", ""]
            case "subtopologyId":
                return ["0", "1", "0", "10"]
            case "sourceTopics" | "repartitionSinkTopics":
                return TOPICS
            case "name" | "subscribedTopicNames":
                return [*TOPICS, "unknown", "", "range"]
            case "subscribedTopicRegex":
                return ["t.*", ".*", "", "[", "(?i)FOO", "nothing"]
            case "serverAssignor":
                return ["uniform", "range", "nope", ""]
            case "rackId":
                return ["a", "b", "", "zz"]
            case "protocolType":
                return ["consumer", "connect", "", "share"]
            case "protocolName":
                return ["range", "roundrobin", ""]
            case "statesFilter":
                return ["Empty", "stable", "DEAD", "", "Assigning", "nope"]
            case "typesFilter":
                return ["classic", "CONSUMER", "Share", "", "nope"]
        return TEXTS

    def _number(self, kind: FixedType, name: str) -> int:
        rng = self.rng
        if "poch" in name or name.startswith("generationId"):
            epochs = [one.epoch for one in self.state.values() if isinstance(one, ConsumerGroup | StreamsGroup)]
            epochs += [one.generation for one in self.state.values() if isinstance(one, LiveGroup)]
            return (
                rng.choice([rng.choice(epochs or [0]) + rng.choice([-1, 0, 1]), rng.choice(INTS[kind.name])])
                if kind.name != "int16"
                else rng.choice([0, 1])
            )
        if name == "producerId":
            return rng.choice([1, 2, 3])
        if name == "rebalanceTimeoutMs":
            return rng.choice([-1, 0, 1, 1000, 45_000, 2**31 - 1])
        if name == "sessionTimeoutMs":
            return rng.choice([0, -1, 5999, 6000, 1_800_000, 1_800_001, 45_000])
        if name in ("partitionIndex", "partitions", "partitionIndexes"):
            return rng.choice([0, 1, 2, 3, 4, 1000, 2**31 - 1, -1])
        if name == "retentionTimeMs":
            return rng.choice([-1, 0, 1000, 10**7, -5])
        if name == "committedOffset":
            return rng.choice([0, 5, -1, 2**63 - 1, -(2**63)])
        return rng.choice(INTS[kind.name])


def in_version(spec: MessageSpec, body: Json, version: int) -> Json:
    """Return the body without fields that `version` does not have."""
    out: Json = {}
    for field in spec.fields:
        if field.json_name not in body or version not in field.versions:
            continue
        value = body[field.json_name]
        if value is None and not field.nullable_in(version):
            continue
        if isinstance(field.type, ArrayType) and isinstance(field.type.element, StructType) and value is not None:
            value = [in_version(field.type.element.spec, part, version) for part in value]
        out[field.json_name] = value
    return out
