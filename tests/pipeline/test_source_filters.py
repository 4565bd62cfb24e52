"""Filter push-down leaves out no row that Spark would keep, and many that it would not."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", minversion="4.1")

from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from quorate.codecs import CoordinatorRecord, encode_record
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.messages import OffsetCommitKey, OffsetCommitValue
from quorate.pipeline.source import ConsumerOffsets, _FilteringReader
from tests.extent import portion
from tests.pipeline.helpers.file_logs import START_MS, write_log
from tests.pipeline.helpers.reading import EPOCH, rows_of

TIMES = st.integers(0, 1500).map(lambda ms: EPOCH + timedelta(milliseconds=START_MS + ms)) | st.integers(
    0, 1_500_000
).map(lambda us: EPOCH + timedelta(milliseconds=START_MS, microseconds=us))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["OffsetCommit", "GroupMetadata", "Control", "none such"]),
    "group": st.sampled_from(["group-0", "group-1", "group-2", "", "groüp"]),
    "partition": st.integers(3, 7),
    "offset": st.integers(-1, 150) | st.integers(990, 1150),
    "timestamp": TIMES,
    "tombstone": st.booleans(),
}
COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, other: value == other,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: value >= other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: value <= other,
    In: lambda value, others: value in others,
    StringStartsWith: lambda value, other: value.startswith(other),
    StringContains: lambda value, other: other in value,
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(VALUES)))
    path, value = (column,), VALUES[column]
    kinds: list[st.SearchStrategy[Filter]] = [
        st.just(IsNull(path)),
        st.just(IsNotNull(path)),
        st.builds(EqualTo, st.just(path), value),
        st.builds(EqualNullSafe, st.just(path), value | st.none()),
        st.builds(In, st.just(path), st.lists(value, min_size=1, max_size=3).map(tuple)),
        st.sampled_from([GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]).flatmap(
            lambda kind: st.builds(kind, st.just(path), value)
        ),
    ]
    if column in ("type", "group"):
        kinds.append(st.builds(StringStartsWith, st.just(path), st.sampled_from(["g", "group-1", "Off", ""])))
        kinds.append(st.builds(StringContains, st.just(path), st.sampled_from(["roup", "1"])))
    found = draw(st.one_of(kinds))
    return draw(st.sampled_from([found, found, Not(found)]))


def holds(found: Filter, row: dict[str, Any]) -> bool | None:
    """Return whether a filter matches a row, in SQL's logic: `None` for null, also negated."""
    match found:
        case Not(child=child):
            inside = holds(child, row)
            return None if inside is None else not inside
        case IsNull(attribute=(column,)):
            return row[column] is None
        case IsNotNull(attribute=(column,)):
            return row[column] is not None
        case EqualNullSafe(attribute=(column,), value=value):
            return bool(row[column] == value)
    column, value = found.attribute[0], found.value  # type: ignore[attr-defined]  # all others have them
    return None if row[column] is None else COMPARISONS[type(found)](row[column], value)


@pytest.fixture(scope="module")
def all_rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[Path, list[dict[str, Any]]]]:
    """Return a function of a seed that returns a log and its rows."""

    @cache
    def made(seed: int) -> tuple[Path, list[dict[str, Any]]]:
        log = write_log(tmp_path_factory.mktemp("log") / "__consumer_offsets-5", Random(seed))
        return log, rows_of(log, isolation_level="read_uncommitted")

    return made


@settings(max_examples=portion(100))
@given(st.integers(0, 5), st.lists(filters(), min_size=1, max_size=3), st.sampled_from([2000, 1 << 20]))
def test_rows_that_match_all_filters_are_read(
    all_rows: Callable[[int], tuple[Path, list[dict[str, Any]]]], seed: int, pushed: list[Filter], size: int
) -> None:
    log, rows = all_rows(seed)
    found = rows_of(log, pushed, isolation_level="read_uncommitted", maxSplitBytes=size)
    kept = [row for row in found if all(holds(one, row) for one in pushed)]
    wanted = [row for row in rows if all(holds(one, row) for one in pushed)]
    assert sorted(kept, key=itemgetter("offset")) == sorted(wanted, key=itemgetter("offset"))


@pytest.mark.parametrize(
    "pushed",
    [
        EqualTo(("type",), "GroupMetadata"),
        In(("group",), ("group-1", "group-3")),
        StringStartsWith(("group",), "group-2"),
        GreaterThan(("offset",), 100),
        LessThan(("timestamp",), EPOCH + timedelta(milliseconds=START_MS + 300)),
    ],
    ids=repr,
)
def test_records_excluded_by_a_filter_are_not_decoded(tmp_path: Path, pushed: Filter) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(13))
    found = rows_of(log, [pushed], isolation_level="read_uncommitted")
    assert found
    # Rows with an error are read anyway; Spark filters them.
    assert all(holds(pushed, row) for row in found if row["error"] is None)


def test_spark_applies_all_filters_again() -> None:
    reader = _FilteringReader(ConsumerOffsets({"path": "x"}).parsed)
    pushed = [EqualTo(("type",), "OffsetCommit"), IsNull(("offset_commit", "metadata"))]
    assert list(reader.pushFilters(pushed)) == pushed
    assert reader.wanted.types == {"OffsetCommit"}


def test_a_time_without_a_zone_is_not_used_as_a_filter() -> None:
    reader = _FilteringReader(ConsumerOffsets({"path": "x"}).parsed)
    reader.pushFilters([EqualTo(("timestamp",), datetime(2026, 1, 1))])  # noqa: DTZ001  # that is the point
    assert reader.wanted.times == (None, None)


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session that pushes filters down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_spark_pushes_filters_down_if_its_config_and_our_option_are_set(pushing: SparkSession, tmp_path: Path) -> None:
    log = str(write_log_of_commits(tmp_path / "__consumer_offsets-0"))

    def offsets(**options: str) -> list[Any]:
        read = pushing.read.format("consumer-offsets").options(
            mode="FAILFAST", types="OffsetCommit,GroupMetadata", **options
        )
        return read.load(log).where("type = 'GroupMetadata' and offset >= 0").select("offset").collect()

    assert offsets(pushFilters="true") == []
    with pytest.raises(PythonException, match=r"__consumer_offsets-0, offset 1: .*truncated.* of the value"):
        offsets()
    # Spark rejects readers with `pushFilters` if it does not push filters.
    pushing.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    with pytest.raises(PythonException, match="truncated"):
        offsets(pushFilters="true")


def test_a_reused_dataframe_has_all_rows_although_spark_pushes_filters(pushing: SparkSession, tmp_path: Path) -> None:
    log = write_log_of_commits(tmp_path / "__consumer_offsets-0")
    rows = pushing.read.format("consumer-offsets").option("types", "OffsetCommit").load(str(log))
    assert [rows.where("offset = 0").count(), rows.count()] == [1, 2]


def write_log_of_commits(folder: Path) -> Path:
    """Write two commits, the second of which is damaged."""
    folder.mkdir(parents=True)
    key, value = encode_record(
        CoordinatorRecord(
            key=OffsetCommitKey(group="g", topic="t", partition=0),
            value=OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp=0),
            version=3,
        )
    )
    records = [
        BatchRecord(offset=0, timestamp_ms=START_MS, key=key, value=value),
        BatchRecord(offset=1, timestamp_ms=START_MS, key=key, value=(value or b"")[:5]),
    ]
    (folder / "00000000000000000000.log").write_bytes(encode_batch(records))
    return folder
