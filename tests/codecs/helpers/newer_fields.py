"""Fields that the oracle's Kafka 4.3 does not know: two tagged ones of StreamsGroupMetadata (4.4).

Kafka 4.3 reads them as unknown tags, without decoding their content. The two sides can therefore
differ, but only for bytes with these tags.
"""

from typing import Any

from quorate.codecs import CONSUMER_OFFSETS, CoordinatorRecord, DecodeError, decode_record
from quorate.codecs.exact import decode_exactly
from quorate.codecs.message import Message, message, tagged
from quorate.codecs.messages import LastAssignmentConfig, StreamsGroupMetadataKey, StreamsGroupMetadataValue
from quorate.codecs.wire import Array, Int32, Int64

__all__ = ["has_newer_fields"]


@message(versions=range(0, 1), flexible_since=0)
class StreamsGroupMetadataValueOf43(Message):
    """The declaration of Kafka 4.3."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = tagged(0, default=-1)
    last_assignment_configs: Array[LastAssignmentConfig] | None = tagged(1, default=())


def has_newer_fields(topic: str, key: bytes | None, value: bytes | None) -> bool:
    """Return whether our declaration and that of Kafka 4.3 read these bytes differently."""
    if topic != CONSUMER_OFFSETS or key is None or value is None or value[:2] != b"\x00\x00":
        return False
    match decode_record(key, None):
        case CoordinatorRecord(key=StreamsGroupMetadataKey()):
            return _read(StreamsGroupMetadataValue, value) != _read(StreamsGroupMetadataValueOf43, value)
    return False


def _read(cls: type[Message], value: bytes) -> dict[str, Any] | None:
    """Return the common fields, the unknown tags and the end, or `None` for undecodable bytes."""
    try:
        found, end = decode_exactly(cls.spec, 0, value, 2, "value", as_kafka_reads=True)
    except DecodeError:
        return None
    common = {f.name: getattr(found, f.name) for f in StreamsGroupMetadataValueOf43.spec.fields}
    return {**common, "unknown_tags": found.unknown_tags, "end": end}
