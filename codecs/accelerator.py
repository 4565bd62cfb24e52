"""The optional decoders and encoders in C, and whether they are in use.

`quorate.codecs._native` interprets programs, which are compiled here from declarations. Where it is
missing, because no compiler was found at installation, or switched off by `QUORATE_NATIVE=0` in the
environment, the generated Python of `fast_decode` and `fast_encode` does the same.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from quorate.codecs.extension import extension
from quorate.codecs.generate import UUIDS, Inexact, merge_tags, tag_section
from quorate.codecs.message import FieldSpec, MessageSpec, RecordType
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, TaggedField, UuidType, WireType

if TYPE_CHECKING:
    from quorate.codecs._native import NativeCodec, RecordCodec

__all__ = ["fields_of", "flat_code", "is_accelerated", "program", "record_codec"]


def is_accelerated() -> bool:
    """Whether messages are decoded and encoded in C.

    It is false if quorate was installed without a compiler, and with `QUORATE_NATIVE=0` in the
    environment when `quorate.codecs` is imported.
    """
    return _native is not None


_native = extension()


@cache
def program(
    spec: MessageSpec, version: int, flexible: bool, *, lenient: bool = False, prefix: int | None = None
) -> "NativeCodec | None":
    """Return the program of one version, or `None` without the accelerator.

    `prefix` is an int16 that the encoder writes first.
    """
    if _native is None:
        return None
    carried = [f for f in spec.fields if version in f.versions]
    known = frozenset(f.tag for f in carried if f.tag is not None)

    def wire(each: WireType) -> tuple[str, Any]:
        match each:
            case ArrayType(element):
                return "[", wire(element)
            case StructType(inner):
                return "{", program(inner, version, flexible, lenient=lenient)
            case _:
                return flat_code(each), None

    def described(f: FieldSpec) -> tuple[str, tuple[str, Any], bool, bool, bool, int, Any]:
        tag = -1 if f.tag is None else f.tag
        return f.name, wire(f.type), f.nullable_in(version), f in carried, f.ignorable, tag, f.default

    return _native.NativeCodec(
        spec.cls,
        tuple(described(f) for f in fields_of(spec, version)),
        flexible,
        lenient,
        b"" if prefix is None else prefix.to_bytes(2, "big", signed=True),
        (Inexact, TaggedField, UUIDS),
        partial(_section, known),
    )


def flat_code(wire: FixedType | StringType | BytesType | UuidType) -> str:
    """Return the code of a type in a program, as in `codecs/native/native.h`."""
    match wire:
        case FixedType(code=code):
            return code
        case StringType():
            return "s"
        case BytesType():
            return "r" if wire.name == "records" else "y"
        case UuidType():
            return "u"


def fields_of(spec: MessageSpec, version: int) -> list[FieldSpec]:
    """Return the fields in the order of the program: those with tags in this version come last."""
    tagged = [f for f in spec.fields if f.tag is not None and version in f.versions]
    return [*(f for f in spec.fields if f not in tagged), *sorted(tagged, key=lambda f: f.tag or 0)]


def record_codec(record: type, topic: str, types: Mapping[int, RecordType]) -> "RecordCodec | None":
    """Return the codec of the record types of a topic; `None` without the accelerator.

    `record` is the class CoordinatorRecord. It raises for everything but bytes that are exactly a
    record, and records without bytes to keep.
    """
    if _native is None:
        return None

    def find(type_id: int, version: int | None) -> "NativeCodec":
        spec = types[type_id].key if version is None else types[type_id].value
        if version is None:
            version = 0
        if spec.versions is None or version not in spec.versions:
            raise KeyError(version)
        found = program(spec, version, spec.is_flexible(version))
        assert found is not None, "the accelerator is in use"
        return found

    type_ids = {found.messages[0]: type_id for type_id, found in types.items()}
    return _native.RecordCodec(record, topic, Inexact, find, type_ids)


def _section(known: frozenset[int], written: list[tuple[int, bytes]], unknown: tuple[TaggedField, ...]) -> bytes:
    """Encode the tagged fields of a message that has unknown ones."""
    return tag_section(merge_tags(written, unknown, known))
