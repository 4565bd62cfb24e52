"""The loops over batches in C and in NumPy have the same results, also for damaged blocks.

Skipped if quorate was installed without a compiler. CI installs it with one.
"""

import ctypes
import mmap
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import extension
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.batches.model import ProblemReason
from quorate.codecs.batches.reader import check
from quorate.codecs.columnar.flat import decode_flat
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.log import walker
from quorate.codecs.log.batch_starts import batch_starts as starts_of
from quorate.codecs.log.blocks import Batches, Records, computed_crcs, crc_mismatches, headers_of, some_records_of
from quorate.codecs.log.walker import Walker
from quorate.codecs.messages import OffsetCommitValue
from tests.codecs.helpers.batch_strategies import batches
from tests.extent import portion

NATIVE = walker.walker()
pytestmark = pytest.mark.skipif(NATIVE is None, reason="installed without a compiler")

LIMIT = 1 << 20
MOST = 0x7FFFFFFF


def in_python(function: Callable[..., Any], *arguments: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extension, "_extension", None)
        return function(*arguments)


def plain_facts(found: Batches) -> list[tuple[Any, ...]]:
    """Return the header of each batch, or what is read of a batch without one."""
    names = [name for name in Batches.__slots__ if name not in ("block", "plain", "start", "end", "base_offset")]
    rest = [getattr(found, name).tolist() for name in names]
    every = zip(found.start.tolist(), found.end.tolist(), found.base_offset.tolist(), strict=True)
    return [
        (*these, *(of[place] for of in rest)) if plain else these
        for place, (these, plain) in enumerate(zip(every, found.plain.tolist(), strict=True))
    ]


def rows(records: Records) -> list[tuple[Any, ...]]:
    return [
        (records.keys.bytes_at(place), records.values.bytes_at(place), *facts)
        for place, facts in enumerate(
            zip(records.batch.tolist(), records.offset.tolist(), records.timestamp.tolist(), strict=True)
        )
    ]


def everything(block: bytes) -> tuple[Any, ...]:
    """Read a block without looking at its CRCs, and return all that was found."""
    starts, end = starts_of(block, MOST)
    if not len(starts):
        return (end,)
    found = headers_of(block, starts, end)
    damaged = crc_mismatches(found).tolist()
    crcs = computed_crcs(block, found.start, found.end).tolist()
    problems = [
        check(block, start, end, 0) for start, end in zip(found.start.tolist(), found.end.tolist(), strict=True)
    ]
    has_header = [
        problem is None or problem.reason not in (ProblemReason.UNKNOWN_MAGIC, ProblemReason.BAD_LENGTH)
        for problem in problems
    ]
    left = found.select(np.flatnonzero(has_header))
    read = []
    while len(left):
        records, broken, used = some_records_of(left, LIMIT)
        read.append((rows(records), [str(problem) for problem in broken], used))
        left = left.select(np.arange(used, len(left)))
    return end, plain_facts(found), damaged, crcs, read


def assert_equal(block: bytes) -> tuple[Any, ...]:
    found = everything(block)
    assert found == in_python(everything, block)
    return found


@st.composite
def block_of_batches(draw: st.DrawFn) -> bytes:
    parts = draw(st.lists(batches().map(lambda written: written.data), min_size=1, max_size=4))
    if draw(st.booleans()):
        marker = encode_marker(commit=draw(st.booleans()), offset=9, timestamp_ms=1, producer_id=4, producer_epoch=0)
        parts.insert(draw(st.integers(0, len(parts))), marker)
    return b"".join(parts) * draw(st.sampled_from([1, 1, 2, 40]))


@settings(max_examples=portion(300), deadline=None)
@given(block_of_batches())
def test_whole_blocks_are_read_equally(block: bytes) -> None:
    end, *_ = assert_equal(block)
    assert end == len(block)


TYPED = (
    st.none()
    | st.sampled_from([b"", b"\0", b"\xff\xff", b"\x80\0key"])
    | st.integers(0, 300).map(lambda n: n.to_bytes(2) + b"k")
)


@settings(max_examples=portion(300), deadline=None)
@given(
    st.lists(st.lists(st.tuples(TYPED, st.booleans()), min_size=1, max_size=5), max_size=20), st.binary(max_size=300)
)
def test_types_are_left_out_equally(found: list[list[tuple[bytes | None, bool]]], types: bytes) -> None:
    left_out = bytes(byte & 1 for byte in types)
    block = b"".join(
        encode_batch(
            [
                BatchRecord(offset=n, timestamp_ms=n, key=key, value=b"v", headers=(("h", b"v"),) if unusual else ())
                for n, (key, unusual) in enumerate(batch)
            ]
        )
        for batch in found
    )
    if not block:
        return
    batches = headers_of(block, *starts_of(block, MOST))
    whole, _, used = some_records_of(batches, LIMIT)
    expected = [row for row in rows(whole) if row[0] is None or len(row[0]) < 2 or not _is_in(left_out, row[0])]
    for read in (some_records_of(batches, LIMIT, left_out), in_python(some_records_of, batches, LIMIT, left_out)):
        assert (rows(read[0]), read[1:]) == (expected, ([], used))


