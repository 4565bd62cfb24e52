"""Declarations of Kafka messages: one frozen dataclass per message, with wire types per field.

    @value(ConsumerGroupMetadataKey, versions=range(0, 1), flexible_since=0)
    class ConsumerGroupMetadataValue(Message):
        epoch: Int32
        metadata_hash: Int64 = tagged(0, default=0, release="4.1")

A plain default (`epoch: Int32 = 0`) is enough for most fields; `field` and `tagged` have further
parameters.

The construct layout, the generated fast path, the column decoder, the JSON forms and the Arrow
schema are derived from the `MessageSpec` of a declaration. It and the fields of the dataclass are
derived when they are first read, because most of the 500 messages are never used in a process. This
module knows nothing about bytes.
"""

import dataclasses
import sys
import types
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message_methods import GeneratedMethods
from quorate.codecs.wire import ArrayType, StructType, TaggedField, Uuid, UuidType, WireType, default_of

__all__ = [
    "FieldSpec",
    "Message",
    "MessageSpec",
    "RecordType",
    "declare",
    "field",
    "key",
    "message",
    "struct",
    "tagged",
    "value",
]

CONSUMER_OFFSETS = "__consumer_offsets"
"""The topic of the group coordinator."""
SHARE_GROUP_STATE = "__share_group_state"
"""The topic of the share coordinator (KIP-932)."""
TRANSACTION_STATE = "__transaction_state"
"""The topic of the transaction coordinator."""


C = TypeVar("C")


class _Derived:
    """An attribute of a message class, computed from the declaration when it is first read."""

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    def __get__(self, _: object, cls: type["Message"]) -> Any:
        if "declaration" not in cls.__dict__:
            raise AttributeError(f"{cls.__name__} is not declared as a message")
        _derive(cls)
        return cls.__dict__[self.name]


class _MessageType(type):
    """Creates the class of a message: fields become slots, and `declared_fields` keeps defaults."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "_MessageType":
        if "__slots__" not in namespace:
            names = _annotations(namespace)
            namespace["declared_fields"] = {name: namespace.pop(name) for name in names if name in namespace}
            # The slot of `unknown_tags` is in the base class. Only its default is added, so that
            # messages can be created without it.
            namespace["__annotations__"] = {**names, "unknown_tags": tuple[TaggedField, ...]}
            namespace["__slots__"] = tuple(names)
        return super().__new__(cls, name, bases, namespace)


def _annotations(namespace: dict[str, Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14):  # they are computed by a function (PEP 749)
        from annotationlib import Format, call_annotate_function, get_annotate_from_class_namespace

        annotate = get_annotate_from_class_namespace(namespace)
        return {} if annotate is None else call_annotate_function(annotate, Format.VALUE)
    found: dict[str, Any] = namespace.get("__annotations__", {})
    return found


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _declared(cls: type[C]) -> type[C]:
    """Make `unknown_tags` a field of every message for type checkers."""
    return cls


@_declared
class Message(GeneratedMethods, metaclass=_MessageType):
    """A Kafka message or a struct inside one: immutable, and compared by value."""

    __slots__ = ("unknown_tags",)
    declared_fields: ClassVar[dict[str, Any]]
    """Fields with a default, or with what `field` or `tagged` returned."""
    declaration: ClassVar["_Declaration"]
    key_facts: ClassVar["_KeyFacts"]
    """Of keys only."""
    record_type: ClassVar["RecordType"]
    """Of values only."""
    declared_api_key: ClassVar[int]
    """Of requests only."""
    api: ClassVar[Any]
    """Of requests and responses only: their `quorate.codecs.api.Api`."""
    if TYPE_CHECKING:
        spec: ClassVar["MessageSpec"]
        unknown_tags: tuple[TaggedField, ...] = ()
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    else:
        spec = _Derived()
        __dataclass_fields__ = _Derived()

    def __repr__(self) -> str:
        names = [f.name for f in self.spec.fields]
        if self.unknown_tags:
            names.append("unknown_tags")
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The wire type and versions of one field.

    `versions` are the message versions with this field; `release` is the Kafka release that added
    it, if later than its message. `nullable`: it may be null in versions from `nullable_since` on.
    `map_key`: Kafka's classes look up the elements of the enclosing array by this field.
    """

    name: str
    json_name: str
    type: WireType
    nullable: bool
    versions: range
    tag: int | None
    default: Any
    ignorable: bool
    release: str | None
    nullable_since: int = 0
    map_key: bool = False

    def nullable_in(self, version: int) -> bool:
        """Whether the field may be null in `version`."""
        return self.nullable and version >= self.nullable_since


