"""Encoding and decoding of batches of all formats, and problems of damaged batches."""

import gzip
import io
import struct
import tracemalloc
import zlib

import cramjam
import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.codecs.batches import (
    COMPRESSIONS,
    Batch,
    BatchProblem,
    BatchRecord,
    ControlRecord,
    ProblemReason,
    TimestampType,
    control_record,
    encode_batch,
    encode_like,
    encode_marker,
    frames,
    read_batches,
)
from quorate.codecs.batches.compression import DecompressionError, TooLargeError, compress, decompress
from quorate.codecs.batches.writer import assemble_batch, encode_pair
from tests.codecs.helpers.batch_strategies import batches

RECORDS = [BatchRecord(offset=10 + n, timestamp_ms=1_000 + n, key=b"k%d" % n, value=b"value" * 20) for n in range(3)]
COMPRESSED = COMPRESSIONS[1:]


def only(data: bytes, **how: object) -> Batch:
    (batch,) = read_batches(data, **how)
    assert isinstance(batch, Batch)
    return batch


def problem_in(data: bytes, **how: object) -> BatchProblem:
    """Return the problem that `read_batches` finds, or that reading the batch's records finds."""
    (found,) = read_batches(data, **how)
    if isinstance(found, Batch):
        found = list(found.records())[-1]
    assert isinstance(found, BatchProblem)
    return found


def repacked(data: bytes, body: bytes, **fields: int) -> bytes:
    """Return a magic 2 batch with another body or header fields, and a correct length and CRC."""
    places = {"attributes": (21, ">h"), "last_offset_delta": (23, ">i"), "count": (57, ">i")}
    header = bytearray(data[:61])
    for name, value in fields.items():
        at, code = places[name]
        struct.pack_into(code, header, at, value)
    struct.pack_into(">i", header, 8, 49 + len(body))
    header[17:21] = google_crc32c.value(bytes(header[21:]) + body).to_bytes(4)
    return bytes(header) + body


# ---- round trips


@given(written=batches())
def test_encoded_batches_decode_to_the_same_records(written):
    data = written.data
    append_time = written.arguments.get("log_append_time_ms")
    found = list(read_batches(data))
    records = [record for batch in found for record in batch.records()]
    base_sequence = written.arguments.get("base_sequence", -1)
    expected = []
    for record in written.records:
        sequence = -1
        if base_sequence >= 0:
            sequence = (base_sequence + record.offset - written.records[0].offset) % (1 << 31)
        timestamp = record.timestamp_ms if append_time is None else append_time
        expected.append(
            BatchRecord(
                offset=record.offset,
                timestamp_ms=timestamp,
                key=record.key,
                value=record.value,
                headers=record.headers,
                sequence=sequence,
            )
        )
    assert records == expected
    assert sum(batch.header.size_bytes for batch in found) == len(data)


@given(written=st.lists(batches(), max_size=4))
def test_batches_of_different_formats_are_read_from_one_log(written):
    data = b"".join(one.data for one in written)
    whole = list(read_batches(data))
    assert b"".join(batch.data for batch in whole) == data
    assert [batch.header.position for batch in whole] == [
        sum(len(b.data) for b in whole[:n]) for n in range(len(whole))
    ]
    assert list(read_batches(io.BytesIO(data))) == whole


@pytest.mark.parametrize("block", [17, 61, 100, 1 << 20])
def test_batches_that_cross_blocks_of_a_file_are_read(monkeypatch, block):
    monkeypatch.setattr(frames, "_BLOCK_BYTES", block)
    written = [encode_batch(RECORDS[: 1 + n % 3], base_offset=10, compression=COMPRESSIONS[n % 5]) for n in range(20)]
    found = list(read_batches(b"".join(written)))
    assert [batch.data for batch in found] == written


def test_sequence_numbers_wrap_to_zero():
    """KIP-98: 0 follows 2³¹ - 1."""
    batch = only(encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0x7FFFFFFF))
    assert [record.sequence for record in batch.records()] == [0x7FFFFFFF, 0, 1]
    assert batch.header.last_sequence == 1


