"""The `construct` layout of a message, which can be embedded in other layouts.

    value = layout(OffsetCommitValue, version=4)
    envelope = construct.Struct("sent_ms" / construct.Int64ub, "value" / value)

A layout parses and builds `Message` objects and reports the position of errors, so the fast path
falls back to it. It is slower. Both are derived from the declaration.

Kafka's generated classes also read some inconsistent bytes: a tagged field whose size does not
match its content, a length below -1. A layout rejects them, unless `as_kafka_reads=True` is passed
to `parse`.

The module is longer than others: it has a class for each type of the protocol.
"""

from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

import construct
from construct import (
    Adapter,
    Construct,
    ConstructError,
    StreamError,
    Subconstruct,
    stream_read,
    stream_size,
    stream_tell,
    stream_write,
)

from quorate.codecs.errors import QuorateError, Reason
from quorate.codecs.generate import Inexact, merge_tags, uvarint
from quorate.codecs.message import CONSUMER_OFFSETS, FieldSpec, Message, MessageSpec
from quorate.codecs.messages import RECORD_TYPES
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

__all__ = ["ConstructError", "LayoutError", "layout", "record_key_layout", "record_value_layout"]


class LayoutError(QuorateError, ConstructError):  # type: ignore[misc]  # construct has no types
    """Invalid bytes, or a value that does not fit.

    `field` is the path inside the message, `position` the stream position where that field starts
    (-1 when building).
    """

    def __init__(self, reason: Reason, detail: str = "", position: int = -1, field: str = "") -> None:
        super().__init__(f"{reason}{': ' + detail if detail else ''}{' in ' + field if field else ''}")
        self.reason = reason
        self.detail = detail
        self.position = position
        self.field = field

    def inside(self, name: str, position: int) -> "LayoutError":
        """Return the error for the enclosing struct or array: a longer path, the same position."""
        joint = "" if not self.field or self.field.startswith("[") else "."
        return LayoutError(
            self.reason, self.detail, position if self.position < 0 else self.position, f"{name}{joint}{self.field}"
        )


def _lenient(context: Any) -> bool:
    """Whether to accept everything that Kafka reads."""
    return bool(context._params.get("as_kafka_reads", False))


class _Located(Subconstruct):  # type: ignore[misc]
    """Adds the field and the position to errors of its subconstruct."""

    def __init__(self, name: str, subcon: Construct) -> None:
        super().__init__(subcon)
        self.name = name

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:
        start = stream_tell(stream, path)
        try:
            return self.subcon._parsereport(stream, context, path)
        except LayoutError as error:
            raise error.inside(self.name, start) from None
        except StreamError:
            raise LayoutError(Reason.TRUNCATED, "", start, self.name) from None

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        try:
            return self.subcon._build(obj, stream, context, path)
        except LayoutError as error:
            raise error.inside(self.name, -1) from None
        except (construct.FormatFieldError, construct.StringError, StreamError, TypeError, AttributeError):
            raise LayoutError(Reason.BAD_VALUE, repr(obj), -1, self.name) from None


class UnsignedVarint(Construct):  # type: ignore[misc]
    """Kafka's unsigned varint: at most 5 bytes, read as a signed 32-bit number as Java does."""

    def _parse(self, stream: Any, context: Any, path: Any) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte: int = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= 0xFFFFFFFF
                return value - 0x100000000 if value >= 0x80000000 else value
        raise LayoutError(Reason.BAD_VARINT)

    def _build(self, obj: int, stream: Any, context: Any, path: Any) -> int:
        data = uvarint(obj)
        stream_write(stream, data, len(data), path)
        return obj


def _truth(flag: bool) -> bool:
    if not isinstance(flag, bool):
        raise TypeError(flag)  # Flag would accept any object
    return flag


_UVARINT = UnsignedVarint()
_FIXED = {
    "?": construct.ExprAdapter(construct.Flag, lambda flag, _: flag, lambda flag, _: _truth(flag)),
    "b": construct.Int8sb,
    "h": construct.Int16sb,
    "H": construct.Int16ub,
    "i": construct.Int32sb,
    "q": construct.Int64sb,
    "d": construct.Float64b,
}


