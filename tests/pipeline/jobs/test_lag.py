"""`lag` against a replay: the committed offset at each snapshot is that of the coordinator."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quorate.codecs.errors import InputError
from quorate.pipeline.jobs.lag import commits, snapshots
from quorate.pipeline.jobs.state import group_state
from quorate.pipeline.local.lag import LAG
from quorate.pipeline.local.lag import snapshots as local_snapshots
from quorate.pipeline.schema import INT, LONG, TEXT, TIME, OptionError
from quorate.pipeline.session import read_spark_table
from quorate.pipeline.tables import read_table
from tests.extent import is_full
from tests.pipeline.helpers.engines import Engine, LocalEngine, SparkEngine
from tests.pipeline.helpers.jobs import Rowlike, everything, replay_stored, rows_of, stored_rows
from tests.pipeline.helpers.random_logs import Stored, random_commits

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = [10, 25, 40, 70, 110]
"""The times of the snapshots in ms; in a random log, the offset of a record is its time."""


def end_offset(partition: int, ms: int) -> int:
    return 300 + 5 * partition + 8 * ms


SNAPSHOTS: pa.Table = pa.Table.from_pylist(
    [
        {"topic": "t", "partition": partition, "timestamp": ms * 1000, "end_offset": end_offset(partition, ms)}
        for partition in range(2)
        for ms in TIMES
    ],
    pa.schema({"topic": TEXT, "partition": INT, "timestamp": TIME, "end_offset": LONG}),
)


def expected(stored: list[Stored]) -> Iterator[Rowlike]:
    """Yield the expected lags from the coordinator's offsets at each snapshot."""
    before: dict[tuple[str, int], tuple[int, int]] = {}
    for ms in TIMES:
        state = replay_stored(one for one in stored if one.timestamp_ms <= ms)
        there: dict[tuple[str, int], tuple[int, int]] = {}
        for group in state.offsets.committed:
            for _, partition, offset in state.offsets.of_group(group):
                committed, end = offset.value.offset, end_offset(partition, ms)
                there[group, partition] = ms, committed
                row: Rowlike = {
                    "group": group,
                    "topic": "t",
                    "partition": partition,
                    "timestamp": EPOCH + timedelta(milliseconds=ms),
                    "committed_offset": committed,
                    "end_offset": end,
                    "lag": max(end - committed, 0),
                    "production_rate": None,
                    "consumption_rate": None,
                    "drain_seconds": None if end > committed else 0.0,
                }
                if (group, partition) in before:
                    then, old = before[group, partition]
                    seconds = (ms - then) / 1000
                    row["production_rate"] = (end - end_offset(partition, then)) / seconds
                    row["consumption_rate"] = (committed - old) / seconds
                    gain = row["consumption_rate"] - row["production_rate"]
                    if row["lag"] and gain > 0:
                        row["drain_seconds"] = row["lag"] / gain
                yield row
        before |= there


@pytest.mark.long_on_spark
def test_lags_use_the_committed_offsets_of_the_coordinator(engine: Engine) -> None:
    first = Random().randrange(1 << 30)
    print(f"seeds from {first}")  # noqa: T201  # to repeat it
    logs = {seed: random_commits(seed, (f"g{seed}", f"h{seed}")) for seed in range(first, first + 40)}
    tables = [stored_rows(stored, "log", partition) for partition, stored in enumerate(logs.values())]
    found = engine.lag(engine.rows(tables, seed=1), SNAPSHOTS).to_pylist()
    got = {(row["group"], row["partition"], row["timestamp"]): row for row in found}
    wanted = {
        (row["group"], row["partition"], row["timestamp"]): row for stored in logs.values() for row in expected(stored)
    }
    assert got.keys() == wanted.keys()
    assert len(wanted) > 300
    for at, row in wanted.items():
        numbers = {name: value for name, value in row.items() if name != "timestamp"}
        assert {name: got[at][name] for name in numbers} == pytest.approx(numbers), at
        assert got[at]["committed_at"] <= at[2]
    assert sum(row["drain_seconds"] is not None and row["lag"] > 0 for row in wanted.values()) > 20


def test_both_engines_return_the_same_lags(spark: SparkSession) -> None:
    tables = [stored_rows(random_commits(seed, (f"g{seed}", "h")), "log", seed) for seed in range(24)]
    tables += [changed(tables[1], "timestamp", 3), changed(tables[2], "group", 4)]
    found = [engine.lag(engine.rows(tables), SNAPSHOTS).cast(LAG) for engine in (LocalEngine(), SparkEngine(spark))]
    assert found[0].num_rows > 150
    assert found[0].equals(found[1])


