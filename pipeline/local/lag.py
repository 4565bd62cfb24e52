"""`lag` without Spark, as an Arrow table. Spark computes the same with windows in the JVM."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.errors import InputError
from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.pipeline.jobs.moments import AsOf, moment_of
from quorate.pipeline.jobs.record_columns import (
    COMMIT_FIELDS,
    MAX_TIMES,
    OWNED,
    TOO_LARGE,
    WHOLE_NUMBER,
    check_end_offsets,
)
from quorate.pipeline.local.log import Source, logs, present, uses_markers
from quorate.pipeline.local.survivors import is_in_transaction, outcomes
from quorate.pipeline.schema import CONTROL, DOUBLE, INT, LATEST_MS, LONG, TEXT, TIME, column_of

__all__ = ["LAG", "lag", "snapshots"]

LAG: pa.Schema = pa.schema(
    {
        "group": TEXT,
        "topic": TEXT,
        "partition": INT,
        "timestamp": TIME,
        "committed_offset": LONG,
        "committed_at": TIME,
        "end_offset": LONG,
        "lag": LONG,
        "production_rate": DOUBLE,
        "consumption_rate": DOUBLE,
        "drain_seconds": DOUBLE,
    }
)
"""The columns of `lag`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEFORE_ALL = np.iinfo(np.int64).min
_TEXTS = pa.dictionary(pa.int32(), TEXT)
_COMMITS: pa.Schema = pa.schema(
    {"group": _TEXTS, "topic": _TEXTS, "partition": INT, "log_offset": LONG, "timestamp": LONG, "committed": LONG}
)
Numbers = Any
"""A NumPy array of int64."""


def lag(
    rows: Source, end_offsets: pa.Table, *, as_of: AsOf | None = None, isolation_level: str | None = None
) -> pa.Table:
    """Return the lag of each group on each committed partition, at each snapshot of end offsets.

    As `quorate.pipeline.lag`, by group, topic, partition and time. `rows`: as for `group_state`.
    `end_offsets`: columns `topic`, `partition`, `timestamp` (a timestamp, text of one, or ms since
    1970) and `end_offset`. Raises `OptionError` for missing columns, and `InputError` for text that
    is not a time or number.
    """
    ends = snapshots(end_offsets)
    types = [one.name for one in present(rows, COMMIT_TYPES, COMMIT_FIELDS)]
    if as_of is not None and not isinstance(as_of, Mapping):
        ends = ends.filter(pc.less_equal(ends.column("timestamp"), _since_1970(moment_of(as_of))))
    with_markers = uses_markers(rows, isolation_level)
    times_ms = np.unique(ends.column("timestamp").to_numpy() // 1000).tolist()
    found = logs(
        rows,
        "commits",
        as_of,
        [*COMMIT_TYPES, *([CONTROL] if with_markers else [])],
        tuple(times_ms) if len(times_ms) <= MAX_TIMES else (),
    )
    written = pa.concat_tables([_COMMITS.empty_table(), *(_commits(log, types, with_markers) for log in found)])
    return _atsnapshots(written.unify_dictionaries().combine_chunks(), ends)


def _commits(log: pa.Table, types: list[str], with_markers: bool) -> pa.Table:
    """Return the effective offset commits of a log, see `quorate.pipeline.jobs.lag.commits`."""
    times = log.column("timestamp")
    if with_markers:
        _, committed, settled_at = outcomes(log)
        inside = is_in_transaction(log)
        times = pc.if_else(inside, settled_at, times)
        effective = pc.or_(pc.invert(inside), pc.fill_null(committed, False))
        effective = pc.and_(effective, pc.not_equal(log.column("type"), CONTROL))
        log, times = log.filter(effective), times.filter(effective)
    micros = times.cast(TIME).cast(LONG)
    valid = pc.and_(pc.greater_equal(micros, 0), pc.less_equal(micros, LATEST_MS * 1000 + 999))
    topic, partition, offset = (
        pc.coalesce(*[pc.struct_field(log.column(column_of(one)), name) for one in types]) for name in COMMIT_FIELDS
    )
    columns = [log.column("group"), topic, partition, log.column("offset"), pc.if_else(valid, micros, None), offset]
    found = pa.table(columns, _COMMITS.names)
    return found.filter(pc.and_(pc.is_valid(topic), pc.is_valid(partition))).cast(_COMMITS)


@dataclass(frozen=True)
class _Keys:
    """The groups and partitions of commits, sorted, and the key of each commit by its number."""

    table: pa.Table
    of_commits: Numbers

    @classmethod
    def of(cls, written: pa.Table) -> "_Keys":
        groups, group = _numbered(written.column("group"))
        topics, topic = _numbered(written.column("topic"))
        partitions, partition = np.unique(written.column("partition").to_numpy(), return_inverse=True)
        shape = len(groups), len(topics), len(partitions)
        found, of_commits = np.unique(np.ravel_multi_index((group, topic, partition), shape), return_inverse=True)
        at = np.unravel_index(found, shape)
        columns = [
            values.take(pa.array(one)) for values, one in zip((groups, topics, pa.array(partitions)), at, strict=True)
        ]
        return cls(pa.table(columns, OWNED), of_commits)

    def snapshots(self, ends: pa.Table) -> tuple[Numbers, pa.Table]:
        """Return the snapshots of each key's partition: numbers of keys, and a row for each."""
        table = self.table.select(["topic", "partition"]).append_column("key", pa.array(np.arange(len(self.table))))
        found = table.join(ends, ["topic", "partition"], join_type="inner")
        return found.column("key").to_numpy(), found


def _numbered(texts: pa.ChunkedArray) -> tuple[pa.Array, Numbers]:
    """Return the distinct texts, sorted, and the number of each text."""
    encoded = texts.combine_chunks()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), numbers[encoded.indices.to_numpy()]


