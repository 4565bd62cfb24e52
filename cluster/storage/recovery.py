"""Loads a partition's log from its files, after `inspection`.

Nothing is missing then, or the loss is accepted. Indexes that match their checksums are used as
they are. Others, and the state of producers and aborted transactions, are rebuilt from batches.
"""

from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.files import (
    BadFileError,
    decode_aborted,
    decode_checkpoint,
    decode_index,
    decode_producers,
    decode_time_index,
)
from quorate.cluster.storage.findings import FolderFindings
from quorate.cluster.storage.log_files import EPOCHS, LogFiles
from quorate.cluster.storage.segment import BatchFacts, LogSegment, StoredBatch
from quorate.codecs.batches import BatchProblem, BatchRecord, control_record, read_batches
from quorate.codecs.batches.frames import frames
from quorate.codecs.batches.v2 import HEADER_BYTES


def load(files: LogFiles, config: LogConfig, found: FolderFindings, *, now_ms: int) -> PartitionLog:
    """Load the log of a folder that was inspected. Raises `OSError`."""
    log = PartitionLog(config, files)
    trusted_until: int | None = None
    files.tidy()
    files.take_checksums(found.checksums, has_gaps=found.has_gaps)
    for base, one in sorted(found.segments.items()):
        segment = files.segment(base, now_ms, one.sum.size, one.sum.crc)
        segment.interval_bytes = config.index_interval_bytes
        files.cut(segment)
        trusted = found.clean if one.indexes_unchanged is None else one.indexes_unchanged
        if not (trusted and _load_indexes(files, segment)):
            trusted_until = base if trusted_until is None else trusted_until
            _rebuild_indexes(files, segment)
        log.add_segment(segment)
    if not log.segments or log.active.last_offset + 1 < found.end_offset:  # offsets of lost records are not reused
        log.add_segment(files.new_segment(max(found.start_offset, found.end_offset), now_ms))
    log.next_offset = log.active.last_offset + 1
    log.start_offset = min(max(found.start_offset, log.segments[0].base_offset), log.next_offset)
    log.flushed_offset = log.next_offset if found.clean else min(found.flushed_offset, log.next_offset)
    log.first_dirty_offset = log.segments[0].base_offset
    _load_epochs(files, log, found)
    _load_producers(files, log, log.next_offset if trusted_until is None else trusted_until)
    _write_checksums(files, log, found, trusted_until)
    return log


def _write_checksums(files: LogFiles, log: PartitionLog, found: FolderFindings, changed_from: int | None) -> None:
    """Write the checksums if something was rebuilt. A log that was never written to has none."""
    sums = found.checksums
    if sums is None and not log.size_bytes and not log.start_offset:
        return
    changed = [
        one
        for one in log.segments[:-1]
        if sums is None
        or one.base_offset not in sums.closed
        or (changed_from is not None and one.base_offset >= changed_from)
    ]
    for segment in changed:
        files.seal(segment)
    end = log.active.base_offset, log.next_offset, log.active.size
    known = None if sums is None else (sums.end.base_offset, sums.end.next_offset, sums.end.size)
    if changed or found.repaired or changed_from is not None or end != known:
        files.write_checksums(log)


def _load_indexes(files: LogFiles, segment: LogSegment) -> bool:
    """Load a segment's indexes, and scan the batches after their last entry.

    Returns whether the indexes are usable.
    """
    base = segment.base_offset
    try:
        segment.offsets, segment.positions = decode_index(base, files.read(base, ".index"))
        segment.times, segment.time_offsets = decode_time_index(base, files.read(base, ".timeindex"))
        decode_aborted(files.read(base, ".txnindex"))
    except BadFileError:
        return False
    if segment.positions and segment.positions[-1] + HEADER_BYTES > segment.size:
        return False
    if not segment.positions and segment.size > 64 * segment.interval_bytes:
        return False  # an index that was never written
    if segment.positions and not segment.times:
        return False
    if segment.size:
        first = next(segment.batches(), None)
        if first is None:
            return False
        segment.first_timestamp_ms = first.max_timestamp_ms
    if segment.times:
        segment.max_timestamp_ms, segment.max_timestamp_offset = segment.times[-1], segment.time_offsets[-1]
    unindexed = 0
    position = segment.positions[-1] if segment.positions else 0
    for batch in segment.batches(position):
        if not unindexed and segment.offsets and batch.last_offset != segment.offsets[-1]:
            return False
        if batch.base_offset <= segment.last_offset or batch.last_offset < batch.base_offset:
            return False
        segment.last_offset = batch.last_offset
        if batch.max_timestamp_ms > segment.max_timestamp_ms:
            segment.max_timestamp_ms, segment.max_timestamp_offset = batch.max_timestamp_ms, batch.last_offset
        unindexed += len(batch.data)
        position += len(batch.data)
    segment.unindexed = unindexed
    return position == segment.size