def test_records_that_are_encoded_one_by_one_give_the_same_batch():
    pairs = [(None if n % 3 else b"k" * n, None if n % 5 == 1 else b"v" * n) for n in range(300)]
    records = [
        BatchRecord(offset=70 + n, timestamp_ms=1_000, key=key, value=value) for n, (key, value) in enumerate(pairs)
    ]
    encoded = b"".join(encode_pair(key, value, delta) for delta, (key, value) in enumerate(pairs))
    made = assemble_batch(encoded, 300, base_offset=70, timestamp_ms=1_000, partition_leader_epoch=3)
    assert made == encode_batch(records, partition_leader_epoch=3)


def test_batch_emptied_by_compaction_has_no_records():
    data = encode_batch([], base_offset=5, last_offset_delta=9, producer_id=3, producer_epoch=1, base_sequence=4)
    batch = only(data)
    assert (batch.header.count, batch.header.last_offset, list(batch.records())) == (0, 14, [])
    assert encode_like(batch.header, []) == data
    assert list(only(repacked(data, b"", attributes=4)).records()) == []  # the header still has zstd


def test_header_keys_that_are_not_utf8_are_kept():
    record = BatchRecord(offset=0, timestamp_ms=0, key=None, value=None, headers=(("\udcff", b"x"),))
    data = encode_batch([record])
    assert b"\xff" in data
    (found,) = only(data).records()
    assert encode_batch([found]) == data


def test_log_append_time_is_the_time_of_every_record():
    batch = only(encode_batch(RECORDS, log_append_time_ms=5_000))
    assert batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in batch.records()} == {5_000}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"magic": 3}, "magic 3 is not known"),
        ({"compression": "brotli"}, "compression 'brotli' is not known"),
        ({"magic": 1, "compression": "zstd"}, "KIP-110"),
        ({"magic": 1, "transactional": True}, "no producers"),
        ({"magic": 1, "producer_id": 1}, "no producers"),
        ({"magic": 0, "log_append_time_ms": 1}, "no timestamps"),
    ],
)
def test_values_that_a_format_cannot_hold_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        encode_batch(RECORDS, **arguments)


def test_headers_in_old_formats_and_empty_batches_are_rejected():
    with pytest.raises(ValueError, match="no record headers"):
        encode_batch([BatchRecord(offset=0, timestamp_ms=0, key=b"", value=b"", headers=(("a", b""),))], magic=1)
    with pytest.raises(ValueError, match="needs base_offset"):
        encode_batch([])


# ---- control records


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_marker_is_a_control_record(commit):
    data = encode_marker(commit=commit, offset=8, timestamp_ms=9, producer_id=4, producer_epoch=2, coordinator_epoch=6)
    batch = only(data)
    assert (batch.header.control, batch.header.transactional, batch.header.producer_id) == (True, True, 4)
    (record,) = batch.records()
    assert control_record(record.key, record.value) == ControlRecord(
        type_id=int(commit),
        name="COMMIT" if commit else "ABORT",
        version=0,
        coordinator_epoch=6,
        key_bytes=record.key,
        value_bytes=record.value,
    )


@pytest.mark.parametrize(
    ("key", "value", "type_id", "name", "coordinator_epoch"),
    [
        ("00000002", "0000", 2, "LEADER_CHANGE", None),
        ("00000006", "0000", 6, "KRAFT_VOTERS", None),
        ("00000063", "00000000", 99, "UNKNOWN", None),
        ("00070001", "000000000005", 1, "COMMIT", 5),  # a later key version is read as version 0
        ("ffff0001", "000000000005", None, "UNKNOWN", None),
        ("000000", "", None, "UNKNOWN", None),
        (None, None, None, "UNKNOWN", None),
        ("00000001", "0000", 1, "COMMIT", None),
        ("00000000", None, 0, "ABORT", None),
    ],
)
def test_control_records_of_all_kinds_are_decoded(key, value, type_id, name, coordinator_epoch):
    raw = [None if part is None else bytes.fromhex(part) for part in (key, value)]
    record = control_record(*raw)
    assert (record.type_id, record.name, record.coordinator_epoch) == (type_id, name, coordinator_epoch)
    assert (record.key_bytes, record.value_bytes) == tuple(raw)


# ---- compression


