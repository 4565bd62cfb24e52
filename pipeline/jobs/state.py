"""`group_state`: the state of a coordinator at any time, as tables.

It consists of groups, members, target and current assignments, and committed offsets. The JVM finds
the last row of each key (`survivors`). `CoordinatorState`, which also serves live groups, replays
these rows for one partition of `__consumer_offsets` at a time. So a task needs no more memory than
a broker for that partition.
"""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.pandas.types import from_arrow_schema

from quorate.pipeline.jobs.moments import LOG, AsOf
from quorate.pipeline.jobs.records import rows_in_order
from quorate.pipeline.jobs.state_rows import AT, GROUP, MEMBER, STATE, replayed, state_rows
from quorate.pipeline.jobs.survivors import packed_survivors


@dataclass(frozen=True)
class GroupState:
    """The state as tables.

    All come from `rows`, with a row per group, so `cache` before using more than one of them.

    Each table begins with `log_topic`, `log_partition` and `group`. Partitions have `topic`,
    `topic_id` and `partition`; name or id is null if the log lacks it. Partitions of streams groups
    are active tasks.
    """

    rows: DataFrame

    def cache(self) -> "GroupState":
        """Return the same with cached rows."""
        return GroupState(self.rows.cache())

    def unpersist(self) -> None:
        """Release cached rows."""
        self.rows.unpersist()

    @property
    def tables(self) -> dict[str, DataFrame]:
        """All tables by name."""
        return {
            "groups": self.groups,
            "members": self.members,
            "targets": self.targets,
            "assignments": self.assignments,
            "offsets": self.offsets,
            "skipped": self.skipped,
        }

    @cached_property
    def groups(self) -> DataFrame:
        """A row per group with kind, state, epoch, assignment epoch, hash, assignor and topics.

        The epoch of a classic group is its generation.
        """
        found = self.rows.where("kind is not null")
        return found.select(
            *GROUP,
            "regexes",
            F.size("members").alias("members"),
            F.size(F.filter("offsets", lambda one: one["pending_of"].isNull())).alias("offsets"),
        )

    @cached_property
    def members(self) -> DataFrame:
        """A row per member: its metadata, epoch, and state (stable, revoking, waiting)."""
        left_out = ("assigned", "pending_revocation", "target")
        columns = [F.col(f"member.{field.name}") for field in MEMBER if field.name not in left_out]
        return self._exploded("members", "member").select(
            *AT, *columns, *[F.size(f"member.{name}").alias(name) for name in left_out]
        )

    @cached_property
    def targets(self) -> DataFrame:
        """A row per partition of the target assignment (classic groups: of the assignment)."""
        return self._partitions("target")

    @cached_property
    def assignments(self) -> DataFrame:
        """A row per partition that a member owns; `revoking` if the member must revoke it."""
        assigned = self._partitions("assigned").withColumn("revoking", F.lit(False))
        return assigned.unionByName(self._partitions("pending_revocation").withColumn("revoking", F.lit(True)))

    @cached_property
    def offsets(self) -> DataFrame:
        """A row per committed offset; `pending_of` is the producer of an open transaction."""
        return self._exploded("offsets", "one").select(*AT, "one.*")

    @cached_property
    def skipped(self) -> DataFrame:
        """A row per reason for which inconsistent records were skipped, with their number."""
        return self._exploded("skipped", "one").select("log_topic", "log_partition", "one.*")

    def _exploded(self, name: str, alias: str) -> DataFrame:
        return self.rows.select(*AT, F.explode(name).alias(alias))

    def _partitions(self, name: str) -> DataFrame:
        members = self._exploded("members", "member")
        return members.select(
            *AT, "member.member_id", "member.instance_id", "member.rack", F.explode(f"member.{name}").alias("at")
        ).select(*AT, "member_id", "instance_id", "rack", "at.*")


def group_state(df: DataFrame, as_of: AsOf | None = None, *, isolation_level: str | None = None) -> GroupState:
    """Return the state of groups now or at an earlier moment.

    It equals `CoordinatorState` after replaying all records up to the moment. `df`: rows of the
    source or of `decode`, in any order, of one or many logs. `as_of`: a time (`datetime`, UTC by
    default; or ms since 1970), or per partition the offset of the last record to include
    (`{17: 4711}`, `{("__consumer_offsets", 17): 4711}`); other partitions are omitted then.

    `isolation_level`: "read_committed" if `df` has no rows of transaction markers (the source's
    default), so that all its offsets are committed; "read_uncommitted" if it has, so that markers
    decide on transactional offsets. By default a short Spark job looks for markers.

    Raises `OptionError` for missing columns or an invalid moment.
    """
    found = packed_survivors(df, as_of, isolation_level)
    schema = from_arrow_schema(STATE)
    return GroupState(found.groupBy(*LOG).applyInArrow(_replay, schema))


def _replay(table: pa.Table) -> pa.Table:
    state, names = replayed(rows_in_order(table))
    topic, partition = (table.column(name)[0].as_py() if table.num_rows else None for name in LOG)
    rows = [{"log_topic": topic, "log_partition": partition, **row} for row in state_rows(state, names)]
    return pa.Table.from_pylist(rows, STATE)
