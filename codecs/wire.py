"""Wire types of Kafka's message format, as values and as annotations for message declarations.

The fields of a `Message` are annotated with `Int32`, `String`, `Array[...]` and others. To a type
checker these are plain Python types; they carry a `WireType` for everything that is derived from a
declaration. The encoding depends on whether the message version is "flexible" (KIP-482): compact
lengths and tagged fields. This module knows names and sizes, not how to encode and decode.
"""

import base64
import binascii
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, TypeVar

from quorate.codecs.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from quorate.codecs.message import MessageSpec

__all__ = [
    "Array",
    "ArrayType",
    "Bool",
    "Bytes",
    "BytesType",
    "FixedType",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Records",
    "String",
    "StringType",
    "StructType",
    "TaggedField",
    "UInt16",
    "Uuid",
    "UuidType",
    "WireType",
]


class Uuid(bytes):
    """A Kafka topic id: 16 bytes, printed as in Kafka (URL-safe base64 without padding).

    Raises `ValueError` for any other number of bytes.
    """

    __slots__ = ()
    ZERO: ClassVar["Uuid"]

    def __new__(cls, value: bytes) -> Self:
        """Create it from 16 bytes, most significant first."""
        if len(value) != 16:
            raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Kafka's form.

        Unused low bits of the last character are ignored, as in Java's decoder. Raises
        `ValueError`.
        """
        if len(text) != 22:
            raise ValueError(f"a uuid has 22 base64url characters, {text!r} has {len(text)}")
        try:
            return cls(base64.b64decode(text + "==", altchars=b"-_", validate=True))
        except binascii.Error as error:
            raise ValueError(f"{text!r} is not a base64url uuid: {error}") from None

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self)[:22].decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid.parse({str(self)!r})"


Uuid.ZERO = Uuid(bytes(16))


@dataclass(frozen=True, slots=True)
class FixedType:
    """A big-endian number of fixed width, or a bool in one byte.

    `code` is its `struct` format character.
    """

    name: str
    size: int
    code: str

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value of a whole number."""
        bits = 8 * self.size
        return (0, (1 << bits) - 1) if self.code.isupper() else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@dataclass(frozen=True, slots=True)
class StringType:
    """UTF-8 with an int16 length, or an unsigned varint of length + 1 in flexible versions."""

    name: str = "string"


@dataclass(frozen=True, slots=True)
class BytesType:
    """Bytes with an int32 length, or an unsigned varint of length + 1 in flexible versions."""

    name: str = "bytes"


@dataclass(frozen=True, slots=True)
class UuidType:
    """16 bytes, most significant first."""

    name: str = "uuid"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A count, then the elements.

    The count is an int32, or an unsigned varint of count + 1 in flexible versions.
    """

    element: "WireType"

    @property
    def name(self) -> str:
        """Kafka's notation, such as "[]int32"."""
        return f"[]{self.element.name}"


@dataclass(frozen=True, slots=True)
class StructType:
    """A nested message; its version is that of the enclosing message."""

    spec: "MessageSpec"

    @property
    def name(self) -> str:
        """The struct's name."""
        return self.spec.name


WireType: TypeAlias = FixedType | StringType | BytesType | UuidType | ArrayType | StructType

BOOL = FixedType("bool", 1, "?")
INT8 = FixedType("int8", 1, "b")
INT16 = FixedType("int16", 2, "h")
UINT16 = FixedType("uint16", 2, "H")
INT32 = FixedType("int32", 4, "i")
INT64 = FixedType("int64", 8, "q")
FLOAT64 = FixedType("float64", 8, "d")

T = TypeVar("T")

Bool = Annotated[bool, BOOL]
Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
UInt16 = Annotated[int, UINT16]
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]
Float64 = Annotated[float, FLOAT64]
String = Annotated[str, StringType()]
Bytes = Annotated[bytes, BytesType()]
Records = Annotated[bytes, BytesType("records")]
Array: TypeAlias = tuple[T, ...]


@dataclass(frozen=True, slots=True)
class TaggedField:
    """A tagged field that is not declared: it is kept and encoded again at its place."""

    tag: int
    data: bytes


_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def readable(text: str) -> str:
    """Return the text that Java decodes from the same bytes.

    Bytes that are not UTF-8 become U+FFFD. For an encoded surrogate Java has one, Python three.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogateescape")
        return _ENCODED_SURROGATE.sub("\ufffd".encode(), raw).decode("utf-8", "replace")
    return text


def default_of(wire: WireType) -> Any:
    """Return Kafka's default for a field whose schema has none.

    These are 0, false, "", no bytes, no elements, the zero uuid, and a struct of defaults.
    """
    match wire:
        case FixedType(code="?"):
            return False
        case FixedType(code="d"):
            return 0.0
        case FixedType():
            return 0
        case StringType():
            return ""
        case BytesType():
            return b""
        case UuidType():
            return Uuid.ZERO
        case ArrayType():
            return ()
        case StructType(spec):
            return spec.cls(**{field.name: field.default for field in spec.fields})
