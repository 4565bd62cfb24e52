"""Decode and encode Kafka's coordinator topics: records, consumer protocol, batches, log segments.

    for entry in read_log("kafka-logs/__consumer_offsets-17"):  # or a segment, or a log directory
        print(entry)                                # LogEntry, or LogProblem for damaged bytes
    record = decode_record(key, value)  # CoordinatorRecord | UnknownRecord | MalformedRecord
    key, value = encode_record(record)              # the same bytes as Kafka writes
    batches = decode_columns(keys, values)          # Arrow: one RecordBatch per record type

Messages are declared once, in `quorate.codecs.messages`, as frozen dataclasses; layouts, JSON,
columns and schemas are derived from them. Bytes that cannot be decoded are values with the reason
and the position. Only `read_live` opens a socket. NumPy, pyarrow, construct and kafka-python are
imported only when a function needs them.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from quorate.codecs.accelerator import is_accelerated
from quorate.codecs.consumer_protocol import (
    SubscriptionForm,
    decode_assignment,
    decode_subscription,
    encode_protocol,
    open_nested,
)
from quorate.codecs.errors import DecodeError, EncodeError, QuorateError, Reason
from quorate.codecs.json_form import from_json, to_json, to_kafka_json
from quorate.codecs.lazy_names import lazy_names
from quorate.codecs.records import (
    CONSUMER_OFFSETS,
    RECORD_TYPES,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    MalformedRecord,
    Record,
    UnknownRecord,
    as_kafka_reads,
    decode_record,
    encode_record,
)
from quorate.codecs.wire import TaggedField, Uuid

if TYPE_CHECKING:
    from quorate.codecs.columnar.columns import decode_columns
    from quorate.codecs.columnar.schema import record_schema
    from quorate.codecs.live import LiveError, read_live
    from quorate.codecs.log import LogEntry, LogError, LogProblem, read_log, read_segment
    from quorate.codecs.log.columns import ColumnBlock, read_columns, read_tables

_LAZY = {
    "ColumnBlock": "log.columns",
    "LiveError": "live",
    "LogEntry": "log",
    "LogError": "log",
    "LogProblem": "log",
    "decode_columns": "columnar.columns",
    "read_columns": "log.columns",
    "read_live": "live",
    "read_log": "log",
    "read_segment": "log",
    "read_tables": "log.columns",
    "record_schema": "columnar.schema",
}
"""Names whose modules are imported on first use."""

__all__ = [
    "CONSUMER_OFFSETS",
    "RECORD_TYPES",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "ColumnBlock",
    "CoordinatorRecord",
    "DecodeError",
    "EncodeError",
    "LiveError",
    "LogEntry",
    "LogError",
    "LogProblem",
    "MalformedRecord",
    "QuorateError",
    "Reason",
    "Record",
    "SubscriptionForm",
    "TaggedField",
    "UnknownRecord",
    "Uuid",
    "as_kafka_reads",
    "decode_assignment",
    "decode_columns",
    "decode_record",
    "decode_subscription",
    "encode_protocol",
    "encode_record",
    "from_json",
    "is_accelerated",
    "open_nested",
    "read_columns",
    "read_live",
    "read_log",
    "read_segment",
    "read_tables",
    "record_schema",
    "to_json",
    "to_kafka_json",
]

_MISSING = next((package for package in ("numpy", "pyarrow") if find_spec(package) is None), None)

_COLUMNAR = frozenset(name for name, module in _LAZY.items() if module.startswith(("columnar.", "log.columns")))

if _MISSING is not None:  # `from quorate.codecs import *` must still work
    __all__[:] = [name for name in __all__ if name not in _COLUMNAR]


_find = lazy_names(__name__, _LAZY)


def __getattr__(name: str) -> Any:
    if _MISSING is not None and name in _COLUMNAR:
        # Not an AttributeError: `from quorate.codecs import …` would replace its message, which
        # says what to install.
        raise ImportError(f"{name} needs {_MISSING}: pip install 'quorate[arrow]'", name=__name__)
    return _find(name)
