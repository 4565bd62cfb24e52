"""Alerts are raised once, with any micro-batches; lags are compared with all commits."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.pipeline.jobs.rebalance_rows import rows_of_group
from quorate.pipeline.schema import OptionError
from quorate.pipeline.streaming.alert_monitor import Limits
from quorate.pipeline.streaming.alerts import AlertsProcessor, LagAlertsProcessor
from quorate.pipeline.streaming.group_rows import Packed, entry
from quorate.pipeline.streaming.lag import COLUMNS, LagProcessor
from tests.coordinator.captures import folders
from tests.extent import portion
from tests.pipeline.helpers.jobs import NAMES, table_of
from tests.pipeline.helpers.processors import Driver, grouped

MINUTE_MS = 60_000
GROUPED = ("group", *Packed._fields)


class Log:
    """Consecutive records of groups; `at`: minutes."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Packed]] = []

    def add(self, at: float, group: str, kind: str, text: str = "", number: int = -1, **struct: Any) -> None:
        offset, ms = len(self.rows), int(at * MINUTE_MS)
        packed = json.dumps(struct)
        self.rows.append((group, Packed(kind, text, number, offset, ms, 0, not struct, packed)))

    def commit(self, at: float, group: str) -> None:
        self.add(at, group, "OffsetCommit", "t", 0, offset=1)

    def epoch(self, at: float, group: str, epoch: int) -> None:
        self.add(at, group, "ConsumerGroupMetadata", epoch=epoch)

    def target(self, at: float, group: str, epoch: int) -> None:
        self.add(at, group, "ConsumerGroupTargetAssignmentMetadata", assignment_epoch=epoch)

    def member(self, at: float, group: str, member: str) -> None:
        self.add(at, group, "ConsumerGroupMemberMetadata", member, rebalance_timeout_ms=5 * MINUTE_MS)

    def current(self, at: float, group: str, member: str, epoch: int, state: int = 0) -> None:
        self.add(at, group, "ConsumerGroupCurrentMemberAssignment", member, member_epoch=epoch, state=state)


def alerts_of(
    rows: list[tuple[str, Packed]], limits: Limits | None = None, seed: int | None = None
) -> list[dict[str, Any]]:
    """Return the alerts of one partition, in one micro-batch or in many."""
    driver = Driver(lambda: AlertsProcessor(limits or Limits()))
    random = Random(seed)
    at = 0
    while at < len(rows):
        size = len(rows) if seed is None else random.choice([1, 2, 5, 30])
        part = [(group, *row) for group, row in rows[at : at + size]]
        driver.batch(("log", 0), part, GROUPED)
        assert driver.batch(("log", 0), part, GROUPED) == []
        at += size
    return driver.output


def short(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["alert"], one["group"], one.get("member_id"), one["log_offset"], one["value"]) for one in found]


def test_a_group_that_stops_committing_raises_one_alert_until_it_commits_again() -> None:
    log = Log()
    log.commit(0, "slow")
    for minute in range(1, 30):
        log.commit(minute, "busy")
        if minute == 15:
            log.commit(minute, "slow")
    assert short(alerts_of(log.rows)) == [
        ("no-commits", "slow", None, 11, 11 * MINUTE_MS),
        ("no-commits", "slow", None, 27, 11 * MINUTE_MS),
    ]
    assert alerts_of(log.rows, Limits(silence_ms=None)) == []


def test_a_group_without_members_raises_no_alert_for_missing_commits() -> None:
    log = Log()
    for group in ("left", "deleted", "there"):
        log.member(0, group, "m")
        log.commit(0, group)
    log.add(1, "left", "ConsumerGroupMemberMetadata", "m")
    log.add(1, "deleted", "ConsumerGroupMetadata")
    log.commit(60, "busy")
    assert [alert["group"] for alert in alerts_of(log.rows)] == ["there"]


def test_a_member_that_exceeds_its_rebalance_timeout_raises_one_alert_per_target() -> None:
    log = Log()
    for member in ("a", "b"):
        log.member(0, "g", member)
        log.current(0, "g", member, 1)
    log.target(0, "g", 1)
    log.target(10, "g", 2)
    log.current(10, "g", "a", 2)
    log.current(11, "g", "b", 1, state=1)
    for minute in range(12, 20):
        log.epoch(minute, "other", 1)
    log.target(20, "g", 3)
    log.current(21, "g", "a", 3)
    log.current(24, "g", "b", 3)
    log.epoch(40, "other", 1)
    found = alerts_of(log.rows)
    assert [(one["alert"], one["member_id"], one["since"]) for one in found] == [
        ("not-reconciled", "b", "1970-01-01T00:10:00+00:00")
    ]
    assert [alert["member_id"] for alert in alerts_of(log.rows, Limits(reconcile_ms=3 * MINUTE_MS))] == ["b", "b"]


def test_a_storm_raises_one_alert_and_the_next_one_another() -> None:
    log = Log()
    for epoch in range(1, 9):
        log.epoch(epoch, "g", epoch)
    for epoch in range(9, 14):
        log.epoch(100 + epoch, "g", epoch)
    log.epoch(130, "g", 13)  # again, with another hash
    found = alerts_of(log.rows)
    assert short(found) == [("storm", "g", None, 4, 5), ("storm", "g", None, 12, 5)]
    assert alerts_of(log.rows, Limits(storm_rebalances=None)) == []


