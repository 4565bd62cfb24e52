"""Batches of a producer, each with one fault; `test_batch_validation` sends them to brokers.

Batches are built from bytes here, so that no tested code repairs a fault. The module is long
because it is a table.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import google_crc32c

from quorate.codecs.api.broker import CreateTopicsRequest, FetchRequest, ListOffsetsRequest, ProduceRequest
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfig
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.compression import compress
from quorate.codecs.batches.model import COMPRESSIONS
from quorate.codecs.batches.v2 import CRC_START, HEADER, HEADER_BYTES, LOG_OVERHEAD
from tests.cluster.helpers.wire import Wire

NOW_MS = int(time.time() * 1000) - 60_000
TOPIC = "produced"

KINDS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "timely": {"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
    "gzip-append-time": {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
}
"""Kinds of topics, by their configs: what a broker checks depends on whether it can keep a batch
unchanged.
"""

_CRC = Struct(">I")
_CRC_AT = 17


def varint(value: int) -> bytes:
    """Encode an int32 or int64 as a zigzag varint."""
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def unsigned(rest: int) -> bytes:
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else varint(len(data)) + data


def record(
    offset: int | bytes = 0,
    *,
    attributes: int = 0,
    time_ms: int | bytes = 0,
    key: bytes = sized(b"k"),
    value: bytes = sized(b"value"),
    headers: bytes = b"\0",
    rest: bytes = b"",
    size: int | bytes | None = None,
) -> bytes:
    """Encode a record; `rest` follows the headers inside the record."""
    body = bytes([attributes]) + _as_varint(time_ms) + _as_varint(offset) + key + value + headers + rest
    return _as_varint(len(body) if size is None else size) + body


def _as_varint(value: int | bytes) -> bytes:
    return varint(value) if isinstance(value, int) else value


def three() -> list[bytes]:
    return [record(0), record(1, time_ms=1), record(2, time_ms=2)]


def batch(
    records: Iterable[bytes] | None = None,
    *,
    compression: str = "none",
    packed: Callable[[bytes], bytes] = lambda body: body,
    count: int | None = None,
    last_delta: int | None = None,
    attributes: int = 0,
    base_ms: int = NOW_MS,
    max_ms: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    crc_off: int = 0,
    length_off: int = 0,
) -> bytes:
    """Encode a v2 batch; `packed` changes compressed bytes; deltas are added to correct values."""
    content = three() if records is None else list(records)
    body = b"".join(content)
    if compression != "none":
        body = packed(compress(compression, body))
    kind = COMPRESSIONS.index(compression) if compression in COMPRESSIONS else 0
    count = len(content) if count is None else count
    header = HEADER.pack(
        base_offset,
        HEADER_BYTES - LOG_OVERHEAD + len(body) + length_off,
        leader_epoch,
        magic,
        0,
        (attributes | kind) - (0x10000 if attributes & 0x8000 else 0),
        count - 1 if last_delta is None else last_delta,
        base_ms,
        base_ms + (2 if records is None else 0) if max_ms is None else max_ms,
        *producer,
        count,
    )
    data = bytearray(header + body)
    _CRC.pack_into(data, _CRC_AT, google_crc32c.value(bytes(data[CRC_START:])) + crc_off & 0xFFFFFFFF)
    return bytes(data)


@dataclass(frozen=True, slots=True)
class Case:
    """A batch in any compression. `only`: the compressions for which it is meaningful."""

    name: str
    data: Callable[[str], bytes]
    only: Sequence[str] = COMPRESSIONS
    version: int = 9


def _records(name: str, *records: bytes, **header: Any) -> Case:
    return Case(name, lambda compression: batch(records, compression=compression, **header))


def _among_many(name: str, fault: bytes, **header: Any) -> Case:
    """A faulty record with 150 valid records before and after it."""
    before = [record(at, time_ms=at, headers=varint(1) + sized(b"h") + sized(b"v" * (at % 7))) for at in range(150)]
    after = [record(at, key=sized(b"key"), time_ms=at) for at in range(151, 300)]
    return _records(f"among many: {name}", *before, fault, *after, **{"count": 300, **header})


def _header(name: str, **header: Any) -> Case:
    return Case(name, lambda compression: batch(compression=compression, **header))


def _packed(name: str, change: Callable[[bytes], bytes], *only: str) -> Case:
    return Case(name, lambda compression: batch(compression=compression, packed=change), only=only or COMPRESSIONS[1:])


def _all(name: str, build: Callable[[str], bytes]) -> Case:
    return Case(name, build)


def _flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :]


LONG_VARINT = b"\xff" * 4 + b"\x8f\x01"
MANY_HEADERS = varint(40) + 20 * (sized(b"h" * 70) + sized(None)) + 20 * (sized(b"") + sized(b"v" * 9000))
LONG_VARLONG = b"\xff" * 10 + b"\x01"

CASES: tuple[Case, ...] = (
    _header("sound"),
    _records("sound, one record", record()),
    _records("sound, headers", record(headers=varint(2) + sized(b"h") + sized(b"v") + sized(b"") + sized(None))),
    _records("sound, many records", *(record(at) for at in range(300))),
    _records("sound, long values", *(record(at, value=sized(b"v" * 40_000)) for at in range(3))),
    _records("sound, sizes vary", *(record(at, value=sized(b"v" * (7 * at % 300))) for at in range(100))),
    _records("sound, many with nulls", *(record(at, value=sized(None if at % 2 else b"v")) for at in range(100))),
    _records("sound, many with headers", *(record(at, headers=MANY_HEADERS) for at in range(100))),
    _records("sound, many, one with many headers", *(record(at) for at in range(99)), record(99, headers=MANY_HEADERS)),
    # the same faults among many records, where the ones before are decoded as columns
    _among_many("sound", record(150)),
    _among_many("count above", record(150), count=301),
    _among_many("count below", record(150), count=299),
    _among_many("no key", record(150, key=sized(None))),
    _among_many("no key, and a wrong one after it", record(150, key=sized(None)) + record(size=3), count=301),
    _among_many("far ahead", record(150, time_ms=10**10)),
    _among_many("long ago, and none", record(150, time_ms=-NOW_MS - 1)),
    _among_many("another offset delta", record(151)),
    _among_many("a timestamp that wraps", record(150, time_ms=2**63 - 1)),
    _among_many("a negative timestamp", record(150, time_ms=-NOW_MS - 77)),
    _among_many("size one above", record(150, size=13)),
    _among_many("size one below", record(150, size=11)),
    _among_many("size -1", record(150, size=-1)),
    _among_many("size 0", record(150, size=0)),
    _among_many("size in 6 bytes", record(150, size=LONG_VARINT)),
    _among_many("size far above", record(150, size=10_000_000)),
    _among_many("offset delta in 3 bytes without need", record(b"\xac\x82\0")),
    _among_many("timestamp delta in 11 bytes", record(150, time_ms=LONG_VARLONG)),
    _among_many("key size -2", record(150, key=varint(-2))),
    _among_many("value size -2", record(150, value=varint(-2))),
    _among_many("value size above", record(150, value=varint(9_000) + b"v")),
    _among_many("value size in 6 bytes", record(150, value=LONG_VARINT)),
    _among_many("header count -1", record(150, headers=varint(-1))),
    _among_many("header count 2147483647", record(150, headers=varint(2**31 - 1))),
    _among_many("header without a key", record(150, headers=varint(1) + sized(None) + sized(b"v"))),
    _among_many("header key is no UTF-8", record(150, headers=varint(1) + sized(b"\xff") + sized(b"v"))),
    _among_many("header value size above", record(150, headers=varint(1) + sized(b"h") + varint(99) + b"v")),
    _among_many("bytes after the headers", record(150, rest=b"zz")),
    _among_many("attributes", record(150, attributes=7)),
    _among_many("bytes after the last record", record(150) + b"\0", count=301),
    _among_many("base timestamp -1", record(150), base_ms=-1),
    _among_many("base timestamp -7", record(150), base_ms=-7),
    _among_many("base timestamp far ahead", record(150), base_ms=NOW_MS + 10**10),
    _among_many("with log-append time", record(150), attributes=8),
    _among_many("idempotent", record(150), producer=(78, 0, 2**31 - 100)),
    _among_many("idempotent without an epoch", record(150), producer=(79, -1, 0)),
    # count and last offset delta
    _header("count above the records", count=5),
    _header("count above the records, delta as the records", count=5, last_delta=2),
    _header("count below the records", count=2),
    _header("count below the records, delta as the records", count=2, last_delta=2),
    _header("count far above the records", count=1_000_000),
    _header("count 2147483647", count=2**31 - 1),
    _header("count 2147483647, delta as the records", count=2**31 - 1, last_delta=2),
    _header("count 0", count=0, last_delta=0),
    _header("count 0, delta -1", count=0),
    _header("count -1", count=-1, last_delta=2),
    _header("count -1, delta -2", count=-1),
    _header("delta above the count", last_delta=3),
    _header("delta below the count", last_delta=1),
    _header("delta -1", last_delta=-1),
    _header("delta 2147483647", last_delta=2**31 - 1),
    _records("no records"),
    _records("no records, delta 0", last_delta=0),
    _records("no records, count 1", count=1),
    # offset deltas
    _records("offset deltas from 1", record(1), record(2)),
    _records("offset deltas with a gap", record(0), record(2)),
    _records("offset deltas equal", record(0), record(0)),
    _records("offset deltas descending", record(1), record(0)),
    _records("offset delta negative", record(-1), record(1)),
    _records("offset delta -2147483648", record(0), record(-(2**31))),
    _records("offset delta 2147483647", record(0), record(2**31 - 1)),
    _records("offset deltas from 1, idempotent", record(1), record(2), producer=(70, 0, 0)),
    # extra or missing bytes
    _records("bytes after the last record", record(), record(1), b"\0", count=2),
    _records("many bytes after the last record", record(), b"x" * 5000, count=1),
    _records("a record after the last", record(), record(1), record(2), count=2),
    _records("bytes after the headers of a record", record(rest=b"zz"), record(1)),
    _records("bytes after the headers of the last record", record(), record(1, rest=b"\0")),
    _records("last record cut off", record(), record(1)[:-3]),
    _records("last record cut off in the value", record(value=sized(b"v" * 100))[:-50]),
    _records("last record without its headers", record(), record(1)[:-1]),
    _records("only a size", record(), varint(20)),
    _records("half a size", record(), b"\x80"),
    # sizes of records
    _records("size one above", record(size=12), record(1)),
    _records("size one below", record(size=10), record(1)),
    _records("size of the last one above", record(), record(1, size=12)),
    _records("size of the last one below", record(), record(1, size=10)),
    _records("size 0", record(size=0), record(1)),
    _records("size 0 alone", varint(0)),
    _records("size -1", record(size=-1), record(1)),
    _records("size -2147483648", record(size=-(2**31)), record(1)),
    _records("size far above", record(size=10_000_000), record(1)),
    _records("size of both records", record(size=24), record(1)),
    _records("size in 5 bytes", record(size=b"\x96\x80\x80\x80\0"), record(1)),
    _records("size in 5 bytes with bits beyond an int", record(size=b"\x96\x80\x80\x80\x70"), record(1)),
    # varints
    _records("size in 6 bytes", record(size=LONG_VARINT), record(1)),
    _records("size of the last in 6 bytes", record(), record(1, size=LONG_VARINT)),
    _records("offset delta in 6 bytes", record(LONG_VARINT), record(1)),
    _records("offset delta in 2 bytes without need", record(b"\x80\0"), record(b"\x82\0")),
    _records("timestamp delta in 11 bytes", record(time_ms=LONG_VARLONG)),
    _records("timestamp delta in 10 bytes", record(time_ms=b"\x82" + b"\x80" * 8 + b"\0"), record(1)),
    _records("key size in 6 bytes", record(key=LONG_VARINT), record(1)),
    _records("value size in 6 bytes", record(value=LONG_VARINT), record(1)),
    _records("header count in 6 bytes", record(headers=LONG_VARINT), record(1)),
    # keys and values
    _records("no key", record(key=sized(None)), record(1)),
    _records("no key, the second", record(), record(1, key=sized(None))),
    _records("no keys", record(key=sized(None)), record(1, key=sized(None))),
    _records("no key, then cut off", record(key=sized(None)), record(1)[:-3]),
    _records("key size -2", record(key=varint(-2)), record(1)),
    _records("key size -2147483648", record(key=varint(-(2**31))), record(1)),
    _records("key size above the record", record(key=varint(50) + b"k"), record(1)),
    _records("key size up to the next record", record(key=varint(15) + b"k"), record(1)),
    _records("key size 2147483647", record(key=varint(2**31 - 1) + b"k"), record(1)),
    _records("empty key", record(key=sized(b"")), record(1)),
    _records("no value", record(value=sized(None)), record(1)),
    _records("value size -2", record(value=varint(-2)), record(1)),
    _records("value size -7, and bytes", record(value=varint(-7) + b"value"), record(1)),
    _records("value size above the record", record(value=varint(50) + b"v"), record(1)),
    _records("value size one above", record(value=varint(6) + b"value"), record(1)),
    _records("value size one below", record(value=varint(4) + b"value"), record(1)),
    _records("value size 2147483647", record(), record(1, value=varint(2**31 - 1) + b"v")),
    # headers
    _records("header count -1", record(headers=varint(-1)), record(1)),
    _records("header count 1 without any", record(headers=varint(1)), record(1)),
    _records("header count 2147483647", record(headers=varint(2**31 - 1)), record(1)),
    _records("header count above the bytes", record(), record(1, headers=varint(3) + sized(b"h") + sized(b"v"))),
    _records("header count below", record(headers=varint(1) + 2 * (sized(b"h") + sized(b"v"))), record(1)),
    _records("header without a key", record(headers=varint(1) + sized(None) + sized(b"v")), record(1)),
    _records("header key size -9", record(headers=varint(1) + varint(-9) + sized(b"v")), record(1)),
    _records("header key size above", record(headers=varint(1) + varint(99) + b"h" + sized(b"v")), record(1)),
    _records("header key is no UTF-8", record(headers=varint(1) + sized(b"\xff\xfe") + sized(b"v")), record(1)),
    _records("header value size -9", record(headers=varint(1) + sized(b"h") + varint(-9)), record(1)),
    _records("header value size above", record(headers=varint(1) + sized(b"h") + varint(99) + b"v"), record(1)),
    _records("header value size in 6 bytes", record(headers=varint(1) + sized(b"h") + LONG_VARINT), record(1)),
    _records("headers twice the same", record(headers=varint(2) + 2 * (sized(b"h") + sized(b"v"))), record(1)),
    # attributes of records
    _records("attributes of a record", record(attributes=1), record(1, attributes=0xFF)),
    # timestamps
    _header("max timestamp above", max_ms=NOW_MS + 1000),
    _header("max timestamp below", max_ms=NOW_MS),
    _header("max timestamp -1", max_ms=-1),
    _header("max timestamp -5", max_ms=-5),
    _header("max timestamp far ahead", max_ms=NOW_MS + 10**10),
    _header("base timestamp far ahead", base_ms=NOW_MS + 10**10),
    _header("base timestamp long ago", base_ms=1000),
    _header("base timestamp -1", base_ms=-1),
    _header("base timestamp -2", base_ms=-2, max_ms=-2),
    _header("base timestamp 2**63-1", base_ms=2**63 - 1, max_ms=-1),
    _header("base timestamp -2**63", base_ms=-(2**63)),
    _records("no timestamps", record(), record(1), base_ms=-1, max_ms=-1),
    _records("one timestamp", record(), record(1, time_ms=NOW_MS + 1), base_ms=-1, max_ms=NOW_MS),
    _records("timestamps far ahead, header not", record(), record(1, time_ms=10**10), max_ms=NOW_MS),
    _records("timestamps long ago, header not", record(), record(1, time_ms=-(10**10)), max_ms=NOW_MS),
    _records("timestamps negative", record(time_ms=-NOW_MS - 5), record(1, time_ms=-NOW_MS - 9), max_ms=NOW_MS),
    _records("timestamps descend", record(time_ms=5), record(1, time_ms=3), max_ms=NOW_MS + 5),
    _records("timestamps wrap", record(time_ms=2**63 - 1), record(1)),
    _records("timestamp far ahead, and no key", record(key=sized(None), time_ms=10**10), record(1)),
    _records("no key, and another far ahead", record(key=sized(None)), record(1, time_ms=10**10)),
    # attributes
    _header("attributes with log-append time", attributes=8),
    _header("attributes with log-append time, no time", attributes=8, max_ms=-1),
    _header("attributes with log-append time, far ahead", attributes=8, max_ms=NOW_MS + 10**10),
    _header("attributes with control", attributes=0x20),
    _header("attributes with transactional and control", attributes=0x30, producer=(71, 0, 0)),
    _header("attributes with delete horizon", attributes=0x40),
    _header("attributes with delete horizon, max timestamp above", attributes=0x40, max_ms=NOW_MS + 9),
    _header("attributes with bit 7", attributes=0x80),
    _header("attributes with bit 7, max timestamp above", attributes=0x80, max_ms=NOW_MS + 9),
    _header("attributes with bit 8", attributes=0x100),
    _header("attributes with bit 15", attributes=0x8000),
    _header("attributes with bits 7 to 15, max timestamp above", attributes=0xFF80, max_ms=NOW_MS + 9),
    Case("compression 5", lambda _: batch(attributes=5), only=("none",)),
    Case("compression 6", lambda _: batch(attributes=6), only=("none",)),
    Case("compression 7", lambda _: batch(attributes=7), only=("none",)),
    Case("compression 5, count above", lambda _: batch(attributes=5, count=9), only=("none",)),
    *(
        Case(f"{name} is said, the records are as they are", lambda _, i=number: batch(attributes=i), only=("none",))
        for number, name in enumerate(COMPRESSIONS[1:], 1)
    ),
    *(
        Case(
            f"{name} is said, there are no records",
            lambda _, i=number: batch([], attributes=i, count=1),
            only=("none",),
        )
        for number, name in enumerate(COMPRESSIONS[1:], 1)
    ),
    *(
        Case(f"{name} is said, one byte follows", lambda _, i=number: batch([b"\0"], attributes=i), only=("none",))
        for number, name in enumerate(COMPRESSIONS[1:], 1)
    ),
    Case("none is said, it is gzip", lambda _: batch([compress("gzip", b"".join(three()))], count=3), only=("none",)),
    # compressed bytes
    _packed("compressed: cut off at the end", lambda data: data[:-1]),
    _packed("compressed: cut off by 4", lambda data: data[:-4]),
    _packed("compressed: cut off by 8", lambda data: data[:-8]),
    _packed("compressed: half", lambda data: data[: len(data) // 2]),
    _packed("compressed: a byte after the end", lambda data: data + b"\0"),
    _packed("compressed: many bytes after the end", lambda data: data + b"no frame" * 9),
    _packed("compressed: zeros after the end", lambda data: data + bytes(64)),
    _packed("compressed: first byte changed", lambda data: _flipped(data, 0)),
    _packed("compressed: second byte changed", lambda data: _flipped(data, 1)),
    _packed("compressed: last byte changed", lambda data: _flipped(data, -1)),
    _packed("compressed: twice the same", lambda data: data + data),
    _packed("compressed: an empty frame after it", lambda data: data + compress("gzip", b""), "gzip"),
    _packed("compressed: an empty frame after it", lambda data: data + compress("lz4", b""), "lz4"),
    _packed("compressed: an empty frame after it", lambda data: data + compress("zstd", b""), "zstd"),
    _packed("compressed: an empty frame before it", lambda data: compress("gzip", b"") + data, "gzip"),
    _packed("compressed: an empty frame before it", lambda data: compress("lz4", b"") + data, "lz4"),
    _packed("compressed: an empty frame before it", lambda data: compress("zstd", b"") + data, "zstd"),
    # producers
    _header("idempotent", producer=(72, 0, 0)),
    _header("idempotent, sequence wraps", producer=(73, 0, 2**31 - 2)),
    _header("idempotent without a sequence", producer=(74, 0, -1)),
    _header("idempotent, sequence -2", producer=(74, 0, -2)),
    _header("idempotent without an epoch", producer=(75, -1, 0)),
    _header("an epoch without a producer", producer=(-1, 3, 0)),
    _header("a sequence without a producer", producer=(-1, -1, 5)),
    _header("producer -2", producer=(-2, 0, 0)),
    _header("transactional without a producer", attributes=0x10),
    # other fields of the header
    _header("base offset 7", base_offset=7),
    _header("base offset -1", base_offset=-1),
    _header("base offset 2**63-1", base_offset=2**63 - 1),
    _header("leader epoch 0", leader_epoch=0),
    _header("leader epoch 77", leader_epoch=77),
    _header("leader epoch -2", leader_epoch=-2),
    _header("wrong CRC", crc_off=1),
    _header("wrong CRC and count", crc_off=1, count=9),
    _header("magic 0", magic=0),
    _header("magic 1", magic=1),
    _header("magic 3", magic=3),
    _header("magic 127", magic=127),
    _header("magic -1", magic=-1),
    _header("length one above", length_off=1),
    _header("length one below", length_off=-1),
    _header("length far below", length_off=-30),
    # the records of a partition
    _all("two batches", lambda compression: batch(compression=compression) * 2),
    _all("a batch and bytes", lambda compression: batch(compression=compression) + b"x" * 11),
    _all("a batch and many zeros", lambda compression: batch(compression=compression) + bytes(100)),
    _all("a batch and half a batch", lambda compression: batch(compression=compression) + batch()[:70]),
    Case("no bytes", lambda _: b"", only=("none",)),
    Case("bytes of no batch", lambda _: b"x" * 100, only=("none",)),
    Case("half a header", lambda _: batch()[:40], only=("none",)),
    Case("a header that says it is alone", lambda _: batch([], count=1)[:61], only=("none",)),
    # old versions
    Case("version 3", lambda compression: batch(compression=compression), version=3),
    Case("version 3, count above", lambda compression: batch(compression=compression, count=9), version=3),
    Case("version 6", lambda compression: batch(compression=compression), version=6),
    Case("version 8, count above", lambda compression: batch(compression=compression, count=9), version=8),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A broker's result: response, appended offsets, and stored bytes without timestamps."""

    error: str
    message: str | None
    record_errors: tuple[tuple[int, str | None], ...]
    base_offset: bool
    log_start_offset: int
    append_time: bool
    appended: int
    kept: str

    def __str__(self) -> str:
        result = f"{self.error} {_comparable(self.message)} records={_comparable(str(self.record_errors))}"
        start = f"start={self.log_start_offset} base={self.base_offset} time={self.append_time}"
        return f"{result} {start} +{self.appended} kept={self.kept}"


