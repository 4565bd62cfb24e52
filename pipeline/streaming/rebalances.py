"""`stream_rebalances`: a row when a group epoch or generation begins, and again when it ends."""

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from quorate.codecs import Uuid
from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline.jobs.columns import known_timestamp, membership, present_types
from quorate.pipeline.jobs.moments import LOG
from quorate.pipeline.jobs.rebalance_rows import REBALANCES, GroupRebalances
from quorate.pipeline.schema import BOOL, LONG
from quorate.pipeline.streaming.group_rows import KEY, VALUE, GroupRows, Packed, entry
from quorate.pipeline.streaming.keyed import Frames, Processor, changes, keyed_rows, rows_after
from quorate.pipeline.streaming.state import latest

REBALANCE_CHANGES: pa.Schema = pa.schema([*REBALANCES, ("version", LONG), ("deleted", BOOL)])
"""The columns of `REBALANCES`. The key is `log_topic`, `log_partition`, `group`, `log_offset`. Of
rows with the same key, the one with the greatest `version` counts: the offset of the last record in
the row. `deleted`: later records of the same write showed that it was not a rebalance.
"""

REBALANCE_KEY = ("log_topic", "log_partition", "group", "log_offset")


def stream_rebalances(df: DataFrame) -> DataFrame:
    """Return the rebalances that began or changed: see `REBALANCE_CHANGES`.

    `df`: as for `stream_group_state`. Offset commits may be left out, other record types may not.
    """
    types = [one.name for one in RECORD_TYPES[CONSUMER_OFFSETS].values() if one.name not in COMMIT_TYPES]
    rows = keyed_rows(membership(df).withColumn("timestamp", known_timestamp()), present_types(df, types))
    return changes(rows, (*LOG, "group"), RebalancesProcessor())


def latest_rebalances(found: DataFrame) -> DataFrame:
    """Return the table of `rebalances` from rows that `stream_rebalances` has written."""
    return latest(found, *REBALANCE_KEY)


class Replayed:
    """The rebalances of a group, replayed from its state.

    The state is the rows before the last write, and that write, which may not be complete.
    """

    def __init__(self, group_rows: GroupRows, state: dict[str, Any], partition: int | None, group: str) -> None:
        self._partition, self._group = partition, group
        names = {Uuid.parse(topic_id): name for topic_id, name in state.get("names", {}).items()}
        row = state.get("row")
        before = (entry(one, partition, group) for _, one in group_rows.in_order())
        self._followed = GroupRebalances(group, before, None if row is None else dict(row), names)
        self.rows: list[dict[str, Any]] = []

    def take(self, row: Packed) -> None:
        """Apply the next record."""
        self.rows += self._followed.take(entry(row, self._partition, self._group))

    def state(self) -> dict[str, Any]:
        """Return the state apart from rows, if the last write begins here."""
        row = self._followed.row
        return {
            "row": None if row is None else dict(row),
            "names": {str(topic_id): name for topic_id, name in self._followed.names.items()},
        }

    def finish(self) -> dict[int, dict[str, Any]]:
        """Return all rebalances by their offset."""
        self.rows += self._followed.finish()
        return {row["log_offset"]: row for row in self.rows}


class RebalancesProcessor(Processor):
    """Rebalances of one group."""

    schema = REBALANCE_CHANGES

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called by Spark."""
        self._state = handle.getValueState("state", "applied long, json string")
        self._rows = handle.getMapState("rows", KEY, VALUE)

    def take(self, key: tuple[Any, ...], frames: Frames) -> Iterable[dict[str, Any]]:
        """Return the changed rebalances of one micro-batch."""
        topic, partition, group = key
        applied, text = self._state.get() or (-1, "{}")
        state = json.loads(text)
        new = rows_after(frames, applied)
        if not new:
            return []
        group_rows = GroupRows.load(self._rows)
        tail = [Packed(*one) for one in state.get("tail", ())]
        earlier = Replayed(group_rows, state, partition, group)
        for row in tail:
            earlier.take(row)
        before = earlier.finish()
        # All writes but the last are complete.
        both = [*tail, *new]
        first = len(both) - 1
        while first and both[first - 1].ms == both[first].ms:
            first -= 1
        now = Replayed(group_rows, state, partition, group)
        for number, row in enumerate(both):
            now.take(row)
            if number == first:
                state = now.state()
        after = now.finish()
        for row in both[:first]:
            group_rows.take(row)
        if group_rows.is_dead:
            # The tail keeps the last write, which may create the group again, as another kind.
            group_rows.clear()
        group_rows.store(self._rows)
        state["tail"] = both[first:]
        self._state.update((both[-1].offset, json.dumps(state, separators=(",", ":"))))
        about = {"log_topic": topic, "log_partition": partition, "group": group, "version": both[-1].offset}
        found = [row | about | {"deleted": False} for offset, row in after.items() if before.get(offset) != row]
        found += [row | about | {"deleted": True} for offset, row in before.items() if offset not in after]
        return found
