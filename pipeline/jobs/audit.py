"""`upgrade_audit`: effects of past upgrades and downgrades on groups, and of the next upgrade.

Each group's records are replayed in one task. Findings at the end of the log are those of `quorate
groups upgrade-check` (`coordinator.history.upgrade`).
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from quorate.assignors import Topology
from quorate.coordinator.config import CoordinatorConfig
from quorate.pipeline.jobs.at_source import of_groups
from quorate.pipeline.jobs.audit_rows import AUDIT, rows_of_group
from quorate.pipeline.jobs.moments import LOG, AsOf
from quorate.pipeline.jobs.packed import packed
from quorate.pipeline.jobs.records import entries, rows_in_order


def upgrade_audit(
    df: DataFrame,
    topology: Topology | None = None,
    *,
    as_of: AsOf | None = None,
    config: CoordinatorConfig | None = None,
) -> DataFrame:
    """Return the effects of upgrades on groups: see `AUDIT`. `df` and `as_of`: as for `rebalances`.

    `topology`: current topics with ids and racks, to compare hashes with; required to find hashes
    that differ. `config`: the brokers' limits and policy for converting classic groups. Raises
    `OptionError` for missing columns.
    """
    topics = None if topology is None else {topic.name: topic for topic in topology.topics}
    coordinator_config = config or CoordinatorConfig()

    def audit(table: pa.Table) -> pa.Table:
        topic, partition, group_id = (table.column(name)[0].as_py() for name in (*LOG, "group"))
        at = {"log_topic": topic, "log_partition": partition, "group": group_id}
        found = rows_of_group(entries(rows_in_order(table)), group_id, coordinator_config, topics)
        return pa.Table.from_pylist([at | row for row in found], AUDIT)

    return packed(of_groups(df, as_of)).groupBy(*LOG, "group").applyInArrow(audit, from_arrow_schema(AUDIT))