@dataclass(frozen=True, slots=True, eq=False)
class MessageSpec:
    """The declaration of a message.

    A struct inside a message has no versions of its own: `versions` is then `None`.
    """

    name: str
    cls: type[Message]
    fields: tuple[FieldSpec, ...]
    versions: range | None = None
    flexible_since: int | None = None

    def is_flexible(self, version: int) -> bool:
        """Whether `version` uses compact lengths and tagged fields (KIP-482)."""
        return self.flexible_since is not None and version >= self.flexible_since


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordType:
    """A record type of a coordinator topic: the int16 that its keys start with, and its messages.

    `messages` are the classes of the key and the value. `since` is the first Kafka release that
    writes it. `written` is the value version that Kafka 4.4 writes, `None` if it no longer writes
    it.
    """

    topic: str
    type_id: int
    name: str
    messages: tuple[type[Message], type[Message]]
    versions: range
    """The value versions that can be decoded."""
    since: str
    written: int | None
    note: str

    @property
    def key(self) -> MessageSpec:
        """The declaration of the key."""
        return self.messages[0].spec

    @property
    def value(self) -> MessageSpec:
        """The declaration of the value."""
        return self.messages[1].spec


@dataclass(frozen=True, slots=True)
class _Declared:
    """The arguments of `field` and `tagged` for the class decorator."""

    since: int
    until: int | None
    tag: int | None
    default: Any
    ignorable: bool
    release: str | None
    nullable_since: int = 0
    map_key: bool = False


_MISSING = dataclasses.MISSING


def field(
    *,
    since: int = 0,
    until: int | None = None,
    default: Any = _MISSING,
    ignorable: bool = False,
    nullable_since: int = 0,
    map_key: bool = False,
) -> Any:
    """Declare a field of the versions `since` to `until`, both inclusive.

    `default`: the class of a struct means a struct of defaults, which is created when needed.
    `ignorable`: a version without the field drops its value; otherwise encoding a value other than
    the default raises. `nullable_since`: the first version in which a field annotated with `| None`
    may be null.
    """
    return _Declared(since, until, None, default, ignorable, None, nullable_since, map_key)


def tagged(tag: int, *, default: Any, since: int = 0, ignorable: bool = False, release: str | None = None) -> Any:
    """Declare a tagged field (KIP-482), which is not encoded if it equals `default`.

    Since KIP-915 records are extended with tagged fields only.
    """
    return _Declared(since, None, tag, default, ignorable, release)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _wire_type(annotation: Any) -> tuple[WireType, bool]:
    """Return the wire type of an annotation, and whether it may be null (`| None`)."""
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not type(None)]
        if len(inner) != 1:
            raise TypeError(f"{annotation} has no wire type")
        return _wire_type(inner[0])[0], True
    if get_origin(annotation) is Annotated:
        return cast(WireType, get_args(annotation)[1]), False
    if get_origin(annotation) is tuple:
        return ArrayType(_wire_type(get_args(annotation)[0])[0]), False
    if annotation is Uuid:
        return UuidType(), False
    if isinstance(annotation, type) and issubclass(annotation, Message):
        return StructType(annotation.spec), False
    raise TypeError(f"{annotation} has no wire type")


