"""Messages of any class in any version, generated from our declarations, as Hypothesis strategies.

    messages(ConsumerGroupMemberMetadataValue, version=0)
    records()                      # any record of any topic, type and version

Strings are Unicode without unpaired surrogates, which UTF-8 cannot encode. Arrays and strings are
mostly small; a few are long enough for a length of two or three varint bytes.

A message has dozens of choices. `make test` draws one seed for all of them, which takes a tenth of
the time. With `--hypothesis-profile full` Hypothesis makes each choice, and can shrink a message
that fails.
"""

import math
import struct
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from quorate.codecs.message import FieldSpec, Message, MessageSpec, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.records import CoordinatorRecord
from quorate.codecs.wire import (
    ArrayType,
    BytesType,
    FixedType,
    StringType,
    StructType,
    TaggedField,
    Uuid,
    UuidType,
    WireType,
)
from tests.extent import is_full

T = TypeVar("T")
Generator = Callable[[Random], T]
"""Returns a value for the choices of a `Random`."""

KAFKA = "4.4"
"""The release of the oracle's jars. As `release`, it keeps later fields and our own at defaults."""

RECORD_VERSIONS: list[tuple[RecordType, int]] = [
    (record_type, version)
    for types in RECORD_TYPES.values()
    for record_type in types.values()
    for version in record_type.versions
]
"""Every record type in every value version."""


def version_id(case: object) -> str:
    """Return a readable parameter id."""
    return case.name if isinstance(case, RecordType) else f"v{case}"


def _is_in(release: str | None, newest: str | None) -> bool:
    return (
        release is None or newest is None or [int(p) for p in release.split(".")] <= [int(p) for p in newest.split(".")]
    )


@cache
def _choices() -> SearchStrategy[Random]:
    # Not st.integers: it prefers small numbers, so that seeds would repeat.
    return st.randoms(use_true_random=False) if is_full() else st.binary(min_size=8, max_size=8).map(Random)


def _strategy(generate: Generator[T]) -> SearchStrategy[T]:
    return _choices().map(generate)


# ---- single values

_CHARACTERS = ((0x20, 0x7E), (0, 0xFF), (0, 0xD7FF), (0xE000, 0x10FFFF))
_SPECIAL = (
    "",
    "\x00",
    "é",
    "\uffff",
    "\ue000",
    "\U00010000",
    "🚀",
    "a" * 127,
    "a" * 128,
    "é" * 64,
    "b" * 16384,
    "\u20ac" * 10922,
)
_SPECIAL_BYTES = (b"", b"\x00" * 126, b"\xff" * 127, b"\x01" * 16383, b"\x02" * 40000)


def _short_text(rng: Random) -> str:
    return "".join(chr(rng.randint(*rng.choice(_CHARACTERS))) for _ in range(rng.randint(0, 12)))


def _text(rng: Random) -> str:
    return rng.choice(_SPECIAL) if rng.randint(0, 1) else _short_text(rng)


def _some_bytes(rng: Random, least: int = 0, most: int = 20) -> bytes:
    return bytes(rng.randint(0, 255) for _ in range(rng.randint(least, most)))


def _bytes(rng: Random) -> bytes:
    return rng.choice(_SPECIAL_BYTES) if rng.randint(0, 2) == 0 else _some_bytes(rng)


def _uuid(rng: Random) -> Uuid:
    return Uuid(_some_bytes(rng, 16, 16)) if rng.randint(0, 1) else Uuid.ZERO


def _boolean(rng: Random) -> bool:
    return rng.randint(0, 1) == 1


def _float(rng: Random) -> float:
    (value,) = struct.unpack(">d", _some_bytes(rng, 8, 8))
    return value if math.isfinite(value) and rng.randint(0, 1) else rng.choice((0.0, -0.0, 0.1, -2.5, 5e-324, 1e308))


