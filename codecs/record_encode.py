"""Records to key and value bytes. The encoders are generated when a class is first written in a version; what they refuse is named by `exact`."""

from collections.abc import Callable
from typing import Final, TypeAlias

from quorate.codecs.errors import EncodeError
from quorate.codecs.exact import encode_exactly
from quorate.codecs.fast_encode import message_encoder, span
from quorate.codecs.message import Message, RecordType
from quorate.codecs.record_model import CoordinatorRecord, Record, record_type_of

__all__ = ["encode_record"]

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
            raise KeyError(f"{spec.name} has no version {version}; it has {span(spec.versions)}")
        self[wanted] = found = (version.to_bytes(2, "big"), message_encoder(spec, version))
        return found


class _Encoders(dict[type[Message], tuple[str, bytes, _Encoder, _ValueEncoders]]):
    """Class of a key → its topic, its two type bytes, its encoder, and those of its values."""

    def __missing__(self, cls: type[Message]) -> tuple[str, bytes, _Encoder, _ValueEncoders]:
        record_type = record_type_of(cls)
        if cls is not record_type.key.cls:
            raise KeyError(cls)
        self[cls] = found = (
            record_type.topic,
            record_type.type_id.to_bytes(2, "big"),
            message_encoder(record_type.key, 0),
            _ValueEncoders(record_type),
        )
        return found


_ENCODERS: Final = _Encoders()


def encode_record(record: Record) -> tuple[bytes | None, bytes | None]:
    """Key and value bytes, as Kafka writes them. Records that were not understood give back their bytes.

    Raises `EncodeError` for what the version cannot carry, and if key, value and topic do not belong together.
    """
    if not isinstance(record, CoordinatorRecord):
        return record.key_bytes, record.value_bytes
    try:
        topic, type_bytes, key_encoder, values = _ENCODERS[type(record.key)]
    except KeyError:
        raise EncodeError(f"{type(record.key).__name__} is not the key of a record type") from None
    if record.topic != topic:
        raise EncodeError(f"{type(record.key).__name__} is a key of {topic}, but the record's topic is {record.topic}")
    parts = [type_bytes]
    key, value = record.key, record.value
    try:
        key_encoder(key, parts.append)
        key_bytes = b"".join(parts) + record.key_trailing
    except Exception:  # noqa: BLE001  # written, or the field is named, by `encode_exactly`
        key_bytes = type_bytes + encode_exactly(key, 0) + record.key_trailing
    if value is None:
        return key_bytes, None
    try:
        prefix, value_encoder = values[record.version, type(value)]
    except KeyError as error:
        raise EncodeError(error.args[0]) from None
    parts = [prefix]
    try:
        value_encoder(value, parts.append)
        value_bytes = b"".join(parts) + record.value_trailing
    except Exception:  # noqa: BLE001  # written, or the field is named, by `encode_exactly`
        assert record.version is not None
        value_bytes = prefix + encode_exactly(value, record.version) + record.value_trailing
    return key_bytes, value_bytes