def changed(table: pa.Table, name: str, every: int) -> pa.Table:
    """Return rows of another log with null in some rows of a column."""
    values = [None if row % every == 0 else value for row, value in enumerate(table.column(name).to_pylist())]
    at, number = table.schema.get_field_index(name), table.schema.get_field_index("partition")
    changed = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    of_log = pa.repeat(pa.scalar(100 + every, pa.int32()), table.num_rows)
    return changed.set_column(number, table.schema.field(number), of_log)


@pytest.mark.parametrize("as_of", [30, EPOCH + timedelta(milliseconds=30)])
@pytest.mark.long_on_spark
def test_as_of_leaves_out_later_commits_and_snapshots(engine: Engine, as_of: Any) -> None:
    stored = random_commits(3)
    early = [row for row in expected(stored) if row["timestamp"] <= EPOCH + timedelta(milliseconds=30)]
    found = engine.lag(engine.rows([stored_rows(stored, "log")]), SNAPSHOTS, as_of=as_of)
    assert found.num_rows == len(early) > 0


def test_rows_without_offsets_are_errors(engine: Engine) -> None:
    table = stored_rows(random_commits(3), "log")
    at = table.schema.get_field_index("offset")
    rows = engine.rows([table.set_column(at, table.schema.field(at), pa.nulls(table.num_rows, pa.int64()))])
    with pytest.raises((PySparkException, InputError), match="cannot be ordered"):
        engine.state(rows)
    if is_full() or isinstance(engine, LocalEngine):  # on Spark the same column, in four attempts
        with pytest.raises((PySparkException, InputError), match="cannot be ordered"):
            engine.lag(rows, SNAPSHOTS)


def test_rows_of_two_clusters_are_errors(spark: SparkSession) -> None:
    df = rows_of(spark, [stored_rows(random_commits(3, groups), "log") for groups in (("a", "b"), ("c", "d"))])
    with pytest.raises(PySparkException, match="two different records at this offset"):
        group_state(df).rows.collect()


def test_commits_of_aborted_and_open_transactions_do_not_count(spark: SparkSession) -> None:
    df = everything(spark).where("topic = 'transactions-4.3'")
    actual = {(row["group"], row["partition"], row["committed_offset"]) for row in commits(df).toArrow().to_pylist()}
    written = {
        (row["group"], row["partition"], row["committed_offset"])
        for row in commits(df, "read_committed").toArrow().to_pylist()
    }
    assert actual < written


def test_end_offsets_need_their_columns(engine: Engine) -> None:
    table = stored_rows(random_commits(3), "log")
    with pytest.raises(OptionError, match="no column end_offset"):
        engine.lag(engine.rows([table]), SNAPSHOTS.drop_columns(["end_offset"]))
    with pytest.raises(OptionError, match="no columns of OffsetCommit"):
        engine.lag(engine.rows([table.drop_columns(["offset_commit", "legacy_offset_commit"])]), SNAPSHOTS)


CSV = """topic,partition,timestamp,end_offset
t,0,2026-11-21T08:00:00,5
t,0,2026-11-21T08:00:00Z,7
"t,u", 1,2026-11-21 10:00:00+02:00,8
t,,2026-11-21,9
,1,2026-11-21,9
t,2,,9

t,2,2026-11-21T08:00:00.123456Z,
"""
JSON = """{"topic": "t", "partition": 0, "timestamp": "2026-11-21T08:00:00Z", "end_offset": 5}
{"topic": "t", "partition": "0", "timestamp": "2026-11-21T08:00:00Z", "end_offset": "7", "more": [1]}

{"topic": "t", "partition": 1, "end_offset": 8}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ends.csv", CSV),
        ("ms.csv", "topic,partition,timestamp,end_offset\nt,0,1795000000123,5\nt,0,1795000000123,6\nt,1,0,3\n"),
        ("ends.jsonl", JSON),
        ("ms.ndjson", '{"topic": "t", "partition": 0, "timestamp": 1795000000123, "end_offset": 5}'),
        ("ends.parquet", None),
    ],
)
def test_both_engines_read_the_same_end_offsets(
    spark: SparkSession, tmp_path: Path, name: str, text: str | None
) -> None:
    path = tmp_path / name
    if text is None:
        spark.createDataFrame(SNAPSHOTS).write.parquet(str(path))
    else:
        path.write_text(text)
    names = ["topic", "partition", "timestamp", "end_offset"]
    found = local_snapshots(read_table(str(path))).cast(SNAPSHOTS.schema).select(names)
    on_spark = snapshots(read_spark_table(spark, str(path))).groupBy(*names[:3]).agg({"end_offset": "max"})
    rows = sorted(found.to_pylist(), key=repr)
    assert rows == sorted(on_spark.dropna().toArrow().rename_columns(names).to_pylist(), key=repr)
    assert rows
