"""The local engine: reading of logs and live clusters, and its errors.

Rows are compared with those of Spark in the tests of each job.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from quorate.codecs.errors import InputError
from quorate.pipeline import local
from quorate.pipeline.schema import OptionError
from tests.extent import portion
from tests.pipeline.conftest import CAPTURES
from tests.pipeline.helpers.jobs import captured, stored_rows, table_of
from tests.pipeline.helpers.random_logs import random_commits, random_groups
from tests.pipeline.test_push_down import by_clocks_that_differ, write

UPGRADE = CAPTURES / "upgrade-4.0-to-4.3-and-back"


@pytest.mark.parametrize("seed", range(portion(12)))
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_skipped_records_change_no_result(tmp_path: Path, seed: int, level: str) -> None:
    stored = by_clocks_that_differ((random_groups if seed % 2 else random_commits)(seed), seed)
    times = sorted(one.timestamp_ms for one in stored)
    log = local.read(write(tmp_path / "__consumer_offsets-0", stored, segments=3), options={"isolation.level": level})
    table = log.table()
    ends: list[Any] = [None, times[len(times) // 2], {0: stored[len(stored) // 2].offset}]
    for as_of in ends:
        found = local.group_state(log, as_of, isolation_level=level)
        assert found.rows.equals(local.group_state(table, as_of, isolation_level=level).rows), as_of
        assert local.upgrade_audit(log, as_of=as_of).equals(local.upgrade_audit(table, as_of=as_of)), as_of
    needed = sum(part.num_rows for part in log.logs("state", None))
    assert needed < table.num_rows or table.num_rows < 30


def test_options_of_the_source_apply() -> None:
    partition = local.read(UPGRADE, options={"partitions": "1"})
    assert set(local.group_state(partition).groups.column("log_partition").to_pylist()) == {1}
    assert 0 < partition.size_bytes() < local.read(UPGRADE).size_bytes()
    commits = local.read(UPGRADE, options={"types": "OffsetCommit"})
    assert local.group_state(commits).offsets.num_rows > 10
    with pytest.raises(OptionError, match="no columns of"):
        local.rebalances(commits)
    with pytest.raises(OptionError, match="mode"):
        local.read(UPGRADE, options={"mode": "LOOSE"})


def test_all_paths_are_read() -> None:
    one, other = (UPGRADE / f"__consumer_offsets-{number}" for number in (1, 2))
    both = local.group_state(local.read(one, other)).groups
    assert both.num_rows == sum(local.group_state(local.read(path)).groups.num_rows for path in (one, other))


def test_a_segment_may_have_another_name(tmp_path: Path) -> None:
    (source,) = (UPGRADE / "__consumer_offsets-1").glob("*.log")
    copy = tmp_path / "copy of a segment.log"
    copy.write_bytes(source.read_bytes())
    groups = local.group_state(local.read(copy)).groups
    assert groups.num_rows > 0
    assert groups.drop(["log_partition"]).equals(local.group_state(local.read(source)).groups.drop(["log_partition"]))


def test_identical_rows_count_once_and_different_ones_are_errors() -> None:
    rows = pa.concat_tables(captured(["consumer-4.3"]))
    assert local.group_state(pa.concat_tables([rows, rows])).rows.equals(local.group_state(rows).rows)
    two = pa.concat_tables([stored_rows(random_commits(3, groups), "log") for groups in (("a", "b"), ("c", "d"))])
    with pytest.raises(InputError, match=r"log-0, offset .* two different records at this offset"):
        local.group_state(two)


def test_copies_of_a_partition_are_one_log(tmp_path: Path) -> None:
    stored = random_commits(5)
    for name in ("a", "b"):
        write(tmp_path / name / "__consumer_offsets-0", stored)
    wanted = local.group_state(local.read(tmp_path / "a")).rows
    assert local.group_state(local.read(tmp_path / "a", tmp_path / "b")).rows.equals(wanted)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda rows: local.group_state(rows.drop_columns(["offset"])), OptionError, "no column offset"),
        (lambda rows: local.group_state(rows, as_of="yesterday"), OptionError, "as_of is 'yesterday'"),
        (lambda rows: local.group_state(rows, as_of={}), OptionError, "as_of needs partitions"),
        (lambda rows: local.group_state(rows, isolation_level="dirty"), OptionError, "read_committed or"),
        (
            lambda rows: local.group_state(rows.drop_columns(["control"]), isolation_level="read_uncommitted"),
            OptionError,
            "transaction markers",
        ),
        (lambda rows: local.group_state(without_offsets(rows)), InputError, "cannot be ordered"),
        (lambda _: local.group_state("logs"), OptionError, r"rows are of type str; use read\(path\)"),
        (lambda rows: local.storms(rows), OptionError, r"the result of rebalances\(rows\)"),
        (lambda _: local.storms(local.read(str(UPGRADE))), OptionError, "storms are found in the result"),
        (lambda _: local.read(""), OptionError, "the path is empty"),
        (lambda _: local.read(["logs"]), OptionError, "several paths are several arguments"),
    ],
)
def test_invalid_input_is_an_error_of_one_line(change: Any, error: type[Exception], message: str) -> None:
    rows = table_of(UPGRADE / "__consumer_offsets-1")
    with pytest.raises(error, match=message) as found:
        change(rows)
    assert "\n" not in str(found.value)


def without_offsets(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("offset")
    return rows.set_column(at, rows.schema.field(at), pa.nulls(rows.num_rows, pa.int64()))
