"""Streams without limits, for all releases of Spark: before 4.2, there is no start of a batch."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline import arrow_schema
from quorate.pipeline.files_read import reading_of, wanted_by
from quorate.pipeline.options import parse_options
from quorate.pipeline.stream import UnlimitedReader
from tests.pipeline.helpers.file_logs import write_log
from tests.pipeline.helpers.reading import by_place, expected


def test_micro_batches_without_a_start_have_each_row_once(tmp_path: Path) -> None:
    options = parse_options({"path": str(tmp_path), "isolation.level": "read_uncommitted", "failOnDataLoss": "false"})
    found: list[dict[str, Any]] = []
    start: dict[str, Any] | None = None
    logs = []
    for number in (1, 2):  # a partition is added
        logs.append(write_log(tmp_path / f"__consumer_offsets-{number}", Random(number)))
        reader = UnlimitedReader(options, lambda: reading_of(options, wanted_by(options)))
        start = start or reader.initialOffset()
        end = json.loads(json.dumps(reader.latestOffset()))
        batches = [batch for task in reader.partitions(start, end) for batch in reader.read(task)]
        found += pa.Table.from_batches(batches, arrow_schema()).to_pylist()
        start = end
    wanted = [row for log in logs for row in expected(log, isolation_level="read_uncommitted")]
    assert by_place(found) == by_place(wanted)


def test_a_query_resumes_from_its_checkpoint_with_new_rows(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log" / "__consumer_offsets-5", Random(6))
    segments = sorted(log.glob("*.log"))
    later = {path: path.read_bytes() for path in segments[1:]}
    assert later
    seen: list[list[Any]] = []

    def keep(batch: DataFrame, number: int) -> None:
        seen.append([tuple(row) for row in batch.select("offset", "type").collect()])

    def run() -> None:
        stream = spark.readStream.format("consumer-offsets").option("isolation.level", "read_uncommitted")
        rows = stream.option("types", "OffsetCommit").load(str(tmp_path / "log"))
        query = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    for path in later:
        path.unlink()
    run()
    for path, data in later.items():
        path.write_bytes(data)
    run()
    wanted = [
        (row["offset"], row["type"])
        for row in expected(log, isolation_level="read_uncommitted")
        if row["type"] in (None, "OffsetCommit")
    ]
    assert sorted(row for rows in seen for row in rows) == sorted(wanted)
    assert sum(map(bool, seen)) == 2
