"""Random requests for `Pair`: most fit the cluster's state, some have one or two random fields.

Messages are generated field by field. `SENSIBLE` has generators of realistic values by field name,
which use the embedded cluster's state and earlier responses. A wild field has any value of its
type, preferably an extreme one. Requests that would disturb the comparison are left out: long
waits, and configs of brokers.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import google_crc32c

from quorate.cluster.core import ClusterCore
from quorate.codecs import Uuid
from quorate.codecs.api import SyncGroupRequest, api_of
from quorate.codecs.api.broker import APIS
from quorate.codecs.api.declare import Api
from quorate.codecs.api.sync_group import SyncGroupRequestAssignment
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.batches.v2 import (
    COMPRESSION_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
)
from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType
from tests.cluster.helpers.pair import encodable
from tests.cluster.helpers.pair_group_values import Instances
from tests.cluster.helpers.pair_share_values import ShareMembers, is_of_shares
from tests.cluster.helpers.pair_streams_values import StreamsMembers
from tests.cluster.helpers.pair_themes import Theme, theme_of
from tests.cluster.helpers.pair_values import (
    BAD_TOPICS,
    EMPTY_ASSIGNMENT,
    EMPTY_SUBSCRIPTION,
    FETCH_WITH_EPOCHS,
    GROUPS,
    INTERNAL,
    NAME_INTERNAL,
    SENSIBLE,
    TOPICS,
    topic_name,
)

LEFT_OUT = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""A failed handshake makes the connection unusable; other tests cover these APIs."""

_LEADER_EPOCH, _CRC, _ATTRIBUTES, _MAX_TIMESTAMP, _PRODUCER_EPOCH, _SEQUENCE, _COUNT = 2, 4, 5, 8, 10, 11, 12
"""Positions in `HEADER`."""

KEYS = frozenset({"name", "topic", "topic_id", "partition", "partition_index", "index", "group_id", "resource_name"})
TWICE = frozenset({"CreateTopics", "DeleteTopics", "CreatePartitions"})
"""APIs with a defined behaviour for duplicates. For others, Kafka's result depends on its maps, and
no client sends duplicates.
"""
_NEVER_WILD = frozenset(
    {
        "max_wait_ms",
        "timeout_ms",
        "transaction_timeout_ms",
        "response_partition_limit",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "isolation_level",
        "session_id",
        "replica_id",
        "records",
        "resource_type",
        "configs",
        "AddPartitionsToTxnTopic.partitions",
        "UpdateFeaturesRequest.validate_only",
        "FetchTopic.topic_id",
        "ForgottenTopic.topic_id",
        "OpData.value",
    }
)
"""Values that are not sent. Long waits compare nothing, nor do transactions with a tiny timeout,
which brokers check every ten seconds. Brokers do not fetch from embedded ones. For an unknown
isolation level, Kafka's result depends on the order of its checks. Kafka never responds to a
produce request without records. Whether it fails on a topic without id and name depends on what
follows.
"""


def _sync(request: Any, response: Any) -> SyncGroupRequest:
    """Return the next request of a member that has joined."""
    assignment = SyncGroupRequestAssignment(member_id=response.member_id, assignment=EMPTY_ASSIGNMENT)
    return SyncGroupRequest(
        group_id=request.group_id,
        generation_id=response.generation_id,
        member_id=response.member_id,
        group_instance_id=request.group_instance_id,
        assignments=(assignment,) if response.leader == response.member_id else (),
    )


