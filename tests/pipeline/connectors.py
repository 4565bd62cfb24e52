"""Compare our source with Spark's Kafka source, and write results to Delta and Iceberg.

`make test-spark-matrix` runs this on Spark 4.0, for which Maven's repository has the jars of all
three (`connectors.xml`). `make test` does not run it, because its Spark is newer.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from quorate.cli.main import main
from quorate.pipeline import decode, group_state, register
from quorate.pipeline.streaming import latest_state, stream_group_state
from quorate.pipeline.streaming.keyed import PROVIDER, ROCKS_DB
from tests.broker.broker import Broker
from tests.broker.fixtures import need_broker
from tests.codecs.test_live import Client
from tests.coordinator.captures import CAPTURES

JARS = Path(__file__).resolve().parents[2] / "build" / "spark" / "connectors"
UPGRADE = CAPTURES / "upgrade-4.0-to-4.3-and-back"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with all connectors."""
    jars = sorted(map(str, JARS.glob("*.jar")))
    assert jars, f"{JARS} is empty: run make test-spark-matrix RELEASES=4.0"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config(
            "spark.sql.extensions",
            "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        )
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", str(tmp_path_factory.mktemp("lake")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Start a broker with commits."""
    need_broker()
    with Broker() as running:
        client = Client(running)
        client.create_topic("orders", 1)
        client.create_topic("mirror.__consumer_offsets", 1)
        client.commit("plain", "orders", 0, *range(30))
        yield running


def run(*arguments: object) -> tuple[int, str]:
    """Run `quorate pipeline` in the existing session."""
    result = CliRunner(catch_exceptions=False).invoke(main, ["pipeline", *map(str, arguments)])
    return result.exit_code, result.stderr


def contents(df: DataFrame) -> list[str]:
    return sorted(json.dumps(row, default=str) for row in df.toArrow().to_pylist())


# ---- Spark's own Kafka source


def test_sparks_kafka_source_reads_no_internal_topics_without_an_error_and_ours_does(
    spark: SparkSession, broker: Broker
) -> None:
    def kafka(how: str, what: str) -> DataFrame:
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest"}
        return spark.read.format("kafka").options(**servers).option(how, what).load()

    ours = (
        spark.read.format("consumer-offsets")
        .options(**{"kafka.bootstrap.servers": broker.bootstrap_servers, "includeRaw": "true"})
        .load()
    )
    commits = ours.where("type = 'OffsetCommit' and group = 'plain'").count()
    assert commits == 30
    assert kafka("subscribe", "__consumer_offsets").count() == 0
    partitions = json.dumps({"__consumer_offsets": list(range(50))})
    assert kafka("assign", partitions).count() == 0
    # The reason is the internal topic: a copy under another name has all rows, with equal decoded
    # rows.
    copy = ours.where("group = 'plain'").select("key", "value")
    copy.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers).option(
        "topic", "mirror.__consumer_offsets"
    ).save()
    mirrored = decode(kafka("subscribe", "mirror.__consumer_offsets"), types="OffsetCommit")
    values = ("type", "group", "tombstone", "offset_commit")
    assert contents(mirrored.select(*values)) == contents(ours.where("group = 'plain'").select(*values))


# ---- Delta and Iceberg


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_tables_are_written_replaced_and_read_again(spark: SparkSession, tmp_path: Path, form: str) -> None:
    def place(name: str) -> str:
        return f"lake.{name}" if form == "iceberg" else f"{tmp_path}/{name}"

    def audit(*arguments: object) -> tuple[int, str]:
        return run("audit", "--output", place("one.audit"), "--format", form, *arguments)

    assert audit(UPGRADE, "--as-of", "1:54") == (0, f"audit: {place('one.audit')}\n")
    earlier = contents(spark.read.format(form).load(place("one.audit")))
    status, out = audit(UPGRADE)
    assert (status, out.splitlines()[0]) == (1, f"error: {place('one.audit')} already exists")
    assert audit(UPGRADE, "--overwrite")[0] == 0
    whole = contents(spark.read.format(form).load(place("one.audit")))
    assert len(whole) > len(earlier) > 0

    # Decoded rows in a table can replace the log.
    rows = spark.read.format("consumer-offsets").option("partitions", "1").load(str(UPGRADE)).cache()
    if form == "delta":
        rows.write.format(form).save(place("rows"))
    else:
        rows.writeTo(place("rows")).create()
    assert audit(place("rows"), "--from", form, "--overwrite", "--as-of", "1:54")[0] == 0
    assert contents(spark.read.format(form).load(place("one.audit"))) == earlier

    # Several tables with nested values.
    status, out = run("state", UPGRADE, "--option", "partitions=1", "--output", place("state"), "--format", form)
    assert status == 0, out
    for name, table in group_state(rows).cache().tables.items():
        where = place("state") + ("." if form == "iceberg" else "/") + name
        assert contents(spark.read.format(form).load(where).select(*table.columns)) == contents(table), name


def test_iceberg_without_a_catalog_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    status, out = run("audit", UPGRADE, "--output", f"{tmp_path}/audit", "--format", "iceberg")
    assert status == 1
    assert out.startswith(f"error: --output {tmp_path}/audit: Iceberg has tables in catalogs, not in folders\n")


def test_a_stream_merges_into_a_delta_table_with_one_row_per_group(spark: SparkSession, tmp_path: Path) -> None:
    """As in docs/how-to/spark-streaming.md."""
    spark.conf.set(PROVIDER, ROCKS_DB)
    rows = spark.read.format("consumer-offsets").load(str(UPGRADE))
    found = stream_group_state(spark.readStream.format("consumer-offsets").load(str(UPGRADE)))
    table = f"{tmp_path}/groups"
    spark.createDataFrame([], found.schema).write.format("delta").save(table)

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("changed")
        batch.sparkSession.sql(
            f"""
            MERGE INTO delta.`{table}` AS kept USING changed
            ON kept.log_topic = changed.log_topic
                AND kept.log_partition = changed.log_partition AND kept.group = changed.group
            WHEN MATCHED AND changed.deleted AND changed.version > kept.version THEN DELETE
            WHEN MATCHED AND changed.version > kept.version THEN UPDATE SET *
            WHEN NOT MATCHED AND NOT changed.deleted THEN INSERT *
            """
        )

    query = found.writeStream.foreachBatch(merge).trigger(availableNow=True)
    query.option("checkpointLocation", f"{tmp_path}/checkpoint").start().awaitTermination()
    kept = spark.read.format("delta").load(table)
    wanted = group_state(rows.cache()).groups.where("kind is not null")
    assert contents(latest_state(kept).groups.select("group", "epoch", "state")) == contents(
        wanted.select("group", "epoch", "state")
    )
    assert kept.count() == kept.select("group").distinct().count()
