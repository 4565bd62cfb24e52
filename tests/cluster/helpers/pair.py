"""An embedded and a real broker that receive the same requests.

Generated values (ids, times, ports) are mapped; all others must be equal.

Requests contain the embedded cluster's ids. They are replaced by the real broker's ids of the same
position before a request is sent to it, and replaced back in its response. `Pair` knows no APIs:
`quorate.integration.verify.tables` lists fields with ids, times or sets by name.

The module is longer than others: it starts both clusters, and compares all that they do.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from struct import Struct
from typing import Any

import google_crc32c

from quorate.codecs import Uuid
from quorate.codecs.api import api_of, decode_api, encode_api
from quorate.codecs.api.broker import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import error_codes_in
from quorate.codecs.batches import BatchProblem, BatchRecord, read_batches
from quorate.codecs.batches.v2 import CRC_START, HEADER_BYTES
from quorate.codecs.consumer_protocol import decode_assignment
from quorate.codecs.errors import DecodeError
from quorate.codecs.message import Message
from quorate.codecs.wire import ArrayType, StructType
from quorate.integration.verify.tables import IDS, NOT_COMPARED, NOT_COMPARED_OF, SETS, SETS_OF_DENIED, sorted_denied
from tests.cluster.helpers.wire import Wire

__all__ = ["CLOSED", "Difference", "Pair", "parts"]

CLOSED = "the connection is closed"
SILENT = "no response"

BARRIER = ("barrier", "consumer.session.timeout.ms")
"""A group that no test uses, whose config is changed to see when a change has reached the group
coordinator.
"""

_BARRIER_VALUES = cycle(range(45_000, 60_000))

READ_AGAIN_S = 2
"""How long a request is sent again to a real broker that may lag, where differences may remain."""
LATE_S = 60
"""The same where no differences may remain: a busy machine delays metadata by many seconds."""
SILENCE_S = 4
"""A request without a response after so long has none."""
BUSY_S = 60
"""How late a real broker's response may be, if the embedded broker has responded."""
TRANSIENT = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS}
)
"""Transient errors of a real broker, after which a request is sent again. The last one is for older
producers, of transactions that end.
"""

MESSAGES = frozenset(
    {
        "AlterClientQuotas",
        "AlterPartitionReassignments",
        "CreateAcls",
        "DeleteAcls",
        "DeleteShareGroupState",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeProducers",
        "DescribeQuorum",
        "ElectLeaders",
        "FindCoordinator",
        "InitializeShareGroupState",
        "ListPartitionReassignments",
        "Produce",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "SaslAuthenticate",
        "ShareAcknowledge",
        "ShareFetch",
        "UnregisterBroker",
        "UpdateFeatures",
        "WriteShareGroupState",
        "AlterConfigs",
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "CreatePartitions",
        "CreateTopics",
        "DeleteShareGroupOffsets",
        "DeleteTopics",
        "DescribeConfigs",
        "DescribeGroups",
        "DescribeShareGroupOffsets",
        "DescribeUserScramCredentials",
        "IncrementalAlterConfigs",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        "StreamsGroupDescribe",
        "StreamsGroupHeartbeat",
        "StreamsGroupTopologyDescriptionUpdate",
        "UnregisterController",
    }
)
"""APIs whose error messages are compared."""
_ONE_OF_SEVERAL = re.compile(r"(Invalid value) .*|(.* is not a valid regular expression): .*", re.DOTALL)
"""Messages about one of several errors in configs or a regex: it may be another one."""
_WITH_REQUEST = re.compile(r"Request Request\(.*\) (needs \w+ permission|is not authorized)\.", re.DOTALL)
"""Messages with the request as Java prints it, with its address in memory; ours have "The request".
"""

_PRODUCER = Struct(">q")
_PRODUCER_AT = 43
_CRC = Struct(">I")
_CRC_AT = 17
_RECENT_MS = 1_500_000_000_000
_INDEX = re.compile(r"\[\d+\]")