def with_payload(compression: str, payload: bytes) -> bytes:
    return repacked(encode_batch(RECORDS), payload, attributes=COMPRESSIONS.index(compression))


@pytest.mark.parametrize(
    ("compression", "pack"),
    [
        ("snappy", lambda body: bytes(cramjam.snappy.compress_raw(body))),
        ("snappy", lambda body: compress("snappy", body[:30]) + compress("snappy", body[30:])),
        ("lz4", lambda body: bytes(cramjam.lz4.compress(body))),
        ("gzip", lambda body: gzip.compress(body[:30]) + gzip.compress(body[30:])),
        ("zstd", lambda body: bytes(cramjam.zstd.compress(body[:30])) + bytes(cramjam.zstd.compress(body[30:]))),
    ],
    ids=["raw snappy", "joined xerial", "linked lz4 blocks", "gzip members", "zstd frames"],
)
def test_compression_framings_of_other_clients_are_read(compression, pack):
    data = with_payload(compression, pack(encode_batch(RECORDS)[61:]))
    assert list(only(data).records()) == RECORDS


@pytest.mark.parametrize("magic", [0, 1])
def test_lz4_with_the_header_checksum_of_old_clients(magic):
    """KAFKA-3160: old clients include the magic number in the checksum, and Kafka writes it so."""
    stamped = [BatchRecord(offset=n, timestamp_ms=5 if magic else -1, key=b"k", value=b"v" * 99) for n in range(3)]
    data = bytearray(encode_batch(stamped, magic=magic, compression="lz4"))
    checksum = data.index(b"\x04\x22\x4d\x18") + 6
    assert data[checksum] == (0x1A if magic == 0 else 0x82)
    data[checksum] = 0x1A ^ 0x82 ^ data[checksum]
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4)
    assert list(only(bytes(data)).records()) == stamped


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("size", [0, 1, 30_000, 200_000])
def test_compression_round_trip(compression, size):
    data = (b"abc" * size)[:size]
    assert decompress(compression, compress(compression, data), size) == data


