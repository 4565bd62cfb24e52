"""The option `columns` of the source and of `decode`."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from quorate.pipeline import OptionError, decode, spark_schema
from quorate.pipeline.source import ConsumerOffsets
from tests.pipeline.conftest import CAPTURES
from tests.pipeline.helpers.reading import by_place, rows_of

LOG = CAPTURES / "upgrade-4.0-to-4.3-and-back"
SOME = "group, offset_commit.offset,timestamp,offset_commit.topic"


def narrow(row: dict[str, Any], columns: list[str], fields: list[str]) -> dict[str, Any]:
    """Return a row with these columns, and these fields of the struct."""
    commit = row["offset_commit"]
    struct = None if commit is None else {name: commit[name] for name in fields}
    return {name: row[name] for name in columns} | {"offset_commit": struct}


def read(**options: str) -> list[dict[str, Any]]:
    """Return the source's rows, without Spark."""
    source = ConsumerOffsets({"path": str(LOG), **options})
    reader = source.reader(source.schema())
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]  # type: ignore[attr-defined]
    assert all(batch.schema.names == source.schema().names for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_selected_columns_and_fields_have_the_same_values(level: str) -> None:
    found = read(columns=SOME, **{"isolation.level": level})
    wanted = [
        narrow(row, ["timestamp", "group"], ["topic", "offset"]) for row in rows_of(LOG, **{"isolation.level": level})
    ]
    assert by_place(found) == by_place(wanted)
    assert any(row["offset_commit"] for row in found)


def test_columns_without_structs_keep_the_rows_of_all_types() -> None:
    assert by_place(read(columns="offset,type")) == by_place(
        {"offset": row["offset"], "type": row["type"]} for row in rows_of(LOG)
    )


def test_selected_columns_have_the_order_of_the_schema() -> None:
    schema = spark_schema(types=["OffsetCommit"], columns=["offset_commit", "group", "offset_commit.topic"])
    assert schema.names == ["group", "offset_commit"]
    assert schema["offset_commit"] == spark_schema()["offset_commit"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("group,ofset", "no column 'ofset' in the schema of these record types; use one of topic, partition"),
        (
            "offset_commit.generation",
            "no column 'offset_commit.generation' in the schema of these record types; use one of topic",
        ),
        ("group.name", "no column 'group.name'"),
        ("group_metadata", "no column 'group_metadata'"),
        (" , ", "the list of columns is empty"),
    ],
)
def test_unknown_columns_are_errors(columns: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ConsumerOffsets({"path": str(LOG), "types": "OffsetCommit", "columns": columns})


def test_the_source_and_decode_return_selected_columns_to_spark(spark: SparkSession) -> None:
    options = {"types": "OffsetCommit", "columns": SOME}
    found = spark.read.format("consumer-offsets").options(**options).load(str(LOG))
    assert found.schema == spark_schema(types=["OffsetCommit"], columns=[name.strip() for name in SOME.split(",")])
    raw = spark.read.format("consumer-offsets").options(types="OffsetCommit", includeRaw="true").load(str(LOG))
    decoded = decode(raw, **options)
    assert decoded.schema == found.schema
    rows = by_place(found.toArrow().to_pylist())
    assert rows == by_place(read(**options))
    assert by_place(decoded.toArrow().to_pylist()) == rows
