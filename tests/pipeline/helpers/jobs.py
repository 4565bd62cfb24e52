"""Captures and random logs as DataFrames, for the tests of jobs.

A DataFrame contains several logs, each with its own topic, so that one Spark job reads all.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from quorate.codecs import CoordinatorRecord, LogEntry, decode_columns, encode_record
from quorate.codecs.log.columns import read_columns
from quorate.coordinator.log import StoredMarker, StoredRecord
from quorate.coordinator.state import CoordinatorState
from quorate.pipeline.jobs.state_rows import STATE, state_rows
from quorate.pipeline.rows import Rows, timestamps
from tests.coordinator.captures import CAPTURES, folders

NAMES = sorted(path.name for path in CAPTURES.iterdir())
Rowlike = dict[str, Any]
ROWS = Rows("__consumer_offsets")


@cache
def table_of(folder: Path, log: str | None = None, isolation_level: Any = "read_uncommitted") -> pa.Table:
    """Return all rows of a partition, by default with transaction markers and aborted offsets.

    `log`: the name of its topic.
    """
    batches: list[pa.RecordBatch] = []
    for block in read_columns(folder, isolation_level=isolation_level):
        batches += ROWS.of_batches(block.batches, {"topic": pa.scalar(block.topic, pa.string())})
        if block.problems:
            batches.append(ROWS.of_problems(block.problems, block.topic, block.partition))
    table = pa.Table.from_batches(batches, ROWS.schema)
    return table if log is None else named(table, log)


def named(table: pa.Table, log: str) -> pa.Table:
    """Return the rows with another topic."""
    return table.set_column(0, table.schema.field("topic"), pa.repeat(pa.scalar(log), table.num_rows))


def captured(captures: Iterable[str] = NAMES) -> Iterator[pa.Table]:
    """Yield the rows of captures; the column `topic` has the name of the capture."""
    for capture in captures:
        for folder in folders(capture):
            yield table_of(folder, capture)


def rows_of(spark: SparkSession, tables: Iterable[pa.Table]) -> DataFrame:
    """Return a DataFrame of tables in the pipeline's schema, through a Parquet file."""
    file = Path(mkdtemp(prefix="quorate-test-")) / "rows.parquet"
    pq.write_table(pa.concat_tables(list(tables)), file)
    return spark.read.parquet(str(file))


@cache
def everything(spark: SparkSession) -> DataFrame:
    """Return the rows of all captures."""
    return rows_of(spark, captured())


def in_any_order(df: DataFrame, seed: int) -> DataFrame:
    """Return the rows in random order."""
    return df.repartition(5, F.rand(seed))


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    """Return the rows in random order."""
    order = list(range(table.num_rows))
    Random(seed).shuffle(order)
    return table.take(pa.array(order, pa.int64()))


def stored_rows(stored: Iterable[StoredRecord | StoredMarker], log: str, partition: int = 0) -> pa.Table:
    """Return the records of a coordinator as rows."""
    found = list(stored)
    records = [one for one in found if isinstance(one, StoredRecord)]
    pairs = [encode_record(record.record) for record in records if isinstance(record.record, CoordinatorRecord)]
    batches = decode_columns(
        pa.array([key for key, _ in pairs], pa.binary()), pa.array([value for _, value in pairs], pa.binary())
    )
    producers = [record.producer_id for record in records]
    common = {
        "topic": pa.scalar(log),
        "partition": pa.scalar(partition, pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": timestamps(pa.array([record.timestamp_ms for record in records], pa.int64())),
        "producer_id": pa.array([None if producer < 0 else producer for producer in producers], pa.int64()),
        "transactional": pa.array([producer >= 0 for producer in producers], pa.bool_()),
    }
    markers = [
        {
            "topic": log,
            "partition": partition,
            "offset": one.offset,
            "timestamp": one.timestamp_ms * 1000,
            "producer_id": one.producer_id,
            "transactional": True,
            "type": "Control",
            "control": {"name": "COMMIT" if one.commit else "ABORT", "coordinator_epoch": 0},
        }
        for one in found
        if isinstance(one, StoredMarker)
    ]
    tables = [pa.Table.from_batches(ROWS.of_batches(batches, common), ROWS.schema)]
    return pa.concat_tables([*tables, pa.Table.from_pylist(markers, ROWS.schema)])


def replay(entries: Iterable[LogEntry]) -> CoordinatorState:
    """Return the coordinator's state after these records."""
    state = CoordinatorState()
    for entry in entries:
        producer_id = entry.producer_id if entry.transactional and entry.producer_id is not None else -1
        state.replay(entry.record, offset=entry.offset, producer_id=producer_id)
    return state


def replay_stored(stored: Iterable[StoredRecord | StoredMarker]) -> CoordinatorState:
    """Return the coordinator's state after the records that a coordinator has written."""
    state = CoordinatorState()
    for one in stored:
        if isinstance(one, StoredMarker):
            state.offsets.end_transaction(one.producer_id, commit=one.commit)
        else:
            state.replay(one.record, offset=one.offset, producer_id=one.producer_id)
    return state


def comparable(rows: Iterable[Rowlike] | CoordinatorState) -> dict[str, Rowlike]:
    """Return the rows of a state by group.

    Names of topics with an id are left out: only some records contain them, and compaction removes
    such records.
    """
    if isinstance(rows, CoordinatorState):
        rows = pa.Table.from_pylist(list(state_rows(rows, {})), STATE).to_pylist()
    found = {}
    for row in rows:
        kept = {name: value for name, value in row.items() if not name.startswith("log_")}
        for member in kept["members"] or ():
            for at in (*member["assigned"], *member["pending_revocation"], *member["target"]):
                if at["topic_id"] is not None:
                    at["topic"] = None
            for name in ("assigned", "pending_revocation", "target"):
                member[name].sort(key=str)
        if row["group"] is not None:
            found[row["group"]] = kept
    return found
