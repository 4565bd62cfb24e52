"""Hostile requests for `socket_fuzz`.

These are large valid requests of every API, damaged and half-sent ones, and small batches that
decompress to large ones. Knows nothing about sockets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from struct import pack
from typing import Any

from quorate.cluster.handlers import HANDLERS
from quorate.codecs import EncodeError, Uuid
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    ShareGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
    encode_api,
)
from quorate.codecs.api.broker import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    CreateTopicsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.add_partitions_to_txn import AddPartitionsToTxnTopic
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.declare import Api
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.message import Message, MessageSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType, WireType
from quorate.integration.verify.wire import framed

PARTITIONS = 10
TOPICS: dict[str, dict[str, str]] = {
    "orders": {},
    "packed": {"compression.type": "gzip"},
    "plain": {"compression.type": "uncompressed"},
    "zstd": {"compression.type": "zstd"},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
GROUP = "served"
"""The group of the measured client; some hostile requests name it."""

TRANSACTION = "large"
"""A transactional id whose first producer, with id 0 and epoch 0, exists from the start."""

_WIDE = CreatableTopic(name="wide", num_partitions=10_000, replication_factor=1)
"""The topic of large transactions and commits, which create it."""

_MOST_BYTES = 8 << 20
_MOST_ELEMENTS = 60_000
_NAMES = (*TOPICS, "__consumer_offsets", "__transaction_state", "nowhere", "", "..", "x" * 250, "a\x1b[2J\n", "é" * 300)
_GROUPS = (GROUP, "g1", "g2", "", "x" * 5_000, "\x1b]0;t\x07")
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_LEFT_OUT = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""They close the connection, because the cluster has no SASL."""
_NOT_TOGETHER = frozenset({"Produce", "JoinGroup", "Metadata", "SyncGroup"})
"""APIs that are not sent 10,000 times at once: those of groups wait for a rebalance each time, and
Metadata of a topic with 10,000 partitions takes 0.1 s.
"""


@dataclass(frozen=True)
class Attack:
    """Bytes for a connection. `unanswered`: there is no response; the connection stays open."""

    api: str
    kind: str
    data: bytes
    unanswered: bool = False


def attacks(random: Random, count: int) -> Iterator[Attack]:
    """Yield `count` attacks of all kinds."""
    kinds: list[tuple[Callable[[Random], Attack], int]] = [
        (_generated, 40),
        (_damaged, 8),
        (_half_sent, 4),
        (_pipelined, 6),
        (_batches, 14),
        (_many_batches, 4),
        (_subscription, 8),
        (_join, 4),
        (_topics, 6),
        (_all_topics, 3),
        (_offsets_by_time, 3),
        (_transaction, 4),
        (_commit, 4),
        (_transactional_commit, 2),
        (_deletion, 4),
    ]
    makers, weights = zip(*kinds, strict=True)
    for _ in range(count):
        yield random.choices(makers, weights)[0](random)


# ---- requests of every API, with one array that is large


def _generated(random: Random) -> Attack:
    api = random.choice([one.api for one in HANDLERS.values() if one.api.name not in _LEFT_OUT])
    request, version, size = _request(random, api)
    return Attack(api.name, f"v{version}, {size:,} elements", framed(request, version))


def _request(random: Random, api: Api) -> tuple[Message, int, int]:
    while True:
        version = random.choice(api.versions)
        size = int(10 ** random.uniform(0, 5)) if random.random() < 0.8 else random.randrange(4)
        size = min(size, _MOST_ELEMENTS)
        arrays = _arrays(api.request, version)
        large = random.choice(arrays) if arrays else None
        request: Message = _message(random, api.request, version, large, size)
        try:
            if len(encode_api(request, version)) <= _MOST_BYTES:
                return request, version, size
        except EncodeError:
            continue


