"""Coordinator records: the key and value bytes of `__consumer_offsets` and its two siblings, to values and back.

Bytes that are not understood are values too (`UnknownRecord`, `MalformedRecord`); they keep the bytes and encode to them again. What Kafka's loader
does with each is Kafka's business (an unknown type is skipped, an unknown value version fails the partition): here nothing is skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

import quorate.codecs.messages  # noqa: F401  # completes the registry
from quorate.codecs.errors import DecodeError, EncodeError, Reason
from quorate.codecs.exact import decode_exactly, encode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.fast_encode import message_encoder
from quorate.codecs.generate import open_twin
from quorate.codecs.message import (
    CONSUMER_OFFSETS,
    RECORD_TYPES,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    Message,
    MessageSpec,
    RecordType,
)

__all__ = [
    "CONSUMER_OFFSETS",
    "RECORD_TYPES",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "CoordinatorRecord",
    "MalformedRecord",
    "Record",
    "UnknownRecord",
    "decode_record",
    "encode_message",
    "encode_record",
    "record_type_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecord:
    """A record that was understood. `value` and `version` are `None` for a tombstone.

    Bytes behind the message are kept in `key_trailing` and `value_trailing`: Kafka ignores them, and so can you.
    """

    key: Message
    value: Message | None
    version: int | None
    topic: str = CONSUMER_OFFSETS
    key_trailing: bytes = b""
    value_trailing: bytes = b""

    @property
    def type(self) -> RecordType:
        """The record type, by which the key is known."""
        return _TYPE_OF_KEY[type(self.key)]

    @property
    def type_id(self) -> int:
        """The int16 at the start of the key."""
        return _TYPE_OF_KEY[type(self.key)].type_id

    @property
    def name(self) -> str:
        """Kafka's name of the record type, such as "OffsetCommit"."""
        return _TYPE_OF_KEY[type(self.key)].name

    @property
    def is_tombstone(self) -> bool:
        """Whether the record deletes what its key names."""
        return self.value is None

    @property
    def problem(self) -> DecodeError | None:
        """What is odd about the bytes, if Kafka ignores it: trailing bytes."""
        if self.key_trailing:
            return DecodeError(
                Reason.TRAILING, where="key", position=_encoded_size(self.key, 0), detail=self.key_trailing.hex()
            )
        if self.value_trailing and self.value is not None and self.version is not None:
            return DecodeError(
                Reason.TRAILING,
                where="value",
                position=_encoded_size(self.value, self.version),
                detail=self.value_trailing.hex(),
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRecord:
    """A record of a type, or with a value version, that is not declared. `key` is `None` if its type is unknown."""

    topic: str
    reason: Reason
    type_id: int
    version: int | None
    key: Message | None
    key_bytes: bytes
    value_bytes: bytes | None

    @property
    def problem(self) -> DecodeError:
        """The same facts as the exception that `strict=True` raises."""
        if self.reason is Reason.UNKNOWN_TYPE:
            return DecodeError(self.reason, where="key", position=0, detail=str(self.type_id))
        name = RECORD_TYPES[self.topic][self.type_id].name
        return DecodeError(self.reason, where="value", position=0, detail=f"{self.version} of {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedRecord:
    """A record whose key or value is damaged or foreign. `key` is set if the fault is in the value."""

    topic: str
    problem: DecodeError
    type_id: int | None
    key: Message | None
    key_bytes: bytes | None
    value_bytes: bytes | None

    @property
    def reason(self) -> Reason:
        """What is wrong."""
        return self.problem.reason

    @property
    def where(self) -> str:
        """Which of the two it is: "key" or "value"."""
        return self.problem.where

    @property
    def position(self) -> int:
        """Byte offset in the key or value where the field starts that could not be read."""
        return self.problem.position

    @property
    def field(self) -> str:
        """Path of that field, such as "topics[2].partitions"; empty if it lies before the first field."""
        return self.problem.field


Record: TypeAlias = CoordinatorRecord | UnknownRecord | MalformedRecord

_INT16: Final = Struct(">h")


class _ValueDecoders(dict[bytes, tuple[int, Callable[[bytes, int], Message]]]):
    """The two version bytes → version and decoder. A `KeyError` means a version that is not declared."""

    def __init__(self, spec: MessageSpec) -> None:
        super().__init__()
        self.spec = spec

    def __missing__(self, prefix: bytes) -> tuple[int, Callable[[bytes, int], Message]]:
        version = int.from_bytes(prefix, "big", signed=True)
        if len(prefix) != 2 or self.spec.versions is None or version not in self.spec.versions:
            raise KeyError(prefix)
        self[prefix] = found = (version, message_decoder(self.spec, version))
        return found


class _Keys(dict[bytes, tuple[Message, _ValueDecoders]]):
    """Key bytes → decoded key and decoders of the values under it, for one topic.

    In logs few keys are written again and again, and decoded keys are immutable, so each is decoded once; `LIMIT` bounds the memory.
    A `KeyError` means a type that is not declared.
    """

    LIMIT = 1 << 14

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.types = RECORD_TYPES[topic]
        self.codecs: dict[int, tuple[Callable[[bytes, int], Message], _ValueDecoders]] = {}

    def __missing__(self, key: bytes) -> tuple[Message, _ValueDecoders]:
        type_id = _INT16.unpack_from(key)[0]
        codec = self.codecs.get(type_id)
        if codec is None:
            record_type = self.types[type_id]
            codec = self.codecs[type_id] = (message_decoder(record_type.key, 0), _ValueDecoders(record_type.value))
        found = codec[0](key, 2), codec[1]
        if len(self) >= self.LIMIT:
            self.clear()
        self[key] = found
        return found


_KEYS: Final = {topic: _Keys(topic) for topic in RECORD_TYPES}
_TYPE_OF_KEY: Final = {
    record_type.key.cls: record_type for types in RECORD_TYPES.values() for record_type in types.values()
}
_TYPE_OF_VALUE: Final = {
    record_type.value.cls: record_type for types in RECORD_TYPES.values() for record_type in types.values()
}
_Open: Final = open_twin(CoordinatorRecord)


def record_type_of(message: type[Message]) -> RecordType:
    """The record type that a key or value class belongs to. Raises `KeyError` for other messages."""
    found = _TYPE_OF_KEY.get(message) or _TYPE_OF_VALUE.get(message)
    if found is None:
        raise KeyError(f"{message.__name__} is neither key nor value of a record type")
    return found


def decode_record(
    key: bytes | None, value: bytes | None, *, topic: str = CONSUMER_OFFSETS, strict: bool = False
) -> Record:
    """The record with these key and value bytes; `value=None` is a tombstone.

    Never raises on data, unless `strict`: then whatever is not a `CoordinatorRecord` without trailing bytes raises `DecodeError`.
    Raises `KeyError` for a topic that is not one of the three coordinator topics.
    """
    try:
        record = _Open()
        record.key, values = _KEYS[topic][key]  # type: ignore[index]  # a null key is found out below
        if value is None:
            record.value = record.version = None
        else:
            record.version, decode = values[value[:2]]
            record.value = decode(value, 2)
        record.topic = topic
        record.key_trailing = record.value_trailing = b""
        record.__class__ = CoordinatorRecord
        return record  # type: ignore[no-any-return]  # it has just become one
    except Exception:  # noqa: BLE001  # whatever the fast path stumbled over, `_decode_slowly` names it or reads it
        found = _decode_slowly(key, value, topic)
    if strict and found.problem is not None:
        raise found.problem
    return found


def _decode_slowly(key: bytes | None, value: bytes | None, topic: str) -> Record:
    types = RECORD_TYPES[topic]

    def malformed(problem: DecodeError, type_id: int | None = None, message: Message | None = None) -> MalformedRecord:
        return MalformedRecord(
            topic=topic, problem=problem, type_id=type_id, key=message, key_bytes=key, value_bytes=value
        )

    if key is None:
        return malformed(DecodeError(Reason.NULL_KEY, where="key", position=0))
    if len(key) < 2:
        return malformed(DecodeError(Reason.TOO_SHORT, where="key", position=0, detail=key.hex()))
    type_id = int.from_bytes(key[:2], "big", signed=True)
    if type_id not in types:
        return UnknownRecord(
            topic=topic,
            reason=Reason.UNKNOWN_TYPE,
            type_id=type_id,
            version=None,
            key=None,
            key_bytes=key,
            value_bytes=value,
        )
    record_type = types[type_id]
    try:
        key_message, key_end = decode_exactly(record_type.key, 0, key, 2, "key")
    except DecodeError as problem:
        return malformed(problem, type_id)
    key_trailing = key[key_end:]
    if value is None:
        return CoordinatorRecord(key=key_message, value=None, version=None, topic=topic, key_trailing=key_trailing)
    if len(value) < 2:
        return malformed(
            DecodeError(Reason.TOO_SHORT, where="value", position=0, detail=value.hex()), type_id, key_message
        )
    if _is_redpanda_envelope(value):
        detail = "a serde envelope as Redpanda writes it"
        return malformed(
            DecodeError(Reason.FOREIGN_VALUE, where="value", position=0, detail=detail), type_id, key_message
        )
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in record_type.versions:
        return UnknownRecord(
            topic=topic,
            reason=Reason.UNKNOWN_VERSION,
            type_id=type_id,
            version=version,
            key=key_message,
            key_bytes=key,
            value_bytes=value,
        )
    try:
        value_message, value_end = decode_exactly(record_type.value, version, value, 2, "value")
    except DecodeError as problem:
        return malformed(problem, type_id, key_message)
    return CoordinatorRecord(
        key=key_message,
        value=value_message,
        version=version,
        topic=topic,
        key_trailing=key_trailing,
        value_trailing=value[value_end:],
    )


def _is_redpanda_envelope(value: bytes) -> bool:
    """Redpanda's serde envelope: version, compatible version, then the little-endian size of exactly what follows."""
    return (
        len(value) >= 6
        and value[1] <= value[0]
        and value[0] > 0
        and int.from_bytes(value[2:6], "little") == len(value) - 6
    )


def encode_message(message: Message, version: int) -> bytes:
    """The bytes of a message in one version, without the int16 in front. Raises `EncodeError` if the version cannot carry it."""
    spec = message.spec
    if spec.versions is None or version not in spec.versions:
        raise EncodeError(f"{spec.name} has no version {version}; it has {_span(spec.versions)}")
    parts: list[bytes] = []
    try:
        message_encoder(spec, version)(message, parts.append)
    except Exception:  # noqa: BLE001  # written, or the field is named, by `encode_exactly`
        return encode_exactly(message, version)
    return b"".join(parts)


def _span(versions: range | None) -> str:
    if versions is None:
        return "none of its own: it is a struct inside messages"
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def _encoded_size(message: Message, version: int) -> int:
    return 2 + len(encode_message(message, version))


def encode_record(record: Record) -> tuple[bytes | None, bytes | None]:
    """Key and value bytes, as Kafka writes them. Records that were not understood give back their bytes. Raises `EncodeError`."""
    if not isinstance(record, CoordinatorRecord):
        return record.key_bytes, record.value_bytes
    try:
        type_bytes, key_encoder, values = _ENCODERS[type(record.key)]
    except KeyError:
        raise EncodeError(f"{type(record.key).__name__} is not the key of a record type") from None
    parts = [type_bytes]
    key, value = record.key, record.value
    try:
        key_encoder(key, parts.append)
    except Exception:  # noqa: BLE001  # written, or the field is named, by `encode_exactly`
        parts = [type_bytes, encode_exactly(key, 0)]
    key_bytes = b"".join(parts) + record.key_trailing
    if value is None:
        return key_bytes, None
    try:
        prefix, value_encoder = values[record.version, type(value)]
    except KeyError as error:
        raise EncodeError(error.args[0]) from None
    parts = [prefix]
    try:
        value_encoder(value, parts.append)
    except Exception:  # noqa: BLE001  # written, or the field is named, by `encode_exactly`
        assert record.version is not None
        parts = [prefix, encode_exactly(value, record.version)]
    return key_bytes, b"".join(parts) + record.value_trailing


_Encoder: TypeAlias = Callable[[Message, Callable[[bytes], None]], None]


class _ValueEncoders(dict[tuple[int | None, type[Message]], tuple[bytes, _Encoder]]):
    """Version and class of a value → the two version bytes and the encoder, for one record type."""

    def __init__(self, record_type: RecordType) -> None:
        super().__init__()
        self.record_type = record_type

    def __missing__(self, wanted: tuple[int | None, type[Message]]) -> tuple[bytes, _Encoder]:
        version, cls = wanted
        spec = self.record_type.value
        if cls is not spec.cls:
            raise KeyError(f"{self.record_type.name} has a {spec.name} as its value, not a {cls.__name__}")
        if version is None or version not in self.record_type.versions:
            raise KeyError(f"{spec.name} has no version {version}; it has {_span(spec.versions)}")
        self[wanted] = found = (version.to_bytes(2, "big"), message_encoder(spec, version))
        return found


class _Encoders(dict[type[Message], tuple[bytes, _Encoder, _ValueEncoders]]):
    """Class of a key → its two type bytes, its encoder, and those of its values."""

    def __missing__(self, cls: type[Message]) -> tuple[bytes, _Encoder, _ValueEncoders]:
        record_type = _TYPE_OF_KEY[cls]
        self[cls] = found = (
            record_type.type_id.to_bytes(2, "big"),
            message_encoder(record_type.key, 0),
            _ValueEncoders(record_type),
        )
        return found


_ENCODERS: Final = _Encoders()
