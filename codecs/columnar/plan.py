"""The steps of a column decoder for a message version, derived from the declaration.

Adjacent fields of fixed width, and the length of the variable field after them, form one run. A run
is fetched for all rows at once.
"""

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from quorate.codecs.message import FieldSpec, MessageSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType, WireType

__all__ = ["Item", "ListPlan", "ReadPlan", "Sized", "StructPlan", "TagPlan", "Tail", "plan_of"]

UUID_CODE = "V16"


@dataclass(frozen=True, slots=True)
class Sized:
    """Bytes or text after a length."""

    text: bool
    nullable: bool


@dataclass(frozen=True, slots=True)
class StructPlan:
    """A struct; `nullable` ones begin with a marker."""

    plan: "ReadPlan"
    nullable: bool
    in_tag: bool


@dataclass(frozen=True, slots=True)
class ListPlan:
    """A count, then elements; `code` is set for elements of fixed width, which are not walked."""

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
    """Fixed fields (name and code) fetched together, then at most one variable field."""

    fixed: tuple[tuple[str, str], ...]
    name: str = ""
    tail: Tail | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """All steps of a struct or message, and the fields that this version does not have."""

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
    carried = [f for f in spec.fields if version in f.versions]
    steps: list[ReadStep] = []
    fixed: list[tuple[str, str]] = []
    for f in carried:
        if f.tag is not None:
            continue
        item = _item(f.type, version, flexible, f.nullable_in(version))
        if isinstance(item, str):
            fixed.append((f.name, item))
        else:
            steps.append(ReadStep(tuple(fixed), f.name, item))
            fixed = []
    if fixed:
        steps.append(ReadStep(tuple(fixed)))
    known = tuple(
        (f.tag, f, _item(f.type, version, flexible, f.nullable_in(version), in_tag=True))
        for f in carried
        if f.tag is not None
    )
    absent = tuple(f for f in spec.fields if version not in f.versions)
    return ReadPlan(spec, version, flexible, tuple(steps), TagPlan(known) if flexible else None, absent)