def _rebuild_indexes(files: LogFiles, segment: LogSegment) -> None:
    """Rebuild a segment's indexes from its batches."""
    segment.forget()
    with files.path(segment).open("rb") as file:
        for frame in frames(file, segment.size):
            assert not isinstance(frame, BatchProblem), frame.detail  # `inspection` has read them
            buffer, start, stop, position = frame
            facts = BatchFacts.of(buffer, start)
            segment.note(position, stop - start, facts.last_offset, facts.max_timestamp_ms)
    segment.close_time_index()
    files.write_indexes(segment)


def _load_epochs(files: LogFiles, log: PartitionLog, found: FolderFindings) -> None:
    try:
        read = [(int(epoch), int(start)) for epoch, start in decode_checkpoint((files.home / EPOCHS).read_bytes())]
    except (BadFileError, OSError, ValueError):
        read = []
    known = read if found.checksums is None else found.checksums.epochs
    log.epochs = [(epoch, start) for epoch, start in known if start < log.next_offset]
    if not log.epochs and log.next_offset > log.start_offset:
        for batch in log:
            if not log.epochs or batch.leader_epoch > log.epochs[-1][0]:
                log.epochs.append((batch.leader_epoch, batch.base_offset))
    if log.epochs != read:
        files.write_epochs(log.epochs)


def _load_producers(files: LogFiles, log: PartitionLog, trusted_until: int) -> None:
    """Load producers from the newest usable snapshot and the batches after it.

    Aborted transactions come from the indexes up to the snapshot, and from the batches after it.
    """
    known_from = log.segments[0].base_offset
    useful = [snapshot for snapshot in files.snapshots() if snapshot <= log.next_offset]
    for offset in reversed([one for one in useful if one <= trusted_until]):
        try:
            log.producers.restore(decode_producers(files.read(offset, ".snapshot")))
        except BadFileError:
            continue
        known_from = max(offset, known_from)
        break
    bases = [one.base_offset for one in log.segments]
    for offset in files.snapshots():
        if offset not in bases and (offset not in useful or offset != known_from):
            files.delete_snapshot(offset)
    for segment, end in zip(log.segments, [*bases[1:], log.next_offset + 1], strict=True):
        if segment.base_offset < known_from:
            _load_aborted(files, segment, log, known_from)
        if end <= known_from:
            continue
        if segment.base_offset > max(known_from, log.start_offset) and segment.base_offset >= trusted_until:
            files.write_producers(segment.base_offset, log.producers)  # as at its creation
        for batch in segment.batches(segment.position_of(known_from) if known_from > segment.base_offset else 0):
            if batch.base_offset >= known_from and batch.producer_id >= 0:
                _replay(batch, log)
        if segment.base_offset >= trusted_until:
            mine = [one for one in log.producers.aborted if segment.base_offset <= one.last_offset < end]
            files.write_aborted(segment.base_offset, mine)


def _load_aborted(files: LogFiles, segment: LogSegment, log: PartitionLog, before: int) -> None:
    try:
        found = decode_aborted(files.read(segment.base_offset, ".txnindex"))
    except BadFileError:
        found = []
    log.producers.aborted += [one for one in found if one.last_offset < before]


def _replay(batch: StoredBatch, log: PartitionLog) -> None:
    if not batch.control:
        log.producers.take(batch)
        return
    read = next(read_batches(batch.data))
    if isinstance(read, BatchProblem):
        return
    for record in read.records():
        if isinstance(record, BatchRecord):
            marker = control_record(record.key, record.value)
            if marker.commits is not None and marker.coordinator_epoch is not None:
                log.producers.take_marker(batch, commit=marker.commits, coordinator_epoch=marker.coordinator_epoch)