def parts(message: Message) -> Iterator[Message]:
    """Yield a message and all structs in it."""
    yield message
    for spec in message.spec.fields:
        value = getattr(message, spec.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Message):
                yield from parts(item)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two responses.

    `path`: fields from the response down, `[]` for an element of an array.
    """

    api: str
    version: int
    path: str
    ours: Any
    theirs: Any
    request: Message = field(repr=False)

    def __str__(self) -> str:
        return f"{self.api} v{self.version} {self.path}: ours {self.ours!r}, theirs {self.theirs!r}"


class Ids:
    """The mapping between ids of the embedded and the real broker.

    An id that neither broker has allocated is sent unchanged.
    """

    def __init__(self) -> None:
        self._theirs: dict[tuple[str, Any], Any] = {}
        self._ours: dict[tuple[str, Any], Any] = {}

    def to_theirs(self, kind: str, ours: Any) -> Any:
        return self._theirs.get((kind, ours), ours)

    def to_ours(self, kind: str, theirs: Any) -> Any:
        return self._ours.get((kind, theirs), theirs)

    def text_to_theirs(self, text: str | None) -> str | None:
        """Return an error message with the real broker's member ids."""
        for (kind, ours), theirs in self._theirs.items():
            if text and kind == "member" and ours in text:
                text = text.replace(ours, theirs)
        return text

    def same(self, kind: str, ours: Any, theirs: Any) -> bool:
        """Return whether two ids correspond; two new ids do from now on."""
        if _is_nothing(kind, ours) or _is_nothing(kind, theirs):
            return bool(ours == theirs)
        known, back = self._theirs.get((kind, ours)), self._ours.get((kind, theirs))
        if known is None and back is None:
            self._theirs[kind, ours], self._ours[kind, theirs] = theirs, ours
            return True
        return bool(known == theirs and back == ours)


def _is_nothing(kind: str, value: Any) -> bool:
    return value is None or value == Uuid.ZERO or value in ("", -1) or (kind == "session" and value == 0)