def _atsnapshots(written: pa.Table, ends: pa.Table) -> pa.Table:
    """Return the rows of `LAG`: the last commit of each key at each snapshot of its partition."""
    keys = _Keys.of(written)
    of_snapshots, of_keys = keys.snapshots(ends)
    times = pc.fill_null(written.column("timestamp"), _BEFORE_ALL).to_numpy()
    end_times = of_keys.column("timestamp").to_numpy()
    # By time for each key, commits at the time of a snapshot first.
    commits = len(times)
    key, time = np.concatenate([keys.of_commits, of_snapshots]), np.concatenate([times, end_times])
    order = np.lexsort((np.arange(len(key)) >= commits, time, key))
    # The commit with the highest offset in the log counts, even if the marker of its transaction is
    # later than another commit. So the last one is a running maximum, which `key` starts again.
    by_rank = _by_offset(written, times)
    rank = np.zeros(len(key), np.int64)
    rank[by_rank] = np.arange(commits) + 1
    start = key * (commits + 1)
    last = np.maximum.accumulate((rank + start)[order]) - start[order]
    chosen = (order >= commits) & (last > 0)
    row, snapshot = pa.array(by_rank[last[chosen] - 1]), pa.array(order[chosen] - commits)
    found = pa.table(
        {
            "key": pa.array(of_snapshots).take(snapshot),
            "timestamp": of_keys.column("timestamp").take(snapshot),
            "committed_offset": written.column("committed").take(row),
            "committed_at": written.column("timestamp").take(row).cast(TIME),
            "end_offset": of_keys.column("end_offset").take(snapshot),
        }
    ).filter(pc.field("committed_offset").is_valid())
    owned = keys.table.take(found.column("key"))
    for name, column in zip(found.schema.names[1:], found.columns[1:], strict=True):
        owned = owned.append_column(name, column)
    return _with_rates(owned, found.column("key").to_numpy())


def _by_offset(written: pa.Table, times: Numbers) -> Numbers:
    """Return the numbers of commits in the order of their offsets in the log.

    Rows of several logs at one offset are in the order of Spark's structs.
    """
    committed = written.column("committed")
    offsets = written.column("log_offset").to_numpy()
    return np.lexsort((times, pc.fill_null(committed, 0).to_numpy(), committed.is_valid().to_numpy(), offsets))


def _with_rates(found: pa.Table, key: Numbers) -> pa.Table:
    """Add lag, rates, and the time to catch up to rows by key and time."""
    end, committed, micros = (found.column(name).to_numpy() for name in ("end_offset", "committed_offset", "timestamp"))
    missing = np.maximum(end - committed, 0)
    again = np.flatnonzero(key[1:] == key[:-1]) + 1  # rows with an earlier one of the same key
    seconds = (micros[again] - micros[again - 1]) / 1e6
    production, consumption, drain = (np.full(len(key), np.nan) for _ in range(3))
    production[again] = (end[again] - end[again - 1]) / seconds
    consumption[again] = (committed[again] - committed[again - 1]) / seconds
    gain = consumption - production
    shrinks = gain > 0
    drain[shrinks] = missing[shrinks] / gain[shrinks]
    drain[missing == 0] = 0.0
    rates = [pa.array(one, mask=np.isnan(one)) for one in (production, consumption, drain)]
    return pa.table([*found.columns, pa.array(missing), *rates], LAG.names).cast(LAG)


def snapshots(end_offsets: pa.Table) -> pa.Table:
    """Return the end offsets with numbers, times in µs, and the highest of each partition and time.

    Incomplete rows are omitted. Raises `OptionError` and `InputError`.
    """
    check_end_offsets(end_offsets.schema.names)
    columns = {
        "topic": end_offsets.column("topic").cast(TEXT),
        "partition": _fitting(end_offsets.column("partition"), INT, "partition"),
        "timestamp": _micros(end_offsets.column("timestamp")),
        "end_offset": _fitting(end_offsets.column("end_offset"), LONG, "end_offset"),
    }
    found = pa.table(columns).drop_null()
    names = ["topic", "partition", "timestamp"]
    return found.group_by(names).aggregate([("end_offset", "max")]).rename_columns([*names, "end_offset"])


def _micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = times.type
    if pa.types.is_integer(kind):
        for value in pc.unique(times.filter(pc.or_(pc.less(times, 0), pc.greater(times, LATEST_MS)))).to_pylist():
            raise _invalid("timestamp", value, "ms since 1970")
        return pc.multiply(times.cast(LONG), 1000)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.chunked_array([pa.array(map(_time, times.to_pylist()), LONG)])
    try:
        return times.cast(pa.timestamp("us"), safe=False).cast(LONG)
    except pa.ArrowNotImplementedError as error:
        raise _invalid("timestamp", times[0], "a time") from error


def _since_1970(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise _invalid("timestamp", text, "a time such as 2026-11-21T08:00:00Z") from error
    return _since_1970(time if time.tzinfo is not None else time.replace(tzinfo=UTC))


def _fitting(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.utf8_trim_whitespace(column)
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        pass
    for value in column.to_pylist():
        try:
            pa.scalar(value, column.type).cast(kind)
        except pa.ArrowInvalid as error:
            if re.fullmatch(WHOLE_NUMBER, str(value)):
                raise InputError(f"end offsets: {name} is '{value}', which is {TOO_LARGE[name]}") from error
            raise _invalid(name, value, "a number") from error
    raise AssertionError(f"{name}: {column.type} fits {kind}")


def _invalid(name: str, value: object, wanted: str) -> InputError:
    return InputError(f"end offsets: {name} is '{value}', which is not {wanted}")