def partitions_of_captures() -> list[dict[tuple[str, int, str], list[Packed]]]:
    return [grouped(table_of(folder, name, "read_committed")) for name in NAMES for folder in folders(name)]


def test_alerts_do_not_depend_on_micro_batches_and_storms_equal_the_batch_job() -> None:
    limits = Limits(storm_rebalances=3, storm_window_ms=5000, silence_ms=3000, reconcile_ms=800)
    kinds: dict[str, int] = {}
    for groups in partitions_of_captures():
        rows = sorted(
            ((group, row) for (_, _, group), of in groups.items() for row in of), key=lambda one: one[1].offset
        )
        found = alerts_of(rows, limits)
        assert found == alerts_of(rows, limits, seed=len(rows))
        for one in found:
            kinds[one["alert"]] = kinds.get(one["alert"], 0) + 1
        for (_, partition, group), of in groups.items():
            records = [entry(row, partition, group) for row in of if not row.type.endswith("OffsetCommit")]
            starts = [row["started_at"] // 1000 for row in rows_of_group(records, group) if row["kind"] != "Classic"]
            if len(starts) > 2 and not any(row.type == "GroupMetadata" for row in of):
                is_storm = any(later - first <= 5000 for first, later in zip(starts, starts[2:], strict=False))
                assert is_storm == any(one["group"] == group and one["alert"] == "storm" for one in found), group
    assert min(kinds[name] for name in ("storm", "no-commits", "not-reconciled")) > 0


def brute(rows: list[tuple[Any, ...]]) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Return group and snapshot → committed offset, end offset and lag."""
    found = {}
    for _, at, _, _, end in (row for row in rows if row[0] is None):
        for group in {row[0] for row in rows if row[0] is not None}:
            known = [row for row in rows if row[0] == group and row[1] <= at]
            last = max(known, key=lambda row: row[2], default=None)
            if last is not None and last[3] >= 0:
                found[group, at] = last[3], end, max(end - last[3], 0)
    return found


@settings(max_examples=portion(60))
@given(st.integers(0, 1 << 32))
def test_lags_do_not_depend_on_the_order_of_commits_and_snapshots(seed: int) -> None:
    random = Random(seed)
    snapshots = [(None, ms * 10, -1, -1, 100 + ms) for ms in range(0, 40, 4)]
    commits = [
        (
            random.choice("gh"),
            (offset + random.choice([0, 0, 5])) * 10 // 2,
            offset,
            random.choice([-1, offset, offset]),
            -1,
        )
        for offset in range(60)
    ]
    random.shuffle(snapshots)
    rows: list[tuple[Any, ...]] = []
    while snapshots or commits:  # commits of a log arrive in its order
        rows.append(snapshots.pop() if snapshots and (not commits or random.random() < 0.2) else commits.pop(0))
    driver = Driver(lambda: LagProcessor(keep_ms=10_000))
    latest: dict[tuple[str, str], dict[str, Any]] = {}
    at = 0
    while at < len(rows):
        size = random.choice([1, 3, 20])
        for row in driver.batch(("t", 0), rows[at : at + size], COLUMNS):
            latest[row["group"], row["timestamp"]] = row
        at += size
        there = {key: row for key, row in latest.items() if not row["deleted"]}
        got = sorted((row["group"], row["committed_offset"], row["end_offset"], row["lag"]) for row in there.values())
        assert got == sorted((group, *of) for (group, _), of in brute(rows[:at]).items())


def test_the_state_of_lags_stays_small_and_rates_continue() -> None:
    driver = Driver(lambda: LagProcessor(keep_ms=1000))
    rows = []
    for second in range(200):
        found = driver.batch(
            ("t", 0),
            [("g", second * 1000, second, second * 10, -1), (None, second * 1000 + 1, -1, -1, 20 * second)],
            COLUMNS,
        )
        rows += found
        assert len(driver.handles["t", 0].states["lags"].get()[1]) < 300
    assert [row["lag"] for row in rows] == [10 * second for second in range(200)]
    assert {row["production_rate"] for row in rows[1:]} == {20.0}
    assert {row["consumption_rate"] for row in rows[1:]} == {10.0}


def test_a_lag_above_its_limit_raises_one_alert_until_it_was_below() -> None:
    driver = Driver(lambda: LagAlertsProcessor(limit=50, keep_ms=100_000))
    for second, end in enumerate([40, 60, 80, 90, 30, 40, 95, 96]):
        driver.batch(("t", 0), [("g", second * 1000, second, 10, -1), (None, second * 1000, -1, -1, end)], COLUMNS)
    assert [(one["alert"], one["group"], one["value"], one["at"][17:19]) for one in driver.output] == [
        ("lag", "g", 70, "02"),
        ("lag", "g", 85, "06"),
    ]


def test_invalid_limits_are_errors() -> None:
    with pytest.raises(OptionError, match="storm_rebalances=1: give 2 or more"):
        Limits(storm_rebalances=1)
    with pytest.raises(OptionError, match="silence_ms=0"):
        Limits(silence_ms=0)