def _is_in(left_out: bytes, key: bytes) -> bool:
    number = int.from_bytes(key[:2])
    return number < len(left_out) and left_out[number] == 1


BYTES = st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255)
CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.lists(BYTES, min_size=1, max_size=6)), max_size=4)


# In `make test`, test_damaged_records_are_read_equally and test_log_columns.py damage more logs.
@settings(max_examples=portion(1000, usual=100), deadline=None)
@given(block_of_batches(), CHANGES, st.floats(0, 1), st.booleans())
def test_damaged_blocks_are_read_equally(block: bytes, changes: Any, kept: float, cut: bool) -> None:
    data = bytearray(block[: int(kept * len(block))] if cut else block)
    for place, values in changes:
        at = int(place * len(data))
        data[at : at + len(values)] = bytes(values)[: len(data) - at]
    assert_equal(bytes(data))


@settings(max_examples=portion(1000), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 5), st.integers(0, 8))
def test_damaged_records_are_read_equally(seed: int, count: int, changed: int) -> None:
    """Small records, so that most of the changed bytes are lengths and deltas."""
    random = Random(seed)
    records = [
        BatchRecord(
            offset=7 + i,
            timestamp_ms=1000 * i * random.choice([0, 1, 10**9]),
            key=random.choice([None, b"", b"key"]),
            value=random.choice([None, b"", bytes(random.choice([1, 63, 64, 8191, 8192]))]),
        )
        for i in range(count)
    ]
    one = bytearray(encode_batch(records))
    for _ in range(changed):
        at = random.randrange(57, min(len(one), 100))
        one[at] = random.choice([0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF, random.randrange(256)])
    assert_equal(bytes(one) * 40)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (slice(8, 12), b"\x7f\xff\xff\xff"),  # the length of the batch
        (slice(57, 61), b"\x7f\xff\xff\xff"),  # the number of records
        (slice(57, 61), b"\xff\xff\xff\xff"),
        (slice(0, 8), b"\x7f" + 7 * b"\xff"),  # the base offset
        (slice(27, 35), b"\x7f" + 7 * b"\xff"),  # the base timestamp
        (slice(27, 35), b"\x80" + 7 * b"\x00"),
        (slice(61, 66), b"\xff\xff\xff\xff\x0f"),  # the length of the record
        (slice(61, 66), b"\xff\xff\xff\xff\xff"),
        (slice(65, 70), b"\xfe\xff\xff\xff\x0f"),  # the length of the key
    ],
)
def test_extreme_numbers_are_read_equally(field: slice, value: bytes) -> None:
    record = BatchRecord(offset=1, timestamp_ms=5, key=b"some key", value=b"some value")
    one = bytearray(encode_batch([record, record]))
    one[field] = value
    for block in (bytes(one), bytes(one) * 50, encode_batch([record]) + bytes(one) + encode_batch([record])):
        assert_equal(block)


@settings(max_examples=portion(300), deadline=None)
@given(st.lists(st.binary(max_size=40) | st.integers(0, 3000).map(bytes), min_size=1), st.booleans())
def test_crcs_are_those_of_google_crc32c(parts: list[bytes], tables_only: bool) -> None:
    native = _native()
    ends = np.cumsum([len(part) for part in parts])
    starts = np.append(0, ends[:-1])
    crcs = np.zeros(len(parts), np.uint32)
    native.batch_crcs(b"".join(parts), starts, ends, crcs, tables_only)
    assert crcs.tolist() == [google_crc32c.value(part) for part in parts]


# ---- wrong arguments


def _native() -> Any:
    assert NATIVE is not None
    return NATIVE._native


@settings(max_examples=portion(300), deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 310), max_size=8))
def test_positions_outside_of_the_block_are_rejected(block: bytes, numbers: list[int]) -> None:
    """Whatever the positions, nothing but an exact result or `ValueError` comes of them."""
    native = Walker(_native())
    half = len(numbers) // 2
    first, end = np.array(numbers[:half], np.int64), np.array(numbers[half : 2 * half], np.int64)
    inside = all(0 <= a <= b <= len(block) for a, b in zip(first.tolist(), end.tolist(), strict=True))
    crcs = np.zeros(half, np.uint32)
    if inside:
        _native().batch_crcs(block, first, end, crcs)
    else:
        with pytest.raises(ValueError, match="outside"):
            _native().batch_crcs(block, first, end, crcs)
    for call in (
        lambda: native.headers(block, first, end),
        lambda: native.records(np.frombuffer(block, np.uint8), first, end, np.ones(half, np.int64), first, end),
    ):
        try:
            call()
        except ValueError as error:
            assert "outside" in str(error)  # noqa: PT017  # either result is right, so long as none is a crash


