"""Rows of logs as a folder of files that Spark reads as a stream, and queries that are killed."""

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

SHUFFLE = "spark.sql.shuffle.partitions"


def cut(table: pa.Table, parts: int, random: Random) -> list[pa.Table]:
    """Cut the rows of logs, in the order of their offsets, at random places."""
    known = table.filter(pc.is_valid(table.column("offset"))).sort_by("offset")
    places = sorted(random.randrange(known.num_rows + 1) for _ in range(parts - 1))
    ends = [*places, known.num_rows]
    return [known.slice(start, end - start) for start, end in zip([0, *places], ends, strict=True)]


def write_parts(folder: Path, parts: list[pa.Table]) -> None:
    """Write a file for each part, in this order, after the existing files."""
    folder.mkdir(exist_ok=True)
    first = len(list(folder.iterdir()))
    for number, part in enumerate(parts, first):
        file = folder / f"{number:04d}.parquet"
        pq.write_table(part, file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def stream_of(spark: SparkSession, folder: Path, files: int = 1, schema: Any = None) -> DataFrame:
    """Return the files as a stream, with `files` files per micro-batch."""
    spark.conf.set(PROVIDER, ROCKS_DB)
    reader = spark.readStream.schema(spark_schema() if schema is None else schema)
    return reader.option("maxFilesPerTrigger", files).parquet(str(folder))


class Killed:
    """A query that is killed at random places, and restarted from its checkpoint.

    `kills`: the number of times. Without `random` it is never killed.
    """

    def __init__(self, found: DataFrame, folder: Path, random: Random | None = None, partitions: int = 1) -> None:
        self.kills = 0
        self._partitions = str(partitions)  # each has its own stores
        self._found, self._folder, self._random = found, folder, random
        folder.mkdir(exist_ok=True)

    def once(self) -> bool:
        """Run it on the available rows. Returns whether it completed."""
        settings = self._found.sparkSession.conf
        before = settings.get(SHUFFLE)
        settings.set(SHUFFLE, self._partitions)
        stream = self._found.writeStream.foreachBatch(self._keep).trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(self._folder / "checkpoint")).start()
        settings.set(SHUFFLE, before)
        try:
            query.awaitTermination()
        except Exception as error:
            # Spark gives a new Python process ten seconds to connect: too few on a busy machine.
            if "worker failed to connect back" in str(error):
                return False
            if "killed" not in str(error):
                raise
            self.kills += 1
            return False
        return True

    def to_the_end(self, *, killed: bool = False) -> DataFrame:
        """Run it until it completes, and return all written rows; `killed`: still kill it."""
        self._random = self._random if killed else None
        for _ in range(30):
            if self.once():
                return self._found.sparkSession.read.parquet(str(self._folder / "out"))
        raise AssertionError("the query never completed")

    def _keep(self, batch: DataFrame, number: int) -> None:
        self._kill("before writing")
        batch.write.mode("overwrite").parquet(str(self._folder / "out" / f"batch={number}"))
        self._kill("before the commit in Spark's checkpoint")

    def _kill(self, when: str) -> None:
        if self._random is not None and self._random.random() < 0.25:
            raise RuntimeError(f"killed {when}")


def run_killed(found: DataFrame, folder: Path, random: Random | None = None, partitions: int = 1) -> DataFrame:
    """Run such a query and return its rows."""
    return Killed(found, folder, random, partitions).to_the_end(killed=True)
