"""`group_state`: the state of a coordinator at any time, as tables.

It consists of groups, members, target and current assignments, and committed offsets. The JVM finds
the last row of each key (`survivors`). `CoordinatorState`, which also serves live groups, replays
these rows for one partition of `__consumer_offsets` at a time. So a task needs no more memory than
a broker for that partition.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.pandas.types import from_arrow_schema

from quorate.codecs import Uuid
from quorate.codecs.record_text import learn_names
from quorate.coordinator.history import Labels, MemberView, view
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.state import CoordinatorState
from quorate.coordinator.state.modern import ModernGroup
from quorate.pipeline.jobs.columns import LOG, AsOf
from quorate.pipeline.jobs.records import rows_in_order
from quorate.pipeline.jobs.survivors import ABORTED, PENDING_OF, packed_survivors
from quorate.pipeline.schema import BOOL, INT, LATEST_MS, LONG, TEXT, TIME

__all__ = ["STATE", "GroupState", "group_state", "replayed", "state_rows"]

PARTITION = pa.struct({"topic": TEXT, "topic_id": TEXT, "partition": INT})
MEMBER = pa.struct(
    {
        "member_id": TEXT,
        "instance_id": TEXT,
        "rack": TEXT,
        "client_id": TEXT,
        "client_host": TEXT,
        "protocol": TEXT,
        "epoch": INT,
        "state": TEXT,
        "topics": pa.list_(TEXT),
        "regex": TEXT,
        "assignor": TEXT,
        "assigned": pa.list_(PARTITION),
        "pending_revocation": pa.list_(PARTITION),
        "target": pa.list_(PARTITION),
    }
)
OFFSET = pa.struct(
    {
        "topic": TEXT,
        "topic_id": TEXT,
        "partition": INT,
        "offset": LONG,
        "leader_epoch": INT,
        "metadata": TEXT,
        "committed_at": TIME,
        "expires_at": TIME,
        "log_offset": LONG,
        "pending_of": LONG,
    }
)
REGEX = pa.struct({"regex": TEXT, "topics": pa.list_(TEXT)})
SKIPPED = pa.struct({"reason": TEXT, "records": LONG})

STATE: pa.Schema = pa.schema(
    {
        "log_topic": TEXT,
        "log_partition": INT,
        "group": TEXT,
        "kind": TEXT,
        "protocol_type": TEXT,
        "state": TEXT,
        "epoch": INT,
        "assignment_epoch": INT,
        "assigned_at": TIME,
        "metadata_hash": LONG,
        "assignor": TEXT,
        "leader": TEXT,
        "topics": pa.list_(TEXT),
        "has_topic_record": BOOL,
        "regexes": pa.list_(REGEX),
        "members": pa.list_(MEMBER),
        "offsets": pa.list_(OFFSET),
        "skipped": pa.list_(SKIPPED),
    }
)
"""A row per group. If a group has committed offsets only, `kind`, `state` and all other columns of
the group except `offsets` are null. The row without a `group` has the skipped records.
"""

GROUP = [name for name in STATE.names if name not in ("members", "offsets", "skipped", "regexes")]
AT = ["log_topic", "log_partition", "group"]


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
    state, names = replayed(table)
    topic, partition = (table.column(name)[0].as_py() if table.num_rows else None for name in LOG)
    rows = [{"log_topic": topic, "log_partition": partition, **row} for row in state_rows(state, names)]
    return pa.Table.from_pylist(rows, STATE)


def replayed(table: pa.Table) -> tuple[CoordinatorState, dict[Uuid, str]]:
    """Replay packed rows of one partition; return the state, and topic names by id."""
    state = CoordinatorState()
    names: dict[Uuid, str] = {}
    for row, record in rows_in_order(table):
        learn_names(names, record)
        if row[ABORTED]:
            state.need_group(row["group"])
        else:
            producer_id = row[PENDING_OF]
            state.replay(record, offset=row["offset"], producer_id=-1 if producer_id is None else producer_id)
    return state, names


def state_rows(state: CoordinatorState, names: dict[Uuid, str]) -> Iterator[dict[str, Any]]:
    """Yield a row of `STATE` per group without the log's columns, then one for skipped records."""
    pending: dict[str, list[dict[str, Any]]] = {}
    for producer_id, groups in state.offsets.pending.items():
        for group_id, topics in groups.items():
            for topic, partitions in topics.items():
                for number, offset in partitions.items():
                    pending.setdefault(group_id, []).append(_offset(topic, number, offset, producer_id))
    for group_id in sorted({*state.groups, *state.offsets.committed, *pending}):
        offsets = [_offset(*one, None) for one in state.offsets.of_group(group_id)] + pending.get(group_id, [])
        offsets.sort(
            key=lambda one: (one["topic"], one["partition"], -1 if one["pending_of"] is None else one["pending_of"])
        )
        row: dict[str, Any] = {"group": group_id, "offsets": offsets}
        group = state.groups.get(group_id)
        if group is not None:
            seen = view(group)
            row |= {
                "kind": seen.kind.value,
                "protocol_type": seen.protocol_type,
                "state": seen.state,
                "epoch": seen.epoch,
                "assignment_epoch": seen.assignment_epoch,
                "assigned_at": _time(group.assignment_timestamp_ms or -1) if isinstance(group, ModernGroup) else None,
                "metadata_hash": seen.metadata_hash,
                "assignor": seen.assignor,
                "leader": seen.leader,
                "topics": None if seen.topics is None else sorted(seen.topics),
                "has_topic_record": seen.has_topic_record,
                "regexes": [{"regex": regex, "topics": topics} for regex, topics in sorted(seen.regexes.items())],
                "members": [_member(seen.members[member], names) for member in sorted(seen.members)],
            }
        yield row
    if state.skipped:
        yield {"skipped": [{"reason": reason, "records": count} for reason, count in sorted(state.skipped.items())]}


