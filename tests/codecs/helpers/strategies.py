"""Hypothesis strategies derived from our declarations: any message in any version.

    messages(ConsumerGroupMemberMetadataValue, version=0)
    records()                      # any record of any topic, type and version

Strings are Unicode without unpaired surrogates, which UTF-8 cannot encode. Arrays and strings are
mostly small; a few are long enough for a length of two or three varint bytes.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

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

__all__ = ["KAFKA", "RECORD_VERSIONS", "damaged", "messages", "records", "records_of", "version_id"]

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


# ---- single values

_SPECIAL = st.sampled_from(
    [
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
    ]
)
_SHORT_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_TEXT = _SHORT_TEXT | _SPECIAL
_BYTES = st.binary(max_size=20) | st.sampled_from([b"", b"\x00" * 126, b"\xff" * 127, b"\x01" * 16383, b"\x02" * 40000])


def _fixed(wire: FixedType) -> SearchStrategy[Any]:
    if wire.code == "?":
        return st.booleans()
    if wire.code == "d":
        return st.floats(allow_nan=False, allow_infinity=False)
    low, high = wire.bounds
    return st.integers(low, high) | st.sampled_from([low, high, 0, 1, high // 2])


def _arrays(elements: SearchStrategy[Any], *, many: bool) -> SearchStrategy[tuple[Any, ...]]:
    few = st.lists(elements, max_size=3).map(tuple)
    if not many:
        return few
    return few | st.builds(
        lambda element, count: (element,) * count, elements, st.sampled_from([16, 17, 126, 127, 128, 3000])
    )


def _values(wire: WireType, version: int, options: "_Options") -> SearchStrategy[Any]:
    match wire:
        case FixedType():
            return _fixed(wire)
        case StringType():
            return _TEXT
        case BytesType():
            return _BYTES
        case UuidType():
            return st.binary(min_size=16, max_size=16).map(Uuid) | st.just(Uuid.ZERO)
        case ArrayType(FixedType() as element):
            return _arrays(_fixed(element), many=True)
        case ArrayType(StringType()):
            return _arrays(_SHORT_TEXT, many=True)  # long texts, repeated and nested, exhaust memory
        case ArrayType(element):
            return _arrays(_values(element, version, options), many=False)
        case StructType(spec):
            return _messages(spec, version, options)


# ---- messages


class _Options(tuple[bool, bool, str | None]):
    """With unknown tags or not, flexible or not, and the newest release whose fields are filled.

    Hashable for the cache.
    """

    __slots__ = ()
    unknown_tags = property(lambda self: self[0])
    flexible = property(lambda self: self[1])
    release = property(lambda self: self[2])


def _field(field: FieldSpec, version: int, options: _Options) -> SearchStrategy[Any]:
    if version not in field.versions or not _is_in(field.release, options.release):
        return st.just(field.default)
    values = _values(field.type, version, options)
    if field.nullable_in(version):
        values = st.none() | values
    return st.just(field.default) | values if field.tag is not None else values


def _tags(spec: MessageSpec) -> SearchStrategy[tuple[TaggedField, ...]]:
    """Generate unknown tags in ascending order: below, between and above the declared ones."""
    declared = {field.tag for field in spec.fields}
    tag = st.integers(0, 6) | st.sampled_from([127, 128, 16384, 2**31 - 2])
    tags = st.lists(tag.filter(lambda n: n not in declared), max_size=3, unique=True)
    return st.tuples(tags, st.lists(_BYTES, min_size=3, max_size=3)).map(
        lambda drawn: tuple(TaggedField(t, data) for t, data in zip(sorted(drawn[0]), drawn[1], strict=False))
    )


@cache
def _messages(spec: MessageSpec, version: int, options: _Options) -> SearchStrategy[Any]:
    fields = {field.name: _field(field, version, options) for field in spec.fields}
    if options.flexible and options.unknown_tags:
        fields["unknown_tags"] = st.just(()) | _tags(spec)

    # Not st.builds: its repr contains all nested strategies, which takes longer than all tests
    # together.
    @st.composite
    def build(draw: st.DrawFn) -> Message:
        return spec.cls(**{name: draw(strategy) for name, strategy in fields.items()})

    return build()


def messages(
    cls: type[Message], version: int, *, unknown_tags: bool = True, release: str | None = None
) -> SearchStrategy[Any]:
    """Generate messages of a class. Fields that `version` lacks have their default."""
    return _messages(cls.spec, version, _Options((unknown_tags, cls.spec.is_flexible(version), release)))


def records_of(
    record_type: RecordType, version: int, *, unknown_tags: bool = True, release: str | None = None
) -> SearchStrategy[CoordinatorRecord]:
    """Generate records of one type with a value in one version, without tombstones."""
    return st.builds(
        CoordinatorRecord,
        topic=st.just(record_type.topic),
        key=messages(record_type.key.cls, 0),
        value=messages(record_type.value.cls, version, unknown_tags=unknown_tags, release=release),
        version=st.just(version),
    )


@cache
def records(topic: str | None = None, *, release: str | None = None) -> SearchStrategy[CoordinatorRecord]:
    """Generate records of all types and versions of a topic, or of all, including tombstones."""
    types = [
        record_type for name, found in RECORD_TYPES.items() if topic in (None, name) for record_type in found.values()
    ]
    with_value = [
        records_of(record_type, version, release=release) for record_type in types for version in record_type.versions
    ]
    tombstones = [
        st.builds(
            CoordinatorRecord, topic=st.just(t.topic), key=messages(t.key.cls, 0), value=st.none(), version=st.none()
        )
        for t in types
    ]
    return st.one_of(*with_value, *tombstones)


# ---- damage

_Damage = Callable[[bytes], bytes]


def _at(data: bytes, where: float) -> int:
    return min(int(where * len(data)), len(data))


def _cut(where: float) -> _Damage:
    return lambda data: data[: _at(data, where)]


def _replace(where: float, new: bytes) -> _Damage:
    return lambda data: data[: _at(data, where)] + new + data[_at(data, where) + len(new) :]


def _insert(where: float, new: bytes) -> _Damage:
    return lambda data: data[: _at(data, where)] + new + data[_at(data, where) :]


def _delete(where: float, count: int) -> _Damage:
    return lambda data: data[: _at(data, where)] + data[_at(data, where) + count :]


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Damage `data` in one to three places: truncate, change, insert, delete or append bytes."""
    where = st.floats(0, 1, exclude_max=True)
    # Bytes of lengths, nulls and tag sections.
    bytes_ = st.binary(min_size=1, max_size=4) | st.sampled_from(
        [
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
        ]
    )
    kinds = st.one_of(
        st.builds(_cut, where),
        st.builds(_replace, where, bytes_),
        st.builds(_insert, where, bytes_),
        st.builds(_delete, where, st.integers(1, 4)),
        st.builds(_insert, st.just(1.0), bytes_),
    )
    for damage in draw(st.lists(kinds, min_size=1, max_size=3)):
        data = damage(data)
    return data
