"""Errors of jobs: missing columns, invalid times, invalid end offsets."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from quorate.codecs.errors import InputError
from quorate.pipeline import OptionError, group_state, lag, rebalances, spark_schema, upgrade_audit
from quorate.pipeline.jobs.columns import until
from quorate.pipeline.jobs.locality import _rates
from quorate.pipeline.jobs.record_columns import NEEDED
from tests.coordinator.captures import folders
from tests.pipeline.helpers.engines import Engine
from tests.pipeline.helpers.jobs import table_of

ENDS = "topic string, partition string, timestamp string, end_offset string"
UPGRADE = "upgrade-4.0-to-4.3-and-back"


def nothing(spark: SparkSession, columns: list[str], types: list[str] | None = None) -> DataFrame:
    """Return no rows, with the schema of these options."""
    return spark.createDataFrame([], spark_schema(types=types, columns=columns))


@pytest.mark.parametrize("job", [group_state, rebalances, upgrade_audit])
def test_fields_missing_because_of_the_option_columns_are_errors(spark: SparkSession, job: Any) -> None:
    columns = [*NEEDED, "group_metadata.generation", "group_metadata.protocol"]
    with pytest.raises(OptionError, match=r"column group_metadata has no protocol_type, leader, .* option `columns`"):
        job(nothing(spark, columns, ["GroupMetadata"]))
    with pytest.raises(OptionError, match=r"has no column offset, value_version: .* option `columns`"):
        job(nothing(spark, [*(set(NEEDED) - {"offset", "value_version"}), "group_metadata"]))


def test_a_lag_needs_three_fields_of_a_commit_only(spark: SparkSession) -> None:
    fields = ["offset_commit.topic", "offset_commit.partition", "offset_commit.offset"]
    ends = spark.createDataFrame([], ENDS)
    assert lag(nothing(spark, [*NEEDED, *fields]), ends, isolation_level="read_committed").columns[:2] == [
        "group",
        "topic",
    ]
    with pytest.raises(OptionError, match="column offset_commit has no partition: read it without"):
        lag(nothing(spark, [*NEEDED, *fields[::2]]), ends)


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        (True, "as_of is True: use a datetime"),
        ("2026-11-21", "as_of is '2026-11-21': use a datetime"),
        ({}, "as_of needs partitions"),
        ({"1": 5}, "as_of has '1': 5, which is not the offset of a partition: use {17: 4711}"),
        ({1: "5"}, "as_of has 1: '5', which"),
        ({True: 5}, "as_of has True: 5"),
        ({1: False}, "as_of has 1: False"),
        ({("t", "1"): 5}, r"as_of has \('t', '1'\): 5"),
        ({1: 5, ("t", 1): 5}, "either all as numbers or all with their topic"),
    ],
)
def test_an_invalid_as_of_is_an_error(spark: SparkSession, as_of: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        until(nothing(spark, [*NEEDED]), as_of)


def lags(engine: Engine, ends: dict[str, list[Any]]) -> pa.Table:
    rows = engine.rows([table_of(folders(UPGRADE)[0], UPGRADE, "read_committed")])
    return engine.lag(rows, pa.table(ends), isolation_level="read_committed")


@pytest.mark.long_on_spark  # test_both_engines_read_the_same_end_offsets (jobs/test_lag.py) has such files
def test_a_repeated_snapshot_counts_once_and_times_may_be_numbers(engine: Engine) -> None:
    time, ms = "2026-11-21T09:00:00Z", int(datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp() * 1000)
    of = {"topic": ["orders"], "partition": ["0"]}
    once = lags(engine, of | {"timestamp": [time], "end_offset": ["900"]})
    assert once.num_rows
    again = {"topic": ["orders"] * 3, "partition": ["0", "0", " 0"], "timestamp": [time] * 3}
    assert lags(engine, again | {"end_offset": ["900", "900", "899"]}).equals(once)
    assert lags(engine, of | {"partition": [0], "timestamp": [ms], "end_offset": [900]}).equals(once)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("timestamp", "yesterday", "end offsets: timestamp is 'yesterday', which is not a time such as 2026"),
        pytest.param(
            *("timestamp", 1 << 60, f"end offsets: timestamp is '{1 << 60}', which is not ms since 1970"),
            marks=pytest.mark.long_on_spark,  # test_edges.py has another such time
        ),
        ("end_offset", "many", "end offsets: end_offset is 'many', which is not a number"),
        pytest.param(
            *("partition", "first", "end offsets: partition is 'first', which is not a number"),
            marks=pytest.mark.long_on_spark,  # as with the end offset above
        ),
        ("partition", 1 << 40, f"end offsets: partition is '{1 << 40}', which is larger than a partition can be"),
        ("end_offset", f"{1 << 63}", f"end offsets: end_offset is '{1 << 63}', which is larger than an offset can be"),
    ],
)
def test_invalid_end_offsets_are_errors(engine: Engine, name: str, value: Any, message: str) -> None:
    end = {"topic": "orders", "partition": "0", "timestamp": "2026-11-21", "end_offset": "5"} | {name: value}
    with pytest.raises((PySparkException, InputError), match=message):
        lags(engine, {name: [value] for name, value in end.items()})


def test_invalid_throughput_is_an_error(spark: SparkSession) -> None:
    schema = StructType.fromDDL("topic string, partition string, bytes_per_second string")
    assert _rates(spark.createDataFrame([("t", "1", "2.5"), ("t", "2", None)], schema)) == {("t", 1): 2.5}
    with pytest.raises(OptionError, match=r"the throughput has \['t', '1', 'fast'\], which is not a topic"):
        _rates(spark.createDataFrame([("t", "1", "fast")], schema))