@pytest.mark.parametrize(("start", "end"), [(50, -(1 << 63)), (-1, 99), (50, 40), (0, 101), ((1 << 63) - 1, 0)])
def test_headers_outside_of_the_block_are_rejected(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        Walker(_native()).headers(bytes(100), np.array([start]), np.array([end]))


def test_arrays_of_other_sizes_are_rejected() -> None:
    native, numbers = _native(), np.zeros(4, np.int64)
    block = encode_batch([BatchRecord(offset=0, timestamp_ms=0, key=b"k", value=b"v")])
    for call in (
        lambda: native.batch_headers(block, numbers, numbers[:3], np.zeros((10, 4), np.int64)),
        lambda: native.batch_headers(block, numbers, numbers + len(block), np.zeros((10, 3), np.int64)),
        lambda: native.batch_crcs(block, numbers, numbers, np.zeros(3, np.uint32)),
        lambda: native.batch_records(
            block,
            *[numbers] * 4,
            numbers[:3],
            numbers,
            b"",
            np.zeros(24, np.int64),
            np.zeros(8, np.bool_),
            np.zeros(4, "u1"),
        ),
        # More records than rows, and a count that overflows.
        lambda: native.batch_records(
            block,
            *np.array([[61], [len(block)], [1 << 62], [0], [0], [0]]),
            b"",
            np.zeros(6, np.int64),
            np.zeros(2, "u1"),
            np.zeros(1, "u1"),
        ),
        lambda: native.batch_records(
            block, *[numbers] * 5, numbers[:3], b"", np.zeros(24, np.int64), np.zeros(8, np.bool_), np.zeros(4, "u1")
        ),
    ):
        with pytest.raises(ValueError, match="outside"):
            call()
    with pytest.raises(TypeError, match="read-write"):
        native.batch_crcs(block, numbers[:1], numbers[:1], bytes(4))


@pytest.fixture
def guarded() -> Iterator[Callable[[bytes], Any]]:
    """Copy bytes to the end of a page that is followed by one that cannot be read."""
    if sys.platform == "win32":
        pytest.skip("pages are protected by another function there")
    libc = ctypes.CDLL(None)
    pages: list[Any] = []

    def placed(data: bytes) -> Any:
        size = -(-len(data) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, size + mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert not libc.mprotect(ctypes.c_void_p(address + size), mmap.PAGESIZE, 0)
        memory[size - len(data) : size] = data
        pages.append((memory, address + size))
        return memoryview(memory)[size - len(data) : size]

    yield placed
    for _, address in pages:
        libc.mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, 3)


@pytest.mark.parametrize("size", range(40))
def test_no_byte_after_a_value_is_read(size: int, guarded: Callable[[bytes], Any]) -> None:
    value = b"\0\4" + bytes(12) + b"\5text" + bytes(8) + b"\1\0\x10" + bytes(range(16))
    data = np.frombuffer(guarded(bytes(5) + value[:size]), np.uint8)
    slot = Slots(data, np.array([5]), np.array([len(data)]))
    assert decode_flat(OffsetCommitValue.spec, slot, versioned=True) is None


@pytest.mark.parametrize("seed", range(20))
def test_no_byte_after_the_block_is_read(seed: int, guarded: Callable[[bytes], Any]) -> None:
    random = Random(seed)
    native = Walker(_native())
    records = [BatchRecord(offset=i, timestamp_ms=i, key=b"k" * (i % 3), value=b"v" * i) for i in range(20)]
    data = bytearray(encode_batch(records))
    data[random.randrange(61, len(data))] ^= random.choice([1, 0x80, 0xFF])
    cut = random.randrange(62, len(data) + 1)
    block = guarded(bytes(data[:cut]))
    assert native.starts(block, MOST)[1] in (0, len(data))
    start, end = np.array([0]), np.array([cut])
    assert native.headers(block, start, end)[0].tolist() == [1]
    native.crcs(block, start, end)
    zero = np.zeros(1, np.int64)
    native.records(np.frombuffer(block, np.uint8), start + 61, end, zero + 20, zero, zero)


def test_memory_does_not_grow() -> None:
    record = BatchRecord(offset=1, timestamp_ms=5, key=b"some key", value=b"some value")
    block = bytearray(encode_batch([record, record]) * 2000)
    native = Walker(_native())

    def all_calls() -> None:
        data = np.frombuffer(block, np.uint8)
        starts, end = native.starts(block, MOST)  # type: ignore[arg-type]
        ends = np.append(starts[1:], end)
        fields = native.headers(block, starts, ends)  # type: ignore[arg-type]
        native.crcs(block, starts, ends)  # type: ignore[arg-type]
        zeros = np.zeros(len(starts), np.int64)
        native.records(data, starts + 61, ends, fields[9], zeros, zeros)
        with pytest.raises(ValueError, match="outside"):
            native.records(data, starts + 61, ends + 1, fields[9], zeros, zeros)

    all_calls()
    tracemalloc.start()
    try:
        all_calls()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            all_calls()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000  # one array of a call has 16,000 bytes
    finally:
        tracemalloc.stop()
    block.append(0)  # all calls released the block
