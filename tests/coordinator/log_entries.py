"""Entries of a log for tests that give records to readers of logs."""

from quorate.codecs import CoordinatorRecord, LogEntry, encode_record
from quorate.codecs.batches.model import TimestampType


def log_entry(record: CoordinatorRecord, offset: int, timestamp_ms: int) -> LogEntry:
    """Return the entry of a record without a producer id, in partition 0."""
    key, value = encode_record(record)
    return LogEntry(
        topic=record.topic,
        partition=0,
        offset=offset,
        timestamp_ms=timestamp_ms,
        timestamp_type=TimestampType.CREATE_TIME,
        producer_id=-1,
        producer_epoch=-1,
        sequence=-1,
        transactional=False,
        partition_leader_epoch=0,
        headers=(),
        key_bytes=key,
        value_bytes=value,
        record=record,
    )
