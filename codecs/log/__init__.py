"""A partition's log in the files of a broker: segments, partition folders, whole log directories.

- `read_log`, `read_segment`: record by record, and in the same stream, as values, what is not a
  record (`entries`).
- `columns`, `raw`: the same records as Arrow columns, or as places of keys and values. Both read a
  segment through `block_reader`: `blocks` of whole batches, which `batch_starts` finds and `crc`
  checks. These need NumPy.
- `files`: which segments there are. `transactions`: how each transaction ended. `compaction`,
  `state_records`: which records can be left out.

Nothing here knows what records mean (`quorate.codecs.records`) or how the bytes of one batch are
laid out (`quorate.codecs.batches`).
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
    """The records of one segment file.

    `read_log` explains the arguments; transactions are settled by this one file.
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
    """The records of a segment file, of a partition's folder, or of all coordinator topics in a broker's log directory.

    Partition by partition, each in the order of its offsets. Files are read in blocks and as long
    as they were at the call, so a broker may be writing meanwhile. Topic and partition come from
    the folder's name. `topic` and `partition` override it; in a log directory they choose, and so
    does `topics`. A segment outside such a folder is taken for one of `__consumer_offsets`.

    `isolation_level="read_committed"` gives what a consumer with that setting gets (KIP-98): no
    records of aborted transactions, nothing from the first open transaction on. Transaction markers
    come as `ControlRecord`, unless read-committed; `control_records` overrides that. `start_offset`
    (included), `end_offset` (excluded), `since_ms` (included) and `until_ms` (excluded, by the
    records' timestamps) bound what comes.

    What is not a record comes as `LogProblem`. A torn tail ends its file. After a damaged batch the
    rest of the file is left out too, unless `skip_corrupt`: then the batch behind it is next, or if
    its length cannot be, the next of magic 2 with a valid CRC; if there is none, the problem says
    `rest_lost`. A batch that is whole but does not decompress, or whose records are malformed,
    costs only itself. `max_batch_bytes` limits one batch, compressed or not.

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
    return _strictly(entries) if strict else entries


def _strictly(entries: Iterator[LogEntry | LogProblem]) -> Iterator[LogEntry | LogProblem]:
    """The same entries up to the first that is not a record that was understood; that one is raised."""
    for entry in entries:
        if isinstance(entry, LogProblem):
            raise LogError(f"{entry}; without strict=True reading goes on where it can", entry)
        if isinstance(entry.record, UnknownRecord | MalformedRecord):
            place = entry.topic if entry.partition is None else f"{entry.topic}-{entry.partition}"
            problem = entry.record.problem
            raise LogError(f"{place}, offset {entry.offset:,}: {problem}") from problem
        yield entry
