"""The rows of `group_state` for one log: replay its records, and convert the state to rows."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from quorate.codecs import Uuid
from quorate.codecs.record_text import learn_names
from quorate.codecs.records import CoordinatorRecord
from quorate.coordinator.history import Labels, MemberView, view
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.state import CoordinatorState
from quorate.coordinator.state.modern import ModernGroup
from quorate.pipeline.jobs.records import ABORTED, PENDING_OF, Row
from quorate.pipeline.schema import BOOL, INT, LATEST_MS, LONG, TEXT, TIME

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
"""Columns of a group in `STATE` that each table of groups has."""

AT = ["log_topic", "log_partition", "group"]
"""The first columns of every table."""


def replayed(rows: Iterable[tuple[Row, CoordinatorRecord]]) -> tuple[CoordinatorState, dict[Uuid, str]]:
    """Replay rows of one partition by offset; return the state, and topic names by id."""
    state = CoordinatorState()
    names: dict[Uuid, str] = {}
    for row, record in rows:
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
