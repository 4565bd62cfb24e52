"""Find the rows that determine the state (rule: `quorate.codecs.log.state_records`).

The same rule as `quorate.pipeline.jobs.survivors` has for Spark, on the rows of one log.
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.codecs.log.state_records import COMMIT_TYPES, GROUP_TYPES
from quorate.codecs.message import RecordType
from quorate.pipeline.jobs.record_columns import key_fields
from quorate.pipeline.jobs.records import ABORTED, PENDING_OF
from quorate.pipeline.schema import CONTROL, column_of


def _has_type(log: pa.Table, names: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(log.column("type"), pa.array(names, pa.string()))


def survivors(log: pa.Table, types: list[RecordType], with_markers: bool) -> pa.Table:
    """Return the rows of a log whose replay gives the same state as replaying all rows.

    `log`: rows by offset, with the rows of transaction markers if `with_markers`. The columns
    `PENDING_OF` and `ABORTED` are added, see `quorate.pipeline.jobs.survivors`.
    """
    pending, aborted = pa.nulls(log.num_rows, pa.int64()), pa.repeat(pa.scalar(False), log.num_rows)
    if with_markers:
        open_of, committed = outcomes(log)[:2]
        inside = is_in_transaction(log)
        pending = pc.if_else(pc.and_(inside, pc.is_null(open_of)), log.column("producer_id"), pending)
        aborted = pc.and_(inside, pc.fill_null(pc.invert(committed), False))
    log = log.append_column(PENDING_OF, pending).append_column(ABORTED, aborted)
    log = log.filter(pc.is_valid(log.column("group")))
    texts, numbers = key_fields(types)
    tombstone, aborted = log.column("tombstone"), log.column(ABORTED)
    commit = pc.and_(_has_type(log, COMMIT_TYPES), pc.invert(tombstone))
    place, nothing = pa.array(np.arange(log.num_rows)), pa.scalar(None, pa.int64())
    of_group = pc.and_(_has_type(log, GROUP_TYPES), tombstone)
    found = pa.table(
        {
            **{name: log.column(name) for name in ("group", "type", PENDING_OF)},
            "text": _joined(log, texts, pa.string()),
            "number": _joined(log, numbers, pa.int32()),
            "last": pc.if_else(aborted, nothing, place),
            "deleted": pc.if_else(tombstone, place, nothing),
            "made": pc.if_else(commit, place, nothing),
            "removed": pc.if_else(of_group, place, nothing),
        }
    )
    per_key = found.group_by(["group", "type", "text", "number", PENDING_OF]).aggregate(
        [(name, "max") for name in ("last", "deleted", "made", "removed")]
    )
    per_group = per_key.group_by("group").aggregate([("made_max", "max"), ("removed_max", "max")])
    # One commit creates a group, unless the group is deleted later.
    makes = pc.fill_null(pc.greater(per_group.column("made_max_max"), per_group.column("removed_max_max")), True)
    picks = [per_key.column("last_max"), per_group.column("made_max_max").filter(makes)]
    if with_markers:
        picks.append(per_key.column("deleted_max"))
    places = np.unique(np.concatenate([pick.drop_null().to_numpy() for pick in picks]))
    return log.take(pa.array(places, pa.int64()))


def _joined(log: pa.Table, fields: list[tuple[str, str]], kind: pa.DataType) -> pa.ChunkedArray:
    if not fields:
        return pa.nulls(log.num_rows, kind)
    return pc.coalesce(*[pc.struct_field(log.column(column), field) for column, field in fields]).cast(kind)


def is_in_transaction(log: pa.Table) -> pa.Array:
    """Return which rows are transactional offset commits.

    A tombstone applies at once even in a transaction, as in Kafka's loader.
    """
    commit = pc.and_(_has_type(log, COMMIT_TYPES), pc.invert(pc.fill_null(log.column("tombstone"), False)))
    transactional = pc.and_(pc.fill_null(log.column("transactional"), False), _has_producer(log))
    return pc.and_(commit, transactional).combine_chunks()


def _has_producer(log: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(pc.greater_equal(log.column("producer_id"), 0), False)


def outcomes(log: pa.Table) -> tuple[pa.Array, pa.ChunkedArray, pa.ChunkedArray]:
    """Return for each row the next transaction marker of its producer.

    Its row, whether it is a commit, and its time; null without a marker. `log`: rows by offset. The
    rule is that of `quorate.codecs.log.transactions`.
    """
    producers = pc.fill_null(log.column("producer_id"), -1).to_numpy()
    names = pc.struct_field(log.column(column_of(CONTROL)), "name")
    marker = pc.and_(pc.equal(log.column("type"), CONTROL), pc.is_in(names, pa.array(["COMMIT", "ABORT"], pa.string())))
    markers = np.flatnonzero(pc.fill_null(marker, False).to_numpy())
    following = np.full(log.num_rows, -1, np.int64)
    for producer in np.unique(producers[markers]):
        own = markers[producers[markers] == producer]
        rows = np.flatnonzero(producers == producer)
        at = np.searchsorted(own, rows)
        following[rows] = np.where(at < len(own), own[np.minimum(at, len(own) - 1)], -1)
    places = pa.array(following, mask=following < 0)
    return places, pc.equal(names, "COMMIT").take(places), log.column("timestamp").take(places)