def _arrays(spec: MessageSpec, version: int, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for one in spec.fields:
        if version in one.versions and isinstance(one.type, ArrayType):
            found.append((*path, one.name))
            if isinstance(one.type.element, StructType):
                found += _arrays(one.type.element.spec, version, (*path, one.name))
    return found


def _message(random: Random, spec: MessageSpec, version: int, large: tuple[str, ...] | None, size: int) -> Any:
    values: dict[str, Any] = {}
    for one in spec.fields:
        if version not in one.versions:
            continue
        if one.nullable_in(version) and random.random() < 0.1 and not (large and large[0] == one.name):
            values[one.name] = None
            continue
        if isinstance(one.type, ArrayType):
            inner = large[1:] if large and large[0] == one.name else None
            count = size if inner == () else 1 if inner else random.randrange(3)
            values[one.name] = tuple(
                _value(random, one.type.element, one.name, version, inner or None, size, number)
                for number in range(count)
            )
        elif isinstance(one.type, StructType):
            values[one.name] = _message(random, one.type.spec, version, None, size)
        else:
            values[one.name] = _value(random, one.type, one.name, version, None, size, None)
    return spec.cls(**values)


def _value(
    random: Random,
    wire: WireType,
    name: str,
    version: int,
    large: tuple[str, ...] | None,
    size: int,
    number: int | None,
) -> Any:
    match wire:
        case StructType(spec):
            return _message(random, spec, version, large, size)
        case FixedType(code="?"):
            return random.random() < 0.5
        case FixedType(code="d"):
            return random.choice((0.0, 1.5, -1.0, float("inf")))
        case FixedType():
            return _number(random, wire, name, number)
        case StringType():
            return _text(random, name, number)
        case BytesType():
            return random.randbytes(random.choice((0, 1, 20, 2_000)))
        case UuidType():
            return random.choice((Uuid.ZERO, Uuid(random.randbytes(16))))
        case ArrayType():
            return ()


def _number(random: Random, wire: FixedType, name: str, number: int | None) -> int:
    if name.endswith(("timeout_ms", "wait_ms")):
        return random.choice((0, 1, 100))  # `send` waits for the responses
    least, most = wire.bounds
    if "partition" in name or "index" in name:
        return number if number is not None and random.random() < 0.8 else random.randrange(PARTITIONS + 2)
    return random.choice((0, 1, -1, 2, random.randrange(100), least, most)) if least else random.choice((0, 1, most))


def _text(random: Random, name: str, number: int | None) -> str:
    pools = {"topic": _NAMES, "group": _GROUPS}
    pool = next((words for part, words in pools.items() if part in name), (*_NAMES[:4], *_GROUPS))
    if name == "name":
        pool = _NAMES
    if number is not None or random.random() < 0.7:
        return f"{random.choice(('t', 'orders', 'g', 'm'))}{random.randrange(200_000)}"
    return random.choice(pool)


# ---- invalid and incomplete requests


def _damaged(random: Random) -> Attack:
    api = random.choice([one.api for one in HANDLERS.values()])
    request, version, size = _request(random, api)
    data = bytearray(framed(request, version))
    for _ in range(random.choice((1, 1, 3, 20))):
        if len(data) < 20:
            break
        at = random.randrange(4, len(data))
        match random.randrange(3):
            case 0:
                data[at] = random.randrange(256)
            case 1:
                data[at : at + 4] = random.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\xff\xff"))
            case _:
                del data[at : at + random.randrange(1, 9)]
    data[:4] = pack(">i", len(data) - 4)
    return Attack(api.name, f"damaged v{version}, {size:,} elements", bytes(data))


def _half_sent(random: Random) -> Attack:
    size = random.choice((1 << 16, 10 << 20, 100 << 20))
    data = bytes(min(size // 2, 5 << 20))
    return Attack("none", f"{len(data):,} of {size:,} bytes", pack(">i", size) + data, unanswered=True)


def _pipelined(random: Random) -> Attack:
    api = random.choice([one.api for one in HANDLERS.values() if one.api.name not in _LEFT_OUT | _NOT_TOGETHER])
    version = random.choice(api.versions)
    count = random.choice((100, 1_000, 10_000))
    one = framed(_message(random, api.request, version, None, 0), version)
    count = max(1, min(count, _MOST_BYTES // len(one)))
    return Attack(api.name, f"v{version}, {count:,} at once", one * count)


# ---- batches


def _batch(random: Random, count: int, compression: str) -> bytes:
    value = random.choice((None, b"", b"\0" * 10, b"\0" * 1_000))
    key = random.choice((None, b"k"))
    now_ms = random.choice((-1, 0, 1_700_000_000_000))
    records = [BatchRecord(offset=number, timestamp_ms=now_ms, key=key, value=value) for number in range(count)]
    return encode_batch(records, compression=compression)


def _produced(topic: str, batches: dict[int, bytes]) -> ProduceRequest:
    parts = tuple(PartitionProduceData(index=index, records=data) for index, data in batches.items())
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=(TopicProduceData(name=topic, partition_data=parts),))


def _batches(random: Random) -> Attack:
    topic, compression = random.choice(tuple(TOPICS)), random.choice(_COMPRESSIONS)
    count = int(10 ** random.uniform(2, 5.5))
    data = _batch(random, count, compression)
    return Attack("Produce", f"{count:,} records, {compression} to {topic}", framed(_produced(topic, {0: data}), 9))


def _many_batches(random: Random) -> Attack:
    topic, compression = random.choice(tuple(TOPICS)), random.choice(_COMPRESSIONS)
    data = _batch(random, 2_000, compression)
    batches = dict.fromkeys(range(min(PARTITIONS, max(1, _MOST_BYTES // len(data)))), data)
    return Attack(
        "Produce", f"{len(batches)} x 2,000 records, {compression} to {topic}", framed(_produced(topic, batches), 9)
    )


def _offsets_by_time(random: Random) -> Attack:
    topic = random.choice(tuple(TOPICS))
    parts = tuple(
        ListOffsetsPartition(partition_index=index, timestamp=random.choice((0, 1, 1_700_000_000_000)))
        for index in range(PARTITIONS)
    )
    return Attack(
        "ListOffsets",
        f"by time in {topic}",
        framed(ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=parts),)), 7),
    )


# ---- groups and topics


def _subscription(random: Random) -> Attack:
    count = int(10 ** random.uniform(2, 5))
    names = tuple(f"t\x1b[31m{number}" if random.random() < 0.01 else f"t{number}" for number in range(count))
    names = (*names, *random.sample(tuple(TOPICS), random.randrange(3)))
    group_id, member_id = random.choice((GROUP, "g1", "g2")), random.choice(("m1", "m2"))
    if random.random() < 0.4:
        share = ShareGroupHeartbeatRequest(
            group_id=f"share-{group_id}", member_id=member_id, member_epoch=0, subscribed_topic_names=names
        )
        return Attack("ShareGroupHeartbeat", f"{count:,} topics", framed(share, 1))
    regex = random.random() < 0.3
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=names[:10] if regex else names,
        subscribed_topic_regex="(" + "|".join(names[:5_000]) + ")" if regex else None,
        topic_partitions=(),
    )
    return Attack("ConsumerGroupHeartbeat", f"{count:,} topics{', as a regex' if regex else ''}", framed(request, 1))


def _join(random: Random) -> Attack:
    size = int(10 ** random.uniform(3, 6.5))
    protocols = tuple(JoinGroupRequestProtocol(name=f"p{number}", metadata=bytes(size // 10)) for number in range(10))
    request = JoinGroupRequest(
        group_id=random.choice(("c1", "c2")),
        session_timeout_ms=6_000,
        rebalance_timeout_ms=100,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    return Attack("JoinGroup", f"{size:,} bytes of metadata", framed(request, random.choice((3, 5))))


def _topics(random: Random) -> Attack:
    count = int(10 ** random.uniform(2, 4))
    first = random.randrange(1_000_000)
    partitions = random.choice((1, 1, 1, 10_000 // count))
    many = tuple(
        CreatableTopic(
            name=f"made{first + number}", num_partitions=partitions, replication_factor=random.choice((1, 2))
        )
        for number in range(count)
    )
    return Attack(
        "CreateTopics",
        f"{count:,} topics x {partitions:,}",
        framed(CreateTopicsRequest(topics=many, timeout_ms=100), 7),
    )


def _all_topics(random: Random) -> Attack:
    return Attack("Metadata", "all topics", framed(MetadataRequest(topics=None), 12))


# ---- transactions and commits with many partitions, each a chain of valid requests


def _transaction(random: Random) -> Attack:
    count = int(10 ** random.uniform(2, 4))
    producer = {"producer_id": 0, "producer_epoch": 1}
    where = AddPartitionsToTxnTopic(name=_WIDE.name, partitions=tuple(range(count)))
    committed = random.random() < 0.5
    chain = (
        framed(CreateTopicsRequest(topics=(_WIDE,), timeout_ms=100), 7),
        _begun(),
        framed(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTION,
                v3_and_below_producer_id=0,
                v3_and_below_producer_epoch=1,
                v3_and_below_topics=(where,),
            ),
            3,
        ),
        framed(EndTxnRequest(transactional_id=TRANSACTION, committed=committed, **producer), 4),
    )
    return Attack("EndTxn", f"{count:,} partitions, {'commit' if committed else 'abort'}", b"".join(chain))


def _commit(random: Random) -> Attack:
    count = int(10 ** random.uniform(2, 4))
    group_id, member_id = f"wide{random.randrange(1_000_000)}", "B" * 22
    parts = tuple(OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in range(count))
    chain = (
        framed(CreateTopicsRequest(topics=(_WIDE,), timeout_ms=100), 7),
        framed(
            ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id=member_id,
                member_epoch=0,
                rebalance_timeout_ms=1_000,
                subscribed_topic_names=("orders",),
                topic_partitions=(),
            ),
            1,
        ),
        framed(
            OffsetCommitRequest(
                group_id=group_id,
                member_id=member_id,
                generation_id_or_member_epoch=2,  # after it joined
                topics=(OffsetCommitRequestTopic(name=_WIDE.name, partitions=parts),),
            ),
            9,
        ),
    )
    return Attack("OffsetCommit", f"{count:,} partitions of a member", b"".join(chain))


def _begun() -> bytes:
    """Return the frame that begins a transaction.

    Repeated with the epoch before its own, it leaves the epoch at 1 (KIP-360).
    """
    request = InitProducerIdRequest(
        transactional_id=TRANSACTION, transaction_timeout_ms=60_000, producer_id=0, producer_epoch=0
    )
    return framed(request, 4)


def _transactional_commit(random: Random) -> Attack:
    count = int(10 ** random.uniform(2, 4))
    group_id = f"wide{random.randrange(1_000_000)}"
    producer = {"transactional_id": TRANSACTION, "producer_id": 0, "producer_epoch": 1}
    parts = tuple(
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
        for index in range(count)
    )
    topics = (TxnOffsetCommitRequestTopic(name=_WIDE.name, partitions=parts),)
    chain = (
        framed(CreateTopicsRequest(topics=(_WIDE,), timeout_ms=100), 7),
        _begun(),
        framed(AddOffsetsToTxnRequest(group_id=group_id, **producer), 3),
        framed(TxnOffsetCommitRequest(group_id=group_id, topics=topics, **producer), 3),
        framed(EndTxnRequest(committed=True, **producer), 4),
    )
    return Attack("TxnOffsetCommit", f"{count:,} partitions", b"".join(chain))


def _deletion(random: Random) -> Attack:
    """Commit offsets of a group without members, and delete them one by one or with the group."""
    count = int(10 ** random.uniform(2, 4))
    group_id = f"wide{random.randrange(1_000_000)}"
    parts = tuple(OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in range(count))
    committed = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        topics=(OffsetCommitRequestTopic(name=_WIDE.name, partitions=parts),),
    )
    indexes = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in range(count))
    of_offsets = OffsetDeleteRequest(
        group_id=group_id, topics=(OffsetDeleteRequestTopic(name=_WIDE.name, partitions=indexes),)
    )
    last, api = random.choice(
        (
            (framed(of_offsets, 0), "OffsetDelete"),
            (framed(DeleteGroupsRequest(groups_names=(group_id,)), 2), "DeleteGroups"),
        )
    )
    chain = (framed(CreateTopicsRequest(topics=(_WIDE,), timeout_ms=100), 7), framed(committed, 9), last)
    return Attack(api, f"{count:,} partitions of a group", b"".join(chain))
