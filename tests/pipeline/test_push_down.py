"""Push-down: the source must skip records that jobs do not need, and no others."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quorate.codecs import CoordinatorRecord, decode_record, encode_record
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.columnar.columns import decode_slots
from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.coordinator.log import StoredMarker, StoredRecord
from quorate.coordinator.records import written
from quorate.coordinator.state import CoordinatorState
from quorate.pipeline import files_read, local
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.moments import milliseconds
from quorate.pipeline.jobs.state import group_state
from quorate.pipeline.push_down import PushDown
from quorate.pipeline.source import ConsumerOffsets
from tests.extent import is_full, portion
from tests.pipeline.helpers.engines import Engine, LocalEngine, SparkEngine
from tests.pipeline.helpers.jobs import comparable, replay_stored
from tests.pipeline.helpers.random_logs import Stored, random_commits, random_groups

UNCOMMITTED = {"isolation.level": "read_uncommitted"}
Logs = tuple[Path, int, dict[int, list[Stored]]]
"""A folder, the seed of partition 0, and the records of its partitions."""


def stored_batches(stored: Iterable[Stored]) -> Iterator[bytes]:
    """Yield batches of a few records each."""
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


def write(folder: Path, stored: Iterable[Stored], segments: int = 1) -> Path:
    """Write a partition with this log, in `segments` segments."""
    folder.mkdir(parents=True)
    log = list(stored)
    size = -(-len(log) // segments) or 1
    for first in range(0, max(len(log), 1), size):
        own = log[first : first + size]
        name = own[0].offset if first else 0
        (folder / f"{name:020d}.log").write_bytes(b"".join(stored_batches(own)))
    return folder


def by_clocks_that_differ(stored: Iterable[Stored], seed: int) -> list[Stored]:
    """Return the log with times that decrease sometimes, as after a failover, or are missing."""
    rng = Random(seed)
    return [
        replace(one, timestamp_ms=rng.choice([-1] + 9 * [max(one.timestamp_ms + rng.randrange(-30, 30), 0)]))
        for one in stored
    ]


COLUMNS = "partition,offset,timestamp,producer_id,transactional,type,group,tombstone,key,value,control"


def batches_read(path: Path | None, push_down: PushDown | None = None, **options: str) -> list[pa.RecordBatch]:
    """Return the batches of the source, without Spark."""
    given = dict(options)
    if path is not None:
        given["path"] = str(path)
    if push_down is not None:
        given["quorate.push_down"] = push_down.text()
    source = ConsumerOffsets(given)
    reader = source.reader(source.schema())
    return [batch for part in reader.partitions() for batch in reader.read(part)]


def rows_read(path: Path | None, push_down: PushDown | None = None, **options: str) -> list[dict[str, Any]]:
    """Return the rows of the source, with some columns and the bytes."""
    batches = batches_read(path, push_down, **{"includeRaw": "true", "columns": COLUMNS, **options})
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def always(row: dict[str, Any]) -> bool:
    return row["offset"] is not None


def lasts(rows: Iterable[dict[str, Any]], until: Callable[[dict[str, Any]], bool]) -> dict[Any, int]:
    """Return the offsets of the last tombstone and the last other row of each key.

    The log ends before the first row for which `until` is false.
    """
    found: dict[Any, int] = {}
    for row in sorted((row for row in rows if row["offset"] is not None), key=lambda row: row["offset"]):
        if not until(row):
            break
        if row["group"] is not None:
            found[row["key"], row["tombstone"]] = row["offset"]
    return found


@pytest.mark.parametrize("seed", range(portion(30)))
def test_push_down_keeps_the_last_rows_of_each_key(tmp_path: Path, seed: int) -> None:
    stored = random_commits(seed) if seed % 3 else random_groups(seed)
    path = write(tmp_path / "__consumer_offsets-3", stored)
    every = rows_read(path)
    times = sorted(row["timestamp"] for row in every if row["timestamp"] is not None)
    moments: list[tuple[PushDown, Callable[[dict[str, Any]], bool]]] = [(PushDown(what="state"), always)]
    if times:
        at = Random(seed).choice(times)
        moments.append(
            (
                PushDown(what="state", until_ms=int(at.timestamp() * 1000)),
                lambda row: row["timestamp"] is None or row["timestamp"] <= at,
            )
        )
    end = len(stored) // 2
    moments.append((PushDown(what="state", until_offsets={(None, 3): end}), lambda row: row["offset"] <= end))
    for push_down, until in moments:
        left = rows_read(path, push_down)
        wanted = lasts(every, until)
        assert lasts(left, until) == wanted, push_down
        assert len(left) <= len(wanted) + 1, push_down  # the first later row marks the end


def test_damaged_values_replace_nothing(tmp_path: Path) -> None:
    stored = [commit for commit in random_commits(5) if not isinstance(commit, StoredMarker) and commit.producer_id < 0]
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
    assert lasts(rows_read(path, PushDown(what="state")), always) == last


def state_of(rows: Iterable[dict[str, Any]], until: PushDown, *, committed: bool) -> CoordinatorState:
    """Return a coordinator's state after these rows, up to the end of `until`.

    `committed`: transactions count as committed.
    """
    state = CoordinatorState()
    for row in sorted((row for row in rows if row["offset"] is not None), key=lambda row: row["offset"]):
        if until.until_offsets is not None and row["offset"] > until.until_offsets[None, row["partition"]]:
            break
        if (
            until.until_ms is not None
            and row["timestamp"] is not None
            and milliseconds(row["timestamp"]) > until.until_ms
        ):
            break
        if row["control"] is not None:
            state.offsets.end_transaction(row["producer_id"], commit=row["control"]["name"] == "COMMIT")
        elif row["group"] is not None:
            producer_id = row["producer_id"] if row["transactional"] and not committed else -1
            state.replay(decode_record(row["key"], row["value"]), offset=row["offset"], producer_id=producer_id)
    return state


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("seed", range(portion(20)))
def test_state_at_a_time_does_not_depend_on_clocks_segments_and_transactions(
    tmp_path: Path, seed: int, level: str
) -> None:
    stored = by_clocks_that_differ(random_commits(seed) if seed % 4 else random_groups(seed), seed)
    path = write(tmp_path / "__consumer_offsets-3", stored, segments=1 + seed % 3)
    rng = Random(seed)
    moments = [PushDown(what="state", until_ms=rng.randrange(-2, 120)) for _ in range(5)]
    moments += [PushDown(what="state", until_offsets={(None, 3): rng.randrange(120)}) for _ in range(2)]
    committed = level == "read_committed"
    every = rows_read(path, **{"isolation.level": level})
    for push_down in moments:
        left = rows_read(path, push_down, **{"isolation.level": level})
        wanted = comparable(state_of(every, push_down, committed=committed))
        assert comparable(state_of(left, push_down, committed=committed)) == wanted, push_down


def test_values_of_unknown_versions_are_decoded_a_few_times_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, value = encode_record(
        written(
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(offset=1, metadata="", commit_timestamp=5),
        )
    )
    later = (BatchRecord(offset=offset, timestamp_ms=9, key=key, value=b"\x00\x63") for offset in range(1, 200))
    records = [BatchRecord(offset=0, timestamp_ms=9, key=key, value=value), *later]
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(encode_batch(records))
    looks = []
    monkeypatch.setattr(
        files_read, "decode_slots", lambda *given, **named: looks.append(1) or decode_slots(*given, **named)
    )
    left = rows_read(folder, PushDown(what="state"))
    assert [row["offset"] for row in left if row["group"] is not None] == [0]
    assert len(looks) < 20


def test_all_records_are_kept_if_offsets_decrease_between_segments(tmp_path: Path) -> None:
    stored = [commit for commit in random_commits(5) if not isinstance(commit, StoredMarker) and commit.producer_id < 0]
    path = write(tmp_path / "__consumer_offsets-3", stored)
    (path / f"{stored[-1].offset + 1:020d}.log").write_bytes(b"".join(stored_batches(stored)))
    assert len(rows_read(path, PushDown(what="state", until_ms=40))) == len(rows_read(path)) > 2 * len(stored)


def test_all_records_are_kept_if_offsets_decrease(tmp_path: Path) -> None:
    stored = [commit for commit in random_commits(5) if not isinstance(commit, StoredMarker) and commit.producer_id < 0]
    path = write(tmp_path / "__consumer_offsets-3", [*stored, *stored])
    assert len(rows_read(path, PushDown(what="state"))) == len(rows_read(path))


def test_jobs_on_groups_read_no_commits(tmp_path: Path) -> None:
    every = rows_read(write(tmp_path / "__consumer_offsets-3", random_commits(4)))
    of_groups = [row for row in every if "OffsetCommit" not in row["type"]]
    assert 0 < len(of_groups) < len(every)
    assert rows_read(tmp_path, PushDown(what="groups")) == of_groups
    assert {row["offset"] for row in rows_read(tmp_path, PushDown(what="commits"))} == {
        row["offset"] for row in every if row not in of_groups
    }


@pytest.mark.parametrize("seed", range(8))
def test_lags_read_the_last_commits_before_each_snapshot(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    log = [
        replace(commit, timestamp_ms=1000 + rng.randrange(9))
        for commit in random_commits(seed)
        if commit.producer_id < 0
    ]
    write(tmp_path / "__consumer_offsets-3", log)
    times = sorted({1000 + rng.randrange(9) for _ in range(3)})
    commits = [row for row in rows_read(tmp_path) if "OffsetCommit" in row["type"]]
    spans: dict[int, list[dict[str, Any]]] = {}
    for row in commits:
        spans.setdefault(sum(at < round(row["timestamp"].timestamp() * 1000) for at in times), []).append(row)
    wanted = sorted(offset for span in spans.values() for offset in lasts(span, always).values())
    left = rows_read(tmp_path, PushDown(what="commits", times_ms=tuple(times)))
    assert sorted(row["offset"] for row in left) == wanted


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """Write a folder with random logs, one in each partition."""
    folder = tmp_path_factory.mktemp("logs")
    seed = Random().randrange(1 << 30)
    stored = {number: (random_commits if number % 4 else random_groups)(seed + number) for number in range(12)}
    for number, log in stored.items():
        write(folder / f"__consumer_offsets-{number}", log, segments=1 + number % 2)
    return folder, seed, stored


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("consumer-offsets").options(**options).load(str(path))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_state_with_push_down_equals_a_replay(logs: Logs, share: float) -> None:
    folder, seed, stored = logs
    last = {number: int(share * log[-1].offset) for number, log in stored.items()}
    rows = local.read(folder, options=UNCOMMITTED)
    found = local.group_state(rows, None if share == 1.0 else last, isolation_level="read_uncommitted")
    for number, log in stored.items():
        wanted = comparable(replay_stored(one for one in log if one.offset <= last[number]))
        of_log = (row for row in found.rows.to_pylist() if row["log_partition"] == number)
        assert comparable(of_log) == wanted, f"partition {number}, seed {seed + number}"


def test_push_down_applies_only_to_unchanged_rows_of_load(spark: SparkSession, logs: Logs, tmp_path: Path) -> None:
    folder, _, stored = logs
    df = load(spark, folder)
    fewer = loaded(df, "state", None)
    assert fewer is not None
    assert fewer.options.read_committed
    assert fewer.rows.count() < df.count()
    assert loaded(df.where("partition = 1"), "state", None) is None
    for mode in ("FAILFAST", "DROPMALFORMED"):
        assert loaded(load(spark, folder, mode=mode), "state", None) is None
    assert loaded(df.cache(), "state", None) is None
    df.unpersist()
    write(tmp_path / "__consumer_offsets-1", stored[2])
    copies = spark.read.format("consumer-offsets").load([str(folder), str(tmp_path)])
    assert loaded(copies, "state", None) is None


def test_jobs_are_the_same_with_push_down(spark: SparkSession, logs: Logs) -> None:
    folder, seed, stored = logs
    every = pa.Table.from_batches(batches_read(folder, **UNCOMMITTED))
    ends = pa.table(
        {"topic": ["t"] * 6, "partition": [0, 1] * 3, "timestamp": [20, 20, 55, 55, 90, 90], "end_offset": [1000] * 6}
    )
    last = {number: int(0.5 * log[-1].offset) for number, log in stored.items()}
    commits = {"types": ",".join((*COMMIT_TYPES, "Control"))}  # the types that lags need
    levels = {"isolation_level": "read_uncommitted"}
    jobs: list[tuple[dict[str, str], Callable[[Engine, Any], pa.Table]]] = [
        ({}, lambda engine, rows: engine.state(rows, None, **levels)),
        ({}, lambda engine, rows: engine.state(rows, last, **levels)),
        ({}, lambda engine, rows: engine.rebalances(rows, 55)),
        (commits, lambda engine, rows: engine.lag(rows, ends, as_of=55, **levels)),
        (commits, lambda engine, rows: engine.lag(rows, ends, as_of=dict.fromkeys(stored, 70), **levels)),
    ]
    in_process = LocalEngine()
    in_spark = (1, 2, 3) if is_full() else (1 + seed % 3,)
    for number, (types, job) in enumerate(jobs):
        wanted = job(in_process, every)
        assert wanted.num_rows
        files = local.read(folder, options=UNCOMMITTED | types)
        assert job(in_process, files).equals(wanted), f"job {number}, seed {seed}"
        if number in in_spark:
            df = load(spark, folder, **UNCOMMITTED, **types)
            assert loaded(df, "state", last) is not None
            on_spark = job(SparkEngine(spark), df).cast(wanted.schema)
            assert sorted(map(str, on_spark.to_pylist())) == sorted(map(str, wanted.to_pylist())), (
                f"job {number}, seed {seed}"
            )


def test_two_different_records_at_one_offset_fail_the_state(spark: SparkSession, tmp_path: Path) -> None:
    def commit(offset: int) -> bytes:
        return b"".join(
            stored_batches(
                StoredRecord(
                    offset=at,
                    timestamp_ms=9,
                    record=written(
                        OffsetCommitKey(group="g", topic="t", partition=0),
                        OffsetCommitValue(offset=offset, metadata="", commit_timestamp=5),
                    ),
                    producer_id=-1,
                    producer_epoch=-1,
                )
                for at in range(4)
            )
        )

    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    for name, offset in ((0, 1), (4, 1)):
        (folder / f"{name:020d}.log").write_bytes(commit(offset))
    df = load(spark, tmp_path)
    assert loaded(df, "state", None) is not None
    (row,) = group_state(df).rows.collect()  # identical copies of a record are allowed
    assert [one["offset"] for one in row["offsets"]] == [1]
    (folder / f"{4:020d}.log").write_bytes(commit(2))
    with pytest.raises(PySparkException, match=r"__consumer_offsets-3, offset 3: there are two different records"):
        group_state(df).rows.collect()