@pytest.mark.parametrize("compression", COMPRESSED)
def test_decompression_is_bounded(compression):
    """A megabyte of compressed zeros is rejected without allocating the decompressed size."""
    bomb = compress(compression, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        decompress(compression, bomb, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20

    problem = problem_in(with_payload(compression, bomb), max_batch_bytes=8 << 20)
    assert (problem.reason, problem.header.compression) == (ProblemReason.TOO_LARGE, compression)
    assert "8,388,608" in problem.detail


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x20junk"], ids=["4 GiB", "64 MiB"])
def test_snappy_block_with_an_impossible_size_is_rejected(claim):
    problem = problem_in(with_payload("snappy", claim))
    assert problem.reason in (ProblemReason.TOO_LARGE, ProblemReason.BAD_COMPRESSION)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_undecodable_compression_is_a_problem_of_its_batch(compression):
    packed = only(encode_batch(RECORDS, compression=compression)).data[61:]
    for damaged in (packed[:-6], b"", b"\x00" * 40, packed[:12] + b"\xff" * 20):
        data = with_payload(compression, damaged)
        first, second = read_batches(data + encode_batch(RECORDS))
        (problem,) = first.records()
        assert (problem.reason, problem.position, problem.size_bytes) == (ProblemReason.BAD_COMPRESSION, 0, len(data))
        assert list(second.records()) == RECORDS


def test_unknown_compression_is_a_problem():
    problem = problem_in(repacked(encode_batch(RECORDS), b"abc", attributes=5))
    assert problem.reason is ProblemReason.UNKNOWN_COMPRESSION
    assert problem.header.compression == "unknown(5)"


# ---- wrappers of formats 0 and 1


def wrapper(magic: int, offset: int, inside: bytes | None) -> bytes:
    """Return a gzip wrapper message around these bytes."""
    packed = None if inside is None else gzip.compress(inside, mtime=0)
    value = b"\xff\xff\xff\xff" if packed is None else struct.pack(">i", len(packed)) + packed
    tail = struct.pack(">bb", magic, 1) + (struct.pack(">q", 7) if magic else b"") + b"\xff\xff\xff\xff" + value
    return struct.pack(">qiI", offset, 4 + len(tail), zlib.crc32(tail)) + tail


def inner(magic: int, *offsets: int) -> bytes:
    stamped = [BatchRecord(offset=n, timestamp_ms=3 if magic else -1, key=b"k", value=b"v") for n in offsets]
    return encode_batch(stamped, magic=magic)


@pytest.mark.parametrize(
    ("data", "offsets"),
    [
        (wrapper(0, 12, inner(0, 10, 11, 12)), [10, 11, 12]),  # format 0 has absolute offsets
        (wrapper(1, 12, inner(1, 0, 1, 2)), [10, 11, 12]),  # format 1 has offsets relative to the wrapper (KIP-31)
        (wrapper(1, 12, inner(1, 0, 2)), [10, 12]),  # compacted
        (wrapper(1, 0, inner(1, 0, 1, 2)), [0, 1, 2]),  # some clients leave the wrapper at 0; Kafka accepts it
        (wrapper(1, 12, inner(0, 0, 1)), [11, 12]),  # Kafka accepts format 0 inside 1
    ],
)
def test_offsets_inside_wrappers_follow_the_format(data, offsets):
    batch = only(data)
    assert [record.offset for record in batch.records()] == offsets
    assert (batch.header.count, batch.header.compression) == (None, "gzip")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (wrapper(1, 1, inner(1, 0, 1, 2)), "after its wrapper at 1"),
        (wrapper(1, 2, b""), "without records"),
        (wrapper(1, 2, None), "null value"),
        (wrapper(0, 2, inner(1, 0)), "has magic 1, not 0"),
        (wrapper(1, 2, wrapper(1, 2, inner(1, 0))), "is itself compressed"),
        (wrapper(1, 2, inner(1, 0)[:-1]), "has invalid length 24"),
        (wrapper(1, 2, inner(1, 0)[:20]), "is cut off"),
        (wrapper(1, 2, inner(1, 0)[:-1] + b"\x00"), "does not match its CRC"),
    ],
)
def test_invalid_wrappers_are_problems(data, message):
    problem = problem_in(data)
    assert problem.reason is ProblemReason.BAD_RECORDS
    assert message in problem.detail


# ---- problems

WHOLE = encode_batch(RECORDS)
NEXT = encode_batch([BatchRecord(offset=13, timestamp_ms=0, key=b"n", value=b"")])


def flipped(data: bytes, position: int, mask: int = 0x01) -> bytes:
    return data[:position] + bytes((data[position] ^ mask,)) + data[position + 1 :]


@pytest.mark.parametrize(
    ("damaged", "reason", "detail", "by_length"),
    [
        (flipped(WHOLE, 80), ProblemReason.CRC_MISMATCH, f"its header says {WHOLE[17:21].hex()}", True),
        (flipped(WHOLE, 17, 0xFF), ProblemReason.CRC_MISMATCH, f"has CRC {WHOLE[17:21].hex()}", True),
        (flipped(WHOLE, 16), ProblemReason.UNKNOWN_MAGIC, "magic 3; 0, 1 and 2 are known", True),
        (
            flipped(WHOLE, 0, 0x80),
            ProblemReason.BAD_RECORDS,
            "base offset of the batch is -9,223,372,036,854,775,798",
            True,
        ),
        (struct.pack(">qiib", 0, 20, 0, 2) + bytes(15), ProblemReason.BAD_LENGTH, "magic 2 has at least 61", True),
        (struct.pack(">qii", 0, 13, 0), ProblemReason.BAD_LENGTH, "has length 13; the minimum is 14", False),
        (struct.pack(">qii", 0, -5, 0), ProblemReason.BAD_LENGTH, "has length -5; the minimum is 14", False),
        (bytes(50), ProblemReason.BAD_LENGTH, "zero, but more data follows", False),
    ],
)
def test_damaged_batch_is_reported_and_reading_continues_after_it(damaged, reason, detail, by_length):
    """The next batch is found by the length, or by a search if the length is damaged."""
    data = NEXT + damaged + NEXT
    whole, problem = read_batches(data)
    assert isinstance(whole, Batch)
    assert (problem.reason, problem.position) == (reason, len(NEXT))
    assert detail in problem.detail
    assert problem.size_bytes == len(damaged) + (0 if by_length else len(NEXT))
    _, skipped, following = read_batches(data, skip_corrupt=True)
    assert (skipped.reason, skipped.position, skipped.size_bytes) == (reason, len(NEXT), len(damaged))
    assert (following.data, following.header.position) == (NEXT, len(NEXT) + len(damaged))


