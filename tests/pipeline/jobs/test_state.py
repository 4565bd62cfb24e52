"""`group_state` compared with the coordinator's replay, and with the brokers' responses."""

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from quorate.codecs import LogEntry, read_log
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.history import Moment
from quorate.coordinator.state import CoordinatorState
from quorate.pipeline.jobs.audit import upgrade_audit
from quorate.pipeline.jobs.columns import PUSHDOWN
from quorate.pipeline.jobs.moments import LOG
from quorate.pipeline.jobs.rebalances import rebalances
from quorate.pipeline.jobs.records import ABORTED, PENDING_OF, TYPES
from quorate.pipeline.jobs.state import group_state
from quorate.pipeline.jobs.state_rows import replayed
from quorate.pipeline.local import group_state as group_state_locally
from quorate.pipeline.local.log import logs, present, records_of
from quorate.pipeline.local.survivors import survivors
from quorate.pipeline.schema import CONTROL, OptionError
from tests.coordinator.captures import CAPTURES, Checkpoint, checkpoints, entries, folders
from tests.coordinator.test_captures import described
from tests.extent import portion, sampled
from tests.pipeline.helpers.engines import Engine, LocalEngine, SparkEngine, by_log
from tests.pipeline.helpers.jobs import (
    NAMES,
    captured,
    comparable,
    everything,
    named,
    replay,
    replay_stored,
    shuffled,
    stored_rows,
    table_of,
)
from tests.pipeline.helpers.random_logs import Stored, random_commits, random_groups


@pytest.mark.long_on_spark  # test_both_engines_return_the_same_tables has rows in any order
def test_the_state_of_every_capture_equals_a_replay_in_any_order_of_rows(engine: Engine) -> None:
    found = by_log(engine.state(engine.rows(captured(), seed=7)))
    groups = 0
    for capture in NAMES:
        for folder in folders(capture):
            log = capture, int(folder.name.rpartition("-")[2])
            wanted = comparable(replay(entries(folder)))
            assert comparable(found.get(log, [])) == wanted, log
            groups += len(wanted)
    assert groups > 60


def at_checkpoints() -> dict[str, Checkpoint]:
    """Return the last checkpoint of each capture and others, by a name for the log then."""
    found = [list(checkpoints(capture)) for capture in NAMES]
    return {str(at): at for of_capture in found for at in (*sampled(of_capture), of_capture[-1])}


def states_at_checkpoints() -> dict[tuple[str, int], CoordinatorState]:
    """Return the states of each log at each checkpoint, from the records left by one `as_of`."""
    last: dict[tuple[str, int], int] = {}
    tables = []
    for name, at in at_checkpoints().items():
        for folder in folders(at.capture):
            tables.append(named(table_of(folder), name))
            last[name, int(folder.name.rpartition("-")[2])] = at.end_offsets.get(folder.name, 0) - 1
    rows = shuffled(pa.concat_tables(tables), seed=8)
    found = {}
    for log in logs(rows, "state", last, [*TYPES, CONTROL]):
        left = survivors(log, present(rows), with_markers=True)
        for topic, partition in zip(*(left.column(name).to_pylist()[:1] for name in LOG), strict=True):
            found[topic, partition], _ = replayed(records_of(left, PENDING_OF, ABORTED))
    return found


def unordered(value: Any) -> Any:
    """Sort lists: the order of members depends on earlier members in Kafka's hash map."""
    if isinstance(value, dict):
        return {name: unordered(one) for name, one in value.items()}
    return sorted(map(unordered, value), key=repr) if isinstance(value, list) else value


