"""Decode key and value bytes of coordinator topics to records; `record_encode` encodes them.

Bytes that cannot be decoded are values too (`UnknownRecord`, `MalformedRecord`), which keep the
bytes and encode to them again. Nothing is skipped here. Kafka's loader skips an unknown type and
fails the partition for an unknown value version.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.fast_encode import encode_message
from quorate.codecs.message import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, Message, MessageSpec
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.record_encode import RECORD_CODECS, encode_record
from quorate.codecs.record_model import (
    CoordinatorRecord,
    MalformedRecord,
    Record,
    UnknownRecord,
    as_kafka_reads,
    record_type_of,
)
from quorate.codecs.source import open_twin

__all__ = [
    "CONSUMER_OFFSETS",
    "RECORD_TYPES",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "CoordinatorRecord",
    "MalformedRecord",
    "Record",
    "UnknownRecord",
    "as_kafka_reads",
    "decode_record",
    "encode_message",
    "encode_record",
    "record_type_of",
]

_INT16: Final = Struct(">h")


class _ValueDecoders(dict[bytes, tuple[int, Callable[[bytes, int], Message]]]):
    """The two version bytes → version and decoder.

    A `KeyError` means a version that is not declared.
    """

    def __init__(self, spec: MessageSpec) -> None:
        super().__init__()
        self.spec = spec

    def __missing__(self, prefix: bytes) -> tuple[int, Callable[[bytes, int], Message]]:
        version = int.from_bytes(prefix, "big", signed=True)
        if (
            type(prefix) is not bytes
            or len(prefix) != 2
            or self.spec.versions is None
            or version not in self.spec.versions
        ):
            raise KeyError(prefix)
        self[prefix] = found = (version, message_decoder(self.spec, version))
        return found


class _Keys(dict[bytes, tuple[Message, _ValueDecoders]]):
    """Key bytes → decoded key and the decoders of its values, for one topic.

    Logs repeat few keys many times, and decoded keys are immutable, so each is decoded once.
    `LIMIT` bounds the memory. A `KeyError` means a type that is not declared.
    """

    LIMIT = 1 << 14

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.types = RECORD_TYPES[topic]
        self.codecs: dict[int, tuple[Callable[[bytes, int], Message], _ValueDecoders]] = {}

    def __missing__(self, key: bytes) -> tuple[Message, _ValueDecoders]:
        if type(key) is not bytes:
            raise TypeError  # a cached view would keep its buffer alive
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


def _decoder_in_python(keys: _Keys) -> Callable[[bytes | None, bytes | None], CoordinatorRecord]:
    """Return a decoder of exact records, which the accelerator replaces."""
    opened = open_twin(CoordinatorRecord)
    topic = keys.topic

    def decode(key: bytes | None, value: bytes | None) -> CoordinatorRecord:
        record = opened()
        record.key, values = keys[key]  # type: ignore[index]  # a null key raises a TypeError
        if value is None:
            record.value = record.version = None
        else:
            record.version, decode_value = values[value[:2]]
            record.value = decode_value(value, 2)
        record.topic = topic
        record.key_trailing = record.value_trailing = b""
        record.value_as_read = None
        record.__class__ = CoordinatorRecord
        return record  # type: ignore[no-any-return]  # its class was set in the line above

    return decode


_DECODERS: Final = {
    topic: _decoder_in_python(_Keys(topic)) if codec is None else codec.decode for topic, codec in RECORD_CODECS.items()
}

_decode = _DECODERS[CONSUMER_OFFSETS]  # nearly all records


def decode_record(
    key: bytes | None, value: bytes | None, *, topic: str = CONSUMER_OFFSETS, strict: bool = False
) -> Record:
    """Decode a record from its key and value bytes; `value=None` is a tombstone.

    A bytearray or memoryview is copied. Data never raises, unless `strict`: then every result other
    than a `CoordinatorRecord` without trailing bytes raises `DecodeError`. Raises `KeyError` for a
    topic that is not a coordinator topic, and `TypeError` for a key or value that is not bytes.
    """
    try:
        return _decode(key, value) if topic is CONSUMER_OFFSETS else _DECODERS[topic](key, value)
    except Exception:  # noqa: BLE001  # any failure of the fast path: `_decode_slowly` decodes or explains
        found = _decode_slowly(_as_bytes(key, "key"), _as_bytes(value, "value"), topic)
    if strict and found.problem is not None:
        raise found.problem
    return found


def _as_bytes(data: object, argument: str) -> bytes | None:
    """Return an immutable copy."""
    if data is None:
        return None
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{argument} is of type {type(data).__name__}; bytes are expected, or None")
    return bytes(data)


def _decode_slowly(key: bytes | None, value: bytes | None, topic: str) -> Record:
    if topic not in RECORD_TYPES:
        raise KeyError(f"topic={topic!r} is not a coordinator topic; use one of {', '.join(RECORD_TYPES)}")
    types = RECORD_TYPES[topic]

    def malformed(
        problem: DecodeError,
        type_id: int | None = None,
        message: Message | None = None,
        read: tuple[Message, int] | None = None,
    ) -> MalformedRecord:
        return MalformedRecord(
            topic=topic,
            problem=problem,
            type_id=type_id,
            key=message,
            key_bytes=key,
            value_bytes=value,
            value=None if read is None else read[0],
            version=None if read is None else read[1],
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
        return CoordinatorRecord(
            key=key_message,
            value=None,
            version=None,
            topic=topic,
            key_trailing=key_trailing,
        )
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
        try:
            value_message, _ = decode_exactly(record_type.value, version, value, 2, "value", as_kafka_reads=True)
        except DecodeError:
            return malformed(problem, type_id, key_message)
        return malformed(problem, type_id, key_message, (value_message, version))
    return CoordinatorRecord(
        key=key_message,
        value=value_message,
        version=version,
        topic=topic,
        key_trailing=key_trailing,
        value_trailing=value[value_end:],
        value_as_read=None if value[2:value_end] == encode_message(value_message, version) else value[:value_end],
    )


def _is_redpanda_envelope(value: bytes) -> bool:
    """Whether this is Redpanda's serde envelope: two versions, and the size of the rest."""
    return (
        len(value) >= 6
        and value[1] <= value[0]
        and value[0] > 0
        and int.from_bytes(value[2:6], "little") == len(value) - 6
    )
