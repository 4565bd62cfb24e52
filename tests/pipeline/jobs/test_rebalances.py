"""`rebalances` and `storms`: captures compared with each group alone, and single examples."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quorate.codecs import CoordinatorRecord, LogEntry
from quorate.codecs.errors import InputError
from quorate.coordinator.history import EpochBumped, events
from quorate.coordinator.history.facts import GenerationBegan
from quorate.pipeline.jobs.rebalance_rows import REBALANCES, rows_of_group
from quorate.pipeline.local.histories import STORMS
from quorate.pipeline.schema import OptionError
from tests.coordinator.captures import entries, folders
from tests.extent import is_full
from tests.pipeline.helpers.engines import Engine, LocalEngine, SparkEngine
from tests.pipeline.helpers.jobs import NAMES, Rowlike, captured

UPGRADE = "upgrade-4.0-to-4.3-and-back"


def of_group(capture: str, group: str) -> list[Rowlike]:
    """Return the rebalances of one group, from its log."""
    for folder in folders(capture):
        found = [entry for entry in entries(folder) if group_of(entry) == group]
        if found:
            return list(rows_of_group(found, group))
    raise AssertionError(f"{capture} has no group {group}")


def group_of(entry: LogEntry) -> str | None:
    """Return the group of a record other than a commit."""
    if not isinstance(entry.record, CoordinatorRecord) or entry.record.name in ("OffsetCommit", "LegacyOffsetCommit"):
        return None
    key: Any = entry.record.key
    found: str = getattr(key, "group_id", None) or key.group
    return found


def all_groups() -> Iterator[tuple[str, int, str]]:
    for capture in NAMES:
        for folder in folders(capture):
            for group in sorted({name for entry in entries(folder) if (name := group_of(entry))}):
                yield capture, int(folder.name[-1]), group


def test_rebalances_equal_those_of_the_logs_in_any_order_of_rows(engine: Engine) -> None:
    found: dict[tuple[str, int, str], list[Rowlike]] = {}
    table = engine.rebalances(engine.rows(captured(), seed=3)).cast(REBALANCES)
    for row in table.to_pylist():
        found.setdefault((row["log_topic"], row["log_partition"], row["group"]), []).append(row)
    compared = 0
    for capture, partition, group in all_groups():
        reported = [
            {"log_topic": capture, "log_partition": partition, "group": group} | row for row in of_group(capture, group)
        ]
        rows = pa.Table.from_pylist(reported, REBALANCES).to_pylist()
        actual = sorted(found.pop((capture, partition, group), []), key=lambda row: row["log_offset"])
        assert actual == rows, (capture, partition, group)
        compared += len(rows)
    assert not found
    assert compared > 200


def test_every_epoch_and_generation_of_the_history_has_one_row() -> None:
    for capture in NAMES:
        for folder in folders(capture):
            reported: dict[str, list[int]] = {}
            for event in events(entries(folder)):
                for fact in event.facts:
                    if isinstance(fact, EpochBumped | GenerationBegan):
                        reported.setdefault(event.group_id, []).append(fact.after)
            for group, epochs in reported.items():
                rows = of_group(capture, group)
                if len(rows) != len(epochs):
                    # Commits are not replayed here: the end of a transaction, or a simple group
                    # before the first member.
                    raise AssertionError((capture, group, [row["epoch"] for row in rows], epochs))
                assert [row["epoch"] for row in rows] == epochs


def test_an_upgrade_and_a_downgrade_are_causes_and_move_nothing() -> None:
    rows = {row["epoch"]: row for row in of_group(UPGRADE, "ship-orders")}
    assert [rows[epoch]["causes"] for epoch in range(1, 9)] == [
        ["joined"], ["joined"], ["joined"], ["hash-first"], ["hash"], ["hash-dropped"], ["topics"], ["joined"],
    ]  # fmt: skip
    for epoch in (4, 6):
        assert (rows[epoch]["partitions_moved"], rows[epoch]["partitions_gained"], rows[epoch]["members"]) == (0, 0, 3)
    assert rows[8]["joined"] != []
    assert (rows[8]["partitions_moved"], rows[8]["members"]) == (4, 4)
    assert rows[5]["partitions_gained"] == 3


def test_a_superseded_epoch_has_no_duration() -> None:
    rows = {row["epoch"]: row for row in of_group(UPGRADE, "ship-orders")}
    assert (rows[2]["completed_at"], rows[2]["duration_ms"]) == (None, None)
    assert rows[2]["superseded_at"] == rows[3]["started_at"]
    done = [row for row in rows.values() if row["completed_at"] is not None]
    assert len(done) == 7
    assert all(row["duration_ms"] * 1000 == row["completed_at"] - row["started_at"] for row in done)
    assert all(before["started_at"] < after["started_at"] for before, after in pairwise(rows.values()))


def test_members_that_leave_and_their_lost_partitions_are_listed() -> None:
    rows = {row["epoch"]: row for row in of_group("consumer-4.3", "cg-uniform")}
    assert len(rows[5]["left_or_fenced"]) == 1
    assert (rows[5]["members"], rows[5]["partitions_gained"], rows[5]["partitions_lost"]) == (2, 3, 3)


def test_classic_generations_begin_when_all_members_have_joined() -> None:
    rows = of_group("classic-3.9", "c-range")
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(0 <= row["duration_ms"] < 1000 for row in rows)
    assert sum(len(row["joined"]) for row in rows) >= 2


def test_conversions_are_causes() -> None:
    kinds = [(row["kind"], row["causes"]) for row in of_group("consumer-4.3", "cg-migrates")]
    assert ("Consumer", ["converted"]) in kinds
    assert any(kind == "Classic" and "converted" in causes for kind, causes in kinds)


# ---- storms


def table(*groups: tuple[str, list[int]]) -> pa.Table:
    """Return rebalances of groups at these seconds."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "log_topic": None,
            "log_partition": 0,
            "group": group,
            "started_at": start + timedelta(seconds=second),
            "completed_at": start + timedelta(seconds=second, milliseconds=500),
            "causes": ["joined"] if number % 2 else ["left"],
            "partitions_moved": 2,
            "epoch": number,
        }
        for group, seconds in groups
        for number, second in enumerate(seconds)
    ]
    return pa.Table.from_pylist(rows, REBALANCES)