class Pair:
    """The two brokers, with `connections` connections to each.

    `sets`: arrays without an order. `user`: the user for SASL/PLAIN, whose password is the user
    name.
    """

    def __init__(
        self,
        ours: int,
        theirs: int,
        *,
        ids: Ids | None = None,
        connections: int = 2,
        sets: frozenset[str] = SETS,
        user: str | None = None,
    ) -> None:
        self._user = user
        self.messages = MESSAGES
        self.patience_s: Callable[[list[Difference]], float] = lambda found: READ_AGAIN_S
        """How long to send a request again to the real broker while the responses differ; longer if
        no declared difference explains it.
        """
        self.ids = ids or Ids()
        self._sets = sets
        self._skipped = NOT_COMPARED
        self._ports = (ours, theirs)
        self._wires: list[tuple[Wire, Wire] | None] = [None] * connections

    def close(self) -> None:
        for pair in self._wires:
            for wire in pair or ():
                wire.socket.close()

    # ---- requests

    def request(self, request: Message, version: int, connection: int = 0) -> tuple[Any, Any, list[Difference]]:
        """Return both responses, the real one with embedded ids, and their differences."""
        pair = self._wires[connection]
        if pair is None:
            pair = self._wires[connection] = (
                Wire(self._ports[0], timeout_s=SILENCE_S, user=self._user),
                Wire(self._ports[1], user=self._user),
            )
        translated = self.translated(request)
        sent = [_send(wire, one, version) for wire, one in zip(pair, (request, translated), strict=True)]
        ours = _receive(pair[0], request, version) if sent[0] else CLOSED
        pair[1].socket.settimeout(SILENCE_S if ours == SILENT else BUSY_S)
        theirs = _receive(pair[1], request, version) if sent[1] else CLOSED
        found = self.compare(request, version, ours, theirs)
        first = {(one.path, repr(one.ours)): one for one in found}
        began = time.monotonic()
        while found and isinstance(theirs, Message) and self._may_ask_again(request, ours, theirs):
            if time.monotonic() - began > self.patience_s(found):
                break
            time.sleep(0.02)
            theirs = _receive(pair[1], request, version) if _send(pair[1], translated, version) else CLOSED
            found = self.compare(request, version, ours, theirs)
        # What still differs is given as of the time of our response: transactions may end later.
        found = [first.get((one.path, repr(one.ours)), one) for one in found]
        if CLOSED in (ours, theirs) or SILENT in (ours, theirs):
            for wire in pair:
                wire.socket.close()
            self._wires[connection] = None
        return ours, theirs, found

    def _may_ask_again(self, request: Message, ours: Any, theirs: Message) -> bool:
        """Return whether the real broker may lag: late caches, or transient errors."""
        if reads_only(request):
            return True
        codes = set(error_codes_in(theirs))
        return bool(codes & TRANSIENT) and not (isinstance(ours, Message) and set(error_codes_in(ours)) & TRANSIENT)

    def settle(self, timeout_s: float = LATE_S) -> list[Difference]:
        """Wait until the real broker's metadata, topic configs and log ends equal ours.

        If they stay different, return after `timeout_s`.
        """
        began = time.monotonic()
        found: list[Difference] = []
        while True:
            ours, _, found = self.request(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
            if not found and isinstance(ours, Message):
                found = self._settled_topics(ours)
            if not found:
                self._see_through()
            if not found or time.monotonic() - began > max(timeout_s, self.patience_s(found)):
                return found
            time.sleep(0.02)

    def _see_through(self) -> None:
        """Wait until the real broker's group coordinators have the metadata that clients see.

        A broker publishes metadata changes in order: once a later change is visible in its
        coordinators, they have received all earlier ones.
        """
        value = str(next(_BARRIER_VALUES))
        config = AlterableConfig(name=BARRIER[1], config_operation=0, value=value)
        change = AlterConfigsResource(resource_type=32, resource_name=BARRIER[0], configs=(config,))
        look = DescribeConfigsResource(resource_type=32, resource_name=BARRIER[0], configuration_keys=BARRIER[1:])
        for port in reversed(self._ports):
            with Wire(port, user=self._user) as wire:
                reply = wire.request(IncrementalAlterConfigsRequest(resources=(change,)), 1)
                if reply.responses[0].error_code == ErrorCode.INVALID_REQUEST:
                    return  # before 4.0 groups have no configs, and coordinators ignore the metadata
                assert reply.responses[0].error_code == 0, reply
                while value not in repr(wire.request(DescribeConfigsRequest(resources=(look,)), 4)):
                    time.sleep(0.002)

    def _settled_topics(self, metadata: Any) -> list[Difference]:
        from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic

        names = [topic for topic in metadata.topics if not topic.is_internal]
        configs = DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=2, resource_name=name.name, configuration_keys=("retention.ms", "max.message.bytes")
                )
                for name in names
            )
        )
        ends = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1,
            topics=tuple(
                ListOffsetsTopic(
                    name=name.name,
                    partitions=tuple(
                        ListOffsetsPartition(partition_index=part.partition_index, timestamp=-1)
                        for part in name.partitions
                    ),
                )
                for name in names
            ),
        )
        return (
            self.request(configs, 4)[2]
            + self.request(ends, 8)[2]
            + self.request(replace(ends, isolation_level=0), 8)[2]
        )

    # ---- ids

    def translated(self, message: Any) -> Any:
        """Return a request with the real broker's ids."""
        changed = {}
        name = type(message).__name__
        for spec in message.spec.fields:
            value = getattr(message, spec.name)
            kind = IDS.get(f"{name}.{spec.name}") or IDS.get(spec.name)
            new = value
            if kind is not None:
                new = self.ids.to_theirs(kind, value)
            elif spec.name == "records" and isinstance(value, bytes):
                new = self._translated_batch(value)
            elif isinstance(value, Message):
                new = self.translated(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Message):
                new = tuple(self.translated(one) for one in value)
            if new is not value:
                changed[spec.name] = new
        return replace(message, **changed) if changed else message

    def _translated_batch(self, data: bytes) -> bytes:
        """Replace the producer id of a batch, and its CRC if that was correct."""
        if len(data) < HEADER_BYTES:
            return data
        (ours,) = _PRODUCER.unpack_from(data, _PRODUCER_AT)
        theirs = self.ids.to_theirs("producer", ours)
        if ours == theirs:
            return data
        right = _CRC.unpack_from(data, _CRC_AT)[0] == google_crc32c.value(data[CRC_START:])
        buffer = bytearray(data)
        _PRODUCER.pack_into(buffer, _PRODUCER_AT, theirs)
        if right:
            _CRC.pack_into(buffer, _CRC_AT, google_crc32c.value(bytes(buffer[CRC_START:])))
        return bytes(buffer)

    # ---- comparing

    def compare(self, request: Message, version: int, ours: Any, theirs: Any) -> list[Difference]:
        api = api_of(type(request)).name
        self._skipped = NOT_COMPARED | NOT_COMPARED_OF.get(api, frozenset())
        if api in self.messages:
            self._skipped -= {"error_message"}
        return [
            Difference(api, version, _INDEX.sub("[]", path), a, b, request)
            for path, a, b in self._parts("", None, ours, theirs)
        ]

    def _parts(self, path: str, spec: Any, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(ours, Message) and isinstance(theirs, Message):
            name = type(ours).__name__
            for one in ours.spec.fields:
                if one.name in self._skipped or f"{name}.{one.name}" in self._skipped:
                    continue
                a, b = getattr(ours, one.name), getattr(theirs, one.name)
                where = f"{path}.{one.name}" if path else one.name
                kind = IDS.get(f"{name}.{one.name}") or IDS.get(one.name)
                if kind is not None:
                    if not self.ids.same(kind, a, b):
                        yield where, a, f"{b} (our {self.ids.to_ours(kind, b)})"
                elif (one.name == "error_message" and _general(self.ids.text_to_theirs(a)) == _general(b)) or (
                    where == "assignment" and isinstance(a, bytes) and _topics_of(a) == _topics_of(b)
                ):
                    continue
                elif one.name == "records" and isinstance(a, bytes | None) and isinstance(b, bytes | None):
                    a, b = self._records(a, ours=True), self._records(b, ours=False)
                    if a != b:
                        yield where, a, b
                elif isinstance(one.type, ArrayType) and a is not None and b is not None:
                    if f"{name}.{one.name}" in SETS_OF_DENIED:
                        a, b = sorted_denied(a, self._sort_key), sorted_denied(b, self._their_sort_key)
                    yield from self._array(where, one, f"{name}.{one.name}" in self._sets, a, b)
                else:
                    yield from self._parts(where, one, a, b)
        elif ours != theirs and not _same_moment(ours, theirs):
            yield path, ours, theirs

    def _array(self, path: str, spec: Any, a_set: bool, ours: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
        if not isinstance(spec.type.element, StructType):
            if (sorted(ours) != sorted(theirs)) if a_set else ours != theirs:
                yield path, ours, theirs
            return
        if spec.type.element.spec.name == "FetchableTopicResponse":
            ours, theirs = _merged(ours), _merged(theirs)
        if a_set:
            ours, theirs = sorted(ours, key=self._sort_key), sorted(theirs, key=self._their_sort_key)
        ids = [_id_of(one) for one in ours], [_id_of(one) for one in theirs]
        if len(ours) != len(theirs):
            only = (
                [one for one in ids[0] if one not in ids[1]],
                [one for one in ids[1] if one not in ids[0]],
            )
            yield path + "#", f"{len(ours)}, only here {only[0]}", f"{len(theirs)}, only there {only[1]}"
            return
        for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            yield from self._parts(f"{path}[{index}]", spec, a, b)

    def _sort_key(self, message: Message) -> str:
        return repr(_id_of(message))

    def _their_sort_key(self, message: Message) -> str:
        key = _id_of(message)
        if isinstance(key, Uuid):
            key = self.ids.to_ours("topic", key)
        elif "member_id" in (spec.name for spec in message.spec.fields[:1]):
            key = self.ids.to_ours("member", key)
        return repr(key)

    def _records(self, data: bytes | None, *, ours: bool) -> Any:
        """Return the content of whole batches without offsets and times."""
        if data is None:
            return None
        out: list[Any] = []
        for read in read_batches(data):
            if isinstance(read, BatchProblem):
                break
            head = read.header
            producer = head.producer_id if ours else self.ids.to_ours("producer", head.producer_id)
            out.append(
                (
                    head.base_offset,
                    head.partition_leader_epoch,
                    (head.compression, head.timestamp_type, head.transactional, head.control),
                    head.last_offset_delta,
                    producer,
                    head.producer_epoch,
                    head.base_sequence,
                )
            )
            out += [
                (record.offset, record.key, record.value) if isinstance(record, BatchRecord) else repr(record)
                for record in read.records()
            ]
        return out


def _topics_of(assignment: bytes) -> Any:
    """Return an assignment with sorted topics: coordinators order them by generated topic ids."""
    try:
        found = decode_assignment(assignment)
    except DecodeError:
        return assignment
    topics = sorted(found.message.assigned_partitions, key=lambda one: one.topic)
    return found.version, topics, found.message.user_data


def _general(message: str | None) -> object:
    message = message and _WITH_REQUEST.sub(r"The request \1.", message)
    found = _ONE_OF_SEVERAL.fullmatch(message or "")
    return message if found is None else found.groups()


def _merged(topics: Sequence[Any]) -> list[Any]:
    """Merge entries of a topic, which Kafka repeats if its partitions are not adjacent."""
    found: dict[Any, Any] = {}
    for topic in topics:
        key = (topic.topic, topic.topic_id)
        before = found.get(key)
        found[key] = topic if before is None else replace(topic, partitions=before.partitions + topic.partitions)
    return list(found.values())


def _same_moment(ours: Any, theirs: Any) -> bool:
    """Return whether both are times at which something happened."""
    return (
        isinstance(ours, int)
        and isinstance(theirs, int)
        and ours > _RECENT_MS
        and theirs > _RECENT_MS
        and abs(ours - theirs) < 60_000
    )


def _id_of(message: Message) -> Any:
    """Return the identity of an element of a set."""
    if hasattr(message, "permission_type") or hasattr(message, "pattern_type"):  # an ACL
        names = (spec.name for spec in message.spec.fields)
        return tuple(value for name in names if isinstance(value := getattr(message, name), int | str))
    if isinstance(entity := getattr(message, "entity", None), tuple):  # a quota
        return tuple(sorted((one.entity_type, one.entity_name or "") for one in entity))
    if hasattr(message, "resource_type"):
        return (message.resource_type, getattr(message, "resource_name", ""))
    if type(message).__name__ == "TopicPartition":  # a topic may be repeated
        return tuple(getattr(message, one.name) for one in message.spec.fields)
    for name in ("name", "topic_id", "group_id", "topic", "transactional_id", "partition_index", "member_id"):
        value = getattr(message, name, None)
        if value not in (None, "", Uuid.ZERO):
            return value
    names = (spec.name for spec in message.spec.fields if spec.name not in ("error_code", "error_message"))
    return next((getattr(message, name) for name in names), None)


def reads_only(request: Message) -> bool:
    """Return whether a request changes nothing."""
    name = api_of(type(request)).name
    if name == "Metadata":
        return not getattr(request, "allow_auto_topic_creation", True)
    if name == "Fetch":
        return bool(getattr(request, "session_epoch", 0) == -1 and getattr(request, "session_id", 0) == 0)
    return name.startswith(("Describe", "List")) or name in (
        "ApiVersions",
        "OffsetForLeaderEpoch",
        "FindCoordinator",
        "OffsetFetch",
        "ConsumerGroupDescribe",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
    )


def _send(wire: Wire, request: Message, version: int) -> bool:
    try:
        wire.send(request, version)
    except (ConnectionError, BrokenPipeError):
        return False
    return True


def _receive(wire: Wire, request: Message, version: int) -> Any:
    if getattr(request, "acks", None) == 0 and type(request).__name__ == "ProduceRequest":
        return None
    api = api_of(type(request))
    try:
        frame = wire.frame()
    except ConnectionError:
        return CLOSED
    except TimeoutError:
        return SILENT
    assert int.from_bytes(frame[:4], "big") == wire.correlation_id
    return decode_api(api.response.cls, frame, version, position=4 + api.response_header_version(version), strict=True)


def encodable(request: Message, versions: Sequence[int]) -> list[int]:
    """Return the versions that can encode a request."""
    found = []
    for version in versions:
        try:
            encode_api(request, version)
        except ValueError:
            continue
        found.append(version)
    return found
