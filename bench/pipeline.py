"""Measure how fast Spark gets decoded records, and compare with limits and alternatives.

Records are read from segments and Parquet, and by the jobs for state and lag. They are a generated
year (`_year`); rows are discarded (Spark's `noop`). Rates are for two cores, by the lesser of
elapsed time and half of the CPU time of the JVM and all workers, which excludes most of the load of
other processes. The rate by elapsed time is shown, too.

Peers: the same rows through `mapInArrow` with a function that does nothing; a source that returns
the same batches without reading or decoding; a Python UDF with `struct`; and Kafka's console
consumer with its formatter to a file that Spark reads as JSON. The last two use fewer records,
without start-up. The consumer has one thread, so its CPU time is not halved.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from struct import unpack_from
from typing import Any

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import Report
from _spark import CORES, Took, noop, session, took
from _year import Year, write_year
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from quorate.pipeline import decode, group_state, lag, register
from quorate.pipeline.source import ConsumerOffsets
from tests.broker.broker import Broker, missing, tools

MILLION = 1_000_000
SOME = "group,timestamp,tombstone,offset_commit.topic,offset_commit.partition,offset_commit.offset"
"""The columns that a lag needs."""

FEW = 200_000
"""The number of records for slow peers."""


def name_of(count: int) -> str:
    return f"{count / MILLION:g} M"


# ---- the limit: prepared batches


class ReadyMade(DataSource):
    """A source that repeats the first batches of `consumer-offsets` for the same options.

    `rows`: the total number of rows.
    """

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.rows = int(options["rows"])
        self.source = ConsumerOffsets({name: value for name, value in options.items() if name != "rows"})

    def schema(self) -> StructType:
        return self.source.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyMadeReader(self.source.reader(schema), self.rows)


class ReadyMadePart(InputPartition):
    """A task of the source, and the number of its rows."""

    def __init__(self, part: InputPartition, rows: int) -> None:
        super().__init__(None)
        self.part = part
        self.rows = rows


class ReadyMadeReader(DataSourceReader):
    def __init__(self, reader: DataSourceReader, rows: int) -> None:
        self.reader = reader
        self.rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        found = self.reader.partitions()
        return [ReadyMadePart(part, self.rows // len(found)) for part in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, ReadyMadePart)
        batches: list[Any] = []
        for batch in self.reader.read(partition.part):
            batches.append(batch)
            if sum(one.num_rows for one in batches) > partition.rows // 8:
                break
        left = partition.rows
        while left > 0:
            for batch in batches:
                yield batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return


# ---- alternatives


COMMIT = (
    "struct<group:string, topic:string, partition:int, offset:bigint, leader_epoch:int, metadata:string, "
    "commit_timestamp:bigint>"
)


def by_struct(key: bytes, value: bytes | None) -> tuple[Any, ...] | None:
    """Decode a commit of version 3 or 4 by hand-written code."""
    version, length = unpack_from(">hh", key)
    if version > 1 or value is None:
        return None
    group = key[4 : 4 + length].decode()
    at = 4 + length
    (length,) = unpack_from(">h", key, at)
    topic = key[at + 2 : at + 2 + length].decode()
    (partition,) = unpack_from(">i", key, at + 2 + length)
    version, offset, leader_epoch = unpack_from(">hqi", value)
    if version == 3:
        (length,) = unpack_from(">h", value, 14)
        at = 16
    elif version == 4:
        length, at = value[14] - 1, 15
    else:
        return None
    metadata = value[at : at + length].decode()
    (timestamp,) = unpack_from(">q", value, at + length)
    return group, topic, partition, offset, leader_epoch, metadata, timestamp


def by_console(spark: SparkSession, dump: DataFrame, folder: Path, count: int) -> tuple[float, float]:
    """Return seconds per commit of Kafka's console consumer, and of reading its JSON in Spark."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    pairs = [(bytes(row.key), bytes(row.value)) for row in dump.select("key", "value").limit(count).collect()]
    with Broker() as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(servers)  # its futures need it
        for future in admin.create_topics([NewTopic("copy", 1, 1)]).values():
            future.result(30)
        producer = Producer(servers | {"linger.ms": 50, "queue.buffering.max.messages": 2_000_000, "log_level": 0})
        for key, value in pairs:
            producer.produce("copy", value=value, key=key)
        producer.flush(120)
        command = tools("-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        command += ["org.apache.kafka.tools.consumer.ConsoleConsumer"]
        command += ["--bootstrap-server", broker.bootstrap_servers, "--topic", "copy", "--from-beginning"]
        command += ["--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter", "--timeout-ms", "30000"]

        def consume(most: int) -> float:
            with (folder / "console.json").open("wb") as file, (folder / "console.err").open("wb") as errors:
                begin = time.perf_counter()
                process = subprocess.Popen([*command, "--max-messages", str(most)], stdout=file, stderr=errors)
                _, status, used = os.wait4(process.pid, 0)
                clock = time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise RuntimeError((folder / "console.err").read_text())
            return min(clock, used.ru_utime + used.ru_stime)  # one thread does it

        first = consume(100)
        console = (consume(len(pairs)) - first) / (len(pairs) - 100)
    # The formatter writes no line ends, which Spark needs; adding them is not measured.
    subprocess.run(["sed", "-i", r's/}{"key"/}\n{"key"/g', str(folder / "console.json")], check=True, timeout=120)
    json = spark.read.json(str(folder / "console.json"), schema=_JSON)
    if (rows := json.where("key.data.group is not null").count()) != len(pairs):
        raise AssertionError(f"the console consumer printed {rows:,} commits of {len(pairs):,}")
    return console, took(noop(json)).seconds / len(pairs)


_JSON = (
    "key struct<type:int, data:struct<group:string, topic:string, partition:int>>, "
    "value struct<version:int, data:struct<offset:bigint, leaderEpoch:int, metadata:string, commitTimestamp:bigint>>"
)


# ---- ours


class Bench:
    """The measurements of one year."""

    def __init__(self, spark: SparkSession, report: Report, year: Year) -> None:
        self.spark = spark
        self.report = report
        self.year = year
        self.label = name_of(round(year.records, -5))

    def load(self, types: str = "all", columns: str = "all", **options: str) -> DataFrame:
        reader = self.spark.read.format("consumer-offsets").options(types=types, columns=columns, **options)
        return reader.load(str(self.year.folder))

    def ready_made(self, rows: int, types: str, columns: str) -> DataFrame:
        reader = self.spark.read.format("ready-made").options(types=types, columns=columns)
        return reader.options(rows=str(rows), path=str(self.year.folder)).load()

    def rate(self, case: str, records: int, ours: Took, peer: Took | None, peer_name: str, goal: str = "") -> None:
        self.report.rate(
            case,
            records / ours.seconds,
            None if peer is None else records / peer.seconds,
            peer_name,
            goal=goal,
            by_the_clock=records / ours.clock_s,
        )

    def boundary(self, types: str, *, columns: str = "all") -> None:
        """Compare segments to rows with both limits, alternately."""
        df = self.load(types, columns)
        records = df.count()
        narrow = "" if columns == "all" else f", {columns.count(',') + 1} columns"
        case = f"segments → {types if types == 'all' else 'commits'}{narrow}, {self.label}"
        given = self.ready_made(records, types, columns)
        ours, limit, through = Took(), Took(), Took()
        file = str(self.year.folder.parent / "rows.parquet")
        df.write.mode("overwrite").parquet(file)
        rows = self.spark.read.parquet(file)
        rows = rows.mapInArrow(_identity, rows.schema)
        for _ in range(self.report.pick(3, quick=2, smoke=1)):
            took(noop(df), rounds=1, into=ours)
            took(noop(given), rounds=1, into=limit)
            took(noop(rows), rounds=1, into=through)
        goal = "≥ 2 M/s, ratio ≥ 0.85" if types != "all" else "ratio ≥ 0.85"
        self.rate(case, records, ours, through, "mapInArrow, identity", goal)
        self.rate(case, records, ours, limit, "the same batches, ready made")
        python = 100 * (1 - ours.jvm_cpu_s / ours.cpu_s)
        self.report.cost(f"{case}: CPU's time in Python", python, None, "", "%")

    def decode(self) -> None:
        """Compare Parquet with keys and values with a UDF and the console consumer."""
        folder = self.year.folder.parent
        raw = self.load("OffsetCommit", includeRaw="true").where("not tombstone and error is null")
        file = str(folder / "dump.parquet")
        raw.select("key", "value", "partition", "offset", "timestamp").write.mode("overwrite").parquet(file)
        dump = self.spark.read.parquet(file)
        records = dump.count()
        few_file = str(folder / "few.parquet")
        count = min(FEW, records)
        dump.limit(count).repartition(CORES).write.mode("overwrite").parquet(few_file)
        few = self.spark.read.parquet(few_file)
        udf = F.udf(by_struct, COMMIT)
        whole, narrow, segments, peer = Took(), Took(), Took(), Took()
        for _ in range(self.report.pick(3, quick=2, smoke=1)):
            took(noop(decode(dump, types="OffsetCommit")), rounds=1, into=whole)
            took(
                noop(decode(dump.select("key", "value", "timestamp"), types="OffsetCommit", columns=SOME)),
                rounds=1,
                into=narrow,
            )
            took(noop(self.load("OffsetCommit", SOME)), rounds=1, into=segments)
            took(noop(few.select(udf("key", "value").alias("commit"))), rounds=1, into=peer)
        per_row = Took(clock_s=peer.clock_s * records / count, cpu_s=peer.cpu_s * records / count)
        for case, one in (
            ("Parquet → commits", whole),
            ("Parquet → commits, 6 columns", narrow),
            ("segments → commits, 6 columns", segments),
        ):
            self.rate(f"{case}, {self.label}", records, one, per_row, "Python UDF, struct", "ratio ≥ 10")
        if self.report.quick or self.report.smoke:
            return
        if (reason := missing()) is not None:
            print(f"without the console consumer: {reason}", file=sys.stderr)
            return
        console, json = by_console(self.spark, few, folder, count)
        for peer_s, what in ((console + json, "console, then JSON in Spark"), (console, "console alone")):
            took_s = Took(clock_s=peer_s * records, cpu_s=peer_s * records * CORES)
            self.rate(f"segments → commits, 6 columns, {self.label}", records, segments, took_s, what, "ratio ≥ 20")

    def jobs(self, *, rounds: int) -> dict[str, Took]:
        """Measure the state of all groups, and lags at the end of each day."""
        records = self.year.records
        state = took(lambda: group_state(self.load()).rows.collect(), rounds=rounds)
        self.rate(f"group_state, {self.label}", records, state, None, "")
        ends = self.ends()
        lags = took(noop(lag(self.load(), ends)), rounds=rounds)
        self.rate(f"lag at the end of each day, {self.label}", records, lags, None, "")
        return {"group_state": state, "lag": lags}

    def ends(self) -> DataFrame:
        """Return end offsets of each partition and day: the highest committed offset."""
        commits = self.load("OffsetCommit", SOME).where("offset_commit.offset is not null")
        found = commits.groupBy(
            F.col("offset_commit.topic").alias("topic"),
            F.col("offset_commit.partition").alias("partition"),
            F.date_trunc("day", "timestamp").alias("timestamp"),
        ).agg(F.max("offset_commit.offset").alias("end_offset"))
        file = str(self.year.folder.parent / "ends.parquet")
        found.write.mode("overwrite").parquet(file)
        return self.spark.read.parquet(file)


def _identity(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="also 50 million records: 5 GB in a temporary folder")
    parser.add_argument("--costs", action="store_true", help="only what a record costs at each size, without peers")
    report = Report("quorate.pipeline: Spark", __doc__ or "", parser)
    sizes = report.pick([MILLION, 5 * MILLION], quick=[300_000], smoke=[2_000])
    if report.options.full:
        sizes.append(50 * MILLION)
    with_peers = not report.options.costs
    spark = session(compile_well=not report.smoke)
    register(spark)
    spark.dataSource.register(ReadyMade)
    costs: dict[str, float] = {}
    for place, size in enumerate(sizes):
        with tempfile.TemporaryDirectory(prefix="quorate-bench-") as temporary:
            groups, slots, processes = report.pick((200, None, 2), quick=(200, None, 2), smoke=(20, 2, 1))
            year = write_year(Path(temporary) / "year", size, groups=groups, slots=slots, processes=processes)
            rate = year.records / year.seconds
            report.rate(f"generating {name_of(size)}: {year.size_bytes >> 20:,} MB", rate, None, "")
            bench = Bench(spark, report, year)
            if place == 0:
                took(noop(bench.load("OffsetCommit")), rounds=report.pick(5, quick=2, smoke=0))  # the JVM warms up
            rounds = 1 if size > 5 * MILLION or report.smoke else 2
            found = {
                "segments → commits": took(noop(bench.load("OffsetCommit")), rounds=rounds),
                "segments → commits, 6 columns": took(noop(bench.load("OffsetCommit", SOME)), rounds=rounds),
            }
            if place == 0 and with_peers:
                bench.boundary("OffsetCommit")
                if not (report.quick or report.smoke):
                    bench.boundary("OffsetCommit", columns=SOME)
                    bench.boundary("all")
                bench.decode()
            elif place == 1 and with_peers:
                bench.boundary("OffsetCommit", columns=SOME)  # the constant cost of a job matters little here
            if not report.quick:
                found |= bench.jobs(rounds=rounds)
            for what, one in found.items():
                cost = one.cpu_s / year.records * 1e6
                first = costs.setdefault(what, cost)
                report.cost(
                    f"CPU per record: {what}, {name_of(size)}",
                    cost,
                    first,
                    f"{name_of(sizes[0])} records",
                    "µs",
                    goal="" if place == 0 else "ratio ≥ 0.8",
                    JVM_MB=one.jvm_mb,
                    workers_MB=one.workers_mb,
                )
    report.finish()
    spark.stop()


if __name__ == "__main__":
    main()
