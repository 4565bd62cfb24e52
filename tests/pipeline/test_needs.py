"""Jobs tell the source what they need of a log: what is left out must not matter, and has to be left out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.codecs import CoordinatorRecord, encode_record
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.coordinator.runtime import StoredMarker
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.lag import lag
from quorate.pipeline.jobs.rebalances import rebalances
from quorate.pipeline.jobs.state import STATE, group_state
from quorate.pipeline.needs import Needs
from quorate.pipeline.source import ConsumerOffsets
from tests.pipeline.jobs import comparable, replay_stored
from tests.pipeline.made_up import Stored, random_commits, random_groups

Logs = tuple[Path, int, dict[int, list[Stored]]]
"""A folder, the seed of partition 0, and what is in its partitions."""


def stored_batches(stored: Iterable[Stored]) -> Iterator[bytes]:
    """Batches of a few records each, as a broker has them."""
    for (kind, producer_id), together in groupby(stored, lambda one: (type(one), one.producer_id)):
        found = list(together)
        if kind is StoredMarker:
            for one in found:
                assert isinstance(one, StoredMarker)
                yield encode_marker(
                    commit=one.commit,
                    offset=one.offset,
                    timestamp_ms=one.timestamp_ms,
                    producer_id=one.producer_id,
                    producer_epoch=0,
                )
            continue
        records = []
        for one in found:
            assert not isinstance(one, StoredMarker)
            assert isinstance(one.record, CoordinatorRecord)
            key, value = encode_record(one.record)
            records.append(BatchRecord(offset=one.offset, timestamp_ms=one.timestamp_ms, key=key, value=value))
        state = min(producer_id, 0)
        yield encode_batch(
            records, producer_id=producer_id, producer_epoch=state, base_sequence=state, transactional=producer_id >= 0
        )


def write(folder: Path, stored: Iterable[Stored]) -> Path:
    """A partition with this log."""
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(b"".join(stored_batches(stored)))
    return folder


def rows_read(path: Path, needs: Needs | None = None, **options: str) -> list[dict[str, Any]]:
    """What the source hands over, without Spark."""
    given = {"path": str(path), "includeRaw": "true", **options} | (
        {} if needs is None else {"quorate.needs": needs.text()}
    )
    source = ConsumerOffsets(given)
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def always(row: dict[str, Any]) -> bool:
    return row["offset"] is not None


def lasts(rows: Iterable[dict[str, Any]], until: Callable[[dict[str, Any]], bool]) -> dict[Any, int]:
    """Of each key the offsets of the last row, the last tombstone, and the last that is none, in the log up to the first row that is not `until`."""
    found: dict[Any, int] = {}
    for row in sorted((row for row in rows if row["offset"] is not None), key=lambda row: row["offset"]):
        if not until(row):
            break
        if row["group"] is not None:
            found[row["key"], row["tombstone"]] = row["offset"]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_of_each_key_the_last_rows_are_left_at_any_time_and_little_else(tmp_path: Path, seed: int) -> None:
    stored = random_commits(seed) if seed % 3 else random_groups(seed)
    path = write(tmp_path / "__consumer_offsets-3", stored)
    every = rows_read(path)
    times = sorted(row["timestamp"] for row in every if row["timestamp"] is not None)
    moments: list[tuple[Needs, Callable[[dict[str, Any]], bool]]] = [(Needs(what="state"), always)]
    if times:
        at = Random(seed).choice(times)
        moments.append(
            (
                Needs(what="state", until_ms=int(at.timestamp() * 1000)),
                lambda row: row["timestamp"] is None or row["timestamp"] <= at,
            )
        )
    end = len(stored) // 2
    moments.append((Needs(what="state", until_offsets={(None, 3): end}), lambda row: row["offset"] <= end))
    for needs, until in moments:
        left = rows_read(path, needs)
        wanted = lasts(every, until)
        assert lasts(left, until) == wanted, needs
        assert len(left) <= len(wanted) + 1, needs  # a moment's first later row tells where it is


def test_damaged_values_replace_nothing(tmp_path: Path) -> None:
    stored = [one for one in random_commits(5) if not isinstance(one, StoredMarker) and one.producer_id < 0]
    path = write(tmp_path / "__consumer_offsets-3", stored)
    last = lasts(rows_read(path), always)
    segment = path / f"{0:020d}.log"
    offset = stored[-1].offset
    keys = {encode_record(one.record)[0] for one in stored if isinstance(one.record, CoordinatorRecord)}
    with segment.open("ab") as file:
        for value in (b"\x00\x03\x00", b"\x00\x63", b"\x00\x03\x00\x00"):
            for key in sorted(keys):
                offset += 1
                file.write(encode_batch([BatchRecord(offset=offset, timestamp_ms=9, key=key, value=value)]))
    assert lasts(rows_read(path, Needs(what="state")), always) == last


def test_offsets_that_do_not_rise_are_all_kept(tmp_path: Path) -> None:
    stored = [one for one in random_commits(5) if not isinstance(one, StoredMarker) and one.producer_id < 0]
    path = write(tmp_path / "__consumer_offsets-3", [*stored, *stored])
    assert len(rows_read(path, Needs(what="state"))) == len(rows_read(path))


def test_jobs_about_groups_are_given_no_commits(tmp_path: Path) -> None:
    every = rows_read(write(tmp_path / "__consumer_offsets-3", random_commits(4)))
    of_groups = [row for row in every if "OffsetCommit" not in row["type"]]
    assert 0 < len(of_groups) < len(every)
    assert rows_read(tmp_path, Needs(what="groups")) == of_groups
    assert {row["offset"] for row in rows_read(tmp_path, Needs(what="commits"))} == {
        row["offset"] for row in every if row not in of_groups
    }


@pytest.mark.parametrize("seed", range(8))
def test_lags_are_given_the_last_commits_before_each_snapshot(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log = [replace(one, timestamp_ms=1000 + rng.randrange(9)) for one in random_commits(seed) if one.producer_id < 0]
    write(tmp_path / "__consumer_offsets-3", log)
    times = sorted({1000 + rng.randrange(9) for _ in range(3)})
    commits = [row for row in rows_read(tmp_path) if "OffsetCommit" in row["type"]]
    spans: dict[int, list[dict[str, Any]]] = {}
    for row in commits:
        spans.setdefault(sum(at < round(row["timestamp"].timestamp() * 1000) for at in times), []).append(row)
    wanted = sorted(offset for span in spans.values() for offset in lasts(span, always).values())
    left = rows_read(tmp_path, Needs(what="commits", times_ms=tuple(times)))
    assert sorted(row["offset"] for row in left) == wanted


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """A folder with logs that are made up, one a partition."""
    folder = tmp_path_factory.mktemp("logs")
    seed = Random().randrange(1 << 30)
    stored = {number: (random_commits if number % 4 else random_groups)(seed + number) for number in range(12)}
    for number, log in stored.items():
        write(folder / f"__consumer_offsets-{number}", log)
    return folder, seed, stored


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("consumer-offsets").options(**options).load(str(path))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_state_of_what_load_gave_is_what_the_coordinator_replays(
    spark: SparkSession, logs: Logs, share: float
) -> None:
    folder, seed, stored = logs
    df = load(spark, folder, **{"isolation.level": "read_uncommitted"})
    last = {number: int(share * log[-1].offset) for number, log in stored.items()}
    as_of = None if share == 1.0 else last
    assert loaded(df, "state", as_of) is not None
    rows = group_state(df, as_of, isolation_level="read_uncommitted").rows.toArrow().cast(STATE).to_pylist()
    for number, log in stored.items():
        wanted = comparable(replay_stored(one for one in log if one.offset <= last[number]))
        assert comparable(row for row in rows if row["log_partition"] == number) == wanted, (
            f"partition {number}, seed {seed + number}"
        )


def test_only_what_load_gave_is_told_and_only_where_that_changes_nothing(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    folder, _, stored = logs
    df = load(spark, folder)
    told = loaded(df, "state", None)
    assert told is not None
    assert told.options.read_committed
    assert told.rows.count() < df.count()
    assert loaded(df.where("partition = 1"), "state", None) is None
    assert loaded(load(spark, folder, mode="FAILFAST"), "state", None) is None
    assert loaded(df.cache(), "state", None) is None
    df.unpersist()
    write(tmp_path / "__consumer_offsets-1", stored[2])
    copies = spark.read.format("consumer-offsets").load([str(folder), str(tmp_path)])
    assert loaded(copies, "state", None) is None


def test_histories_and_lags_are_the_same_whether_the_source_was_told(spark: SparkSession, logs: Logs) -> None:
    folder, _, stored = logs
    told = load(spark, folder, **{"isolation.level": "read_uncommitted"})
    others = told.where("partition >= 0")  # Spark says nothing of that to a source
    as_of = dict.fromkeys(stored, 70)
    ends = spark.createDataFrame(
        [("t", number, time, 1000 + time) for number in range(2) for time in (20, 55, 90)],
        "topic string, partition int, timestamp long, end_offset long",
    )
    for job in (
        lambda df: rebalances(df, as_of),
        lambda df: lag(df, ends, as_of=as_of, isolation_level="read_uncommitted"),
    ):
        found = [sorted(map(str, job(df).collect())) for df in (told, others)]
        assert found[0] == found[1]
        assert len(found[0]) > 3
