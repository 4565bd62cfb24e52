"""`group_state` without Spark: the state of a coordinator at any time, as Arrow tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline.jobs.moments import LOG, AsOf
from quorate.pipeline.jobs.records import ABORTED, PENDING_OF
from quorate.pipeline.jobs.state_rows import GROUP, MEMBER, STATE, replayed, state_rows
from quorate.pipeline.local.log import Source, logs, present, records_of, uses_markers
from quorate.pipeline.local.survivors import survivors
from quorate.pipeline.schema import CONTROL

AT = ["log_topic", "log_partition", "group"]


@dataclass(frozen=True)
class LocalGroupState:
    """The state as Arrow tables, with the columns of `quorate.pipeline.GroupState`."""

    rows: pa.Table

    @property
    def tables(self) -> dict[str, pa.Table]:
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
    def groups(self) -> pa.Table:
        """A row per group with kind, state, epoch, assignment epoch, hash, assignor and topics."""
        found = self.rows.filter(pc.is_valid(self.rows.column("kind"))).combine_chunks()
        offsets = _column(found, "offsets")
        committed = pc.is_null(pc.struct_field(pc.list_flatten(offsets), "pending_of"))
        parents = pc.list_parent_indices(offsets).filter(committed).to_numpy()
        counts = np.bincount(parents, minlength=found.num_rows).astype(np.int32)
        sizes = pc.list_value_length(_column(found, "members"))
        whole = found.select([*GROUP, "regexes"])
        return whole.append_column("members", sizes).append_column("offsets", pa.array(counts))

    @cached_property
    def members(self) -> pa.Table:
        """A row per member: its metadata, epoch, and state (stable, revoking, waiting)."""
        found = exploded(self.rows, AT, "members")
        left_out = ("assigned", "pending_revocation", "target")
        sizes = {name: pc.list_value_length(_column(found, name)) for name in left_out}
        whole = found.select([*AT, *[field.name for field in MEMBER if field.name not in left_out]])
        for name in left_out:
            whole = whole.append_column(name, sizes[name])
        return whole

    @cached_property
    def targets(self) -> pa.Table:
        """A row per partition of the target assignment (classic groups: of the assignment)."""
        return self._partitions("target")

    @cached_property
    def assignments(self) -> pa.Table:
        """A row per partition that a member owns; `revoking` if the member must revoke it."""
        tables = []
        for name, revoking in (("assigned", False), ("pending_revocation", True)):
            found = self._partitions(name)
            tables.append(found.append_column("revoking", pa.repeat(pa.scalar(revoking), found.num_rows)))
        return pa.concat_tables(tables)

    @cached_property
    def offsets(self) -> pa.Table:
        """A row per committed offset; `pending_of` is the producer of an open transaction."""
        return exploded(self.rows, AT, "offsets")

    @cached_property
    def skipped(self) -> pa.Table:
        """A row per reason for which inconsistent records were skipped, with their number."""
        return exploded(self.rows, AT[:2], "skipped")

    def _partitions(self, name: str) -> pa.Table:
        members = exploded(self.rows, AT, "members")
        return exploded(members, [*AT, "member_id", "instance_id", "rack"], name)


def _column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    found = table.column(name).combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def exploded(table: pa.Table, keep: list[str], name: str) -> pa.Table:
    """Return a row per element of a list of structs, with the columns `keep` and its fields."""
    lists = _column(table, name)
    elements = pc.list_flatten(lists)
    found = table.select(keep).take(pc.list_parent_indices(lists))
    for field, values in zip(elements.type, elements.flatten(), strict=True):
        found = found.append_column(field, values)
    return found


def group_state(rows: Source, as_of: AsOf | None = None, *, isolation_level: str | None = None) -> LocalGroupState:
    """Return the state of groups now or at an earlier moment.

    As `quorate.pipeline.group_state`, with Arrow tables. `rows`: the result of `read`, or a table
    with the columns of `quorate.pipeline.arrow_schema`. Raises `OptionError` for missing columns or
    an invalid moment.
    """
    types = present(rows)
    with_markers = uses_markers(rows, isolation_level)
    wanted = [*[one.name for one in RECORD_TYPES[CONSUMER_OFFSETS].values()], *([CONTROL] if with_markers else [])]

    def found() -> Iterator[dict[str, Any]]:
        for log in logs(rows, "state", as_of, wanted):
            left = survivors(log, types, with_markers)
            if not left.num_rows:
                continue
            state, names = replayed(records_of(left, PENDING_OF, ABORTED))
            topic, partition = (left.column(name)[0].as_py() for name in LOG)
            for row in state_rows(state, names):
                yield {"log_topic": topic, "log_partition": partition, **row}

    return LocalGroupState(pa.Table.from_pylist(list(found()), STATE))