def _field_spec(name: str, annotation: Any, declared: Any, last_version: int) -> FieldSpec:
    wire, nullable = _wire_type(annotation)
    if declared is _MISSING:
        declared = _Declared(0, None, None, _MISSING, False, None)
    elif not isinstance(declared, _Declared):
        declared = _Declared(0, None, None, declared, False, None)
    until = last_version if declared.until is None else declared.until
    explicit = declared.default
    return FieldSpec(
        name=name,
        json_name=_camel(name),
        type=wire,
        nullable=nullable,
        versions=range(declared.since, until + 1),
        tag=declared.tag,
        default=default_of(wire) if explicit is _MISSING or isinstance(explicit, type) else explicit,
        ignorable=declared.ignorable,
        release=declared.release,
        nullable_since=declared.nullable_since,
        map_key=declared.map_key,
    )


@dataclass(frozen=True, slots=True)
class _Declaration:
    """The arguments of the decorator. `check`: called with the spec when it is derived."""

    versions: range | None
    flexible_since: int | None
    check: "Callable[[MessageSpec], None] | None"


def declare(
    cls: type[M],
    versions: range | None,
    flexible_since: int | None,
    check: "Callable[[MessageSpec], None] | None" = None,
) -> type[M]:
    """Add what the spec of a message class will be derived from; return the class."""
    cls.declaration = _Declaration(versions, flexible_since, check)
    return cls


def _derive(cls: type[Message]) -> None:
    """Set the attributes of a message class that are derived from its declaration."""
    declared, given, hints = cls.declaration, cls.declared_fields, cls.__annotations__
    last = declared.versions[-1] if declared.versions is not None else _ANY_VERSION
    fields = tuple(_field_spec(name, hints[name], given.get(name, _MISSING), last) for name in cls.__slots__)
    namespace: dict[str, Any] = {"__annotations__": hints, "__doc__": cls.__name__, "unknown_tags": ()}
    for spec in fields:
        explicit = given.get(spec.name, _MISSING)
        if explicit is not _MISSING and not (isinstance(explicit, _Declared) and explicit.default is _MISSING):
            namespace[spec.name] = spec.default
    plain: Any = dataclass(init=False, repr=False, eq=False, kw_only=True)(type(cls.__name__, (), namespace))
    cls.__dataclass_fields__ = plain.__dataclass_fields__
    cls.spec = MessageSpec(cls.__name__, cls, fields, declared.versions, declared.flexible_since)
    if declared.check is not None:
        declared.check(cls.spec)


_ANY_VERSION = 0x7FFF
"""Structs are declared without versions; their fields exist in all versions of the message."""


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, tagged))
def struct(cls: type[M]) -> type[M]:
    """Declare a struct that occurs inside messages."""
    return declare(cls, None, None)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, tagged))
def message(*, versions: range, flexible_since: int | None = None) -> Callable[[type[M]], type[M]]:
    """Declare a message that is not part of a record, such as a consumer protocol message."""
    return lambda cls: declare(cls, versions, flexible_since)


@dataclass(frozen=True, slots=True)
class _KeyFacts:
    type_id: int
    topic: str
    since: str
    note: str


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, tagged))
def key(type_id: int, *, since: str, topic: str = CONSUMER_OFFSETS, note: str = "") -> Callable[[type[M]], type[M]]:
    """Declare the key of a record type.

    Keys have one version, which is not flexible (KAFKA-18301).
    """

    def declare_key(cls: type[M]) -> type[M]:
        built = declare(cls, range(0, 1), None)
        built.key_facts = _KeyFacts(type_id, topic, since, note)
        return built

    return declare_key


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, tagged))
def value(
    key: type[Message], *, versions: range, flexible_since: int | None = None, written: int | None = -1
) -> Callable[[type[M]], type[M]]:
    """Declare the value for `key`, which completes the record type.

    `written` defaults to the newest version.
    """

    def declare_value(cls: type[M]) -> type[M]:
        built = declare(cls, versions, flexible_since)
        facts = key.key_facts
        built.record_type = RecordType(
            topic=facts.topic,
            type_id=facts.type_id,
            name=cls.__name__.removesuffix("Value"),
            messages=(key, built),
            versions=versions,
            since=facts.since,
            written=versions[-1] if written == -1 else written,
            note=facts.note,
        )
        return built

    return declare_value
