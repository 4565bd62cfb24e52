"""Read the log of a partition from a broker's files: segments, partition folders, log directories.

- `read_log`, `read_segment`: record by record. Bytes that are not records are values in the same
  stream (`entries`).
- `columns`, `raw`: the same records as Arrow columns, or as positions of keys and values. Both read
  a segment through `block_reader`, which yields `blocks` of whole batches; `batch_starts` finds the
  batches and `crc` checks them. These require NumPy.
- `files`: the segments that exist. `transactions`: the outcome of each transaction. `compaction`,
  `state_records`: the records that can be left out.

What records mean is in `quorate.codecs.records`, the layout of a batch in `quorate.codecs.batches`.
"""

from collections.abc import Collection, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path

from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.model import IsolationLevel, LogEntry, LogError, LogProblem, check_isolation_level
from quorate.codecs.records import MalformedRecord, UnknownRecord

__all__ = ["IsolationLevel", "LogEntry", "LogError", "LogProblem", "read_log", "read_segment"]


def read_segment(
    path: str | PathLike[str],
    *,
    topic: str | None = None,
    partition: int | None = None,
    isolation_level: IsolationLevel = "read_uncommitted",
    control_records: bool | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    skip_corrupt: bool = False,
    strict: bool = False,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[LogEntry | LogProblem]:
    """Read the records of one segment file.

    The arguments are those of `read_log`. Only this file decides how transactions ended.
    """
    if Path(path).is_dir():
        raise LogError(f"{path}: is a folder; read_log reads folders, read_segment one .log file")
    return read_log(
        path,
        topic=topic,
        partition=partition,
        isolation_level=isolation_level,
        control_records=control_records,
        start_offset=start_offset,
        end_offset=end_offset,
        since_ms=since_ms,
        until_ms=until_ms,
        skip_corrupt=skip_corrupt,
        strict=strict,
        max_batch_bytes=max_batch_bytes,
    )


def read_log(
    path: str | PathLike[str],
    *,
    topic: str | None = None,
    partition: int | None = None,
    topics: Collection[str] | None = None,
    isolation_level: IsolationLevel = "read_uncommitted",
    control_records: bool | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    skip_corrupt: bool = False,
    strict: bool = False,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[LogEntry | LogProblem]:
    """Read a segment file, a partition's folder, or a broker's log directory.

    Of a log directory, the partitions of all coordinator topics are read, each in the order of its
    offsets. Files are read in blocks, up to their size at the call, so a broker may be writing
    meanwhile. Topic and partition come from the folder's name. `topic` and `partition` override it;
    for a log directory they and `topics` are filters. A segment outside such a folder is read as
    one of `__consumer_offsets`.

    `isolation_level="read_committed"` returns what a consumer with that config receives (KIP-98):
    no records of aborted transactions, and nothing after the first open transaction begins.
    Transaction markers are returned as `ControlRecord`, except with read_committed;
    `control_records` overrides that. `start_offset` (inclusive), `end_offset` (exclusive),
    `since_ms` (inclusive) and `until_ms` (exclusive, by record timestamp) limit the records.

    Bytes that are not records are returned as `LogProblem`. A torn tail ends its file. A damaged
    batch does so too, unless `skip_corrupt` is set: then reading continues with the batch after it.
    If its length is not possible, reading continues with the next batch of magic 2 with a valid
    CRC; if there is none, the problem has `rest_lost`. A whole batch that does not decompress, or
    has malformed records, does not affect others. `max_batch_bytes` limits one batch, compressed or
    not.

    Raises `LogError` if there is nothing to read, and with `strict` for the first `LogProblem`,
    `UnknownRecord` or `MalformedRecord`.
    """
    from quorate.codecs.log.entries import PartitionReader, Selection

    committed = check_isolation_level(isolation_level)
    try:
        partitions = find_partitions(path, topic=topic, partition=partition, topics=topics)
    except OSError as error:
        raise LogError(f"{error.filename or path}: cannot be read: {error.strerror}") from error
    selection = Selection(
        read_committed=committed,
        control_records=not committed if control_records is None else control_records,
        start_offset=start_offset,
        end_offset=end_offset,
        since_ms=since_ms,
        until_ms=until_ms,
        skip_corrupt=skip_corrupt,
        max_batch_bytes=max_batch_bytes,
    )
    entries = chain.from_iterable(PartitionReader(files, selection).entries() for files in partitions)
    return _strict(entries) if strict else entries


def _strict(entries: Iterator[LogEntry | LogProblem]) -> Iterator[LogEntry | LogProblem]:
    """Yield the same entries, but raise `LogError` for the first problem or undecoded record."""
    for entry in entries:
        if isinstance(entry, LogProblem):
            raise LogError(f"{entry}; without strict=True reading continues if possible", entry)
        if isinstance(entry.record, UnknownRecord | MalformedRecord):
            place = entry.topic if entry.partition is None else f"{entry.topic}-{entry.partition}"
            problem = entry.record.problem
            raise LogError(f"{place}, offset {entry.offset:,}: {problem}") from problem
        yield entry