def _fixed(wire: FixedType) -> Generator[Any]:
    if wire.code in "?d":
        return _boolean if wire.code == "?" else _float
    low, high = wire.bounds
    bits = (high - low).bit_length()

    def integer(rng: Random) -> int:
        """Generate numbers of all lengths, and often the bounds."""
        if rng.randint(0, 1):
            return rng.choice((low, high, 0, 1, high // 2))
        return rng.randint(low, high) >> rng.randint(0, bits - 1)

    return integer


def _arrays(element: Generator[Any], *, many: bool) -> Generator[tuple[Any, ...]]:
    def array(rng: Random) -> tuple[Any, ...]:
        if many and rng.randint(0, 3) == 0:
            return (element(rng),) * rng.choice((16, 17, 126, 127, 128, 3000))
        return tuple(element(rng) for _ in range(rng.randint(0, 3)))

    return array


def _values(wire: WireType, version: int, options: "_Options") -> Generator[Any]:
    match wire:
        case FixedType():
            return _fixed(wire)
        case StringType():
            return _text
        case BytesType():
            return _bytes
        case UuidType():
            return _uuid
        case ArrayType(FixedType() as element):
            return _arrays(_fixed(element), many=True)
        case ArrayType(StringType()):
            return _arrays(_short_text, many=True)  # long texts, repeated and nested, exhaust memory
        case ArrayType(element):
            return _arrays(_values(element, version, options), many=False)
        case StructType(spec):
            return _generator(spec, version, options)


# ---- messages


class _Options(tuple[bool, bool, str | None]):
    """With unknown tags or not, flexible or not, and the newest release whose fields are filled.

    Hashable for the cache.
    """

    __slots__ = ()
    unknown_tags = property(lambda self: self[0])
    flexible = property(lambda self: self[1])
    release = property(lambda self: self[2])


def _field(field: FieldSpec, version: int, options: _Options) -> Generator[Any]:
    if version not in field.versions or not _is_in(field.release, options.release):
        return lambda _: field.default
    values = _values(field.type, version, options)
    nullable, tagged = field.nullable_in(version), field.tag is not None
    if not nullable and not tagged:
        return values

    def value(rng: Random) -> Any:
        if tagged and rng.randint(0, 2) == 0:
            return field.default
        return None if nullable and rng.randint(0, 2) == 0 else values(rng)

    return value


def _tags(spec: MessageSpec) -> Generator[tuple[TaggedField, ...]]:
    """Generate unknown tags in ascending order: below, between and above the declared ones."""
    unknown = {*range(7), 127, 128, 16384, 2**31 - 2} - {field.tag for field in spec.fields}
    pool = sorted(unknown)

    def tags(rng: Random) -> tuple[TaggedField, ...]:
        chosen = sorted({rng.choice(pool) for _ in range(rng.randint(0, 3))})
        return tuple(TaggedField(tag, _bytes(rng)) for tag in chosen)

    return tags


@cache
def _generator(spec: MessageSpec, version: int, options: _Options) -> Generator[Any]:
    fields = {field.name: _field(field, version, options) for field in spec.fields}
    if options.flexible and options.unknown_tags:
        fields["unknown_tags"] = _tags(spec)
    return lambda rng: spec.cls(**{name: generate(rng) for name, generate in fields.items()})


def _messages(
    cls: type[Message], version: int, unknown_tags: bool = True, release: str | None = None
) -> Generator[Any]:
    return _generator(cls.spec, version, _Options((unknown_tags, cls.spec.is_flexible(version), release)))


def messages(
    cls: type[Message], version: int, *, unknown_tags: bool = True, release: str | None = None
) -> SearchStrategy[Any]:
    """Generate messages of a class. Fields that `version` lacks have their default."""
    return _strategy(_messages(cls, version, unknown_tags, release))


def _records_of(
    record_type: RecordType, version: int | None, unknown_tags: bool = True, release: str | None = None
) -> Generator[CoordinatorRecord]:
    """Generate records of a type and version, which is `None` for tombstones."""
    key = _messages(record_type.key.cls, 0)
    value = None if version is None else _messages(record_type.value.cls, version, unknown_tags, release)

    def record(rng: Random) -> CoordinatorRecord:
        return CoordinatorRecord(
            topic=record_type.topic, key=key(rng), value=None if value is None else value(rng), version=version
        )

    return record


def records_of(
    record_type: RecordType, version: int, *, unknown_tags: bool = True, release: str | None = None
) -> SearchStrategy[CoordinatorRecord]:
    """Generate records of one type with a value in one version, without tombstones."""
    return _strategy(_records_of(record_type, version, unknown_tags, release))


@cache
def records(topic: str | None = None, *, release: str | None = None) -> SearchStrategy[CoordinatorRecord]:
    """Generate records of all types and versions of a topic, or of all, including tombstones."""
    each = [
        _records_of(record_type, version, release=release)
        for name, found in RECORD_TYPES.items()
        if topic in (None, name)
        for record_type in found.values()
        for version in (*record_type.versions, None)
    ]
    return _strategy(lambda rng: rng.choice(each)(rng))


# ---- damage

_LENGTHS = (
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\xff" * 4,
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\x81\x00",
    b"\x00\x01\x00\x00",
)
"""Bytes of lengths, nulls and tag sections."""


def damaged(data: bytes) -> SearchStrategy[bytes]:
    """Damage `data` in one to three places: truncate, change, insert, delete or append bytes."""

    def damage(rng: Random) -> bytes:
        result = data
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, max(0, len(result) - 1))
            new = rng.choice(_LENGTHS) if rng.randint(0, 1) else _some_bytes(rng, 1, 4)
            match rng.choice(("cut", "replace", "insert", "delete", "append")):
                case "cut":
                    result = result[:at]
                case "replace":
                    result = result[:at] + new + result[at + len(new) :]
                case "insert":
                    result = result[:at] + new + result[at:]
                case "delete":
                    result = result[:at] + result[at + rng.randint(1, 4) :]
                case _:
                    result += new
        return result

    return _strategy(damage)
