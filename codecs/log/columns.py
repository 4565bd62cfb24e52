"""`read_columns`: log segments as Arrow columns, one RecordBatch per record type and block.

    for block in read_columns("kafka-logs"):
        commits = block.batches.get("OffsetCommit")
    tables = read_tables("kafka-logs/__consumer_offsets-17")  # name → pyarrow.Table

The columns are those of `record_schema`, with `row` replaced by columns of the log:
`log_partition`, `log_offset`, `log_timestamp_ms`, `log_producer_id` (-1 without one) and
`log_transactional`. Files are read in blocks of bounded size, so memory does not depend on the size
of a log.
"""

from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from os import PathLike
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from quorate.codecs.batches.control import control_record
from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.batches.model import BatchProblem, BatchRecord
from quorate.codecs.batches.reader import Batch, check, header_at
from quorate.codecs.batches.v2 import CONTROL, TRANSACTIONAL
from quorate.codecs.columnar.assemble import array_of, numbers_of
from quorate.codecs.columnar.columns import decode_slots
from quorate.codecs.columnar.frame import Array, Bools
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.block_reader import BLOCK_BYTES, blocks_in, transactions_in
from quorate.codecs.log.blocks import Batches, Records, crc_mismatches, some_records_of
from quorate.codecs.log.files import PartitionFiles, Segment, find_partitions
from quorate.codecs.log.model import IsolationLevel, LogError, LogProblem, check_isolation_level, is_damage
from quorate.codecs.log.transactions import Transactions

CONTROL_RECORDS = "control"
"""The name of the batch of transaction markers and other control records."""

_LOG_FIELDS = [
    pa.field("log_partition", pa.int32()),
    pa.field("log_offset", pa.int64(), nullable=False),
    pa.field("log_timestamp_ms", pa.int64(), nullable=False),
    pa.field("log_producer_id", pa.int64(), nullable=False),
    pa.field("log_transactional", pa.bool_(), nullable=False),
]