def _comparable(text: str | None) -> str:
    """Return a message without brokers' timestamps, and without Java's string forms of records."""
    return re.sub(
        r"in message .*?\. Producer", "in message (record). Producer", re.sub(r"\d{13,}", "(time)", str(text))
    )


def _relative(time_ms: int) -> str:
    """Return a time as sent, or "now" for a later time, which is from the broker's clock."""
    after = time_ms - NOW_MS
    return "the broker's" if 50_000 < after < 10**9 else f"sent {after:+}" if abs(after) <= 10**11 else str(time_ms)


class Player:
    """Sends batches to one broker, which has one topic of each kind."""

    def __init__(self, port: int, kinds: Mapping[str, Mapping[str, str]] = KINDS) -> None:
        self._port = port
        self._wire = Wire(port, timeout_s=20)
        self.kinds = tuple(kinds)
        topics = tuple(
            CreatableTopic(
                name=f"{TOPIC}-{kind}",
                num_partitions=1,
                replication_factor=1,
                configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
            )
            for kind, configs in kinds.items()
        )
        made = self._wire.request(CreateTopicsRequest(topics=topics, timeout_ms=20_000), 5)
        assert [topic.error_code for topic in made.topics] == [0] * len(topics), made
        self._ends = self._wait_for_ends()

    def close(self) -> None:
        self._wire.socket.close()

    def _wait_for_ends(self) -> dict[str, int]:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = self._list()
            if all(code == 0 for code, _ in found.values()):
                return {kind: offset for kind, (_, offset) in found.items()}
        raise AssertionError(f"topics do not become ready: {found}")

    def _list(self) -> dict[str, tuple[int, int]]:
        topics = tuple(
            ListOffsetsTopic(
                name=f"{TOPIC}-{kind}", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)
            )
            for kind in self.kinds
        )
        found = self._wire.request(ListOffsetsRequest(replica_id=-1, topics=topics), 8).topics
        return {
            one.name.removeprefix(f"{TOPIC}-"): (one.partitions[0].error_code, one.partitions[0].offset)
            for one in found
        }

    def play(self, data: bytes, version: int) -> dict[str, Outcome]:
        """Send a batch to each kind of topic, and return the outcomes."""
        topics = tuple(
            TopicProduceData(name=f"{TOPIC}-{kind}", partition_data=(PartitionProduceData(index=0, records=data),))
            for kind in self.kinds
        )
        try:
            response = self._wire.request(ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=topics), version)
        except ConnectionError:
            self._wire = Wire(self._port, timeout_s=20)
            return {kind: Outcome("closed", None, (), False, -1, False, 0, "") for kind in self.kinds}
        ends = {kind: offset for kind, (_, offset) in self._list().items()}
        found = {}
        for topic in response.responses:
            kind = topic.name.removeprefix(f"{TOPIC}-")
            (part,) = topic.partition_responses
            appended = ends[kind] - self._ends[kind]
            found[kind] = Outcome(
                error=ErrorCode(part.error_code).name,
                message=part.error_message,
                record_errors=tuple(
                    (record_error.batch_index, record_error.batch_index_error_message)
                    for record_error in part.record_errors
                ),
                base_offset=part.base_offset == self._ends[kind],
                log_start_offset=part.log_start_offset,
                append_time=part.log_append_time_ms > 0,
                appended=appended,
                kept=self._kept(kind, data) if appended else "",
            )
        self._ends = ends
        return {kind: found[kind] for kind in self.kinds}

    def _kept(self, kind: str, sent: bytes) -> str:
        """Return the stored bytes; only the header of recompressed batches."""
        topic = FetchTopic(
            topic=f"{TOPIC}-{kind}",
            partitions=(FetchPartition(partition=0, fetch_offset=self._ends[kind], partition_max_bytes=1 << 20),),
        )
        request = FetchRequest(replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=(topic,))
        data = self._wire.request(request, 11).responses[0].partitions[0].records or b""
        if len(data) < HEADER_BYTES:
            return "nothing"
        offset, length, epoch, magic, crc, attributes, delta, base_ms, max_ms, *rest = HEADER.unpack_from(data)
        data = data[: LOG_OVERHEAD + length]
        right = crc == google_crc32c.value(data[CRC_START:])
        body = data[HEADER_BYTES:]
        same = body == sent[HEADER_BYTES : len(data)]
        content = "as sent" if same else "compressed again" if attributes & 7 else body[:200].hex()
        times = tuple(_relative(one) for one in (base_ms, max_ms))
        head = (offset - self._ends[kind], epoch, magic, attributes, delta, *times, *rest)
        return f"{head} crc {'right' if right else 'wrong'} {content}"
