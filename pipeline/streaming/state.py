"""`stream_group_state`: changes of the state of groups; `latest_state` makes tables of them."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from quorate.codecs import Uuid
from quorate.codecs.record_text import learn_names
from quorate.coordinator.state import CoordinatorState
from quorate.pipeline.jobs.columns import present_types
from quorate.pipeline.jobs.moments import LOG
from quorate.pipeline.jobs.state import GroupState
from quorate.pipeline.jobs.state_rows import STATE, state_rows
from quorate.pipeline.schema import BOOL, LONG, TIME
from quorate.pipeline.streaming.group_rows import KEY, VALUE, GroupRows, entry
from quorate.pipeline.streaming.keyed import Frames, Processor, changes, keyed_rows, rows_after

STATE_CHANGES: pa.Schema = pa.schema(
    [
        *[field for field in STATE if field.name != "skipped"],
        ("version", LONG),
        ("changed_at", TIME),
        ("deleted", BOOL),
    ]
)
"""The columns of `group_state`'s rows except `skipped`. The key is `log_topic`, `log_partition`,
`group`. Of rows with the same key, the one with the greatest `version` counts: the offset of the
last record in the row, which was written at `changed_at`. `deleted`: the group does not exist.
"""

GROUP_KEY = ("log_topic", "log_partition", "group")


def stream_group_state(df: DataFrame) -> DataFrame:
    """Return the state of groups after each micro-batch that changed them: see `STATE_CHANGES`.

    `df`: a stream of committed rows of the source or of `decode`. Rows of a log must arrive in the
    order of their offsets, as they do from both. A row is skipped if its offset is not after that
    of the last row of its group. Raises `OptionError` for missing columns, configs or packages.
    """
    rows = keyed_rows(df, present_types(df))
    return changes(rows, (*LOG, "group"), StateProcessor())


def latest(found: DataFrame, *keys: str) -> DataFrame:
    """Return the last version of each key from rows of a stream, without deleted ones."""
    last = found.groupBy(*keys).agg(F.max_by(F.struct(*found.columns), "version").alias("row"))
    return last.select("row.*").where("not deleted").drop("version", "changed_at", "deleted")


def latest_state(found: DataFrame) -> GroupState:
    """Return the tables of `group_state` from rows that `stream_group_state` has written.

    `skipped` is empty.
    """
    nothing = F.lit(None).cast("array<struct<reason:string,records:bigint>>")
    return GroupState(latest(found, *GROUP_KEY).withColumn("skipped", nothing))


def group_row(group_rows: GroupRows, partition: int | None, group: str) -> dict[str, Any] | None:
    """Return a row of `STATE` without its log; `None` if the group does not exist."""
    state = CoordinatorState()
    names: dict[Uuid, str] = {}
    for only_creates, row in group_rows.in_order():
        if only_creates:
            state.need_group(group)
            continue
        one = entry(row, partition, group)
        learn_names(names, one.record)
        state.replay(one.record, offset=one.offset, producer_id=-1)
    return next((row for row in state_rows(state, names) if row.get("group") == group), None)


class StateProcessor(Processor):
    """State of one group."""

    schema = STATE_CHANGES

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called by Spark."""
        self._applied = handle.getValueState("applied", "offset long")
        self._rows = handle.getMapState("rows", KEY, VALUE)

    def take(self, key: tuple[Any, ...], frames: Frames) -> Iterable[dict[str, Any]]:
        """Return the state of the group after one micro-batch, if it has new rows."""
        topic, partition, group = key
        (applied,) = self._applied.get() or (-1,)
        new = rows_after(frames, applied)
        if not new:
            return []
        group_rows = GroupRows.load(self._rows)
        for row in new:
            group_rows.take(row)
        found = group_row(group_rows, partition, group)
        if found is None and group_rows.is_dead:
            self._applied.clear()
            self._rows.clear()
        else:
            self._applied.update((new[-1].offset,))
            group_rows.store(self._rows)
        about = {
            "log_topic": topic,
            "log_partition": partition,
            "group": group,
            "version": new[-1].offset,
            "changed_at": None if new[-1].ms < 0 else new[-1].ms * 1000,
            "deleted": found is None,
        }
        return [(found or {}) | about]
