"""`rebalances`, `storms` and `upgrade_audit` without Spark, as Arrow tables."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from quorate.assignors import Topology
from quorate.codecs.errors import InputError
from quorate.codecs.log.model import LogEntry
from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES
from quorate.coordinator.config import CoordinatorConfig
from quorate.pipeline.jobs import audit_rows, rebalance_rows
from quorate.pipeline.jobs.audit_rows import AUDIT
from quorate.pipeline.jobs.moments import LOG, NO_TIME, AsOf
from quorate.pipeline.jobs.rebalance_rows import REBALANCES, check_storm
from quorate.pipeline.jobs.records import Row, entries
from quorate.pipeline.local.log import Source, logs, present, records_of
from quorate.pipeline.schema import INT, LONG, TEXT, TIME, OptionError

STORMS: pa.Schema = pa.schema(
    {
        "log_topic": TEXT,
        "log_partition": INT,
        "group": TEXT,
        "started_at": TIME,
        "ended_at": TIME,
        "rebalances": LONG,
        "partitions_moved": LONG,
        "causes": pa.map_(TEXT, INT),
    }
)
"""The columns of `storms`."""

_ENDS = ("completed_at", "superseded_at", "started_at")
"""The end of a rebalance: the first that is known."""

OF_STORMS = ("log_topic", "log_partition", "group", *_ENDS, "partitions_moved", "causes")
"""The columns of `rebalances` that determine the storms."""


def rebalances(rows: Source, as_of: AsOf | None = None) -> pa.Table:
    """Return all rebalances of all groups, as `quorate.pipeline.rebalances` does.

    `rows`: as for `group_state`. Raises `OptionError` for missing columns, and `InputError` for a
    row without a timestamp.
    """
    return _per_group(rows, as_of, rebalance_rows.rows_of_group, REBALANCES, needs_time=True)


def upgrade_audit(
    rows: Source,
    topology: Topology | None = None,
    *,
    as_of: AsOf | None = None,
    config: CoordinatorConfig | None = None,
) -> pa.Table:
    """Return the effects of upgrades on groups, as `quorate.pipeline.upgrade_audit` does.

    `rows`: as for `group_state`. Raises `OptionError` for missing columns.
    """
    topics = None if topology is None else {topic.name: topic for topic in topology.topics}
    coordinator_config = config or CoordinatorConfig()

    def found(records: Iterable[LogEntry], group_id: str) -> Iterator[Row]:
        return audit_rows.rows_of_group(records, group_id, coordinator_config, topics)

    return _per_group(rows, as_of, found, AUDIT, needs_time=False)


def _per_group(
    rows: Source,
    as_of: AsOf | None,
    rows_of_group: Callable[[Iterable[LogEntry], str], Iterator[Row]],
    schema: pa.Schema,
    *,
    needs_time: bool,
) -> pa.Table:
    """Return the rows of each group, from its records other than committed offsets."""
    wanted = [one.name for one in RECORD_TYPES[CONSUMER_OFFSETS].values() if one.name not in COMMIT_TYPES]
    types = [one.name for one in present(rows, wanted)]
    found: list[Row] = []
    for log in logs(rows, "groups", as_of, types):
        if needs_time and log.column("timestamp").null_count:
            raise InputError(NO_TIME)
        groups: dict[str, list[tuple[Row, Any]]] = {}
        for row, record in records_of(log):
            groups.setdefault(row["group"], []).append((row, record))
        for group_id in sorted(groups):
            at = dict(zip(("log_topic", "log_partition"), (groups[group_id][0][0][name] for name in LOG), strict=True))
            records = entries(groups[group_id])
            found += [at | {"group": group_id} | row for row in rows_of_group(records, group_id)]
    return pa.Table.from_pylist(found, schema)


def storms(found: pa.Table, *, window_ms: int = 300_000, at_least: int = 5) -> pa.Table:
    """Return the storms: at least `at_least` rebalances of a group within `window_ms`.

    As `quorate.pipeline.storms`; `found` is the result of `rebalances`. Raises `OptionError`.
    """
    check_storm(window_ms, at_least)
    if not isinstance(found, pa.Table) or "started_at" not in found.column_names:
        raise OptionError("storms are found in the result of rebalances(rows)")
    names = list(OF_STORMS[:3])
    whole = found.select(OF_STORMS)
    for name in _ENDS:
        whole = whole.set_column(whole.schema.get_field_index(name), name, whole.column(name).cast(LONG))
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in whole.to_pylist():
        if row["started_at"] is not None:
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
    rows = []
    for at, known in groups.items():
        known.sort(key=lambda row: row["started_at"])
        for inside in _storms(known, window_ms, at_least):
            causes = Counter(cause for row in inside for cause in row["causes"] or ())
            rows.append(
                dict(zip(names, at, strict=True))
                | {
                    "started_at": inside[0]["started_at"],
                    "ended_at": max(next(row[name] for name in _ENDS if row[name] is not None) for row in inside),
                    "rebalances": len(inside),
                    "partitions_moved": sum(row["partitions_moved"] or 0 for row in inside),
                    "causes": sorted(causes.items()),
                }
            )
    return pa.Table.from_pylist(rows, STORMS)


def _storms(known: list[Row], window_ms: int, at_least: int) -> Iterator[list[Row]]:
    """Yield the rebalances of each storm of a group; `known` are all by their start."""
    ms = [row["started_at"] // 1000 for row in known]
    begin = end = None
    for at in ms:
        first = bisect_left(ms, at - window_ms)
        if bisect_right(ms, at) - first < at_least:
            continue
        if end is not None and ms[first] > end:
            yield known[bisect_left(ms, begin) : bisect_right(ms, end)]
            begin = None
        begin, end = ms[first] if begin is None else begin, at
    if end is not None:
        yield known[bisect_left(ms, begin) : bisect_right(ms, end)]