class Requests:
    """The requests of a seed.

    `theme`: a random one by default. `prefix`: that of names of topics, groups and producers, so
    that seeds are independent.
    `versions`: API key → versions that both brokers support.
    """

    def __init__(
        self,
        random: Random,
        core: ClusterCore,
        versions: Mapping[int, range],
        *,
        prefix: str = "",
        theme: Theme | None = None,
    ) -> None:
        self.random = random
        self.core = core
        self.versions = versions
        self.prefix = prefix
        self.apis = [APIS[key] for key in sorted(versions) if key in APIS and APIS[key].name not in LEFT_OUT]
        self.theme = theme_of(random) if theme is None else theme
        self.weights = [self.theme.weights.get(api.name, self.theme.others) for api in self.apis]
        self._first = self.theme.prelude(prefix)
        self.wildness = 0.0
        self.version = 0
        self.api: Api = self.apis[0]
        self.producers: list[tuple[int, int]] = []
        self.sequences: dict[tuple[int, int, str, int], list[tuple[int, int]]] = {}
        self.members: dict[str, list[tuple[str, int]]] = {}
        self.owned: dict[tuple[str, str], tuple[Message, ...]] = {}
        self.sessions: list[tuple[int, int, bool]] = []
        self.shares = ShareMembers()
        self.streams = StreamsMembers()
        self.instances = Instances()
        self.transactional_id: str | None = None
        self.scratch: dict[str, Any] = {}
        self._waiting: list[tuple[tuple[int, int, str, int], tuple[int, int]]] = []

    def next(self) -> tuple[Message, int]:
        """Return a request and its version."""
        while self._first:
            request, self.version = self._first.pop(0)
            self.api = api_of(type(request))
            if self.version in self.versions.get(self.api.key, ()):
                return request, self.version
        while True:
            (self.api,) = self.random.choices(self.apis, self.weights)
            self.wildness = self.random.choice((0, 0, 0, 0, 0, 0.1) if self.theme.sober else (0, 0, 0, 0.1, 0.3))
            self.version = self.random.choice(self.versions[self.api.key])
            self._waiting.clear()
            self.scratch.clear()
            self.transactional_id = None
            request = self._message(self.api.request)
            if self.api.name == "OffsetFetch" and self.version >= 8 and not request.groups:  # type: ignore[attr-defined]
                continue  # brokers before 4.1 never respond to this
            if self.api.name == "AddPartitionsToTxn" and self.version >= 4 and not request.transactions:  # type: ignore[attr-defined]
                continue  # brokers never respond to this
            if self.version in encodable(request, (self.version,)):
                return request, self.version

    def observe(self, request: Any, response: Any) -> None:
        """Update the state from the embedded cluster's response."""
        name = type(request).__name__
        self.instances.observe(request, response)
        if name == "InitProducerIdRequest" and response.error_code == 0 and request.transactional_id is None:
            self.producers.append((response.producer_id, response.producer_epoch))
        elif is_of_shares(request):
            self.shares.observe(request, response)
        elif name == "ProduceRequest":
            done = (
                {
                    (one.name or topic_name(self.core, one.topic_id), part.index)
                    for one in response.responses
                    for part in one.partition_responses
                    if part.error_code == 0
                }
                if response is not None
                else set()
            )
            for key, batch in self._waiting:
                if key[2:] in done:
                    self.sequences.setdefault(key, []).append(batch)
        elif name == "FetchRequest" and response.error_code == 0 and response.session_id:
            has_epochs = self.version >= FETCH_WITH_EPOCHS
            self.sessions.append((response.session_id, max(request.session_epoch, 0) + 1, has_epochs))
        elif name == "JoinGroupRequest" and response.member_id:
            known = self.members.setdefault(request.group_id, [])
            known[:] = [one for one in known if one[0] != response.member_id]
            known.append((response.member_id, response.generation_id))
            if response.error_code == 0 and self.theme.sober and self.random.random() < 0.9:
                self._first.append((_sync(request, response), 3))  # before its rebalance timeout
        elif name.endswith("GroupHeartbeatRequest") and response.error_code == 0:
            known = self.members.setdefault(request.group_id, [])
            known[:] = [one for one in known if one[0] != response.member_id]
            if response.member_epoch > 0:
                known.append((response.member_id, response.member_epoch))
                if name == "StreamsGroupHeartbeatRequest":
                    self.streams.observe(request, response)
                elif response.assignment is not None:
                    self.owned[request.group_id, response.member_id] = response.assignment.topic_partitions

    # ---- messages

    def _message(self, spec: MessageSpec) -> Message:
        values: dict[str, Any] = {}
        for field in spec.fields:
            if self.version not in field.versions:
                continue
            make = SENSIBLE.get(f"{spec.name}.{field.name}") or SENSIBLE.get(field.name)
            if not _NEVER_WILD & {field.name, f"{spec.name}.{field.name}"} and self.random.random() < self.wildness / 2:
                values[field.name] = self._wild(field)
            elif make is not None:
                values[field.name] = make(self, values)
            elif isinstance(field.type, ArrayType):
                values[field.name] = self.array(field)
            elif isinstance(field.type, StructType):
                values[field.name] = field.default if field.nullable else self._message(field.type.spec)
            elif isinstance(field.type, FixedType) and field.type.code == "?":
                values[field.name] = self.random.random() < 0.5
            else:
                values[field.name] = field.default
            if values[field.name] is None and not field.nullable_in(self.version):
                values[field.name] = field.default if field.default is not None else ""
        return spec.cls(**values)

    def array(self, spec: FieldSpec) -> tuple[Any, ...] | None:
        assert isinstance(spec.type, ArrayType)
        if spec.nullable_in(self.version) and self.random.random() < 0.2:
            return None
        count = self.random.choice((1, 1, 1, 1, 2, 2, 3, 0))
        element = spec.type.element
        if isinstance(element, StructType):
            made = [self._message(element.spec) for _ in range(count)]
            keys = [field.name for field in element.spec.fields if field.map_key or field.name in KEYS]
            if keys and not (self.api.name in TWICE and self.random.random() < 0.1):
                made = list({tuple(getattr(one, key) for key in keys): one for one in made}.values())
            return tuple(made)
        return tuple(self._scalar(element) for _ in range(count))

    def _wild(self, spec: FieldSpec) -> Any:
        if spec.nullable_in(self.version) and self.random.random() < 0.3:
            return None
        if isinstance(spec.type, ArrayType):
            if self.random.random() < 0.3:
                return ()
            return self.array(spec)
        if isinstance(spec.type, StructType):
            return self._message(spec.type.spec)
        return self._scalar(spec.type)

    def _scalar(self, kind: Any) -> Any:
        pick = self.random.choice
        match kind:
            case FixedType(code="?"):
                return pick((True, False))
            case FixedType():
                low, high = kind.bounds
                return pick((0, 1, -1, 2, 3, 7, 100, high, low))
            case StringType():
                return pick(("", "x", self.topic(), self.any_group(), "é", "1"))
            case UuidType():
                return pick((Uuid.ZERO, Uuid(UUID(int=self.random.getrandbits(128)).bytes)))
            case BytesType("records"):
                return pick((b"", b"\0" * 70))
            case BytesType():
                return pick((b"", b"\0\1", EMPTY_SUBSCRIPTION))
        raise AssertionError(kind)

    # ---- the cluster's state

    def named(self, *names: str) -> str:
        return self.prefix + self.random.choice(names)

    def topic(self) -> str:
        """Return a topic that mostly exists."""
        there = [name for name in self.core.topics if name.startswith(self.prefix) and not name.startswith("__")]
        if there and self.random.random() < 0.9:
            return self.random.choice(there)
        if self.random.random() < 0.6:
            return self.named(*TOPICS)
        return self.random.choice(BAD_TOPICS + INTERNAL if self.api.name in NAME_INTERNAL else BAD_TOPICS)

    def topic_id(self, of: str | None) -> Uuid:
        """Return the id of a topic by name, or of any topic."""
        found = self.core.topics.get(of or self.topic())
        return found.id if found is not None else Uuid(UUID(int=self.random.getrandbits(128)).bytes)

    def partition(self) -> int:
        if self.theme.sober and self.random.random() < 0.9:
            return self.random.choice((0, 0, 1))
        return self.random.choice((0, 0, 0, 0, 1, 1, 2, 3)) if self.random.random() < 0.95 else -1

    def group(self, kind: str) -> str:
        if self.theme.groups and self.random.random() < 0.95:
            return self.named(*self.theme.groups)
        if self.random.random() < 0.9:
            return self.named(*GROUPS[kind])
        return self.any_group()

    def any_group(self) -> str:
        if self.theme.groups and self.random.random() < 0.95:
            return self.named(*self.theme.groups)
        kind = self.random.choice(list(GROUPS))
        return self.named(*GROUPS[kind]) if self.random.random() < 0.9 else self.random.choice(("", "nobody"))

    def member(self, group: str) -> tuple[str, int]:
        """Return a member of a group, mostly an existing one, and the generation or epoch."""
        known = self.members.get(group)
        if known and self.random.random() < 0.85:
            return self.random.choice(known)
        return self.random.choice((("", -1), ("", 0), ("stranger", 1), ("stranger", 0)))

    def transaction(self, transactional_id: str | None) -> tuple[int, int]:
        """Return producer id and epoch of a transactional id."""
        found = self.core.transactions.by_id.get(transactional_id or "")
        if found is not None and self.random.random() < 0.93:
            return found.producer_id, found.epoch - (self.random.random() < 0.05)
        return self.random.choice(((10**12, 0), (-1, -1), (10**12, 5)))

    def end_of(self, topic: str | None, topic_id: Uuid | None, partition: int) -> int:
        found = self.core.state.partition(topic or topic_name(self.core, topic_id), partition)
        return found.log.next_offset if found is not None else 0

    # ---- batches

    def _other_header(self, data: bytes) -> bytes:
        """Change the header of a batch, and correct the CRC."""
        fields = list(HEADER.unpack_from(data))
        pick = self.random.choice
        place, value = pick(
            (
                (_ATTRIBUTES, fields[_ATTRIBUTES] | LOG_APPEND_TIME),
                (_ATTRIBUTES, fields[_ATTRIBUTES] | COMPRESSION_MASK),
                (_ATTRIBUTES, fields[_ATTRIBUTES] | 0x80),
                (_LEADER_EPOCH, pick((0, 5))),
                (_MAX_TIMESTAMP, fields[_MAX_TIMESTAMP] + pick((-1000, 1000, 10**10))),
                (_PRODUCER_EPOCH, pick((-1, 3))),
                (_SEQUENCE, pick((-1, 5, 0x7FFFFFFF))),
                (_COUNT, pick((0, -1, fields[_COUNT] + 1))),
            )
        )
        fields[place] = value
        changed = HEADER.pack(*fields) + data[HEADER_BYTES:]
        fields[_CRC] = google_crc32c.value(changed[CRC_START:])
        return HEADER.pack(*fields) + data[HEADER_BYTES:]

    def batch(self, topic: str, partition: int, transactional_id: str | None) -> bytes | None:
        pick, random = self.random.choice, self.random
        now_ms = int(time.time() * 1000)
        count = pick((1, 1, 2, 5))
        at_ms = pick((now_ms,) * 8 + (now_ms - 100_000, now_ms + 3_000_000, now_ms + 7_200_000, 5, -1))
        records = [
            BatchRecord(
                offset=index,
                timestamp_ms=at_ms + index if at_ms >= 0 else at_ms,
                key=pick((b"k", b"l")),
                value=b"v" * index,
            )
            for index in range(count)
        ]
        options: dict[str, Any] = {"compression": pick(("none",) * 5 + ("gzip", "snappy", "lz4", "zstd"))}
        if transactional_id is not None and random.random() < 0.9:
            producer_id, epoch = self.transaction(transactional_id)
            options["transactional"] = producer_id >= 0
        elif self.producers and random.random() < 0.5:
            producer_id, epoch = pick(self.producers)
        else:
            producer_id, epoch = -1, -1
        if producer_id >= 0:
            key = (producer_id, epoch, topic, partition)
            before = self.sequences.get(key, [])
            known = sum(before[-1]) if before else 0
            sequence = known if random.random() < 0.9 else max(known + pick((-1, -2, 1, 3)), 0)
            if before and random.random() < 0.08:  # a retry, as after a lost response
                sequence, count = pick(before[-7:])
                records = records[:count] + [replace(records[0], offset=at) for at in range(len(records), count)]
            self._waiting.append((key, (sequence, count)))
            options |= {"producer_id": producer_id, "producer_epoch": max(epoch, 0), "base_sequence": sequence}
        elif random.random() < self.wildness / 3 and transactional_id is None:  # else the result is undefined
            options["transactional"] = True
        if random.random() < self.wildness / 2:
            options |= pick(
                ({"control": True}, {"last_offset_delta": 7}, {"last_offset_delta": 0}, {"base_offset": 50})
            )
        if random.random() < 0.02 and not options.keys() & {"transactional", "control", "producer_id"}:
            options |= pick(({"magic": 0, "compression": "none"}, {"magic": 1, "compression": pick(("none", "gzip"))}))
            records = [replace(record, timestamp_ms=None if options["magic"] == 0 else now_ms) for record in records]
        data = encode_batch(records, **options)
        if random.random() < self.wildness / 2 and "magic" not in options:
            data = self._other_header(data)
        if random.random() < self.wildness / 2:
            data = pick(
                (
                    data[:40],
                    data[:-1],
                    data[:-1] + b"?",
                    data + data,
                    data + b"\0",
                    b"",
                    data[:16] + b"\1" + data[17:],
                    data[:16] + b"\3" + data[17:],
                )
            )
        return data
