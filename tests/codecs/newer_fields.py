"""Where we know more than the oracle's Kafka 4.3: the two fields that 4.4 gave StreamsGroupMetadata are unknown tags to it.

It therefore does not look inside them, so the two may say different things about the same bytes,
but only about bytes in which it meets those tags.
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
    """As Kafka 4.3 has it."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = tagged(0, default=-1)
    last_assignment_configs: Array[LastAssignmentConfig] | None = tagged(1, default=())


def has_newer_fields(topic: str, key: bytes | None, value: bytes | None) -> bool:
    """Whether our declaration makes something else of these bytes than that of Kafka 4.3 would."""
    if topic != CONSUMER_OFFSETS or key is None or value is None or value[:2] != b"\x00\x00":
        return False
    match decode_record(key, None):
        case CoordinatorRecord(key=StreamsGroupMetadataKey()):
            return _read(StreamsGroupMetadataValue, value) != _read(StreamsGroupMetadataValueOf43, value)
    return False


def _read(cls: type[Message], value: bytes) -> dict[str, Any] | None:
    """The fields that both declarations have, what is unknown, and the end; `None` if the bytes cannot be read."""
    try:
        found, end = decode_exactly(cls.spec, 0, value, 2, "value", as_kafka_reads=True)
    except DecodeError:
        return None
    common = {f.name: getattr(found, f.name) for f in StreamsGroupMetadataValueOf43.spec.fields}
    return {**common, "unknown_tags": found.unknown_tags, "end": end}