@pytest.mark.parametrize("left", [8, 11, 12, 16, 17, 60, 61, len(WHOLE) - 1])
def test_torn_tail_reports_the_remaining_bytes(left):
    """A tail of zeros only is preallocated space, as offsets also begin with zeros."""
    whole, problem = read_batches(NEXT + WHOLE[:left])
    assert isinstance(whole, Batch)
    assert (problem.reason, problem.position, problem.size_bytes) == (ProblemReason.TORN_TAIL, len(NEXT), left)
    assert f"{left} bytes are left at" in problem.detail
    assert (f"has {len(WHOLE)} bytes" in problem.detail) == (left >= 17)


@pytest.mark.parametrize("zeros", [1, 11, 16, 17, 100, 3 << 20])
def test_preallocated_zeros_are_not_a_problem(zeros):
    (batch,) = read_batches(WHOLE + bytes(zeros))
    assert batch.data == WHOLE


def test_batch_over_the_size_limit_is_a_problem():
    data = encode_batch([BatchRecord(offset=0, timestamp_ms=0, key=None, value=bytes(5_000))])
    problem = problem_in(data, max_batch_bytes=4_000)
    assert problem.reason is ProblemReason.TOO_LARGE
    assert f"{len(data):,} bytes" in problem.detail
    assert only(data, max_batch_bytes=len(data)).data == data


def test_records_before_the_damage_are_returned():
    body = WHOLE[61:]
    batch = only(repacked(WHOLE, body[:-1]))
    *records, problem = batch.records()
    assert records == RECORDS[:2]
    assert problem.reason is ProblemReason.BAD_RECORDS
    assert problem_in(repacked(WHOLE, body, count=-1)).detail.endswith("has record count -1")
    *records, problem = only(repacked(WHOLE, body + b"\x00")).records()
    assert records == RECORDS
    assert "1 bytes are left" in problem.detail
    *records, problem = only(repacked(WHOLE, body, count=4)).records()
    assert records == RECORDS
    assert problem.reason is ProblemReason.BAD_RECORDS


@pytest.mark.parametrize(
    ("compression", "after"),
    [("gzip", b"\0"), ("gzip", b"no member" * 9), ("lz4", b"\0"), ("lz4", compress("lz4", b"more")), ("snappy", b"\0")],
)
def test_bytes_after_the_compressed_records_are_ignored_as_by_kafka(compression: str, after: bytes) -> None:
    packed = compress(compression, b"records")
    assert decompress(compression, packed + after, 100) == b"records"


def test_each_gzip_member_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """45,000 empty members took 5 s, as each one was passed all following bytes (issue 14)."""
    given: list[int] = []
    make = zlib.decompressobj

    class Counted:
        def __init__(self, wbits: int) -> None:
            self.member = make(wbits)

        def decompress(self, data: bytes, most: int) -> bytes:
            given.append(len(data))
            return self.member.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self.member, name)

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    members = gzip.compress(b"", mtime=0) * 1000
    assert decompress("gzip", members + bytes(30), 10_000) == b""
    assert sum(given) < 10 * len(members)


def test_gzip_members_are_bounded_by_their_total_size() -> None:
    members = gzip.compress(bytes(6_000), mtime=0) * 2
    assert decompress("gzip", members + bytes(30), 12_000) == bytes(12_000)
    with pytest.raises(TooLargeError):
        decompress("gzip", members + bytes(30), 11_999)


def test_bytes_after_the_last_gzip_member_are_ignored() -> None:
    one, two = (compress("gzip", text) for text in (b"one", b"two" * 1000))
    assert decompress("gzip", one + two + b"no member" * 9, 10_000) == b"one" + b"two" * 1000
    with pytest.raises(DecompressionError):
        decompress("gzip", one + two[:-1], 10_000)