def _member(member: MemberView, names: dict[Uuid, str]) -> dict[str, Any]:
    simple = ("member_id", "instance_id", "rack", "client_id", "client_host", "protocol", "epoch", "state", "assignor")
    return {name: getattr(member, name) for name in simple} | {
        "topics": list(member.topics),
        "regex": member.regex or None,
        "assigned": partition_rows(member.assigned, names),
        "pending_revocation": partition_rows(member.pending_revocation, names),
        "target": partition_rows(member.target, names),
    }


def partition_rows(partitions: Iterable[Partition], names: dict[Uuid, str]) -> list[dict[str, Any]]:
    """Return partitions as `PARTITION` structs, sorted by topic and number.

    Records of classic groups have topic names only, those of other groups ids only.
    """
    labels = Labels(names=names)
    found = []
    for topic, number in sorted(partitions, key=lambda partition: (labels.topic(partition[0]), partition[1])):
        found.append(
            {
                "topic": topic if isinstance(topic, str) else names.get(topic),
                "topic_id": None if isinstance(topic, str) else str(topic),
                "partition": number,
            }
        )
    return found


def _offset(topic: str, number: int, committed: Any, pending_of: int | None) -> dict[str, Any]:
    value = committed.value
    topic_id = getattr(value, "topic_id", Uuid.ZERO)
    return {
        "topic": topic,
        "topic_id": None if topic_id == Uuid.ZERO else str(topic_id),
        "partition": number,
        "offset": value.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": value.metadata,
        "committed_at": _time(getattr(value, "commit_timestamp", -1)),
        "expires_at": _time(committed.expire_timestamp_ms),
        "log_offset": committed.record_offset,
        "pending_of": pending_of,
    }


def _time(timestamp_ms: int) -> int | None:
    """Convert to microseconds for Arrow; an invalid time becomes null."""
    return timestamp_ms * 1000 if 0 <= timestamp_ms <= LATEST_MS else None
