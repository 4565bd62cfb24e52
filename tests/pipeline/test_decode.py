"""`decode` and `decode_segments`, compared with the source."""

from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from quorate.codecs import LogEntry, read_log
from quorate.pipeline import OptionError, decode, decode_segments, spark_schema
from tests.pipeline.conftest import CAPTURES
from tests.pipeline.helpers.reading import by_place, expected, rows_of

LOG = CAPTURES / "upgrade-4.0-to-4.3-and-back"


def dump(spark: SparkSession, log: Path) -> DataFrame:
    """Return a dump as a consumer writes it, with keys and values as bytes."""
    rows = [
        (entry.key_bytes, entry.value_bytes, entry.topic, entry.partition, entry.offset, entry.timestamp_ms)
        for entry in read_log(log, topics=["__consumer_offsets"], isolation_level="read_committed")
        if isinstance(entry, LogEntry)
    ]
    return spark.createDataFrame(
        rows, "key binary, value binary, topic string, partition int, offset long, timestamp long"
    )


def facts(df: DataFrame) -> list[tuple[object, ...]]:
    """Return rows without columns that a consumer does not have."""
    batches = df.drop("producer_id", "transactional").toArrow().to_pylist()
    return by_place(batches)


def test_decoded_keys_and_values_equal_the_rows_of_the_log(spark: SparkSession) -> None:
    wanted = [
        {k: v for k, v in row.items() if k not in ("producer_id", "transactional")}
        for row in expected(LOG, topics=["__consumer_offsets"], isolation_level="read_committed")
    ]
    found = decode(dump(spark, LOG).repartition(3))
    assert found.schema == spark_schema()
    assert facts(found) == by_place(wanted)


def test_types_select_records_and_include_raw_adds_bytes(spark: SparkSession) -> None:
    source = dump(spark, LOG)
    found = decode(source.withColumnRenamed("key", "k"), "k", types="GroupMetadata", include_raw=True)
    assert found.columns == [*spark_schema(types=[]).names, "group_metadata"]
    rows = found.toArrow().to_pylist()
    assert {row["type"] for row in rows} == {"GroupMetadata"}
    raw = {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in rows}
    there = source.where(f.substring("key", 1, 2) == bytes([0, 2])).toArrow().to_pylist()
    assert raw == {(row["partition"], row["offset"]): (row["key"], row["value"]) for row in there}


def test_modes_return_damaged_values_drop_them_or_fail_the_job(spark: SparkSession) -> None:
    damaged = dump(spark, LOG).withColumn("value", f.expr("case when offset = 3 then unhex('0003AA') else value end"))
    rows = [row for row in decode(damaged).toArrow().to_pylist() if row["error"]]
    assert rows
    assert {(row["offset"], row["value"]) for row in rows} == {(3, b"\x00\x03\xaa")}
    assert decode(damaged, mode="DROPMALFORMED").count() == damaged.count() - len(rows)
    with pytest.raises(PythonException, match=r"__consumer_offsets-\d, offset 3: .* of the value"):
        decode(damaged, mode="failfast").count()


def test_missing_and_non_binary_columns_are_errors(spark: SparkSession) -> None:
    source = dump(spark, LOG)
    with pytest.raises(OptionError, match="no column 'keys'; its columns: key, value"):
        decode(source, "keys")
    with pytest.raises(OptionError, match="column 'value' has type string"):
        decode(source.withColumn("value", f.col("value").cast("string")))


def test_decoded_segments_equal_uncommitted_rows_of_the_source(spark: SparkSession) -> None:
    log = CAPTURES / "transactions-4.3"
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1)
    try:
        # Spark skips folders that begin with "_", unless a pattern names them.
        files = spark.read.format("binaryFile").load(str(log / "__consumer_offsets-*" / "*.log"))
        found = decode_segments(files).toArrow().to_pylist()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert {row["type"] for row in found} > {"Control", "OffsetCommit"}
    assert by_place(found) == by_place(rows_of(log, isolation_level="read_uncommitted"))
