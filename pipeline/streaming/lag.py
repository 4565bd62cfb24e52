"""`stream_lag`: lags of groups, from a stream of end offsets."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.pipeline.jobs.columns import is_control, present_types
from quorate.pipeline.jobs.lag import commits, snapshots
from quorate.pipeline.jobs.record_columns import COMMIT_FIELDS
from quorate.pipeline.local.lag import LAG
from quorate.pipeline.schema import BOOL, LONG, OptionError
from quorate.pipeline.streaming.keyed import Frames, Processor, changes
from quorate.pipeline.streaming.state import latest

LAG_CHANGES: pa.Schema = pa.schema([*LAG, ("version", LONG), ("deleted", BOOL)])
"""The columns of `lag`. The key is `group`, `topic`, `partition` and `timestamp`, the time of the
snapshot. Of rows with the same key, the one with the greatest `version` counts. A commit that
arrives after a later snapshot adds a new version. `deleted`: this was a deletion of the offset.
"""

LAG_KEY = ("group", "topic", "partition", "timestamp")

COLUMNS = ("group", "ms", "log_offset", "committed_offset", "end_offset")


def stream_lag(df: DataFrame, end_offsets: DataFrame, *, keep_ms: int = 600_000) -> DataFrame:
    """Return the lags at each snapshot: see `LAG_CHANGES`.

    `df`: as for `stream_group_state`, of one cluster. `end_offsets`: a stream with the columns that
    `lag` takes. Commits and snapshots may arrive in any order within `keep_ms`, by their own times:
    for this long, all commits are kept and the lags of a snapshot may change. Raises `OptionError`.
    """
    if keep_ms < 1:
        raise OptionError(f"keep_ms={keep_ms}: give 1 or more ms, the longest time between a snapshot and late commits")
    return changes(lag_rows(df, end_offsets), ("topic", "partition"), LagProcessor(keep_ms))


def latest_lag(found: DataFrame) -> DataFrame:
    """Return the table of `lag` from rows that `stream_lag` has written."""
    return latest(found, *LAG_KEY)


def lag_rows(df: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Return the union of commits and snapshots.

    Raises `OptionError` for missing columns, and if the end offsets are not a stream.
    """
    ends = snapshots(end_offsets)
    if not end_offsets.isStreaming:
        raise OptionError(
            "the end offsets are not a stream: read them with spark.readStream, for example from a folder of CSV files"
        )
    present_types(df, COMMIT_TYPES, COMMIT_FIELDS)
    marker = F.raise_error(
        F.lit("the stream contains transaction markers: read with isolation.level=read_committed, the default")
    )
    checked = df.where(F.when(is_control(), marker.cast("boolean")).otherwise(F.lit(True)))
    nothing = F.lit(None).cast("long")
    written = commits(checked, "read_committed").where("timestamp is not null")
    return written.select(
        "topic",
        "partition",
        "group",
        F.unix_millis("timestamp").alias("ms"),
        F.coalesce("log_offset", F.lit(-1)).alias("log_offset"),
        F.coalesce("committed_offset", F.lit(-1)).alias("committed_offset"),
        F.lit(-1).cast("long").alias("end_offset"),
    ).unionByName(
        ends.select(
            "topic",
            "partition",
            nothing.cast("string").alias("group"),
            F.unix_millis("timestamp").alias("ms"),
            F.lit(-1).cast("long").alias("log_offset"),
            F.lit(-1).cast("long").alias("committed_offset"),
            "end_offset",
        )
    )


