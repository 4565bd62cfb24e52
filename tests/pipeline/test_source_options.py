"""Options of the source: valid values, and errors."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from quorate.codecs import LogError
from quorate.pipeline import OptionError
from quorate.pipeline.files import DataLoss
from quorate.pipeline.live_options import client_config
from quorate.pipeline.options import OPTIONS, Options, parse_options
from tests.pipeline.helpers.file_logs import START_MS, write_log
from tests.pipeline.helpers.reading import by_place, expected, rows_of, splits_of


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to read: give a path .* or a cluster with the option kafka.bootstrap.servers"),
        ({"path": "a", "kafka.bootstrap.servers": "b:1"}, "either a path or kafka.bootstrap.servers, not both"),
        ({"paths": "a,b"}, "option paths: 'a,b' is not a JSON list"),
        ({"startingOffset": "latest"}, "option 'startingOffset' is not known; did you mean startingOffsets"),
        ({"color": "red"}, "option 'color' is not known; use one of path, paths, kafka.bootstrap.servers"),
        ({"topic": "orders"}, "'orders' is not a coordinator topic; use one of __consumer_offsets"),
        ({"types": "OffsetCommit,Offset"}, "has no records of type Offset; it has ConsumerGroup"),
        ({"partitions": "3-1"}, "option partitions: '3-1' is neither a number nor a range"),
        (
            {"startingOffsets": "first"},
            "option startingOffsets: 'first' is neither earliest nor latest nor JSON such as",
        ),
        ({"startingOffsets": '{"other":{"0":1}}'}, 'JSON such as {"__consumer_offsets":{"0":23,"1":-2}}'),
        ({"startingOffsets": '{"__consumer_offsets":{"0":-3}}'}, "option startingOffsets"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: nothing ends at earliest"),
        ({"endingOffsets": '{"__consumer_offsets":{"0":-2}}'}, "option endingOffsets: nothing ends at earliest"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "option startingTimestamp: .* with its zone"),
        ({"isolation.level": "committed"}, "option isolation.level: .* use one of read_committed, read_uncommitted"),
        ({"mode": "strict"}, "option mode: 'STRICT' is not known; use one of PERMISSIVE, FAILFAST, DROPMALFORMED"),
        ({"includeRaw": "yes"}, "option includeRaw: 'yes' is not known; use one of true, false"),
        ({"maxSplitBytes": "0"}, "option maxSplitBytes: '0' is not a size such as 33554432 or 32m"),
        ({"maxOffsetsPerTrigger": "-1"}, "option maxOffsetsPerTrigger: '-1' is not a number; use 1 or more"),
    ],
)
def test_an_invalid_option_is_an_error_with_the_valid_values(given: dict[str, str], message: str) -> None:
    given = given if not given or {"path", "paths"} & given.keys() else {"path": "x", **given}
    with pytest.raises(OptionError, match=message.replace("{", r"\{")):
        parse_options(given)


def test_options_are_case_insensitive_and_have_the_defaults_of_the_table() -> None:
    assert parse_options({"PATH": "a", "ISOLATION.Level": "READ_UNCOMMITTED", "maxsplitbytes": "2K"}) == Options(
        paths=("a",), read_committed=False, max_split_bytes=2048
    )
    defaults = {option.name: option.default for option in OPTIONS if option.default not in ("", "all")}
    assert parse_options({"path": "a", **{k: v for k, v in defaults.items() if k != "endingOffsets"}}) == Options(
        paths=("a",)
    )
    assert parse_options({"path": "a", "kafka.isolation.level": "read_uncommitted"}).read_committed is False
    assert (
        parse_options({"path": "a", "startingTimestamp": "2026-11-21T10:00:00.5+01:00"}).starting_timestamp
        == 1795251600500
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group.id": "g"}, "option kafka.group.id cannot be set: reading joins no group"),
        ({"linger.ms": "5"}, "option kafka.linger.ms is not known; after kafka., use one of bootstrap.servers"),
        ({"request.timeout.ms": "soon"}, "option kafka.request.timeout.ms: 'soon' is not a number"),
        ({"bootstrap.servers": "broker"}, "'broker': has no port"),
        ({"security.protocol": "SASL_SSL"}, r"needs a sasl_mechanism.*options kafka.security.protocol, kafka.sasl"),
        ({"sasl.jaas.config": "x"}, "option kafka.sasl.jaas.config: has no username and password"),
        (
            {"ssl.truststore.location": "/t.jks"},
            "kafka.ssl.truststore.location: a store of type JKS .* set kafka.ssl.truststore.type to PEM",
        ),
    ],
)
def test_an_invalid_option_of_kafka_is_an_error(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        client_config({"bootstrap.servers": "b:9092", **given})


def test_options_of_kafka_are_converted_to_those_of_the_client(tmp_path: Path) -> None:
    pem = tmp_path / "store.pem"
    pem.touch()
    found = client_config(
        {
            "bootstrap.servers": "a:1,b:2",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": 'org.apache.kafka.ScramLoginModule required username="me" password="a\\"b;c";',
            "ssl.truststore.location": str(pem),
            "ssl.keystore.location": str(pem),
            "ssl.keystore.type": "PEM",
            "ssl.endpoint.identification.algorithm": "",
            "max.partition.fetch.bytes": "1000",
        }
    )
    assert found == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": 'a"b;c',
        "ssl_cafile": str(pem),
        "ssl_certfile": str(pem),
        "ssl_keyfile": str(pem),
        "ssl_check_hostname": False,
        "max_partition_fetch_bytes": 1000,
    }


# ---- effects of options


def uncommitted(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    return rows_of(path, isolation_level="read_uncommitted", **options)


def test_paths_are_files_folders_log_directories_and_globs(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / f"__consumer_offsets-{number}", Random(number)) for number in (1, 2)]
    (logs[0] / "00000000000000000000.index").touch()
    write_log(tmp_path / "__transaction_state-0", Random(3))
    wanted = expected(tmp_path, topics=["__consumer_offsets"])
    for path in (tmp_path, f"{tmp_path}/__consumer_offsets-*", f"{tmp_path}/__consumer_offsets-?/*", tmp_path.as_uri()):
        assert by_place(uncommitted(path)) == by_place(wanted), path
    listed = f'["{logs[0]}", "{logs[1]}"]'
    assert by_place(rows_of(paths=listed, isolation_level="read_uncommitted")) == by_place(wanted)
    assert (
        by_place(uncommitted(logs[1]))
        == by_place(uncommitted(tmp_path, partitions="2,7-9"))
        == by_place(expected(logs[1]))
    )
    segment = max(logs[1].glob("*.log"))
    assert by_place(uncommitted(segment)) == by_place(expected(segment))
    # Segments given one by one are one log, with the ends of transactions.
    assert by_place(rows_of(f"{logs[0]}/*.log")) == by_place(expected(logs[0], isolation_level="read_committed"))


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("nowhere", LogError, "nowhere: no such file or folder"),
        ("no*", LogError, "no file or folder matches"),
        ("*.index", LogError, "none of the 1 files is a segment"),
        (
            "s3a://bucket/x",
            OptionError,
            "for s3a:// use .*binaryFile.* and quorate.pipeline.decode_segments, or mount it",
        ),
    ],
)
def test_an_unreadable_path_is_an_error(tmp_path: Path, path: str, error: type[Exception], message: str) -> None:
    (tmp_path / "0.index").touch()
    with pytest.raises(error, match=message):
        uncommitted(path if "://" in path else tmp_path / path)


def test_times_limit_records_by_their_timestamps(tmp_path: Path) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(8))
    since, until = START_MS + 300, START_MS + 900
    rows = uncommitted(log, startingTimestamp=since, endingTimestamp=until)
    assert by_place(rows) == by_place(expected(log, since_ms=since, until_ms=until))
    assert 0 < len(rows) < len(uncommitted(log))
    # Segments that are older are not read.
    tasks = splits_of(log, isolation_level="read_uncommitted", maxSplitBytes=400)
    fewer = splits_of(log, isolation_level="read_uncommitted", maxSplitBytes=400, startingTimestamp=since)
    assert len(fewer) < len(tasks)
    assert by_place(row for task in fewer for row in task) == by_place(expected(log, since_ms=since))


def test_missing_offsets_fail_the_job_unless_fail_on_data_loss_is_false(tmp_path: Path) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(8))
    beyond = '{"__consumer_offsets":{"5":5000}}'
    with pytest.raises(
        DataLoss,
        match=r"__consumer_offsets-5: offset 5,000 of startingOffsets is not in the log, "
        r"which has 0 to 181; failOnDataLoss=false",
    ):
        uncommitted(log, startingOffsets=beyond)
    assert uncommitted(log, startingOffsets=beyond, failOnDataLoss=False) == []
    assert uncommitted(log, startingOffsets="latest") == []
    assert by_place(uncommitted(log, endingOffsets=beyond, failOnDataLoss=False)) == by_place(expected(log))


def test_modes_return_rows_with_an_error_drop_them_or_fail_the_job(tmp_path: Path) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(8))
    segment = min(log.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(bytes(data))
    rows = uncommitted(log)
    assert by_place(rows) == by_place(expected(log, skip_corrupt=True))
    assert {row["error"]["reason"] for row in rows if row["error"]} > {"CRC mismatch", "unknown record type"}
    assert by_place(uncommitted(log, mode="DROPMALFORMED")) == by_place(row for row in rows if not row["error"])
    with pytest.raises(LogError, match=r"position 0: the batch has CRC .*; mode PERMISSIVE returns damage as rows"):
        uncommitted(log, mode="FAILFAST")


def test_include_raw_adds_the_bytes_to_every_row(tmp_path: Path) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(8))
    plain = {row["offset"]: row for row in uncommitted(log, types="OffsetCommit,GroupMetadata")}
    raw = {row["offset"]: row for row in uncommitted(log, types="OffsetCommit,GroupMetadata", includeRaw=True)}
    assert raw.keys() == plain.keys()
    for offset, row in raw.items():
        assert row["key"] is not None
        assert (row["value"] is None) == row["tombstone"]
        assert row | {"key": None, "value": None} == plain[offset] | {"key": None, "value": None}


def test_spark_shows_the_error_of_an_option(spark: SparkSession) -> None:
    with pytest.raises(
        AnalysisException, match=r"(?i)option 'startingOffset' is not known; did you mean startingOffsets"
    ):
        spark.read.format("consumer-offsets").option("startingOffset", "5").load("x")


def test_a_schema_of_the_query_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    log, schema = str(write_log(tmp_path / "log", Random(1))), "offset long, type string"
    message = r"omit \.schema.*select columns with the option columns"
    with pytest.raises(AnalysisException, match=message):
        spark.read.format("consumer-offsets").schema(schema).load(log).collect()
    stream = spark.readStream.format("consumer-offsets").schema(schema).load(log)
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=message):
        query.awaitTermination()


def test_spark_can_omit_tracebacks(spark: SparkSession, tmp_path: Path) -> None:
    """As in docs/how-to/spark.md."""
    setting = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(AnalysisException) as error:
            spark.read.format("consumer-offsets").load(f"{tmp_path}/nowhere").count()
    finally:
        spark.conf.unset(setting)
    (reported,) = [line for line in str(error.value).splitlines() if "SQLSTATE" not in line]
    assert reported.endswith(f"LogError: {tmp_path}/nowhere: no such file or folder")