class _Length(Construct):  # type: ignore[misc]
    """A length or count; -1 stands for null."""

    def __init__(self, flexible: bool, code: str) -> None:
        super().__init__()
        self.flexible = flexible
        self.fixed = _FIXED[code]

    def _parse(self, stream: Any, context: Any, path: Any) -> int:
        if self.flexible:
            coded = int(_UVARINT._parsereport(stream, context, path))
            return 0x7FFFFFFF if coded == -0x80000000 else coded - 1  # Java's int wraps around
        return int(self.fixed._parsereport(stream, context, path))

    def _build(self, obj: int, stream: Any, context: Any, path: Any) -> int:
        if self.flexible:
            _UVARINT._build(obj + 1, stream, context, path)
        else:
            self.fixed._build(obj, stream, context, path)
        return obj


class _Sized(Construct):  # type: ignore[misc]
    """Base of types with a length prefix: null, and the rules for lengths."""

    code = "i"
    limit = 0x7FFFFFFF

    def __init__(self, flexible: bool, nullable: bool) -> None:
        super().__init__()
        self.nullable = nullable
        self.length = _Length(flexible, self.code)

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:
        n = self.length._parsereport(stream, context, path)
        if n < 0:
            if not self.nullable:
                raise LayoutError(Reason.NULL_FIELD)
            if n < -1 and not _lenient(context):
                raise LayoutError(Reason.BAD_LENGTH, f"{n}; null is -1")
            return None
        if n > self.limit:
            raise LayoutError(Reason.BAD_LENGTH, f"{n}; the maximum is {self.limit}")
        return self._parse_content(n, stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        if obj is None:
            if not self.nullable:
                raise LayoutError(Reason.NULL_FIELD)
            self.length._build(-1, stream, context, path)
        else:
            self._build_content(obj, stream, context, path)
        return obj

    def _parse_content(self, n: int, stream: Any, context: Any, path: Any) -> Any:
        raise NotImplementedError

    def _build_content(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        raise NotImplementedError


class KafkaBytes(_Sized):
    """Bytes after their length."""

    def _parse_content(self, n: int, stream: Any, context: Any, path: Any) -> Any:
        return stream_read(stream, n, path)

    def _build_content(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        if len(obj) > self.limit:
            raise LayoutError(Reason.BAD_LENGTH, f"{len(obj)} bytes; the maximum is {self.limit}")
        self.length._build(len(obj), stream, context, path)
        stream_write(stream, obj, len(obj), path)


class KafkaString(KafkaBytes):
    """UTF-8 text after its length.

    Bytes that are not UTF-8 become lone surrogates, so that encoding restores them.
    """

    code = "h"
    limit = 0x7FFF

    def _parse_content(self, n: int, stream: Any, context: Any, path: Any) -> Any:
        return super()._parse_content(n, stream, context, path).decode("utf-8", "surrogateescape")

    def _build_content(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        super()._build_content(obj.encode("utf-8", "surrogateescape"), stream, context, path)


class KafkaArray(_Sized):
    """Elements after their count."""

    def __init__(self, element: Construct, flexible: bool, nullable: bool) -> None:
        super().__init__(flexible, nullable)
        self.element = element

    def _parse_content(self, n: int, stream: Any, context: Any, path: Any) -> Any:
        if n > (left := stream_size(stream) - stream_tell(stream, path)):  # as Kafka: an element has at least a byte
            raise LayoutError(Reason.TRUNCATED, f"{n} elements, {left} bytes are left")
        return tuple(_Located(f"[{index}]", self.element)._parse(stream, context, path) for index in range(n))

    def _build_content(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        if isinstance(obj, str):
            raise TypeError(obj)
        self.length._build(len(obj), stream, context, path)
        for index, item in enumerate(obj):
            _Located(f"[{index}]", self.element)._build(item, stream, context, path)


class NullableStruct(Subconstruct):  # type: ignore[misc]
    """A struct that may be null: marked by a byte, or by a varint inside a tagged field."""

    def __init__(self, subcon: Construct, in_tag: bool) -> None:
        super().__init__(subcon)
        self.in_tag = in_tag

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:
        mark = (_UVARINT if self.in_tag else construct.Int8sb)._parsereport(stream, context, path)
        present = mark > 0 if self.in_tag else mark >= 0
        if mark not in (0 if self.in_tag else -1, 1) and not _lenient(context):
            raise LayoutError(Reason.BAD_VALUE, f"{mark} as the marker of a struct; 1 means present")
        return self.subcon._parsereport(stream, context, path) if present else None

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        if obj is None:
            stream_write(stream, b"\x00" if self.in_tag else b"\xff", 1, path)
        else:
            stream_write(stream, b"\x01", 1, path)
            self.subcon._build(obj, stream, context, path)
        return obj


class TaggedFields(Construct):  # type: ignore[misc]
    """The tagged section of a flexible struct: known fields by name, and `unknown_tags`."""

    def __init__(self, fields: dict[int, tuple[FieldSpec, Construct]]) -> None:
        super().__init__()
        self.fields = fields

    def _parse(self, stream: Any, context: Any, path: Any) -> dict[str, Any]:
        out: dict[str, Any] = {f.name: f.default for f, _ in self.fields.values()}
        unknown = []
        lenient = _lenient(context)
        count = _UVARINT._parsereport(stream, context, path)
        if count < 0:  # before 4.4 Kafka took it for 0
            raise LayoutError(Reason.BAD_TAG, f"{count} tagged fields")
        for _ in range(count):
            start = stream_tell(stream, path)
            tag, size = (_UVARINT._parsereport(stream, context, path) for _ in range(2))
            if tag in self.fields:
                field, subcon = self.fields[tag]
                content = stream_tell(stream, path)
                value = _Located(field.name, subcon)._parse(stream, context, path)
                # Kafka does not check the size of a known tagged field.
                found = stream_tell(stream, path) - content
                if size != found and not lenient:
                    raise LayoutError(
                        Reason.BAD_TAG, f"tag {tag} has size {size}, its content {found}", start, field.name
                    )
                out[field.name] = value
            elif size < 0:
                raise LayoutError(Reason.BAD_TAG, f"tag {tag} has size {size}", start)
            else:
                unknown.append(TaggedField(tag, stream_read(stream, size, path)))
        return {**out, "unknown_tags": tuple(unknown)}

    def _build(self, obj: dict[str, Any], stream: Any, context: Any, path: Any) -> Any:
        written = []
        for tag, (field, subcon) in sorted(self.fields.items()):
            if obj[field.name] != field.default:
                payload = BytesIO()
                _Located(field.name, subcon)._build(obj[field.name], payload, context, path)
                written.append((tag, payload.getvalue()))
        try:
            entries = merge_tags(written, obj["unknown_tags"], frozenset(self.fields))
        except Inexact as error:
            raise LayoutError(Reason.BAD_TAG, str(error), -1, "unknown_tags") from None
        _UVARINT._build(len(entries), stream, context, path)
        for tag, data in entries:
            for number in (tag, len(data)):
                _UVARINT._build(number, stream, context, path)
            stream_write(stream, data, len(data), path)
        return obj


class _NoTags(Construct):  # type: ignore[misc]
    """Replaces the tagged section in versions without one."""

    def _parse(self, stream: Any, context: Any, path: Any) -> dict[str, Any]:
        return {"unknown_tags": ()}

    def _build(self, obj: dict[str, Any], stream: Any, context: Any, path: Any) -> Any:
        if obj["unknown_tags"]:
            raise LayoutError(Reason.BAD_TAG, "this version has no tagged fields", -1, "unknown_tags")
        return obj


class _ToMessage(Adapter):  # type: ignore[misc]
    """Converts between the container of `construct` and a `Message`."""

    def __init__(self, subcon: Construct, spec: MessageSpec, version: int) -> None:
        super().__init__(subcon)
        self.spec = spec
        self.version = version

    def _decode(self, obj: Any, context: Any, path: Any) -> Message:
        tags = obj.pop("tags")
        absent = {f.name: f.default for f in self.spec.fields if self.version not in f.versions}
        return self.spec.cls(**{k: v for k, v in obj.items() if k != "_io"}, **absent, **tags)

    def _encode(self, obj: Any, context: Any, path: Any) -> dict[str, Any]:
        if not isinstance(obj, self.spec.cls):
            raise LayoutError(Reason.BAD_LENGTH, f"expected {self.spec.name}, not {type(obj).__name__}")
        for f in self.spec.fields:
            if self.version not in f.versions and not f.ignorable and getattr(obj, f.name) != f.default:
                raise LayoutError(Reason.UNKNOWN_VERSION, f"version {self.version} has no such field", -1, f.name)
        content = {f.name: getattr(obj, f.name) for f in self.spec.fields}
        return {**content, "tags": {**content, "unknown_tags": obj.unknown_tags}}


def _plain(uuid: bytes) -> bytes:
    if not isinstance(uuid, bytes):
        raise TypeError(uuid)  # bytes() would accept numbers
    return bytes(uuid)


def _type_layout(wire: WireType, version: int, flexible: bool, nullable: bool, in_tag: bool = False) -> Construct:
    match wire:
        case FixedType():
            return _FIXED[wire.code]
        case UuidType():
            return construct.ExprAdapter(construct.Bytes(16), lambda data, _: Uuid(data), lambda uuid, _: _plain(uuid))
        case StringType():
            return KafkaString(flexible, nullable)
        case BytesType():
            return KafkaBytes(flexible, nullable)
        case ArrayType(element):
            return KafkaArray(_type_layout(element, version, flexible, nullable=False), flexible, nullable)
        case StructType(spec):
            inner = _struct_layout(spec, version, flexible)
            return NullableStruct(inner, in_tag) if nullable else inner


@cache
def _struct_layout(spec: MessageSpec, version: int, flexible: bool) -> Construct:
    carried = [f for f in spec.fields if version in f.versions]
    fields = [
        f.name / _Located(f.name, _type_layout(f.type, version, flexible, f.nullable_in(version)))
        for f in carried
        if f.tag is None
    ]
    known = {
        f.tag: (f, _type_layout(f.type, version, flexible, f.nullable_in(version), in_tag=True))
        for f in carried
        if f.tag is not None
    }
    tags = TaggedFields(known) if flexible else _NoTags()
    return _ToMessage(construct.Struct(*fields, "tags" / _Located("tagged fields", tags)), spec, version)


def layout(message: type[Message], version: int) -> Construct:
    """Return the layout of a message in one version, without the int16 prefix.

    Raises `ValueError` for a version that was not declared.
    """
    spec = message.spec
    if spec.versions is None or version not in spec.versions:
        raise ValueError(f"{spec.name} has no version {version}")
    return _struct_layout(spec, version, spec.is_flexible(version))


class _Prefixed(Construct):  # type: ignore[misc]
    """An int16 that selects the layout after it."""

    def __init__(self, choose: Callable[[int], Construct], prefix_of: Callable[[Any], int]) -> None:
        super().__init__()
        self.choose = choose
        self.prefix_of = prefix_of

    def _parse(self, stream: Any, context: Any, path: Any) -> Any:
        return self.choose(construct.Int16sb._parsereport(stream, context, path))._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> Any:
        prefix = self.prefix_of(obj)
        construct.Int16sb._build(prefix, stream, context, path)
        return self.choose(prefix)._build(obj, stream, context, path)


def record_value_layout(message: type[Message], *, write_version: int | None = None) -> Construct:
    """Return the layout of a record value: the int16 version, then the message.

    Building uses `write_version`, by default the newest. Parsing raises `ValueError` for an unknown
    version.
    """
    versions = message.spec.versions
    if versions is None:
        raise ValueError(f"{message.spec.name} is a struct inside messages, not a record value")
    newest = versions[-1] if write_version is None else write_version
    return _Prefixed(lambda version: layout(message, version), lambda _: newest)


def record_key_layout(topic: str = CONSUMER_OFFSETS) -> Construct:
    """Return the layout of a record key of `topic`: the int16 record type, then the key message.

    Parsing raises `ValueError` for an unknown type.
    """
    types = RECORD_TYPES[topic]
    ids = {record_type.messages[0]: type_id for type_id, record_type in types.items()}

    def choose(type_id: int) -> Construct:
        if type_id not in types:
            raise ValueError(f"{topic} has no record type {type_id}")
        return layout(types[type_id].key.cls, 0)

    return _Prefixed(choose, lambda key: ids[type(key)])
