"""Messages as JSON, in two forms.

*Kafka's form* is that of Kafka's generated JSON converters, used by its console formatters:
camelCase, without tagged fields that have their default. *Our form* uses the names of the Python
attributes and Arrow columns, contains every field of the version, and shows decoded nested bytes
and unknown tagged fields. In both, bytes are base64 and uuids are Kafka's base64url. `from_json`
reads both.
"""

import base64
import binascii
import difflib
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

from quorate.codecs.consumer_protocol import NESTED, OpenedBytes, encode_protocol
from quorate.codecs.errors import EncodeError
from quorate.codecs.message import FieldSpec, Message, MessageSpec
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
    readable,
)

Json = Any
M = TypeVar("M", bound=Message)
_NEVER = object()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes_or_opened(value: bytes) -> Json:
    if not isinstance(value, OpenedBytes):
        return _base64(value)
    opened = value.opened
    spec = opened.message.spec
    assert spec.versions is not None
    out = {
        "version": opened.version,
        **_writer(spec, min(opened.version, spec.versions[-1]), kafka=False)(opened.message),
    }
    if opened.trailing:
        out["trailing"] = _base64(opened.trailing)
    return out


def _convert(wire: WireType, version: int, kafka: bool) -> Callable[[Any], Json]:
    match wire:
        case FixedType(code="?"):
            return bool
        case FixedType(code="d"):
            return float
        case FixedType():
            return int
        case UuidType():
            return str
        case StringType():
            return readable
        case BytesType():
            return _base64 if kafka else _bytes_or_opened
        case ArrayType(FixedType()):
            return list
        case ArrayType(element):
            one = _convert(element, version, kafka)
            return lambda items: [one(item) for item in items]
        case StructType(spec):
            return _writer(spec, version, kafka)


@cache
def _writer(spec: MessageSpec, version: int, kafka: bool) -> Callable[[Message], dict[str, Json]]:
    steps = []
    absent = []
    for f in spec.fields:
        get = attrgetter(f.name)
        if version in f.versions:
            omit = f.default if kafka and f.tag is not None else _NEVER
            steps.append((f.json_name if kafka else f.name, get, _convert(f.type, version, kafka), omit))
        elif not f.ignorable:
            absent.append((f, get))

    def write(message: Message) -> dict[str, Json]:
        out: dict[str, Json] = {}
        for name, get, convert, omit in steps:
            value = get(message)
            if value is None:
                if omit is not None:
                    out[name] = None
            elif omit is _NEVER or value != omit:
                out[name] = convert(value)
        for f, get in absent:
            if get(message) != f.default:
                raise EncodeError(
                    f"{spec.name} version {version} has no field {f.name}, and {get(message)!r} may not be dropped"
                )
        if message.unknown_tags and not kafka:
            out["unknown_tags"] = [{"tag": tag.tag, "data": _base64(tag.data)} for tag in message.unknown_tags]
        return out

    return write


def to_kafka_json(message: Message, version: int) -> dict[str, Json]:
    """Return `message` in `version` in Kafka's form.

    Unknown tagged fields are left out. Raises `EncodeError` for a field that must not be dropped.
    """
    return _writer(message.spec, version, kafka=True)(message)


def to_json(message: Message, version: int) -> dict[str, Json]:
    """Return `message` in `version` in our form.

    Bytes decoded by `open_nested` are shown as objects. Raises `EncodeError` for a field that must
    not be dropped.
    """
    return _writer(message.spec, version, kafka=False)(message)


# ---- reading


def from_json(cls: type[M], data: Mapping[str, Json], version: int) -> M:
    """Return the message in `data`, in either form. Missing fields get Kafka's default.

    A field of other versions only is read; encoding drops it if Kafka may. Raises `EncodeError`
    with the name of the field for an unknown name or an invalid value.
    """
    return cast(M, _read_struct(cls.spec, data, version, cls.spec.name))


def _read_struct(spec: MessageSpec, data: Json, version: int, path: str) -> Message:
    if not isinstance(data, Mapping):
        raise EncodeError(f"{path}: expected an object, not {_kind(data)}")
    names = _names(spec)
    values: dict[str, Any] = {}
    for name, item in data.items():
        if name == "unknown_tags":
            values[name] = _read_tags(spec, item, version, f"{path}.{name}")
            continue
        f = names.get(name)
        if f is None:
            near = difflib.get_close_matches(name, names, n=1)
            raise EncodeError(
                f"{path} has no field {name!r}"
                + (f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(_own(spec))}")
            )
        nested = NESTED.get((spec.cls, f.name))
        if nested is not None and isinstance(item, Mapping):
            values[f.name] = _read_nested(nested, item, f"{path}.{name}")
        else:
            values[f.name] = _read(f.type, item, version, f"{path}.{name}", f.nullable)
    for f in spec.fields:
        values.setdefault(f.name, f.default)
    return spec.cls(**values)


