"""What the tests of streams share: rows of logs as a folder of files that Spark reads as a stream, queries that are killed, and processors without Spark."""

import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline.schema import spark_schema
from quorate.pipeline.streaming.keyed import PROVIDER, ROCKS_DB

__all__ = ["cut", "run_killed", "stream_of", "write_parts"]


def cut(table: pa.Table, parts: int, random: Random) -> list[pa.Table]:
    """The rows of logs in the order of their offsets, cut anywhere."""
    known = table.filter(pc.is_valid(table.column("offset"))).sort_by("offset")
    places = sorted(random.randrange(known.num_rows + 1) for _ in range(parts - 1))
    ends = [*places, known.num_rows]
    return [known.slice(start, end - start) for start, end in zip([0, *places], ends, strict=True)]


def write_parts(folder: Path, parts: list[pa.Table]) -> None:
    """A file for each part, in this order, behind those that are there."""
    folder.mkdir(exist_ok=True)
    first = len(list(folder.iterdir()))
    for number, part in enumerate(parts, first):
        file = folder / f"{number:04d}.parquet"
        pq.write_table(part, file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def stream_of(spark: SparkSession, folder: Path, files: int = 1, schema: Any = None) -> DataFrame:
    """The files as a stream, so many per micro-batch."""
    spark.conf.set(PROVIDER, ROCKS_DB)
    reader = spark.readStream.schema(spark_schema() if schema is None else schema)
    return reader.option("maxFilesPerTrigger", files).parquet(str(folder))


def run_killed(found: DataFrame, folder: Path, random: Random | None = None) -> DataFrame:
    """What a query writes, batch by batch, that is killed at random places and begun anew until it is at its end."""

    def keep(batch: DataFrame, number: int) -> None:
        if random is not None and random.random() < 0.25:
            raise RuntimeError("killed before it wrote")
        batch.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))
        if random is not None and random.random() < 0.25:
            raise RuntimeError("killed before Spark knows")

    folder.mkdir(exist_ok=True)
    for _ in range(30):
        stream = found.writeStream.foreachBatch(keep).trigger(availableNow=True)
        settings = found.sparkSession.conf
        settings.set("spark.sql.shuffle.partitions", "2")  # each has a store of its own
        query = stream.option("checkpointLocation", str(folder / "checkpoint")).start()
        settings.set("spark.sql.shuffle.partitions", "4")
        try:
            query.awaitTermination()
        except Exception as error:
            if "killed" not in str(error):
                raise
        else:
            return found.sparkSession.read.parquet(str(folder / "out"))
    raise AssertionError("the query never came to its end")