def test_many_rebalances_in_a_short_time_are_a_storm(engine: Engine) -> None:
    found = engine.storms(
        table(
            ("calm", [0, 60, 120, 180]),
            ("once", [500, 0, 10, 20, 900]),
            ("twice", [0, 5, 10, 15, 20, 25, 1000, 1010, 1020]),
            ("edge", [0, 15, 30]),
            ("nearly", [0, 15, 31]),
            ("at once", [0, 0, 0, 31, 90]),
        ),
        window_ms=30_000,
        at_least=3,
    )
    assert found.schema.names == STORMS.names
    rows = found.cast(STORMS).sort_by([("group", "ascending"), ("started_at", "ascending")]).to_pylist()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert [
        (
            row["group"],
            (row["started_at"] - start).seconds,
            (row["ended_at"] - start).total_seconds(),
            row["rebalances"],
            dict(row["causes"]),
            row["partitions_moved"],
        )
        for row in rows
    ] == [
        ("at once", 0, 0.5, 3, {"joined": 1, "left": 2}, 6),
        ("edge", 0, 30.5, 3, {"joined": 1, "left": 2}, 6),
        ("once", 0, 20.5, 3, {"joined": 2, "left": 1}, 6),
        ("twice", 0, 25.5, 6, {"joined": 3, "left": 3}, 12),
        ("twice", 1000, 1020.5, 3, {"joined": 1, "left": 2}, 6),
    ]


def test_storms_of_captures_are_the_same_on_both_engines(spark: SparkSession) -> None:
    found = LocalEngine().rebalances(pa.concat_tables(captured()))
    windows = ((300_000, 5), (3_000, 2), (20_000, 3))
    for window_ms, at_least in windows if is_full() else windows[1:2]:
        local, wanted = (
            engine.storms(found, window_ms=window_ms, at_least=at_least).cast(STORMS).to_pylist()
            for engine in (LocalEngine(), SparkEngine(spark))
        )
        assert sorted(map(str, local)) == sorted(map(str, wanted))
        assert len(local) > 5


def test_a_storm_needs_two_rebalances_and_a_window(engine: Engine) -> None:
    with pytest.raises(OptionError, match="a storm is two or more"):
        engine.storms(table(("g", [0])), at_least=1)


@pytest.mark.long_on_spark  # test_edges.py has such rows on Spark
def test_rows_without_timestamps_are_errors(engine: Engine) -> None:
    rows = pa.concat_tables(captured())
    at = rows.schema.get_field_index("timestamp")
    timeless = rows.set_column(at, rows.schema.field(at), pa.nulls(rows.num_rows, rows.schema.field(at).type))
    with pytest.raises(
        (PySparkException, InputError), match="a record has no timestamp, so records of one write cannot be found"
    ):
        engine.rebalances(engine.rows([timeless]))
