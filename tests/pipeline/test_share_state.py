"""`__share_group_state` as a table, by the Spark source and by the local engine."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quorate.codecs import SHARE_GROUP_STATE
from quorate.pipeline import local
from tests.pipeline.conftest import CAPTURES
from tests.pipeline.helpers.reading import by_place, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = CAPTURES / "share-4.3"


def test_rows_of_both_engines_are_the_records_of_the_log(spark: "SparkSession") -> None:
    wanted = by_place(expected(SHARE, topics=[SHARE_GROUP_STATE]))
    found = local.read(SHARE, options={"topic": SHARE_GROUP_STATE}).table()
    assert by_place(found.to_pylist()) == wanted
    source = spark.read.format("consumer-offsets").option("topic", SHARE_GROUP_STATE)
    of_spark = source.load(str(SHARE)).toArrow()
    assert of_spark.column_names == found.column_names
    assert by_place(of_spark.to_pylist()) == wanted
    counts = {name: found.column("type").to_pylist().count(name) for name in ("ShareSnapshot", "ShareUpdate")}
    assert sum(counts.values()) == found.num_rows
    assert min(counts.values()) > 10


@pytest.mark.parametrize("number", [0, 1])
def test_one_partition_and_one_type_are_selected(number: int) -> None:
    options = {"topic": SHARE_GROUP_STATE, "partitions": str(number), "types": "ShareUpdate"}
    found = local.read(Path(SHARE), options=options).table()
    assert set(found.column("partition").to_pylist()) == {number}
    assert all(row["state_batches"] is not None for row in found.column("share_update").to_pylist() if row)
    assert "share_snapshot" not in found.column_names
