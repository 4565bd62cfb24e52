"""`lag` against a replay: the committed offset at each snapshot is that of the coordinator."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline.jobs.lag import commits, lag
from quorate.pipeline.jobs.state import group_state
from quorate.pipeline.schema import OptionError
from tests.pipeline.helpers.jobs import Rowlike, everything, in_any_order, replay_stored, rows_of, stored_rows
from tests.pipeline.helpers.random_logs import Stored, random_commits

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = [10, 25, 40, 70, 110]
"""The times of the snapshots in ms; in a random log, the offset of a record is its time."""


def end_offset(partition: int, ms: int) -> int:
    return 300 + 5 * partition + 8 * ms


def snapshots(spark: SparkSession) -> DataFrame:
    rows = [
        ("t", partition, EPOCH + timedelta(milliseconds=ms), end_offset(partition, ms))
        for partition in range(2)
        for ms in TIMES
    ]
    return spark.createDataFrame(rows, "topic string, partition int, timestamp timestamp, end_offset long")


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


def test_lags_use_the_committed_offsets_of_the_coordinator(spark: SparkSession) -> None:
    first = Random().randrange(1 << 30)
    print(f"seeds from {first}")  # noqa: T201  # to repeat it
    logs = {seed: random_commits(seed, (f"g{seed}", f"h{seed}")) for seed in range(first, first + 40)}
    df = rows_of(spark, [stored_rows(stored, "log", partition) for partition, stored in enumerate(logs.values())])
    found = lag(in_any_order(df, seed=1), snapshots(spark)).toArrow().to_pylist()
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


def test_as_of_leaves_out_later_commits_and_snapshots(spark: SparkSession) -> None:
    stored = random_commits(3)
    df = rows_of(spark, [stored_rows(stored, "log")])
    early = [row for row in expected(stored) if row["timestamp"] <= EPOCH + timedelta(milliseconds=30)]
    assert lag(df, snapshots(spark), as_of=30).count() == len(early) > 0


def test_rows_without_offsets_are_errors(spark: SparkSession) -> None:
    table = stored_rows(random_commits(3), "log")
    at = table.schema.get_field_index("offset")
    df = rows_of(spark, [table.set_column(at, table.schema.field(at), pa.nulls(table.num_rows, pa.int64()))])
    with pytest.raises(PySparkException, match="cannot be ordered"):
        lag(df, snapshots(spark)).collect()
    with pytest.raises(PySparkException, match="cannot be ordered"):
        group_state(df).rows.collect()


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


def test_end_offsets_need_their_columns(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="no column end_offset"):
        lag(everything(spark), snapshots(spark).drop("end_offset"))
    with pytest.raises(OptionError, match="no columns of OffsetCommit"):
        lag(everything(spark).drop("offset_commit", "legacy_offset_commit"), snapshots(spark))
