"""The steps of a column decoder for a message version, derived from the declaration.

A step is a run of adjacent fields of fixed width, and the length of the variable field after them.
It reads a run of all rows at once.
"""

from functools import cache
from typing import TypeAlias

from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import FieldSpec, MessageSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType, WireType

UUID_CODE = "V16"


@dataclass(frozen=True, slots=True)
class Sized:
    """Bytes or text after a length."""

    text: bool
    nullable: bool


@dataclass(frozen=True, slots=True)
class StructPlan:
    """A struct. A nullable one begins with a presence byte."""

    plan: "ReadPlan"
    nullable: bool
    in_tag: bool


@dataclass(frozen=True, slots=True)
class ListPlan:
    """A count, then elements. Elements of fixed width are read at once, not one by one."""

    element: "Item"
    nullable: bool


@dataclass(frozen=True, slots=True)
class TagPlan:
    """The tagged section, with the known fields."""

    known: tuple[tuple[int, FieldSpec, "Item"], ...]


Tail: TypeAlias = Sized | ListPlan | StructPlan
Item: TypeAlias = str | Tail
"""A fixed-width code of numpy, or a field of variable width."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadStep:
    """Fixed-width fields (name and numpy code) read together, then at most one variable field."""

    fixed: tuple[tuple[str, str], ...]
    name: str = ""
    tail: Tail | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """All steps of a struct or message, and the fields that are absent in this version."""

    spec: MessageSpec
    version: int
    flexible: bool
    steps: tuple[ReadStep, ...]
    tags: TagPlan | None
    absent: tuple[FieldSpec, ...]


_CODES = {"b": "i1", "h": ">i2", "H": ">u2", "i": ">i4", "q": ">i8"}


def _item(wire: WireType, version: int, flexible: bool, nullable: bool, in_tag: bool = False) -> Item:
    match wire:
        case FixedType(code=code):
            return _CODES[code]
        case UuidType():
            return UUID_CODE
        case StringType():
            return Sized(True, nullable)
        case BytesType():
            return Sized(False, nullable)
        case ArrayType(element):
            return ListPlan(_item(element, version, flexible, nullable=False), nullable)
        case StructType(spec):
            return StructPlan(plan_of(spec, version, flexible), nullable, in_tag)


@cache
def plan_of(spec: MessageSpec, version: int, flexible: bool) -> ReadPlan:
    """Return the steps for one struct or message in one version."""
    present = [field for field in spec.fields if version in field.versions]
    steps: list[ReadStep] = []
    fixed: list[tuple[str, str]] = []
    for field in present:
        if field.tag is not None:
            continue
        item = _item(field.type, version, flexible, field.nullable_in(version))
        if isinstance(item, str):
            fixed.append((field.name, item))
        else:
            steps.append(ReadStep(tuple(fixed), field.name, item))
            fixed = []
    if fixed:
        steps.append(ReadStep(tuple(fixed)))
    known = tuple(
        (field.tag, field, _item(field.type, version, flexible, field.nullable_in(version), in_tag=True))
        for field in present
        if field.tag is not None
    )
    absent = tuple(field for field in spec.fields if version not in field.versions)
    return ReadPlan(spec, version, flexible, tuple(steps), TagPlan(known) if flexible else None, absent)
