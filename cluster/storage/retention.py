"""Deletion of old segments: `retention.ms`, `retention.bytes`, and DeleteRecords."""

from collections.abc import Callable

from quorate.cluster.log import PartitionLog
from quorate.cluster.storage.segment import LogSegment

Rule = Callable[[LogSegment, int], bool]
"""Whether a segment, which ends before an offset, can be deleted."""


def expire(log: PartitionLog, now_ms: int) -> int:
    """Delete expired segments, and return how many were deleted.

    As in Kafka, the rules are age, size and start offset, each from the oldest segment on. If all
    segments are too old, the log rolls first. A log that is only compacted keeps everything from
    its start offset on. A log that a coordinator is loading keeps everything. Raises `AppendError`.
    """
    if log.loading:
        return 0
    before = len(log.segments)
    config = log.config
    if config.delete and config.retention_ms >= 0:
        _drop_while(log, lambda segment, _: now_ms - _age_from(segment) > config.retention_ms, now_ms)
    if config.delete and config.retention_bytes >= 0:
        too_much = log.size_bytes - config.retention_bytes

        def is_too_much(segment: LogSegment, _: int) -> bool:
            nonlocal too_much
            too_much -= segment.size
            return too_much >= 0

        _drop_while(log, is_too_much, now_ms)
    _drop_while(log, lambda _, end: end <= log.start_offset, now_ms)
    return max(before - len(log.segments), 0)


def _age_from(segment: LogSegment) -> int:
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.created_ms


def _drop_while(log: PartitionLog, may_go: Rule, now_ms: int) -> None:
    """Delete the oldest segments while a rule allows it; an empty active segment stays."""
    ends = [*(one.base_offset for one in log.segments[1:]), log.next_offset]
    count = 0
    for segment, end in zip(log.segments, ends, strict=True):
        if (not segment.size and segment is log.active) or not may_go(segment, end):
            break
        count += 1
    if count == len(log.segments):
        log.roll(now_ms)
    log.drop(log.segments[:count])