CONTROL_SCHEMA: pa.Schema = pa.schema(
    [
        *_LOG_FIELDS,
        pa.field("type_id", pa.int16()),
        pa.field("name", pa.string(), nullable=False),
        pa.field("coordinator_epoch", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


def log_schema(schema: pa.Schema) -> pa.Schema:
    """Return a record schema as `read_columns` yields it: the log's columns replace `row`."""
    return pa.schema([*_LOG_FIELDS, *(f for f in schema if f.name != "row")])


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBlock:
    """The records of one block of a partition: a RecordBatch per record type, and problems.

    The keys of `batches` are names of record types, `"problems"` (records that cannot be decoded)
    and `"control"` (transaction markers).
    """

    topic: str
    partition: int | None
    batches: dict[str, pa.RecordBatch]
    problems: tuple[LogProblem, ...] = field(default=())


def read_columns(
    path: str | PathLike[str],
    *,
    topic: str | None = None,
    partition: int | None = None,
    topics: Collection[str] | None = None,
    isolation_level: IsolationLevel = "read_uncommitted",
    skip_corrupt: bool = False,
    dictionary: bool = False,
    use_threads: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[ColumnBlock]:
    """Read the records under `path` (a segment, a partition's folder, a log directory) as columns.

    Arguments and problems are those of `read_log`. CRCs are checked. A torn tail or a damaged batch
    ends its file with a problem; with `skip_corrupt`, reading continues after the batch.
    `dictionary` is that of `decode_columns`. With `use_threads`, another thread locates the records
    of the next block while this one is decoded. Raises `LogError` if there is nothing to read.
    """
    read_committed = check_isolation_level(isolation_level)
    partitions = find_partitions(path, topic=topic, partition=partition, topics=topics)
    readers = (
        PartitionColumns(
            files,
            read_committed=read_committed,
            skip_corrupt=skip_corrupt,
            dictionary=dictionary,
            limit_bytes=max_batch_bytes,
            block_bytes=block_bytes,
        )
        for files in partitions
    )
    found = ((reader, block) for reader in readers for block in reader.found())
    for reader, block in prefetch(found) if use_threads else found:
        yield reader.decoded(block)


T = TypeVar("T")


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Yield the items, computing the next one in another thread."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="quorate-columns") as executor:
        following: Future[Any] = executor.submit(next, items, end)
        while (item := following.result()) is not end:
            following = executor.submit(next, items, end)
            yield item


def read_tables(path: str | PathLike[str], **options: Any) -> dict[str, pa.Table]:
    """Read everything under `path` as tables: record type name → `pyarrow.Table`.

    Takes the options of `read_columns`. Raises `LogError` for damage, because a table cannot hold
    it: use `read_columns`, or `skip_corrupt=True` to leave it out. A torn tail, which is normal in
    the log of a running broker, and offsets out of order lose no records and raise nothing.
    """
    found: dict[str, list[pa.RecordBatch]] = {}
    for block in read_columns(path, **options):
        for problem in block.problems:
            if is_damage(problem, skip_corrupt=bool(options.get("skip_corrupt"))):
                raise LogError(f"{problem}; skip_corrupt=True reads the intact batches", problem)
        for name, batch in block.batches.items():
            found.setdefault(name, []).append(batch)
    return {name: pa.Table.from_batches(batches) for name, batches in found.items()}


_RECORDS_AT_ONCE = 1 << 18


@dataclass(slots=True)
class FoundRecords:
    """Problems of a block, its batches, and the located records of the first `used` batches.

    The control batches of a block come before these, on their own.
    """

    problems: list[LogProblem]
    data: Batches | None = None
    records: Records | None = None
    used: int = 0
    control: Batches | None = None


class PartitionColumns:
    """One pass over the segments of a partition; two for read-committed without `transactions`.

    `next_offset` is the smallest valid offset of its first batch. `left_out` is that of
    `some_records_of`.
    """

    def __init__(
        self,
        files: PartitionFiles,
        *,
        read_committed: bool,
        skip_corrupt: bool,
        dictionary: bool,
        limit_bytes: int,
        block_bytes: int,
        transactions: Transactions | None = None,
        next_offset: int = 0,
        left_out: bytes = b"",
    ) -> None:
        self.files = files
        self.dictionary = dictionary
        self.skip_corrupt = skip_corrupt
        self.limit_bytes = limit_bytes
        self.block_bytes = block_bytes
        self.read_committed = read_committed
        if read_committed and transactions is None:
            transactions = transactions_in(
                files, skip_corrupt=skip_corrupt, limit_bytes=limit_bytes, block_bytes=block_bytes
            )
        self.transactions = transactions or Transactions()
        self.next_offset = next_offset
        self.left_out = left_out

    def found(self) -> Iterator["FoundRecords"]:
        """Yield the blocks of the partition in the order of the log, located but not decoded."""
        if self.files.problems:
            yield FoundRecords(list(self.files.problems))
        for segment in self.files.segments:
            try:
                with segment.path.open("rb", buffering=0) as file:
                    yield from self.found_in(file, segment)
            except OSError as error:
                yield FoundRecords([self.files.unreadable(segment, error)])

    def found_in(self, file: BinaryIO, segment: Segment) -> Iterator["FoundRecords"]:
        """Yield the blocks of one segment, or of a part of one, from its file."""
        for block in blocks_in(
            file,
            segment,
            limit_bytes=self.limit_bytes,
            block_bytes=self.block_bytes,
            resynchronise=self.skip_corrupt,
        ):
            if isinstance(block, BatchProblem):
                yield FoundRecords([self.files.problem(segment, block)])
                continue
            batches, position = block
            batches, problems, complete = self._intact(batches, segment, position)
            yield from self._records(batches, problems, segment, position)
            if not complete:
                return

    def _intact(self, batches: Batches, segment: Segment, position: int) -> tuple[Batches, list[LogProblem], bool]:
        """Return the intact batches, the problems, and whether reading may continue.

        Without `skip_corrupt`, batches after the first damaged one are left out.
        """
        bad = crc_mismatches(batches)
        if not len(bad):
            return batches, [], True
        problems = []
        for index in bad.tolist():
            start = int(batches.start[index])
            problem = check(batches.block, start, int(batches.end[index]), position + start)
            assert problem is not None
            problems.append(self.files.problem(segment, problem))
            if not self.skip_corrupt:
                return batches.select(np.arange(index)), problems, False
        good = np.ones(len(batches), dtype=np.bool_)
        good[bad] = False
        return batches.select(good), problems, True

    # ---- one block

    def _records(
        self, batches: Batches, problems: list[LogProblem], segment: Segment, position: int
    ) -> Iterator["FoundRecords"]:
        problems += self._out_of_order(batches, segment, position)
        control = batches.plain & ((batches.attributes & CONTROL) != 0)
        wanted = ~control
        if self.read_committed:
            wanted &= self._committed(batches)
        data = batches if bool(wanted.all()) else batches.select(wanted)
        wanted_control = bool(control.any()) and not self.read_committed
        if problems or wanted_control:
            yield FoundRecords(problems, control=batches.select(control) if wanted_control else None)
        while len(data):
            records, broken, used = some_records_of(data, self.limit_bytes, self.left_out)
            found = [self.files.problem(segment, problem, shift=position) for problem in broken]
            # A batch of a kilobyte may have millions of records, so they are decoded in parts.
            for first in range(0, max(len(records), 1), _RECORDS_AT_ONCE):
                part = records if len(records) <= _RECORDS_AT_ONCE else records[first : first + _RECORDS_AT_ONCE]
                yield FoundRecords(found, data, part, used)
                found = []
            data = data.select(np.arange(used, len(data)))

    def decoded(self, found: "FoundRecords") -> ColumnBlock:
        """Decode the records of a block to columns."""
        out = {}
        records, data = found.records, found.data
        if records is not None and data is not None:
            columns = decode_slots(records.keys, records.values, topic=self.files.topic, dictionary=self.dictionary)
            out = {name: self._with_log_columns(batch, records, data) for name, batch in columns.items()}
        if found.control is not None:
            out[CONTROL_RECORDS] = self.control_columns(found.control)
        return ColumnBlock(
            topic=self.files.topic, partition=self.files.partition, batches=out, problems=tuple(found.problems)
        )

    def _committed(self, batches: Batches) -> Bools:
        """Return which batches a read-committed consumer receives."""
        stable = self.transactions.last_stable_offset
        wanted = np.ones(len(batches), dtype=np.bool_) if stable is None else batches.base_offset < stable
        places = np.flatnonzero(batches.plain & (batches.attributes & TRANSACTIONAL != 0))
        if not len(places) or not self.transactions.aborted:
            return wanted
        places = places[np.argsort(batches.producer_id[places], kind="stable")]
        producers, first = np.unique(batches.producer_id[places], return_index=True)
        for producer_id, of in zip(producers.tolist(), np.split(places, first[1:]), strict=True):
            spans = self.transactions.aborted.get(producer_id)
            if spans:
                begins, ends = np.array(spans).T
                span = np.searchsorted(begins, batches.base_offset[of], side="right") - 1
                wanted[of[(span >= 0) & (batches.base_offset[of] < ends[span])]] = False
        return wanted

    def _out_of_order(self, batches: Batches, segment: Segment, position: int) -> list[LogProblem]:
        if not len(batches):
            return []
        before = np.append(self.next_offset - 1, batches.last_offsets()[:-1])
        found = []
        for index in np.flatnonzero(batches.base_offset <= before).tolist():
            start, end = int(batches.start[index]), int(batches.end[index])
            next_offset = _next_offset(batches, index - 1) if index else self.next_offset
            first = int(batches.base_offset[index])
            found.append(self.files.out_of_order(segment, position + start, end - start, first, next_offset))
        self.next_offset = _next_offset(batches, -1)
        return found

    def _with_log_columns(self, batch: pa.RecordBatch, records: Records, batches: Batches) -> pa.RecordBatch:
        rows = numbers_of(batch.column(0))
        schema = log_schema(batch.schema)
        everything = len(rows) == len(records)
        of = records.batch if everything else records.batch[rows]
        transactional = (batches.attributes & TRANSACTIONAL) != 0
        columns = [
            self._partition_column(len(rows)),
            array_of(records.offset if everything else records.offset[rows]),
            array_of(records.timestamp if everything else records.timestamp[rows]),
            array_of(_per_record(batches.producer_id, of)),
            array_of(_per_record(transactional, of)),
        ]
        return pa.RecordBatch.from_arrays(columns + batch.columns[1:], schema=schema)

    def _partition_column(self, count: int) -> pa.Array:
        if self.files.partition is None:
            return pa.nulls(count, pa.int32())
        return array_of(np.full(count, self.files.partition, dtype=np.int32))

    def control_columns(self, batches: Batches) -> pa.RecordBatch:
        """Return the control records of a block as columns."""
        rows = []
        for index in range(len(batches)):
            start, end = int(batches.start[index]), int(batches.end[index])
            batch = Batch(header_at(batches.block, start, start, True), batches.block[start:end], self.limit_bytes)
            for record in batch.records():
                if isinstance(record, BatchRecord):
                    marker = control_record(record.key, record.value)
                    rows.append(
                        {
                            "log_partition": self.files.partition,
                            "log_offset": record.offset,
                            "log_timestamp_ms": record.timestamp_ms,
                            "log_producer_id": batch.header.producer_id,
                            "log_transactional": batch.header.transactional,
                            "type_id": marker.type_id,
                            "name": marker.name,
                            "coordinator_epoch": marker.coordinator_epoch,
                            "key": record.key,
                            "value": record.value,
                        }
                    )
        return pa.RecordBatch.from_pylist(rows, schema=CONTROL_SCHEMA)


def _next_offset(batches: Batches, index: int) -> int:
    """Return the offset that follows a batch."""
    return int(batches.base_offset[index]) + int(batches.last_offset_delta[index]) + 1


def _per_record(of_batches: Array, batch: Array) -> Array:
    """Return a field of the batches for each of their records."""
    if len(of_batches) and bool((of_batches == of_batches[0]).all()):
        return np.full(len(batch), of_batches[0])
    return of_batches[batch]