@cache
def _names(spec: MessageSpec) -> dict[str, FieldSpec]:
    return {name: f for f in spec.fields for name in (f.json_name, f.name)}


def _own(spec: MessageSpec) -> list[str]:
    return [f.name for f in spec.fields]


def _kind(data: Json) -> str:
    return {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
    }.get(type(data), "an object")


def _read_nested(cls: Any, item: Mapping[str, Json], path: str) -> bytes:
    fields = dict(item)
    version = fields.pop("version", 3)
    trailing = _read_bytes(fields.pop("trailing", ""), f"{path}.trailing")
    if not isinstance(version, int) or not 0 <= version <= 0x7FFF:
        raise EncodeError(f"{path}.version: a version is a number from 0 to 32767, not {version!r}")
    known = min(version, cls.spec.versions[-1])
    body = encode_protocol(cast(Any, _read_struct(cls.spec, fields, known, path)), known)
    return version.to_bytes(2, "big") + body[2:] + trailing


def _read_tags(spec: MessageSpec, item: Json, version: int, path: str) -> tuple[TaggedField, ...]:
    if not isinstance(item, list | tuple) or not all(
        isinstance(entry, Mapping) and entry.keys() == {"tag", "data"} for entry in item
    ):
        raise EncodeError(f'{path}: expected a list of {{"tag": number, "data": base64}}')
    names = {f.tag: f.name for f in spec.fields if f.tag is not None and version in f.versions}
    found = []
    for index, entry in enumerate(item):
        tag = entry["tag"]
        at = f"{path}[{index}]"
        if not isinstance(tag, int) or isinstance(tag, bool) or not -0x80000000 <= tag <= 0xFFFFFFFF:
            raise EncodeError(f"{at}.tag: a tag is a whole number from 0 to 4294967295, not {tag!r}")
        if tag in names:
            raise EncodeError(f"{at}.tag: {tag} is not unknown, it is the field {names[tag]}; set that")
        # Java reads 2**31 and more as negative, so decoded tags may be negative too.
        signed = tag - 0x100000000 if tag >= 0x80000000 else tag
        found.append(TaggedField(signed, _read_bytes(entry["data"], f"{at}.data")))
    return tuple(found)


def _read_bytes(item: Json, path: str) -> bytes:
    if not isinstance(item, str):
        raise EncodeError(f"{path}: expected base64 text, not {_kind(item)}")
    try:
        return base64.b64decode(item, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EncodeError(f"{path}: not base64: {error}") from None


def _read(wire: WireType, item: Json, version: int, path: str, nullable: bool) -> Any:
    if item is None:
        if not nullable:
            raise EncodeError(f"{path} may not be null")
        return None
    match wire:
        case FixedType(code="?"):
            if not isinstance(item, bool):
                raise EncodeError(f"{path}: expected true or false, not {_kind(item)}")
            return item
        case FixedType(code="d"):
            if not isinstance(item, int | float) or isinstance(item, bool):
                raise EncodeError(f"{path}: expected a number, not {_kind(item)}")
            return float(item)
        case FixedType():
            if not isinstance(item, int) or isinstance(item, bool):
                raise EncodeError(f"{path}: expected a whole number, not {item!r}")
            low, high = wire.bounds
            if not low <= item <= high:
                raise EncodeError(f"{path}: {item} does not fit {wire.name} ({low} to {high})")
            return item
        case StringType():
            if not isinstance(item, str):
                raise EncodeError(f"{path}: expected a string, not {_kind(item)}")
            return item
        case UuidType():
            if not isinstance(item, str):
                raise EncodeError(f"{path}: expected a base64url uuid, not {_kind(item)}")
            try:
                return Uuid.parse(item)
            except ValueError as error:
                raise EncodeError(f"{path}: {error}") from None
        case BytesType():
            return _read_bytes(item, path)
        case ArrayType(element):
            if not isinstance(item, list | tuple):
                raise EncodeError(f"{path}: expected an array, not {_kind(item)}")
            return tuple(
                _read(element, one, version, f"{path}[{index}]", nullable=False) for index, one in enumerate(item)
            )
        case StructType(spec):
            return _read_struct(spec, item, version, path)
