"""Encode records to key and value bytes.

Encoders are generated when a class is first written in a version. `exact` explains their errors.
"""

from typing import Final

from quorate.codecs.accelerator import record_codec
from quorate.codecs.errors import DecodeError, EncodeError
from quorate.codecs.exact import decode_exactly, encode_exactly
from quorate.codecs.fast_encode import Encoder, message_encoder, span
from quorate.codecs.message import Message, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.record_model import CoordinatorRecord, MalformedRecord, Record, UnknownRecord, record_type_of


class _ValueEncoders(dict[int | None, Encoder]):
    """Version of a value → its encoder, which also writes the version; for one record type."""

    def __init__(self, record_type: RecordType) -> None:
        super().__init__()
        self.record_type = record_type

    def __missing__(self, version: int | None) -> Encoder:
        spec = self.record_type.value
        if version is None or version not in self.record_type.versions:
            raise EncodeError(f"{spec.name} has no version {version}; it has {span(spec.versions)}")
        self[version] = found = message_encoder(spec, version, version)
        return found


class _Encoders(dict[type[Message], tuple[str, Encoder, type[Message], _ValueEncoders]]):
    """Key class → topic, key encoder (which also writes the type), value class, value encoders."""

    def __missing__(self, cls: type[Message]) -> tuple[str, Encoder, type[Message], _ValueEncoders]:
        record_type = record_type_of(cls)
        if cls is not record_type.key.cls:
            raise KeyError(cls)
        self[cls] = found = (
            record_type.topic,
            message_encoder(record_type.key, 0, record_type.type_id),
            record_type.value.cls,
            _ValueEncoders(record_type),
        )
        return found


_ENCODERS: Final = _Encoders()

RECORD_CODECS: Final = {topic: record_codec(CoordinatorRecord, topic, types) for topic, types in RECORD_TYPES.items()}
"""The decoders and encoders in C, by topic; `None` without the accelerator."""

_NATIVE_ENCODERS: Final = {topic: codec.encode for topic, codec in RECORD_CODECS.items() if codec is not None}


def encode_record(record: Record) -> tuple[bytes | None, bytes | None]:
    """Encode key and value, with the same bytes as Kafka.

    An undecoded record returns its bytes. Raises `EncodeError` if the version cannot carry a field,
    or if key, value and topic do not match.
    """
    if not isinstance(record, CoordinatorRecord):
        if not isinstance(record, UnknownRecord | MalformedRecord):
            raise TypeError(f"{type(record).__name__} is no record; decode_record returns records")
        return record.key_bytes, record.value_bytes
    native = _NATIVE_ENCODERS.get(record.topic)
    if native is not None:
        try:
            return native(record)
        except Exception:  # noqa: BLE001, S110  # `_encode_in_python` encodes it, or names the field
            pass
    return _encode_in_python(record)


def _encode_in_python(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    key, value = record.key, record.value
    try:
        topic, encode_key, value_class, encoders = _ENCODERS[type(key)]
    except KeyError:
        raise EncodeError(f"{type(key).__name__} is not the key of a record type") from None
    if record.topic != topic:
        raise EncodeError(f"{type(key).__name__} is a key of {topic}, but the record's topic is {record.topic}")
    try:
        key_bytes = encode_key(key)
    except Exception:  # noqa: BLE001  # `encode_exactly` encodes it, or names the field
        key_bytes = record.type_id.to_bytes(2, "big") + encode_exactly(key, 0)
    if record.key_trailing:
        key_bytes += record.key_trailing
    if value is None:
        return key_bytes, None
    if type(value) is not value_class:
        raise EncodeError(f"{record.name} has a {value_class.__name__} as its value, not a {type(value).__name__}")
    encode_value = encoders[record.version]
    if record.value_as_read is not None and _means(record.value_as_read, record.version, value):
        return key_bytes, record.value_as_read + record.value_trailing
    try:
        value_bytes = encode_value(value)
    except Exception:  # noqa: BLE001  # `encode_exactly` encodes it, or names the field
        assert record.version is not None
        value_bytes = record.version.to_bytes(2, "big") + encode_exactly(value, record.version)
    if record.value_trailing:
        value_bytes += record.value_trailing
    return key_bytes, value_bytes


def _means(data: bytes, version: int | None, value: Message) -> bool:
    """Whether these bytes decode to `value`, in a form that may differ from Kafka's."""
    assert version is not None
    if int.from_bytes(data[:2], "big", signed=True) != version:
        return False
    try:
        found, end = decode_exactly(value.spec, version, data, 2, "value")
    except DecodeError:
        return False
    return found == value and end == len(data)
