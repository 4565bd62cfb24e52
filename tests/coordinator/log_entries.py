"""Entries of a log for tests that give records to readers of logs."""

from quorate.codecs import CoordinatorRecord, LogEntry, encode_record


def log_entry(record: CoordinatorRecord, offset: int, timestamp_ms: int) -> LogEntry:
    """Return the entry of a record without a producer id, in partition 0."""
    key, value = encode_record(record)
    return LogEntry.of(
        record,
        topic=record.topic,
        partition=0,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key_bytes=key,
        value_bytes=value,
    )