@dataclass
class PartitionLag:
    """Commits and end offsets of one partition of a topic.

    `groups`: the commits of each group as log offset, ms, committed offset (-1: deleted). A commit
    is dropped once a later one in the log is not later in time. `ends`: ms of a snapshot → end
    offset. `old_ms`: earlier snapshots are kept for rates only.
    """

    groups: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    old_ms: int = -1

    @classmethod
    def load(cls, text: str | None) -> "PartitionLag":
        """Parse the result of `text`."""
        if text is None:
            return cls()
        groups, ends, old_ms = json.loads(text)
        return cls(
            {name: [tuple(one) for one in found] for name, found in groups.items()}, dict(map(tuple, ends)), old_ms
        )

    def text(self) -> str:
        """Return the value for the state store."""
        return json.dumps([self.groups, list(self.ends.items()), self.old_ms], separators=(",", ":"))

    def take(self, group: str | None, ms: int, log_offset: int, committed: int, end: int) -> None:
        """Add a commit, or a snapshot if `group` is `None`."""
        if group is None:
            if ms > self.old_ms:
                self.ends[ms] = max(end, self.ends.get(ms, -1))
            return
        found = {*self.groups.get(group, ()), (log_offset, ms, committed)}
        kept: list[tuple[int, int, int]] = []
        for one in sorted(found):
            while kept and kept[-1][1] >= one[1]:
                kept.pop()
            kept.append(one)
        self.groups[group] = kept

    def rows(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return the lags by group and ms of the snapshot, with times in µs."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        ends = sorted(self.ends.items())
        for group, commits_of in self.groups.items():
            before: tuple[int, int, int] | None = None
            at = -1
            for ms, end in ends:
                while at + 1 < len(commits_of) and commits_of[at + 1][1] <= ms:
                    at += 1
                if at < 0 or commits_of[at][2] < 0:
                    continue
                _, committed_ms, committed = commits_of[at]
                if ms > self.old_ms:
                    found[group, ms] = _row(ms, end, committed, committed_ms, before)
                before = ms, end, committed
        return found

    def forget(self, keep_ms: int) -> None:
        """Remove commits and snapshots that are older than `keep_ms`, except those still needed."""
        newest = max([*self.ends, *[found[-1][1] for found in self.groups.values()]], default=0)
        horizon = newest - keep_ms
        for group, found in list(self.groups.items()):
            first = max((number for number, one in enumerate(found) if one[1] <= horizon), default=0)
            # Rates need the commit at the snapshot before.
            old = [ms for ms in self.ends if ms <= horizon]
            if old:
                first = min(first, max((number for number, one in enumerate(found) if one[1] <= max(old)), default=0))
            kept = found[first:]
            if len(kept) == 1 and kept[0][2] < 0 and kept[0][1] <= horizon:
                del self.groups[group]
            else:
                self.groups[group] = kept
        old = sorted(ms for ms in self.ends if ms <= horizon)
        for ms in old[:-1]:
            del self.ends[ms]
        if old:
            self.old_ms = max(self.old_ms, old[-1])


def _row(ms: int, end: int, committed: int, committed_ms: int, before: tuple[int, int, int] | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "timestamp": ms * 1000,
        "committed_offset": committed,
        "committed_at": committed_ms * 1000,
        "end_offset": end,
        "lag": max(end - committed, 0),
    }
    gain = 0.0
    if before is not None:
        seconds = (ms - before[0]) / 1000
        row["production_rate"] = (end - before[1]) / seconds
        row["consumption_rate"] = (committed - before[2]) / seconds
        gain = row["consumption_rate"] - row["production_rate"]
    if row["lag"] == 0:
        row["drain_seconds"] = 0.0
    elif gain > 0:
        row["drain_seconds"] = row["lag"] / gain
    return row


class LagProcessor(Processor):
    """Lags of all groups on one partition of a topic."""

    schema = LAG_CHANGES

    def __init__(self, keep_ms: int) -> None:
        self.keep_ms = keep_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called by Spark."""
        self._lags = handle.getValueState("lags", "version long, json string")

    def take(self, key: tuple[Any, ...], frames: Frames) -> Iterable[dict[str, Any]]:
        """Return the changed lags of one micro-batch."""
        version, text = self._lags.get() or (0, None)
        lags = PartitionLag.load(text)
        before = lags.rows()
        for row in lag_tuples(frames):
            lags.take(*row)
        after = lags.rows()
        lags.forget(self.keep_ms)
        self._lags.update((version + 1, lags.text()))
        about = {"topic": key[0], "partition": key[1], "version": version + 1}
        found = [
            {"group": at[0]} | row | about | {"deleted": False} for at, row in after.items() if before.get(at) != row
        ]
        gone = [at for at in before if at not in after]
        found += [{"group": at[0], "timestamp": at[1] * 1000} | about | {"deleted": True} for at in gone]
        return found


def lag_tuples(frames: Frames) -> Iterator[tuple[str | None, int, int, int, int]]:
    """Return the rows of frames as arguments of `PartitionLag.take`."""
    for frame in frames:
        groups = [group if isinstance(group, str) else None for group in frame["group"].tolist()]
        yield from zip(groups, *[frame[name].tolist() for name in COLUMNS[1:]], strict=True)