def test_the_state_at_every_checkpoint_equals_the_responses_of_brokers() -> None:
    states = states_at_checkpoints()
    compared = offsets = 0
    for name, at in at_checkpoints().items():
        shards = []
        for folder in folders(at.capture):
            shard = GroupCoordinatorShard(image=at.image, new_id=uuid4)
            state = states.get((name, int(folder.name.rpartition("-")[2])), CoordinatorState())
            assert not state.skipped
            shard.state = state
            shards.append(shard)
        for reported in at.groups:
            if "raw" in reported:
                (shard,) = [shard for shard in shards if reported["groupId"] in shard.state.groups]
                group = shard.state.groups[reported["groupId"]]
                (raw,) = reported["raw"]["data"]["groups"]
                assert unordered(described(shard, group, reported["raw"]["apiVersion"])) == unordered(raw), (
                    f"{at}: {group}"
                )
                compared += 1
            if reported.get("type") != "Share" and "offsets" in reported:
                wanted = {where: one["offset"] for where, one in reported["offsets"].items() if one}
                committed = {
                    f"{topic}-{number}": offset.value.offset
                    for shard in shards
                    for topic, number, offset in shard.state.offsets.of_group(reported["groupId"])
                }
                assert committed == wanted, f"{at}: {reported['groupId']}"
                offsets += len(wanted)
    assert compared > 30
    assert offsets > 30


@pytest.mark.parametrize(("engine", "place"), [("local", 0.3), ("local", 0.8), ("spark", 0.5)], indirect=["engine"])
@pytest.mark.long_on_spark
def test_as_of_a_time_ends_each_log_before_its_first_later_record(engine: Engine, place: float) -> None:
    captures = ["consumer-4.3", "transactions-4.3"]
    logs = {(capture, int(folder.name[-1])): entries(folder) for capture in captures for folder in folders(capture)}
    times = sorted(entry.timestamp_ms for log in logs.values() for entry in log)
    moment = times[int(place * len(times))]
    found = by_log(engine.state(engine.rows(captured(captures)), as_of=moment))
    for log, of_log in logs.items():
        cut = [one for one in Moment(timestamp_ms=moment).cut(of_log) if isinstance(one, LogEntry)]
        assert comparable(found.get(log, [])) == comparable(replay(cut)), log


def test_rows_without_markers_count_as_committed(engine: Engine) -> None:
    of = [folder for folder in folders("transactions-4.3") if any(folder.glob("*.log"))]
    rows = engine.rows([table_of(folder, isolation_level="read_committed") for folder in of])
    found = by_log(engine.state(rows))
    for folder in of:
        committed = list(read_log(folder, isolation_level="read_committed"))
        state = CoordinatorState()
        for entry in committed:
            assert isinstance(entry, LogEntry)
            state.replay(entry.record, offset=entry.offset)
        assert comparable(found.get(("__consumer_offsets", int(folder.name[-1])), [])) == comparable(state)


# ---- random logs


def random_logs() -> Iterator[tuple[str, list[Stored]]]:
    """Yield logs of new seeds."""
    first = Random().randrange(1 << 30)
    count = portion(12)
    for seed in range(first, first + 5 * count):
        yield f"commits of seed {seed}", random_commits(seed)
    for seed in range(first, first + count):
        yield f"groups of seed {seed}", random_groups(seed)


def end_of_write(stored: list[Stored], offset: int) -> int:
    """Return the last offset of the write that contains this one.

    Within a write, a group may exist only because of a member's record that was deleted later
    (seed 145996929).
    """
    at = max(one.timestamp_ms for one in stored if one.offset <= offset)
    return max(one.offset for one in stored if one.timestamp_ms <= at)


@pytest.mark.long_on_spark
def test_the_state_of_random_logs_equals_a_replay(engine: Engine) -> None:
    logs: dict[str, list[Stored]] = {}
    last: dict[tuple[str, int], int] = {}
    for name, stored in random_logs():
        for part, share in (("all", 1.0), ("half", 0.5)):
            log = f"{part} of {name}"
            logs[log] = stored
            last[log, 0] = end_of_write(stored, int(share * stored[-1].offset)) if stored else 0
    rows = engine.rows([stored_rows(stored, log) for log, stored in logs.items()], seed=9)
    found = by_log(engine.state(rows, as_of=last, isolation_level="read_uncommitted"))
    groups = 0
    for log, stored in logs.items():
        wanted = comparable(replay_stored(one for one in stored if one.offset <= last[log, 0]))
        assert comparable(found.get((log, 0), [])) == wanted, log
        groups += len(wanted)
    assert groups > len(logs) / 2


