"""Write the class archive (JEP 350) for the JVMs of Spark in tests.

Run `python -m tests.pipeline.helpers.archive FILE` in the root. Loading and verifying the 15,000
classes takes a third of a JVM's CPU time in tests, and half of its start (18 s to 9 s up to the
first result). `make test` writes the archive again after packages were installed. A JVM with other
jars ignores it.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.coordinator.captures import CAPTURES

LOG = str(CAPTURES / "upgrade-4.0-to-4.3-and-back")


def main(archive: Path) -> None:
    """Run jobs of the tests in a JVM that writes the archive when it ends."""
    written = archive.with_suffix(".part")
    written.unlink(missing_ok=True)
    archive.parent.mkdir(parents=True, exist_ok=True)
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={written} -Xlog:disable"
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{options}" pyspark-shell',
    }
    from pyspark.sql import SparkSession

    with TemporaryDirectory() as folder:
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        gateway = session.sparkContext._gateway
        work(session, Path(folder))
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # ends the JVM
        gateway.proc.wait()
    written.replace(archive)


def work(session: "SparkSession", folder: Path) -> None:  # noqa: F821  # imported where the environment is set
    """Load the classes that tests use: jobs, files, and a stream with state."""
    from quorate.pipeline import group_state, lag, rebalances, register
    from quorate.pipeline.streaming import stream_group_state
    from quorate.pipeline.streaming.keyed import PROVIDER, ROCKS_DB

    register(session)
    df = session.read.format("consumer-offsets").load(LOG)
    ends = session.createDataFrame([("t", 0, 1, 2)], "topic string, partition int, timestamp long, end_offset long")
    for job in (group_state(df).rows, rebalances(df), lag(df, ends)):
        job.collect()
        job.toArrow()
    df.repartition(2).write.parquet(f"{folder}/rows")
    session.read.parquet(f"{folder}/rows").count()
    session.conf.set(PROVIDER, ROCKS_DB)
    groups = stream_group_state(session.readStream.format("consumer-offsets").load(LOG))
    stream = groups.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
