"""Records as values: decoded, of an unknown type or version, or malformed.

Knows nothing about decoding and encoding.
"""

from dataclasses import field
from typing import Final, TypeAlias

from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.fast_encode import encode_message
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import CONSUMER_OFFSETS, Message, RecordType
from quorate.codecs.message_methods import generated_init
from quorate.codecs.messages import RECORD_TYPES


@generated_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecord:
    """A decoded record. `value` and `version` are `None` for a tombstone.

    `key_trailing` and `value_trailing` are the bytes after the messages, which Kafka ignores.
    `value_as_read` has the bytes of a value that Kafka can read but would encode differently, such
    as a varint with leading zeros. Encoding returns these bytes while they decode to `value`.
    """

    key: Message
    value: Message | None
    version: int | None
    topic: str = CONSUMER_OFFSETS
    key_trailing: bytes = b""
    value_trailing: bytes = b""
    value_as_read: bytes | None = field(default=None, repr=False)

    @property
    def type(self) -> RecordType:
        """The record type of the key."""
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
        """Whether the record is a tombstone."""
        return self.value is None

    @property
    def problem(self) -> DecodeError | None:
        """A problem of the bytes that Kafka ignores: trailing bytes."""
        if self.key_trailing:
            return DecodeError(
                Reason.TRAILING,
                where="key",
                position=_encoded_size(self.key, 0),
                detail=self.key_trailing.hex(),
            )
        if self.value_trailing and self.value is not None and self.version is not None:
            return DecodeError(
                Reason.TRAILING,
                where="value",
                position=len(self.value_as_read or b"") or _encoded_size(self.value, self.version),
                detail=self.value_trailing.hex(),
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRecord:
    """A record with a type or a value version that is not declared.

    `key` is `None` if the type is unknown.
    """

    topic: str
    reason: Reason
    type_id: int
    version: int | None
    key: Message | None
    key_bytes: bytes
    value_bytes: bytes | None

    @property
    def name(self) -> str | None:
        """Kafka's name of the record type, such as "OffsetCommit"; `None` for an unknown type."""
        return _name_of(self.topic, self.type_id)

    @property
    def problem(self) -> DecodeError:
        """The exception that `strict=True` raises."""
        if self.reason is Reason.UNKNOWN_TYPE:
            return DecodeError(self.reason, where="key", position=0, detail=str(self.type_id))
        return DecodeError(self.reason, where="value", position=0, detail=f"{self.version} of {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedRecord:
    """A record with a damaged or foreign key or value. `key` is set if the value is the cause.

    `value` and `version` are set if Kafka reads the value nevertheless: its generated classes
    ignore the size of a known tagged field, and read every negative length as null.
    """

    topic: str
    problem: DecodeError
    type_id: int | None
    key: Message | None
    key_bytes: bytes | None
    value_bytes: bytes | None
    value: Message | None = None
    version: int | None = None

    @property
    def name(self) -> str | None:
        """Kafka's name of the record type, such as "OffsetCommit"; `None` for an unknown type."""
        return _name_of(self.topic, self.type_id)

    @property
    def reason(self) -> Reason:
        """Why it cannot be decoded."""
        return self.problem.reason

    @property
    def where(self) -> str:
        """The part that cannot be decoded: "key" or "value"."""
        return self.problem.where

    @property
    def position(self) -> int:
        """Byte offset in the key or value of the field that cannot be decoded."""
        return self.problem.position

    @property
    def field(self) -> str:
        """Path of that field, such as "topics[2].partitions"; empty before the first field."""
        return self.problem.field


Record: TypeAlias = CoordinatorRecord | UnknownRecord | MalformedRecord
"""Any record that `decode_record` returns."""


def as_kafka_reads(record: object) -> CoordinatorRecord | None:
    """Return the record that Kafka's loader replays; `None` if it cannot read the value.

    Kafka reads some damaged values. Other records are returned unchanged.
    """
    if isinstance(record, CoordinatorRecord):
        return record
    if isinstance(record, MalformedRecord) and record.key is not None and record.value is not None:
        return CoordinatorRecord(key=record.key, value=record.value, version=record.version, topic=record.topic)
    return None


_TYPE_OF_KEY: Final = {
    record_type.messages[0]: record_type for types in RECORD_TYPES.values() for record_type in types.values()
}
_TYPE_OF_VALUE: Final = {
    record_type.messages[1]: record_type for types in RECORD_TYPES.values() for record_type in types.values()
}


def record_type_of(message: type[Message]) -> RecordType:
    """Return the record type of a key or value class.

    Raises `KeyError` for other messages.
    """
    found = _TYPE_OF_KEY.get(message) or _TYPE_OF_VALUE.get(message)
    if found is None:
        raise KeyError(f"{message.__name__} is neither key nor value of a record type")
    return found


def _name_of(topic: str, type_id: int | None) -> str | None:
    known = None if type_id is None else RECORD_TYPES[topic].get(type_id)
    return None if known is None else known.name


def _encoded_size(message: Message, version: int) -> int:
    return 2 + len(encode_message(message, version))