# ---- tables and errors


def test_tables_equal_the_nested_rows() -> None:
    state = group_state_locally(pa.concat_tables(captured(["upgrade-4.0-to-4.3-and-back"])))
    rows = {row["group"]: row for row in state.rows.to_pylist() if row["group"]}
    groups = {row["group"]: row for row in state.groups.to_pylist()}
    assert {name: (one["epoch"], one["members"]) for name, one in groups.items()} == {
        name: (row["epoch"], len(row["members"])) for name, row in rows.items()
    }
    assert groups["ship-orders"]["epoch"] == 8
    assert groups["ship-orders"]["has_topic_record"]
    members, targets, assigned = (
        [row for row in table.to_pylist() if row["group"] == "ship-orders"]
        for table in (state.members, state.targets, state.assignments)
    )
    assert {row["rack"] for row in members} == {"rack-a", "rack-b", "rack-c"}
    assert {(row["member_id"], row["topic"], row["partition"]) for row in targets} == {
        (row["member_id"], row["topic"], row["partition"]) for row in assigned if not row["revoking"]
    }
    assert len(targets) == sum(row["target"] for row in members) > 10
    assert state.offsets.column("pending_of").null_count == state.offsets.num_rows


def test_both_engines_return_the_same_tables(spark: SparkSession) -> None:
    rows = list(captured(["upgrade-4.0-to-4.3-and-back", "transactions-4.3", "consumer-4.3"]))
    found, wanted = (engine.tables(engine.rows(rows, seed=7)) for engine in (LocalEngine(), SparkEngine(spark)))
    assert found.keys() == wanted.keys()
    for name, table in wanted.items():
        assert found[name].schema.names == table.schema.names
        as_found = found[name].cast(table.schema)
        assert sorted(map(str, as_found.to_pylist())) == sorted(map(str, table.to_pylist())), name
    assert min(table.num_rows for name, table in found.items() if name != "skipped") > 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda df: group_state(df.drop("offset")), "no column offset"),
        (lambda df: group_state(df.select(*df.columns[:15])), "no columns of any record type"),
        (lambda df: group_state(df, as_of="yesterday"), "as_of is 'yesterday'"),
        (lambda df: group_state(df, as_of={}), "as_of needs partitions"),
        (lambda df: group_state(df, isolation_level="dirty"), "read_committed or read_uncommitted"),
        (lambda df: group_state(df.drop("control"), isolation_level="read_uncommitted"), "transaction markers"),
    ],
)
def test_invalid_input_is_an_error_of_one_line(spark: SparkSession, change: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message) as error:
        change(everything(spark))
    assert "\n" not in str(error.value)


def test_rows_that_spark_would_filter_are_refused(spark: SparkSession) -> None:
    pytest.importorskip("pyspark", minversion="4.1")  # 4.0 pushes no filters
    loaded = spark.read.format("consumer-offsets").load(str(CAPTURES / "upgrade-4.0-to-4.3-and-back"))
    try:
        spark.conf.set(PUSHDOWN, "true")
        for job in (group_state, rebalances, upgrade_audit):
            with pytest.raises(OptionError, match="set it to false before load"):
                job(loaded)
        group_state(loaded.cache(), isolation_level="read_uncommitted")  # otherwise it looks for markers
        spark.conf.set(PUSHDOWN, "false")
        rebalances(loaded)
    finally:
        loaded.unpersist()
        spark.conf.unset(PUSHDOWN)
