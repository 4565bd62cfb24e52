"""Flat messages are decoded to columns in C; irregular ones are left to Python.

That both have equal results is in `test_columns`. Skipped if quorate was installed without a
compiler. CI installs it with one.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import CONSUMER_OFFSETS, RECORD_TYPES, encode_record
from quorate.codecs.accelerator import fields_of, is_accelerated, program
from quorate.codecs.columnar.flat import ANY, decode_flat, is_flat
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.extension import extension
from quorate.codecs.message import RecordType
from quorate.codecs.messages import OffsetCommitValue
from tests.codecs.helpers.strategies import records_of
from tests.extent import portion

pytestmark = pytest.mark.skipif(not is_accelerated(), reason="installed without a compiler")

FLAT = [
    (kind, version)
    for kind in RECORD_TYPES[CONSUMER_OFFSETS].values()
    if is_flat(kind.value)
    for version in kind.value.versions or ()
]


def slots(items: list[bytes | None]) -> Slots:
    return Slots.of(pa.array(items, pa.binary()))


def test_flat_messages_are_those_without_lists() -> None:
    names = {kind.name for kind, _ in FLAT}
    assert {"OffsetCommit", "ConsumerGroupMetadata", "ConsumerGroupTargetAssignmentMetadata"} <= names
    assert "GroupMetadata" not in names


@pytest.mark.parametrize(("kind", "version"), FLAT, ids=lambda of: of.name if isinstance(of, RecordType) else str(of))
@given(data=st.data())
@settings(max_examples=portion(20), deadline=None)
def test_whole_messages_are_decoded_in_c(kind: RecordType, version: int, data: st.DataObject) -> None:
    found = data.draw(st.lists(records_of(kind, version), min_size=1, max_size=6))
    keys, values = zip(*map(encode_record, found), strict=True)
    if any(record.value is not None and record.value.unknown_tags for record in found):
        assert decode_flat(kind.value, slots([*values]), versioned=True) is None
        return
    for spec, items, messages, versioned in (
        (kind.key, keys, [record.key for record in found], False),
        (kind.value, values, [record.value for record in found], True),
    ):
        decoded = decode_flat(spec, slots([*items]), versioned=versioned)
        assert decoded is not None
        assert decoded.sound is None
        numbers, arrays = decoded.numbers, decoded.columns
        assert [number for number, item in zip(numbers.tolist(), items, strict=True) if item is not None] == [
            int.from_bytes(item[:2]) for item in items if item is not None
        ]
        for field, array in zip(spec.fields, arrays, strict=True):
            array.validate(full=True)
            assert array.to_pylist() == [_plain(message, field.name) for message in messages]


def _plain(message: Any, name: str) -> Any:
    if message is None:
        return None
    value = getattr(message, name)
    return value.bytes if hasattr(value, "bytes") else value


COMMIT = program(OffsetCommitValue.spec, 3, False)


@pytest.mark.parametrize(
    "item",
    [
        b"",
        b"\0",
        b"\0\x09" + bytes(40),  # no such version
        b"\xff\xff" + bytes(40),
        b"\0\3" + bytes(10),  # cut off
        b"\0\3" + bytes(23),  # trailing bytes
        b"\0\3" + bytes(12) + b"\xff\xff" + bytes(8),  # null where there may be none
        b"\0\3" + bytes(12) + b"\xff\xfe" + bytes(8),
        b"\0\3" + bytes(12) + b"\x7f\xff" + bytes(8),
        b"\0\4" + bytes(12) + b"\x81\x00" + bytes(9),  # a varint that is longer than necessary
        b"\0\4" + bytes(12) + b"\x01" + bytes(8) + b"\x01\x09\x00",  # an unknown tagged field
        b"\0\4" + bytes(12) + b"\x01" + bytes(8) + b"\x01\x00\x0f" + bytes(16),  # a wrong size
        b"\0\4" + bytes(12) + b"\x01" + bytes(8) + b"\xff\xff\xff\xff\x7f",
    ],
    ids=lambda item: item.hex()[:60],
)
def test_irregular_messages_are_left_out(item: bytes) -> None:
    good = b"\0\3" + bytes(12) + b"\0\1m" + bytes(8)
    other = b"\0\3" + b"\0\0\0\1" * 3 + b"\0\2no" + bytes(8)
    assert decode_flat(OffsetCommitValue.spec, slots([good, None]), versioned=True) is not None
    assert decode_flat(OffsetCommitValue.spec, slots([good, item, good]), versioned=True) is None
    expected = decode_flat(OffsetCommitValue.spec, slots([good] * 63 + [other, None]), versioned=True)
    found = decode_flat(OffsetCommitValue.spec, slots([good] * 63 + [item, other, None]), versioned=True)
    assert expected is not None
    assert found is not None
    assert found.sound is not None
    assert found.sound.tolist() == [*range(63), 64, 65]
    for column, complete in zip(found.columns, expected.columns, strict=True):
        column.validate(full=True)
        assert column.take(pa.array(found.sound)) == complete
    two = slots([good] * 63 + [item, other, None, item])
    assert decode_flat(OffsetCommitValue.spec, two, versioned=True) is None, "more than a row of 64"


def test_columns_and_layouts_that_do_not_belong_together_are_rejected() -> None:
    native = extension()
    data = np.frombuffer(b"\0\3" + bytes(12) + b"\0\1m" + bytes(8), np.uint8)
    start, end, version, marks = np.array([0]), np.array([len(data)]), np.empty(1, np.int16), np.empty(1, np.bool_)
    spec = OffsetCommitValue.spec
    codes = {"offset": "q", "leader_epoch": "i", "metadata": "s", "topic_id": "u"}
    names = [f.name for f in spec.fields]
    codes |= {name: "q" for name in names if name not in codes}
    order = bytes(names.index(f.name) for f in fields_of(spec, 3))
    twice = bytes(names.index("offset" if f.name == "commit_timestamp" else f.name) for f in fields_of(spec, 3))

    def columns(**changed: Any) -> Any:
        def column(name: str) -> Any:
            code = codes[name]
            space = (np.empty(2, np.int32), np.empty(99, np.uint8)) if code == "s" else (np.empty(1, _kind(code)), None)
            return changed.get(name, (code, *space, np.empty(1, np.bool_)))

        return tuple(map(column, names))

    def decode(layouts: Any, of: Any, start: Any = start, end: Any = end) -> Any:
        return native.decode_columns(native.NativeCodec, layouts, ANY, data, start, end, b"", version, of, marks, 0)

    assert decode(((COMMIT, order),), columns()) is not None
    too_small = ("s", np.empty(2, np.int32), np.empty(0, np.uint8), np.empty(1, np.bool_))
    assert decode(((COMMIT, order),), columns(metadata=too_small)) is None
    for layouts, of in (
        ((), columns()),
        (((COMMIT, order[1:]),), columns()),
        (((COMMIT, bytes([99]) + order[1:]),), columns()),
        (((COMMIT, order[::-1]),), columns()),
        (((COMMIT, twice),), columns()),
        (((COMMIT, order),), columns()[1:]),
        (((COMMIT, order),), (*columns(), columns()[0])),
        (((COMMIT, order),), columns(offset=("q", np.empty(2, np.int64), None, np.empty(1, np.bool_)))),
        (((COMMIT, order),), columns(offset=("q", np.empty(1, np.int64), None, np.empty(2, np.bool_)))),
        (((COMMIT, order),), columns(metadata=("s", np.empty(1, np.int32), np.empty(9, "u1"), np.empty(1, "?")))),
        (((COMMIT, order),), columns(offset=("[", np.empty(1, np.int64), None, np.empty(1, np.bool_)))),
    ):
        with pytest.raises(ValueError, match="do not belong together"):
            decode(layouts, of)
    for first, last in ((-1, 5), (5, 4), (0, len(data) + 1), (1 << 62, -(1 << 62)), (5, -(1 << 63))):
        assert decode(((COMMIT, order),), columns(), np.array([first]), np.array([last])) is None
    with pytest.raises(TypeError):
        decode((("no program", order),), columns())
    marks = np.empty(2, np.bool_)
    with pytest.raises(ValueError, match="do not belong together"):
        decode(((COMMIT, order),), columns())


def _kind(code: str) -> Any:
    return "V16" if code == "u" else code
