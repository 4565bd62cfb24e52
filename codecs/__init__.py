"""Bytes and values of Kafka's coordinator topics: records, the consumer protocol, record batches, log segments.

    for entry in read_log("kafka-logs/__consumer_offsets-17"):       # a segment, a partition's folder, a broker's log directory
        print(entry.offset, entry.record)
    record = decode_record(key, value)                               # CoordinatorRecord | UnknownRecord | MalformedRecord
    key, value = encode_record(record)                               # byte for byte what Kafka writes
    batches = decode_columns(keys, values)                           # Arrow in, one RecordBatch per record type out

Messages are declared once, in `quorate.codecs.messages`, as frozen dataclasses; layouts, JSON, columns and schemas are derived from that. Bytes that
are not understood are values that say what and where. Nothing here opens a socket except `read_live`. NumPy, pyarrow, construct and kafka-python are
imported only when a function needs them.
"""

from quorate.codecs.consumer_protocol import decode_assignment, decode_subscription, encode_protocol, open_nested
from quorate.codecs.errors import DecodeError, EncodeError, Reason
from quorate.codecs.json_form import from_json, to_json, to_kafka_json
from quorate.codecs.records import (
    CONSUMER_OFFSETS,
    RECORD_TYPES,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    MalformedRecord,
    Record,
    UnknownRecord,
    decode_record,
    encode_record,
)
from quorate.codecs.wire import TaggedField, Uuid

__all__ = [
    "CONSUMER_OFFSETS",
    "RECORD_TYPES",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "CoordinatorRecord",
    "DecodeError",
    "EncodeError",
    "MalformedRecord",
    "Reason",
    "Record",
    "TaggedField",
    "UnknownRecord",
    "Uuid",
    "decode_assignment",
    "decode_record",
    "decode_subscription",
    "encode_protocol",
    "encode_record",
    "from_json",
    "open_nested",
    "to_json",
    "to_kafka_json",
]
